"""pytest plugin: hardware markers, isolation, Hypothesis profiles, ``contract`` and ``implementation``, ``gpu_target``.

Every project that has this distribution installed imports this module, so it imports nothing but pytest; the rest is
loaded when a test asks for it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from harness.contract import Contract, Implementation
    from harness.device import Target
    from harness.report.records import Record

pytest_plugins = ["harness.receipts.plugin"]

_PAIR = ("contract", "implementation")
_MARKER = "conformance"
_ISOLATED = "isolated(deadline=SECONDS or a function of the configuration, alone=BOOL)"
_TARGET = "gpu_target"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernel-harness")
    group.addoption("--impl", metavar="NAME", help="run conformance tests on implementations NAME or NAME-* only")
    group.addoption("--contract", metavar="NAME", action="append", help="run conformance tests of this contract only")
    group.addoption(
        "--compile-for",
        metavar="ARCH",
        action="append",
        default=[],
        help="compile conformance implementations for this target, such as sm_120, without a GPU; may be repeated",
    )
    group.addoption(
        "--verify-for",
        metavar="ARCH",
        help="let the virtual GPU be this target, such as sm_90, in conformance tests: its numerics, and the launches "
        "that kernels choose for it (default: sm_120's numerics, the launches that kernels choose without a GPU)",
    )
    group.addoption("--known", metavar="FILE", type=Path, help="TOML file of known failures")
    group.addoption(
        "--require-gpu",
        action="store_true",
        help="a test that lacks its hardware is an error, not a skip; an implementation for other targets and a case "
        "for more memory are skipped all the same",
    )
    group.addoption(
        "--emulate",
        metavar="TARGET",
        help="let the GPU that is here stand in for this target, such as sm120: its configurations, its shared memory",
    )
    group.addoption(
        "--gpu-isolation",
        choices=("on", "off"),
        default="on",
        help="run GPU tests and those marked isolated in worker processes (default: %(default)s)",
    )
    group.addoption(
        "--gpu-workers",
        metavar="N",
        type=_workers,
        default="auto",
        help="worker processes at a time; auto: as many as cores, the host's memory and the GPU's have room for, 1 "
        "without a GPU (default: %(default)s)",
    )
    group.addoption(
        "--gpu-deadline",
        metavar="SECONDS",
        type=_seconds,
        default=120.0,
        help="for one isolated test that names none of its own (default: %(default)s)",
    )
    parser.addini("conformance_modules", "modules that register contracts and implementations", "args", default=[])


def _workers(text: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"wanted auto or a number of processes, at least 1, got {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    # neither is "nan"
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"wanted seconds above 0, got {text!r}")
    return seconds


def _in_use(config: pytest.Config) -> bool:
    """Whether this project asked for the harness: elsewhere a marker called ``gpu`` means what that project says."""
    return bool(config.getini("conformance_modules")) or any("harness.suites" in argument for argument in config.args)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(capturable=BOOL): runs on every registered contract and implementation, or those with CUDA graphs",
    )
    if _in_use(config):
        from harness._numpy_loops import leave_out_avx512
        from harness.device.markers import MARKERS

        leave_out_avx512()
        for name, description in MARKERS.items():
            config.addinivalue_line("markers", f"{name}: {description}")
        config.addinivalue_line("markers", f"{_ISOLATED}: runs in a worker process that a fault or a hang may cost")
        check_target(config.getoption("emulate"))
    # Before Hypothesis' own plugin loads the profile; without the option Hypothesis stays unimported.
    if config.getoption("hypothesis_profile", None):
        from harness import profiles

        profiles.register()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say what can run here."""
    if not _in_use(config):
        return None
    from harness.device import TARGETS, detect

    machine = detect()
    present = {device.arch for device in machine.devices}
    markers = [marker for marker, target in TARGETS.items() if target.arch in present]
    runs = f"-m {' or '.join(markers)}" if markers else "every GPU test is skipped"
    return f"kernel-harness: virtual GPU, {machine}: {runs}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the suite that compiles for targets out where none is named: it costs a second a kernel and target."""
    suite = Path(__file__).parent / "suites" / "test_targets.py"
    return True if not config.getoption("compile_for") and collection_path == suite else None


def check_target(name: str | None) -> None:
    """Raise UsageError for a ``--emulate`` that names no target, listing them."""
    from harness.device import TARGETS

    if name is not None and name not in TARGETS:
        raise pytest.UsageError(f"--emulate: no target {name!r}; there are: {', '.join(TARGETS)}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if _TARGET in metafunc.fixturenames:
        from harness.hardware import selection as hardware

        metafunc.parametrize(_TARGET, hardware.parameters(metafunc), indirect=True)
    marker = metafunc.definition.get_closest_marker(_MARKER)
    if marker is None:
        return
    names = [name for name in _PAIR if name in metafunc.fixturenames]
    if not names:
        return
    pairs = _pairs(metafunc.config)
    if marker.kwargs.get("capturable"):
        # where none is, nothing is left of the suite
        pairs = [pair for pair in pairs if pair[1].capturable is not None] or pairs
    if "workload" in metafunc.fixturenames:
        _each_workload(metafunc, pairs)
        return
    if "implementation" in names:
        values = [pytest.param(*(pair[_PAIR.index(name)] for name in names), id=str(pair[1])) for pair in pairs]
    else:
        contracts = {contract.name: contract for contract, _ in pairs}
        values = [pytest.param(contract, id=name) for name, contract in contracts.items()]
    metafunc.parametrize(names, values)
    if "compile_target" in metafunc.fixturenames:
        from harness import discover, selection

        try:
            targets = selection.targets(metafunc.config.getoption("compile_for"))
        except discover.SetupError as error:
            raise pytest.Collector.CollectError(str(error)) from error
        metafunc.parametrize("compile_target", targets, ids=[target.arch for target in targets])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of capturable implementations for one that is not: it lacks no hardware, so it is no skip."""
    left: list[pytest.Item] = []
    for item in items:
        marker = item.get_closest_marker(_MARKER)
        if marker is None or not marker.kwargs.get("capturable") or not hasattr(item, "callspec"):
            continue
        # where nothing could be loaded, pytest's own stand-in has no such attribute
        if getattr(item.callspec.params.get("implementation"), "capturable", item) is None:
            left.append(item)
    if left:
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)


def _each_workload(metafunc: pytest.Metafunc, pairs: list[tuple[Contract[Any], Implementation]]) -> None:
    """Collect a test for every real size that the profile asks for; one without where no device could run it."""
    from harness.hardware import suite

    metafunc.parametrize(
        [*_PAIR, "workload"],
        [
            pytest.param(contract, implementation, number, id=f"{implementation}-{number}")
            for contract, implementation in pairs
            for number in suite.workloads(contract, implementation, metafunc.config)
        ],
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    if not _in_use(item.config):
        return None
    from harness.hardware import isolation

    return isolation.protocol(item)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _in_use(config):
        from harness.hardware import isolation

        isolation.close(config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if not _in_use(item.config):
        return
    from harness.hardware import selection

    reason = selection.reason_to_skip(item)
    if reason is None:
        return
    if item.config.getoption("require_gpu"):
        pytest.fail(f"{reason} (--require-gpu)", pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a test of an emulated target whose kernels this GPU has no instructions for."""
    if _TARGET not in getattr(item, "fixturenames", ()) or not item.config.getoption("emulate"):
        return (yield)
    from harness.hardware.emulation import CannotEmulate

    try:
        return (yield)
    except CannotEmulate as error:
        pytest.skip(str(error))


@pytest.fixture
def gpu_target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Make a test one about a target: collected for those that ``-m`` names or that are here, with their markers.

    Inside the test the current device is the first one here that is such a target.  Under ``--emulate`` it is one that
    stands in for it, and launches are those for the target.
    """
    from harness.hardware import selection

    with selection.on_its_device(request.node, request.param):
        yield request.param


@pytest.fixture
def conformance_records(
    request: pytest.FixtureRequest, contract: Contract[Any], implementation: Implementation
) -> list[Record]:
    """Search for faults of ``implementation`` in a child process; one record for each check of ``contract``.

    The Hypothesis profile says how many cases, ``--known`` names a file of known failures.
    """
    from harness import isolate, profiles

    config = request.config
    known: Path | None = config.getoption("known")
    job = isolate.Job(
        contract=contract.name,
        implementation=implementation.name,
        modules=tuple(_modules(config)),
        folder=str(config.rootpath),
        examples=profiles.examples(config.getoption("hypothesis_profile", None)),
        known=None if known is None else str(known.resolve()),
        target=_verified_for(config),
    )
    return isolate.run([job], children=1)


def _verified_for(config: pytest.Config) -> str | None:
    from harness import discover, selection

    named = config.getoption("verify_for")
    try:
        return None if named is None else selection.virtual_target(named)
    except discover.SetupError as error:
        raise pytest.UsageError(str(error).replace("--target", "--verify-for")) from error


def _modules(config: pytest.Config) -> list[str]:
    from harness import discover

    return [*config.getini("conformance_modules"), *discover.adapters(config.getoption("impl"))]


def _pairs(config: pytest.Config) -> list[tuple[Contract[Any], Implementation]]:
    """Load what is registered, once, and return what ``--contract`` and ``--impl`` leave.

    Where that fails the first test to be collected says so, and the others have nothing to run on.
    """
    pairs = config.stash.get(_PAIRS, None)
    if pairs is None:
        from harness import discover, known_file, selection

        try:
            if config.getoption("known"):
                known_file.read(config.getoption("known"))
            discover.load(_modules(config), folder=config.rootpath)
            pairs = selection.pairs(config.getoption("contract") or (), config.getoption("impl"))
        except discover.SetupError as error:
            config.stash[_PAIRS] = []
            # shown as this line alone, without a traceback
            raise pytest.Collector.CollectError(str(error)) from error
        config.stash[_PAIRS] = pairs
    return pairs


_PAIRS = pytest.StashKey["list[tuple[Contract[Any], Implementation]]"]()
