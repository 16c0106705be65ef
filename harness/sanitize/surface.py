"""The emulated ``torch.cuda`` and ``torch.accelerator``; what is not in it raises Unsupported."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch

from harness.sanitize import streams
from harness.sanitize.errors import missing
from harness.sanitize.facts import DeviceProperties, Facts
from harness.sanitize.generators import Generator, Random
from harness.sanitize.patches import Patches
from harness.sanitize.places import CUDA, Places, device_of

#: Names that are no functions of a device, and need no emulation.
_KEPT = frozenset(
    (
        *("AcceleratorError", "CudaError", "DeferredCudaCallError", "OutOfMemoryError", "Device", "amp", "random"),
        *("memory", "streams", "graphs", "nccl", "profiler", "jiterator", "tunable", "sparse", "gds", "cudaStatus"),
        *("green_contexts", "has_half", "has_magma", "classproperty", "PYTORCH_RELEASES_CODE_CC"),
        *("DEVICE_REQUIREMENT", "current_device_idx"),
    )
)


class DeviceGuard:
    """``torch.cuda.device``: there is one device, so nothing changes; raises RuntimeError for another."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0 if device_of(device) is None else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the device as it is."""


def _index(device: Any) -> int:
    found = device_of(device)
    if found is not None and found != CUDA:
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return 0


class Surface:
    """The functions of one emulated device."""

    def __init__(self, facts: Facts, places: Places, random: Random) -> None:
        self._facts = facts
        self._places = places
        self._random = random

    def cuda(self) -> dict[str, Any]:
        """Return what ``torch.cuda`` has, by name."""
        nvtx = types.SimpleNamespace(range_push=_zero, range_pop=_zero, mark=_nothing, range=_Range)
        return {
            **self._questions(),
            **self._memory(),
            **self._seeds(),
            "Stream": streams.Stream,
            "Event": streams.Event,
            "StreamContext": streams.StreamContext,
            "stream": streams.StreamContext,
            "current_stream": streams.current_stream,
            "default_stream": streams.default_stream,
            "set_stream": streams.set_stream,
            "device": DeviceGuard,
            "device_of": lambda tensor: DeviceGuard(None),
            "nvtx": nvtx,
        }

    def accelerator(self) -> dict[str, Any]:
        """Return what ``torch.accelerator`` has, by name."""
        return {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "current_accelerator": lambda check_available=False: torch.device("cuda"),
            "current_device_index": lambda: 0,
            "current_device_idx": lambda: 0,
            "set_device_index": _set_device,
            "set_device_idx": _set_device,
            "device_index": DeviceGuard,
            "get_device_capability": lambda device=None: {"supported_dtypes": set()},
            "synchronize": _synchronize,
            "current_stream": streams.current_stream,
            "set_stream": streams.set_stream,
            "empty_cache": _nothing,
            "memory_allocated": lambda device=None: self._places.allocated(),
            "memory_reserved": lambda device=None: self._places.allocated(),
            "get_memory_info": self._free,
            "reset_peak_memory_stats": _nothing,
            "reset_accumulated_memory_stats": _nothing,
        }

    def _questions(self) -> dict[str, Any]:
        facts = self._facts

        def properties(device: Any = None) -> DeviceProperties:
            _index(device)
            return facts.properties

        def capability(device: Any = None) -> tuple[int, int]:
            _index(device)
            return facts.capability

        return {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "init": _nothing,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "set_device": _set_device,
            "get_device_properties": properties,
            "get_device_capability": capability,
            "get_device_name": lambda device=None: properties(device).name,
            "get_arch_list": lambda: [facts.arch],
            "is_bf16_supported": lambda including_emulation=True: True,
            "is_tf32_supported": lambda: not facts.hip,
            "is_current_stream_capturing": lambda: False,
            "can_device_access_peer": lambda device, peer_device: False,
            "synchronize": _synchronize,
        }

    def _memory(self) -> dict[str, Any]:
        return {
            "empty_cache": _nothing,
            "ipc_collect": _nothing,
            "mem_get_info": self._free,
            "memory_allocated": lambda device=None: self._places.allocated(),
            "memory_reserved": lambda device=None: self._places.allocated(),
            "reset_peak_memory_stats": _nothing,
            "reset_accumulated_memory_stats": _nothing,
            "reset_max_memory_allocated": _nothing,
        }

    def _free(self, device: Any = None) -> tuple[int, int]:
        total = self._facts.properties.total_memory
        return total - self._places.allocated(), total

    def _seeds(self) -> dict[str, Any]:
        generator = self._random.generator

        def seed(value: int) -> None:
            generator.manual_seed(int(value))

        def get(device: Any = "cuda") -> torch.Tensor:
            return generator.get_state()

        def put(new_state: torch.Tensor, device: Any = "cuda") -> None:
            generator.set_state(new_state)

        return {
            "default_generators": (generator,),
            "manual_seed": seed,
            "manual_seed_all": seed,
            "seed": lambda: generator.seed(),
            "seed_all": lambda: generator.seed(),
            "initial_seed": generator.initial_seed,
            "get_rng_state": get,
            "get_rng_state_all": lambda: [get()],
            "set_rng_state": put,
            "set_rng_state_all": lambda new_states: put(new_states[0]),
        }


class _Range:
    """``torch.cuda.nvtx.range``: a mark for a profiler that is not there."""

    def __init__(self, message: str, *args: Any, **kwargs: Any) -> None:
        self.message = message

    def __enter__(self) -> None:
        """Begin nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End nothing."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do what has no effect here."""


def _zero(*args: Any, **kwargs: Any) -> int:
    return 0


def _synchronize(device: Any = None) -> None:
    _index(device)


def _set_device(device: Any) -> None:
    _index(device)


def install(patches: Patches, surface: Surface, facts: Facts) -> None:
    """Replace ``torch.cuda``, ``torch.accelerator`` and what else names a device."""
    for module, ours in ((torch.cuda, surface.cuda()), (torch.accelerator, surface.accelerator())):
        prefix = module.__name__
        for name, value in ours.items():
            if hasattr(module, name):
                patches.set(module, name, value)
        for name, value in list(vars(module).items()):
            if name.startswith("_") or name in ours or name in _KEPT or inspect.ismodule(value):
                continue
            home = getattr(value, "__module__", "") or ""
            if callable(value) and home.startswith(("torch.cuda", "torch.accelerator", "torch._C", "torch.storage")):
                patches.set(module, name, missing(f"{prefix}.{name}", model=value))
    for name in ("is_available", "manual_seed", "manual_seed_all", "get_rng_state", "set_rng_state"):
        for module in (torch.cuda.random,):
            if hasattr(module, name):
                patches.set(module, name, getattr(torch.cuda, name))
    # torch's C++ calls it for every operation that names a CUDA device
    patches.set(torch.cuda, "_lazy_init", _nothing)
    patches.set(torch.cuda, "_is_in_bad_fork", lambda: False)
    patches.set(torch, "Generator", Generator)
    patches.set(torch, "compile", _compile)
    patches.set(torch.version, "hip" if facts.hip else "cuda", "7.0.0" if facts.hip else "13.0")


def _compile(model: Any = None, **options: Any) -> Any:
    """``torch.compile``: may decorate anything; what it decorated raises Unsupported."""
    if model is None:
        return lambda function: _compile(function)
    return missing(f"torch.compile({getattr(model, '__name__', type(model).__name__)})", model=_compile)
