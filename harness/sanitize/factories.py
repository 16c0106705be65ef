"""torch's functions that make tensors: a device named in them is the program's own word."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext, _device_constructors

from harness.sanitize.errors import unsupported
from harness.sanitize.patches import Patches
from harness.sanitize.places import CPU, CUDA, Place, Places, device_of, explicit, is_below

#: Made from data, by code of torch's that no mode sees.
_FROM_DATA = ("tensor", "as_tensor", "asarray")
_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like")
_RANDOM = ("normal", "bernoulli", "multinomial")
_REFUSED = (
    *("sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor"),
    *("sparse_compressed_tensor", "empty_quantized"),
)


def install(patches: Patches, places: Places, tensors: Any) -> None:
    """Replace the functions of module ``torch``."""
    # filled with the originals, by which a device context knows them, before they are replaced
    constructors = {function.__name__ for function in _device_constructors()}
    for name in sorted({*constructors, *_LIKE, *_RANDOM}):
        original = getattr(torch, name, None)
        if original is None:
            continue
        if name in _FROM_DATA:
            made = _from_data(name, original, places, tensors)
        elif name in _REFUSED:
            made = _refused(name, original)
        else:
            made = _spoken(original)
        patches.set(torch, name, functools.wraps(original)(made))
        _known_to_script(patches, original, made)


def _known_to_script(patches: Patches, original: Any, made: Any) -> None:
    """Let ``torch.jit.script`` take the replacement for the operation that it replaces."""
    from torch.jit import _builtins

    name = _builtins._find_builtin(original)  # type: ignore[no-untyped-call]
    if name is not None:
        _builtins._register_builtin(made, name)


def default_device() -> torch.device | None:
    """Return the device that ``torch.set_default_device`` or ``with torch.device(...)`` asks for, if any."""
    for mode in reversed(_get_current_function_mode_stack()):  # type: ignore[no-untyped-call]
        if isinstance(mode, DeviceContext):
            return device_of(mode.device)
    return None


def _spoken(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        if is_below():
            return original(*args, **kwargs)
        if isinstance(kwargs.get("device"), int):
            # torch asks for the accelerator of a number, and knows of none
            kwargs["device"] = device_of(kwargs["device"])
        with explicit():
            return original(*args, **kwargs)

    return make


def _refused(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        if (device_of(kwargs.get("device")) or default_device()) == CUDA:
            unsupported(f"torch.{name}(device='cuda')")
        return original(*args, **kwargs)

    return make


def _from_data(name: str, original: Callable[..., Any], places: Places, tensors: Any) -> Callable[..., Any]:
    def make(data: Any, *args: Any, **kwargs: Any) -> Any:
        if is_below():
            return original(data, *args, **{"device": CPU, **kwargs})
        options = dict(zip(("dtype", "device"), args, strict=False)) | kwargs
        wanted = device_of(options.pop("device", None)) or default_device()
        if wanted is None and isinstance(data, torch.Tensor):
            wanted = places.device(data)
        wanted = wanted or CPU
        if wanted.type not in ("cpu", "cuda"):
            return original(data, device=wanted, **options)
        if options.pop("pin_memory", False):
            return make(data, device=wanted, **options).pin_memory()
        place = Place.DEVICE if wanted == CUDA else Place.HOST
        if name != "tensor" and isinstance(data, torch.Tensor):
            data = tensors.to(data, wanted)
            return original(data, device=CPU, **options)
        with explicit():
            made = original(data, device=CPU, **options)
            if name != "tensor" and place is Place.DEVICE:
                # shares the array's memory, as nothing on a device does
                made = made.detach().clone().requires_grad_(made.requires_grad)
        places.mark(made, place)
        return made

    return make
