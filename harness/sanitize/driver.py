"""Triton's driver for the emulated device, and the checks of a launch."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from harness.sanitize.errors import missing, unsupported
from harness.sanitize.facts import Facts
from harness.sanitize.patches import Patches
from harness.sanitize.places import CUDA, Place, Places, below
from harness.sanitize.streams import current_stream
from harness.vgpu import KernelFault

#: What a compiled kernel says of itself: numbers of an ordinary kernel, which here only size a grid.
NOMINAL_REGISTERS = 64
NOMINAL_SHARED = 16 * 1024


class Driver:
    """``triton.runtime.driver.active``."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.utils = _Utilities(facts)
        self.launcher_cls = missing("triton.runtime.driver.active.launcher_cls", model=_Utilities)

    def get_current_target(self) -> Any:
        """Return Triton's ``GPUTarget``."""
        from triton.backends.compiler import GPUTarget

        facts = self._facts
        major, minor = facts.capability
        arch = facts.arch if facts.hip else major * 10 + minor
        return GPUTarget("hip" if facts.hip else "cuda", arch, facts.properties.warp_size)

    def get_current_device(self) -> int:
        """Return 0."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Choose the one device; raises RuntimeError for another."""
        torch.cuda.set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        """Return the handle of the current stream."""
        return current_stream(device).cuda_stream

    def get_active_torch_device(self) -> torch.device:
        """Return cuda:0."""
        return CUDA

    def get_device_interface(self) -> Any:
        """Return the emulated ``torch.cuda``."""
        return torch.cuda

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Return the compute capability."""
        return self._facts.capability

    def is_active(self) -> bool:
        """Whether this driver works: yes."""
        return True

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return what times a call."""
        return do_bench

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """Return a buffer that need not be as large as a cache, as there is none."""
        return torch.empty(1, dtype=torch.int32, device=CUDA)

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Write the buffer."""
        cache.zero_()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        unsupported(f"triton.runtime.driver.active.{name}")


class _Utilities:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def get_device_properties(self, device: int = 0) -> dict[str, Any]:
        """Return sizes in bytes, clocks in kHz."""
        return self._facts.triton_properties

    def set_printf_fifo_size(self, size: int) -> None:
        """Do nothing: what a kernel prints is printed at once."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        unsupported(f"triton.runtime.driver.active.utils.{name}")


class _Metadata:
    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self.shared = NOMINAL_SHARED
        self.num_warps = options.get("num_warps", 4)
        self.num_stages = options.get("num_stages", 3)
        self.num_ctas = options.get("num_ctas", 1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        unsupported(f"CompiledKernel.metadata.{name}", "nothing was compiled")


class Compiled:
    """What a launch and ``warmup`` return; resources are nominal, and the code is not there."""

    n_regs = NOMINAL_REGISTERS
    n_spills = 0
    n_max_threads = 1024

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self.metadata = _Metadata(name, options)

    def _init_handles(self) -> None:
        """Load nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        unsupported(f"CompiledKernel.{name}", "nothing was compiled")


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: Any = None,
    return_mode: str = "mean",
    **options: Any,
) -> Any:
    """Run ``fn`` once and return its milliseconds on this machine, in the form that ``triton.testing`` gives."""
    begin = time.perf_counter()
    fn()
    taken = max((time.perf_counter() - begin) * 1000, 1e-6)
    if quantiles is not None:
        return [taken] * len(quantiles) if len(quantiles) > 1 else taken
    return [taken] if return_mode == "all" else taken


def install(patches: Patches, facts: Facts) -> None:
    """Make the driver active, time by ``do_bench``, and refuse launches that no session sees."""
    import triton
    from triton.runtime import jit
    from triton.runtime.driver import driver

    patches.set(driver, "_active", Driver(facts))
    patches.set(driver, "_default", driver._active)
    patches.set(triton.testing, "do_bench", do_bench)
    patches.set(triton.testing, "do_bench_cudagraph", do_bench)
    if hasattr(triton.testing, "do_bench_proton"):
        patches.set(triton.testing, "do_bench_proton", do_bench)

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        unsupported("a kernel launch from another thread", "launches are checked in the thread that runs the tests")

    patches.set(jit.JITFunction, "run", run)
    patches.set(triton, "compile", missing("triton.compile", model=do_bench))


@contextmanager
def launches(places: Places, fault: Callable[[KernelFault], object]) -> Iterator[None]:
    """Check the arguments of every launch inside the block, which an active virtual GPU runs; report its faults."""
    from triton.runtime import jit

    patches = Patches()
    interpreter = sys.modules.get("triton.runtime.interpreter")
    for cls in (jit.JITFunction, getattr(interpreter, "InterpretedFunction", None)):
        if cls is not None:
            patches.set(cls, "run", _checked(cls.run, places, fault))
    try:
        yield
    finally:
        patches.restore()


def _checked(
    original: Callable[..., Any], places: Places, fault: Callable[[KernelFault], object]
) -> Callable[..., Any]:
    def run(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        name = getattr(self, "__name__", "") or self.fn.__name__
        made = Compiled(name, kwargs)
        if warmup:
            return made
        _check(self, args, kwargs, places)
        try:
            with below():
                original(self, *args, grid=_above(grid), warmup=False, **kwargs)
        except KernelFault as error:
            fault(error)
            raise
        return made

    return run


def _above(grid: Any) -> Any:
    """Let the program's function for the grid see tensors as emulated."""
    if not callable(grid):
        return grid

    def sizes(meta: Any) -> Any:
        with below(False):
            return grid(meta)

    return sizes


def _check(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], places: Places) -> None:
    names = list(getattr(fn, "arg_names", ()))
    given = [*enumerate(args), *((names.index(name), value) for name, value in kwargs.items() if name in names)]
    for number, value in given:
        for tensor in _pointers(value):
            on_cpu = places.of(tensor) is Place.HOST
            if on_cpu and tensor.data_ptr():
                raise ValueError(f"Pointer argument (at {number}) cannot be accessed from Triton (cpu tensor?)")


def _pointers(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for member in value:
            yield from _pointers(member)
    elif isinstance(getattr(value, "base", None), torch.Tensor):
        # a tensor descriptor, or a tensor seen as another type
        yield value.base
