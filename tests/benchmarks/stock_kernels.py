"""Child process: times the tree's kernels and writes a line of JSON for each: name, CPU seconds or an error.

``python -m tests.benchmarks.stock_kernels`` with ``TRITON_INTERPRET=1`` uses Triton's own interpreter.
"""

import json
import pkgutil
import sys
import time
import warnings

import torch

import harness.contracts
import kernels
from harness import registry
from harness.poison import Poison

_ROUNDS = 2
#: Pinned cases of each contract: all of them take the interpreter minutes.
_CASES = 3


def jobs():
    """Yield (name, launch, inputs) for each implementation in ``kernels`` and first pinned cases of its contract."""
    found = [f"kernels.{m.name}" for m in pkgutil.iter_modules(kernels.__path__) if not m.name.startswith("_")]
    contracts = (m.name for m in pkgutil.iter_modules(harness.contracts.__path__) if not m.name.startswith("_"))
    registry.load([*found, *(f"harness.contracts.{name}" for name in contracts)], installed=False)
    for implementation in registry.implementations():
        if not implementation.launch.__module__.startswith("kernels."):
            continue
        contract = registry.contract(implementation.contract)
        for number, case in enumerate(contract.pinned[:_CASES]):
            name = f"{contract.name} {implementation.name} {number}"
            yield (
                name,
                implementation.launch,
                lambda c=contract, case=case: c.inputs(case, torch.device("cpu"), Poison()),
            )


def seconds(launch, inputs):
    """The fewest CPU seconds of some calls."""
    taken = []
    for _ in range(_ROUNDS + 1):
        arguments = inputs()
        begin = time.process_time()
        launch(**arguments)
        taken.append(time.process_time() - begin)
    return min(taken)


def main():
    warnings.simplefilter("ignore")
    for name, launch, inputs in jobs():
        try:
            said = {"seconds": seconds(launch, inputs)}
        except Exception as error:
            said = {"error": str(error).strip().splitlines()[-1][:120] if str(error).strip() else repr(error)}
        sys.stdout.write(json.dumps({"name": name, **said}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
