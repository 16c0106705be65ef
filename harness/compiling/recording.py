"""What a launch function launches on a target: every kernel with the specialisation that Triton would compile.

Triton's own binder decides what a launch specialises on (types, divisibility by 16, integers equal to 1, constants,
tensor descriptors), asked for a target that need not be there.  Nothing is compiled and nothing runs.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.compiling.shapes import ShapesOnly
from harness.device.named import DEVICES
from harness.device.targets import Target
from harness.launch.current import pretending
from harness.launch.physical import Described, physical_from
from harness.vgpu.triton_adapter import adapter

# A lane of the hardware: 64 threads on CDNA, 32 elsewhere.
_WAVE_64 = frozenset({"gfx942", "gfx950"})


@dataclass(frozen=True, kw_only=True)
class Specialisation:
    """One kernel as it is compiled for ``target``.

    ``constants`` are its compile-time constants by parameter name, ``arguments`` type and hint of the others
    (``"*bf16:D"``; D: divisible by 16), ``asked`` the options that the launch gave.  ``source`` and ``options`` are
    what Triton's compiler takes, ``function`` the ``@triton.jit`` object.  ``grids``: those it was launched with.
    """

    kernel: str
    target: Target
    constants: Mapping[str, Any]
    arguments: Mapping[str, str]
    asked: Mapping[str, Any]
    function: Any = field(repr=False)
    source: Any = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    grids: set[tuple[int, ...]] = field(default_factory=set, repr=False, compare=False)


def gpu_target(target: Target) -> Any:
    """Return Triton's name for ``target``."""
    compiler = importlib.import_module("triton.backends.compiler")
    if target.vendor == "cuda":
        return compiler.GPUTarget("cuda", int(target.arch.removeprefix("sm_")), 32)
    return compiler.GPUTarget("hip", target.arch, 64 if target.arch in _WAVE_64 else 32)


def record(launch: Callable[..., Any], inputs: Mapping[str, Any], target: Target) -> list[Specialisation]:
    """Call ``launch(**inputs)`` as if on ``target`` and return what it launched, each specialisation once, in order.

    Of an autotuned kernel every configuration that survives pruning.  Whatever ``launch`` raises comes out.
    """
    recorder = _Recorder(target)
    with quiet(), _pretended(target), adapter().patched(recorder.run, recorder.tune), ShapesOnly():
        launch(**inputs)
    return list(recorder.found.values())


@contextmanager
def quiet() -> Iterator[None]:
    """Let Triton 3.9 not warn that the default of an option will change: what it is stands in every result's key."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TRITON_DEFAULT_FP_FUSION is unset")
        yield


class _Driver:
    """Answers Triton's questions about the active device for a device that is not there."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cuda


@contextmanager
def as_driver(target: Target) -> Iterator[None]:
    """Answer Triton's questions about the active device, in the whole process, as if on ``target``."""
    driver = importlib.import_module("triton.runtime.driver").driver
    before = driver._active
    driver.set_active(_Driver(gpu_target(target)))
    try:
        yield
    finally:
        driver._active = before


@contextmanager
def _pretended(target: Target) -> Iterator[None]:
    with as_driver(target), pretending(target), physical_from(Described(_units(target))):
        yield


def _units(target: Target) -> int:
    """Return the SMs or CUs of the largest known device of ``target``: launches with grid barriers ask."""
    return max(device.units for device in DEVICES.values() if device.arch == target.arch)


class _Recorder:
    """Takes the place of ``JITFunction.run`` and ``Autotuner.run``."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.found: dict[Any, Specialisation] = {}

    def tune(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        try:
            configs = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs
            for config in configs:
                if config.pre_hook is not None:
                    config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
                tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        finally:
            tuner.nargs = None

    def run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> None:
        for hook in getattr(function, "pre_run_hooks", ()):
            hook(*args, **kwargs)
        found = specialised(function, args, kwargs, self._target)
        key = found.source.hash(), repr(sorted(found.options.items(), key=str))
        self.found.setdefault(key, found).grids.add(_sizes(grid, function, args, kwargs))


def _sizes(grid: Any, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    if callable(grid):
        grid = grid({**dict(zip(function.arg_names, args, strict=False)), **kwargs})
    sizes = [int(size) for size in ((grid,) if isinstance(grid, int) else grid)]
    return (*sizes, 1, 1)[:3]


def specialised(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], target: Target) -> Specialisation:
    """Return what Triton would compile for one call of a ``@triton.jit`` function on ``target``.

    ``kwargs`` hold options such as ``num_warps`` too.  Raises what Triton raises for arguments and options that it does
    not take; outside of ``record`` the first call for a function wants ``as_driver(target)`` around it.
    """
    backend, binder = _binder(function, target)
    knobs = importlib.import_module("triton.knobs")
    given = {**kwargs, "debug": kwargs.get("debug", function.debug) or knobs.runtime.debug}
    bound, kinds, options = binder(*args, **given)
    options, signature, constants, attributes = function._pack_args(backend, given, bound, kinds, options)
    compiler = importlib.import_module("triton.compiler")
    names = [parameter.name for parameter in function.params]
    return Specialisation(
        kernel=function.__name__,
        target=target,
        constants={name: bound[name] for name, (kind, _) in zip(names, kinds, strict=True) if _fixed(kind)},
        arguments={
            name: f"{kind}:{hint}" if hint else f"{kind}"
            for name, (kind, hint) in zip(names, kinds, strict=True)
            if not _fixed(kind)
        },
        asked={name: value for name, value in kwargs.items() if name not in function.arg_names},
        function=function,
        source=compiler.ASTSource(function, signature, constants, attributes),
        options=dict(options.__dict__),
    )


def _fixed(kind: Any) -> bool:
    return bool(kind == "constexpr")


_BINDERS: dict[tuple[Any, str], tuple[Any, Any]] = {}


def _binder(function: Any, target: Target) -> tuple[Any, Any]:
    """Return Triton's backend and binder of ``function`` for ``target``; the active driver says which."""
    key = (function, target.arch)
    if key not in _BINDERS:
        _, _, _, backend, binder = function.create_binder()
        _BINDERS[key] = backend, binder
    return _BINDERS[key]
