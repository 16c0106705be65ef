"""The ``traffic`` command: what kernels move on their pinned cases, beside the record of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import selection
from harness.contract import Contract, Implementation
from harness.discover import SetupError, load
from harness.lanes import VirtualLane
from harness.poison import Poison
from harness.traffic import record


def run(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> bool:
    """Launch every pinned case of what ``options`` choose, print what is other than recorded; whether nothing is.

    With ``--update`` what was found becomes the record.  Raises SetupError for an unknown name, a module that does
    not load, a record that is none, and a case that does not launch.
    """
    load(modules, folder=folder)
    pairs = selection.pairs(options.contracts, options.impl)
    before = record.read(folder)
    now = {str(implementation): dict(_moved(contract, implementation)) for contract, implementation in pairs}
    wrong = list(_compared(before, now))
    if options.update:
        whole = not options.contracts and options.impl is None
        record.write(folder, {**({} if whole else before), **{name: cases for name, cases in now.items() if cases}})
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    cases = sum(len(cases) for cases in now.values())
    sys.stdout.write(f"{cases} cases: {len(wrong)} {'accepted' if options.update else 'are other than recorded'}\n")
    return options.update or not wrong


def _moved(contract: Contract[Any], implementation: Implementation) -> Iterator[tuple[str, record.Moved]]:
    lane = VirtualLane(counts=True)
    for case in contract.pinned:
        execution = lane.run(implementation.launch, contract.inputs(case, lane.device, Poison()))
        if execution.unsupported is not None:
            # the lane does not see all of what it does
            continue
        if execution.error is not None or execution.moved is None:
            raise SetupError(f"{implementation} does not launch {case!r}: {execution.error}")
        yield repr(case), execution.moved


def _compared(before: record.Record, now: record.Record) -> Iterator[str]:
    for name, cases in now.items():
        recorded = before.get(name, {})
        for case, moved in cases.items():
            if case not in recorded:
                yield f"{name}: {case} is not in the record; {record.ACCEPT}"
            else:
                for message in record.differences(recorded[case], moved):
                    yield f"{name}: {case}: {message}"
        for case in recorded:
            if case not in cases:
                yield f"{name}: {case} is in the record, and no longer pinned; {record.ACCEPT}"
