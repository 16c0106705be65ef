"""Runs one entry of the corpus: as the code stands, and with the fault."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from harness import registry
from harness.compiling.recording import record
from harness.contract import Contract, Implementation, Interleavings
from harness.device import target_of
from harness.graphs.lint import capture_lint
from harness.lanes import Lane
from harness.outcome import Violation
from harness.poison import Poison
from harness.run import check_case, check_rejections
from harness.trial import normalised
from tests.bugs.entry import Around, Bug, Source
from tests.teeth.swapping import swapped

ROOT = Path(__file__).parents[2]
COPY = "bugs_planted"
BARRIER = "harness/launch/grid_barrier.py"


@cache
def load() -> None:
    """Register what is shipped here, once."""
    registry.load(("kernels",), installed=False)


def implementation_of(bug: Bug) -> Implementation:
    """Return the implementation of an entry as it is registered."""
    load()
    return next(found for found in registry.implementations(bug.contract) if found.name == bug.implementation)


def found(bug: Bug, *, faulty: bool, folder: Path | None = None) -> tuple[Violation, ...]:
    """Return the violations: without the fault all that were found on the way, with it those of ``bug.check`` alone.

    A fault in source needs an empty ``folder``.
    """
    sound = implementation_of(bug)
    if not faulty:
        return _sound(bug.contract, bug.implementation, bug.check, bug.case)
    if isinstance(bug.fault, Source):
        assert folder is not None, "a fault in source needs a folder to plant it in"
        with planted(bug.fault, bug.contract, bug.implementation, folder) as implementation:
            every = violations(implementation, bug.check, bug.case)
    else:
        every = violations(wrapped(sound, bug.fault), bug.check, bug.case)
    return tuple(violation for violation in every if violation.check == bug.check)


@cache
def _sound(contract: str, implementation: str, check: str, case: Any) -> tuple[Violation, ...]:
    of = next(i for i in registry.implementations(contract) if i.name == implementation)
    return violations(of, check, case)


def violations(
    implementation: Implementation, check: str, case: Any, *, lane: Lane | None = None
) -> tuple[Violation, ...]:
    """Return what ``check`` and everything that has to run before it find on ``case``.

    Beside the checks of a contract: ``capturable:RULE`` lints the first of several cases as captured, ``variants``
    counts what a sweep of cases compiles.
    """
    contract = registry.contract(implementation.contract)
    if check == "variants":
        return _variants(contract, implementation, case)
    if check.startswith("capturable:"):
        return _lint(contract, implementation, case if isinstance(case, tuple) else (case,))
    if check.startswith("rejects:"):
        return tuple(check_rejections(contract, implementation, lane=lane).violations)
    if check == "interleaving" and implementation.interleavings is None:
        implementation = replace(implementation, interleavings=Interleavings(everywhere=True))
    result = check_case(contract, implementation, case, only=check, lane=lane)
    assert result.violations or check in result.checks_run, f"{check} did not run on {case}"
    return tuple(result.violations)


def _lint(contract: Contract[Any], implementation: Implementation, cases: tuple[Any, ...]) -> tuple[Violation, ...]:
    """Lint the first of ``cases`` as captured, the others launched after it."""
    given, *others = (contract.inputs(case, torch.device("cpu"), Poison()) for case in cases)
    lint = capture_lint(implementation.launch, given, others=others)
    assert not lint.unsupported, lint.unsupported
    return tuple(Violation(f"capturable:{finding.rule}", str(finding)) for finding in lint.findings)


def _variants(contract: Contract[Any], implementation: Implementation, cases: tuple[Any, ...]) -> tuple[Violation, ...]:
    """Launch the cases one after the other: the second half finds every kernel compiled already."""
    compiled: set[tuple[str, str]] = set()
    for number, case in enumerate(cases):
        inputs = contract.inputs(case, torch.device("cpu"), Poison())
        found = {(one.kernel, one.source.hash()) for one in record(implementation.launch, inputs, target_of("sm_120"))}
        if number >= len(cases) // 2 and found - compiled:
            return (Violation("variants", f"{case} compiles {sorted(kernel for kernel, _ in found - compiled)} again"),)
        compiled |= found
    return ()


def wrapped(sound: Implementation, fault: Around) -> Implementation:
    """Return ``sound`` with ``fault`` around its launch."""
    contract = registry.contract(sound.contract)

    def named(**inputs: Any) -> dict[str, Any]:
        outputs, wrong = normalised(contract, sound.launch(**inputs))
        assert not wrong, wrong
        return outputs

    def launch(**inputs: Any) -> dict[str, Any]:
        return fault(named, inputs)

    return replace(sound, launch=launch)


@contextmanager
def planted(fault: Source, contract: str, implementation: str, folder: Path) -> Iterator[Implementation]:
    """Import a copy of ``kernels`` and of the grid barrier with ``fault`` in it and yield the implementation."""
    root = folder / COPY
    shutil.copytree(ROOT / "kernels", root / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / BARRIER, root / "grid_barrier.py")
    for name in ("__init__.py", "kernels/__init__.py"):
        (root / name).touch()
    targets = [root / "grid_barrier.py"] if fault.file == BARRIER else list(root.glob(fault.file))
    sources = {target: target.read_text() for target in targets}
    assert any(fault.old in source for source in sources.values()), f"{fault.old!r} is not in {fault.file}"
    for target, source in sources.items():
        target.write_text(source.replace(fault.old, fault.new))
    for path in (root / "kernels").glob("*.py"):
        text = path.read_text().replace("from kernels.", f"from {COPY}.kernels.")
        path.write_text(text.replace("from harness.launch.grid_barrier", f"from {COPY}.grid_barrier"))

    registered = registry._implementations
    registry._implementations = {}
    sys.path.insert(0, str(folder))
    try:
        importlib.import_module(f"{COPY}.kernels.{contract}")
        yield registry._implementations[contract, implementation]
    finally:
        sys.path.remove(str(folder))
        registry._implementations = registered
        for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
            del sys.modules[name]


def replaced(module: Any, **values: Any) -> Callable[[], Any]:
    """Return a fault that gives names of ``module`` other values."""

    @contextmanager
    def fault() -> Iterator[None]:
        before = {name: getattr(module, name) for name in values}
        vars(module).update(values)
        try:
            yield
        finally:
            vars(module).update(before)

    return fault


def changed(dotted: str, old: str, new: str) -> Callable[[], Any]:
    """Return a fault in source of the module ``dotted``: ``old``, which stands there once, becomes ``new``."""

    @contextmanager
    def fault() -> Iterator[None]:
        # a module of implementations is executed a second time for its code
        registered = registry._implementations
        registry._implementations = {}
        try:
            with swapped(dotted, old, new):
                registry._implementations = registered
                yield
        finally:
            registry._implementations = registered

    return fault
