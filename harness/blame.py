"""Mistakes of contracts, told apart from faults of implementations: what is wrong, in which contract, at which line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from harness import registry
from harness.arguments import Snapshot
from harness.compare import INTEGER_OF_SIZE, breaking
from harness.contract import Contract, Outputs
from harness.outcome import ContractError, described
from harness.tolerance import Budget

#: Characters of a case that an error shows.
LONGEST_CASE = 4000


def mistake(contract: Contract[Any], what: str, case: Any = None) -> ContractError:
    """Return the error ``"contract NAME (FILE:LINE): WHAT"``."""
    where = registry.place(contract)
    text = "" if case is None else repr(case)
    return ContractError(f"contract {contract.name} ({where}): {what}", contract=contract.name, case=text)


class blamed_on:
    """Turns an exception inside into a ContractError that says whose it is and in which ``part``.

    What the machine or the device ran out of is nobody's mistake and is let through.
    """

    def __init__(self, contract: Contract[Any], part: str, case: Any = None) -> None:
        self.part, self.contract, self.case = part, contract, case

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ContractError | MemoryError | torch.OutOfMemoryError):
            text = "" if self.case is None else repr(self.case)
            # a pool of real size names each of its pages
            shown = text if len(text) <= LONGEST_CASE else f"{text[:LONGEST_CASE]}..."
            what = f"{self.part} failed{f' on {shown}' if text else ''}: {described(error)}"
            raise mistake(self.contract, what, self.case) from error


def check_repeatable(contract: Contract[Any], case: Any, first: Snapshot, second: Snapshot) -> None:
    """Raise ContractError where two calls of ``inputs`` for one case made different tensors.

    Compared are those that both snapshots hold, on one device: an implementation and the oracle see them in turn.
    """
    differing = sorted(first.views.keys() ^ second.views.keys())
    what = f"only one has {differing[0]}" if differing else ""
    for path in first.views.keys() & second.views.keys():
        (left, before), (right, after) = first.views[path], second.views[path]
        if what or before.device != after.device:
            continue
        if (left.dtype, left.shape) != (right.dtype, right.shape):
            what = f"{path} is {left.dtype} {tuple(left.shape)}, then {right.dtype} {tuple(right.shape)}"
        elif not torch.equal(before, after):
            values = after.view(right.dtype), before.view(left.dtype)
            what = breaking(path, before != after, *values, "the same inputs") or ""
    if what:
        hint = "draw them from a torch.Generator that the case seeds"
        raise mistake(contract, f"inputs are not the same in two calls for {case!r}: {what}; {hint}", case)


def check_oracle(contract: Contract[Any], case: Any, low: Any, high: Any) -> None:
    """Raise ContractError unless both are mappings of tensors with exactly the outputs that ``tolerance`` names.

    Their shapes must be the same, and what a Budget judges must be floating.
    """
    for made, inputs in ((low, "the inputs"), (high, "the inputs widened to float64")):
        if not isinstance(made, Mapping):
            what = f"the oracle returned {type(made).__name__} for {inputs}, wanted a mapping {{output: tensor}}"
            raise mistake(contract, what, case)
        if missing := [name for name in contract.outputs if name not in made]:
            raise mistake(contract, f"the oracle lacks the outputs {missing} for {inputs}", case)
        if extra := [name for name in made if name not in contract.tolerance]:
            what = f"the oracle returns {extra}, which tolerance does not name: nothing would check them"
            raise mistake(contract, what, case)
        for name, tensor in made.items():
            if not isinstance(tensor, torch.Tensor):
                raise mistake(contract, f"the oracle returned {type(tensor).__name__} as {name}, wanted a tensor", case)
            if tensor.element_size() not in INTEGER_OF_SIZE:
                what = f"the oracle returned {name} as {tensor.dtype}, of which no bits can be compared"
                raise mistake(contract, what, case)
    for name, tolerance in contract.tolerance.items():
        if isinstance(tolerance, Budget) and not low[name].is_floating_point():
            what = f"{name} is {low[name].dtype}, and a Budget is for floating outputs: give it Exact()"
            raise mistake(contract, what, case)
        if low[name].shape != high[name].shape:
            shapes = f"{tuple(low[name].shape)}, but {tuple(high[name].shape)} for float64 inputs"
            raise mistake(contract, f"the oracle's {name} has the shape {shapes}", case)


def check_magnitude(contract: Contract[Any], case: Any, magnitude: Any, low: Outputs) -> None:
    """Raise ContractError unless each of ``magnitude`` is of an output and broadcasts to it."""
    for name, tensor in magnitude.items():
        if name not in low:
            raise mistake(contract, f"magnitude returns {name}, which is no output", case)
        # sizes of missing axes are one
        sizes = zip(reversed(tensor.shape), reversed(low[name].shape), strict=False)
        if tensor.ndim > low[name].ndim or any(size not in (1, wanted) for size, wanted in sizes):
            shapes = f"{tuple(tensor.shape)} does not broadcast to {tuple(low[name].shape)}"
            raise mistake(contract, f"magnitude of {name}: {shapes}", case)
