"""Runs one entry of the corpus: as the code stands, and with the fault."""

from __future__ import annotations

import fnmatch
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from harness.mutation.generate import mutants
from harness.mutation.source import Module, Mutant, one_line
from harness.outcome import Violation
from harness.poison import Poison
from harness.run import check_case, check_rejections
from harness.trial import normalised
from harness.vgpu import VirtualGPU
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
    if isinstance(bug.fault, Source | Made):
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
    counts what a sweep of cases compiles, ``cost`` what each of them loads and stores.
    """
    contract = registry.contract(implementation.contract)
    if check == "variants":
        return _variants(contract, implementation, case)
    if check == "cost":
        return _cost(contract, implementation, case)
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


def _cost(contract: Contract[Any], implementation: Implementation, cases: tuple[Any, ...]) -> tuple[Violation, ...]:
    """Launch the cases, which differ in nothing that may cost: none may come to more loads and stores than the first.

    The argument is of a launch on the virtual GPU alone.
    """
    accesses = []
    for case in cases:
        inputs = contract.inputs(case, torch.device("cpu"), Poison())
        with VirtualGPU(count=True) as gpu:
            implementation.launch(**inputs)
        accesses.append(sum(launch.traffic.accesses for launch in gpu.launches if launch.traffic is not None))
    assert accesses[0], "nothing was counted"
    return tuple(
        Violation("cost", f"{case}: {count} loads and stores, {accesses[0]} for {cases[0]}")
        for case, count in zip(cases, accesses, strict=True)
        if count > accesses[0]
    )


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


def _copied(fault: Source | Made, contract: str) -> dict[str, str]:
    """Return what is planted, texts by path: what ``fault`` changes, all that imports it, and the contract's own.

    The grid barrier and who imports it are copied always: a faulty launch leaves words behind.
    """
    texts = {f"kernels/{path.name}": path.read_text() for path in (ROOT / "kernels").glob("*.py")}
    texts["grid_barrier.py"] = (ROOT / BARRIER).read_text()
    wanted = "grid_barrier.py" if fault.file == BARRIER else fault.file
    faulty = {path: texts[path] for path in fnmatch.filter(texts, wanted)}
    if isinstance(fault, Made):
        faulty = {wanted: fault.mutant.source}
    for old, new in () if isinstance(fault, Made) else fault.pairs:
        assert any(old in text for text in faulty.values()), f"{old!r} is not in {fault.file}"
        faulty = {path: text.replace(old, new) for path, text in faulty.items()}

    copied = {f"kernels/{contract}.py", "grid_barrier.py", *(path for path in faulty if faulty[path] != texts[path])}
    texts |= faulty
    while True:
        kept = "|".join(Path(path).stem for path in copied)
        imports = re.compile(rf"^from (kernels|harness\.launch)\.({kept})\b", re.MULTILINE)
        more = {path for path, text in texts.items() if path not in copied and imports.search(text)}
        if not more:
            break
        copied |= more
    here = {"kernels": f"from {COPY}.kernels.", "harness.launch": f"from {COPY}."}
    return {path: imports.sub(lambda found: here[found[1]] + found[2], texts[path]) for path in copied}


@contextmanager
def planted(fault: Source | Made, contract: str, implementation: str, folder: Path) -> Iterator[Implementation]:
    """Import copies of ``kernels`` and of the grid barrier with ``fault`` in them and yield the implementation."""
    root = folder / COPY
    (root / "kernels").mkdir(parents=True)
    for name in ("__init__.py", "kernels/__init__.py"):
        (root / name).touch()
    for path, text in _copied(fault, contract).items():
        (root / path).write_text(text)

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


@dataclass(frozen=True)
class Changed:
    """A fault in source of the module ``dotted``: ``old``, which stands there once, becomes ``new``."""

    dotted: str
    old: str
    new: str

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Let the module run with the fault."""
        # a module of implementations is executed a second time for its code
        registered = registry._implementations
        registry._implementations = {}
        try:
            with swapped(self.dotted, self.old, self.new):
                registry._implementations = registered
                yield
        finally:
            registry._implementations = registered


@dataclass(frozen=True)
class Made:
    """A fault that the mutation engine makes: ``operator`` turns ``before`` into ``after`` in ``function`` of ``file``.

    It is found by these, white space aside, wherever the function stands; there is one such mutant.
    """

    file: str
    function: str
    operator: str
    before: str
    after: str

    @property
    def dotted(self) -> str:
        """The module by name."""
        return self.file.removesuffix(".py").replace("/", ".")

    @property
    def mutant(self) -> Mutant:
        """The mutant."""
        made = _made(self.file, self.dotted, self.operator)
        wanted = (self.function, one_line(self.before), one_line(self.after))
        alike = [one for one in made if (one.function, one_line(one.before), one_line(one.after)) == wanted]
        assert len(alike) == 1, f"{self}: {len(alike)} mutants"
        return alike[0]

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Let the module run with the fault."""
        mutant = self.mutant
        with Changed(self.dotted, mutant.original, mutant.source)():
            yield


@cache
def _made(file: str, dotted: str, operator: str) -> list[Mutant]:
    return mutants([Module(dotted, file, (ROOT / file).read_text())], [operator])
