"""What tensors say about their device, and how they move from one to the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from harness.sanitize.errors import unsupported
from harness.sanitize.patches import Patches
from harness.sanitize.places import CUDA, Place, Places, below, device_of, explicit, is_below, real_device


class Tensors:
    """Replacements for methods and properties of ``torch.Tensor``."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._to: Callable[..., Any] = torch.Tensor.to

    def install(self, patches: Patches) -> None:
        """Put the replacements in place."""
        places = self.places
        tensor = torch.Tensor
        patches.set(tensor, "device", property(places.device))
        patches.set(tensor, "is_cuda", property(lambda self: places.device(self).type == "cuda"))
        patches.set(tensor, "is_cpu", property(lambda self: places.device(self).type == "cpu"))
        patches.set(tensor, "get_device", lambda self: 0 if places.device(self) == CUDA else -1)
        for name in ("to", "cpu", "cuda", "pin_memory", "is_pinned", "record_stream", "new_tensor"):
            patches.set(tensor, name, _method(getattr(tensor, name), getattr(self, name)))
        for name in ("numpy", "type", "new", "__deepcopy__"):
            original = getattr(tensor, name)
            ours = getattr(self, name.strip("_"))
            patches.set(tensor, name, _method(original, functools.partial(_late, ours, original)))
        for name in ("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"):
            patches.set(tensor, name, _spoken(getattr(tensor, name)))
        for name in ("__dlpack__", "__dlpack_device__", "share_memory_"):
            original = getattr(tensor, name)
            patches.set(tensor, name, _method(original, self._refusal(name, original)))

    # -- moving

    def move(self, tensor: torch.Tensor, place: Place, dtype: torch.dtype | None, layout: Any) -> torch.Tensor:
        """Return a copy of ``tensor`` elsewhere; the gradient comes back to where ``tensor`` is."""
        if torch.is_grad_enabled() and tensor.requires_grad:
            return _Move.apply(self, tensor, place, dtype, layout)  # type: ignore[no-any-return, no-untyped-call]
        return self.copy(tensor, place, dtype, layout)

    def copy(self, tensor: torch.Tensor, place: Place, dtype: torch.dtype | None, layout: Any) -> torch.Tensor:
        """Return a copy of ``tensor`` elsewhere, detached."""
        with below():
            moved: torch.Tensor = self._to(
                tensor.detach(), dtype or tensor.dtype, copy=True, memory_format=layout or torch.preserve_format
            )
        self.places.mark(moved, place)
        return moved

    def to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """``Tensor.to``."""
        given = dict(kwargs)
        rest = list(args)
        device: Any = given.pop("device", None)
        dtype = given.pop("dtype", None)
        other = given.pop("other", None)
        if rest and isinstance(rest[0], torch.Tensor):
            other = rest.pop(0)
        elif rest and isinstance(rest[0], torch.dtype):
            dtype = rest.pop(0)
        elif rest:
            device = rest.pop(0)
            if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
                dtype = rest.pop(0)
        if other is not None:
            device, dtype = self.places.device(other), other.dtype
        # what is left by position: non_blocking, copy
        copy = rest[1] if len(rest) > 1 else given.get("copy", False)
        layout = given.get("memory_format")
        wanted = device_of(device)
        if real_device(tensor).type != "cpu" or (wanted is not None and wanted.type not in ("cpu", "cuda")):
            if wanted == CUDA:
                unsupported(f"a move from {real_device(tensor)} to cuda")
            return self._to(tensor, *args, **kwargs)  # type: ignore[no-any-return]
        if wanted is not None and wanted != self.places.device(tensor):
            return self.move(tensor, Place.DEVICE if wanted == CUDA else Place.HOST, dtype, layout)
        if dtype is None and not copy and layout is None:
            return tensor
        options = {} if layout is None else {"memory_format": layout}
        return self._to(tensor, dtype or tensor.dtype, copy=copy, **options)  # type: ignore[no-any-return]

    def cpu(self, tensor: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
        """``Tensor.cpu``."""
        return self.to(tensor, "cpu", memory_format=memory_format)

    def cuda(
        self, tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> torch.Tensor:
        """``Tensor.cuda``."""
        return self.to(tensor, CUDA if device is None else device, memory_format=memory_format)

    def pin_memory(self, tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
        """``Tensor.pin_memory``."""
        if self.places.device(tensor) == CUDA:
            raise RuntimeError(f"cannot pin '{self._type(tensor)}': only dense CPU tensors can be pinned")
        return tensor if self.is_pinned(tensor) else self.move(tensor, Place.PINNED, None, None)

    def is_pinned(self, tensor: torch.Tensor, device: Any = None) -> bool:
        """``Tensor.is_pinned``."""
        return self.places.of(tensor) is Place.PINNED

    def record_stream(self, tensor: torch.Tensor, stream: Any) -> None:
        """``Tensor.record_stream``: memory is never reused early here."""

    # -- the rest

    def new_tensor(self, tensor: torch.Tensor, data: Any, **options: Any) -> torch.Tensor:
        """``Tensor.new_tensor``."""
        options = {"dtype": tensor.dtype, "device": self.places.device(tensor), **options}
        return torch.tensor(data, **{name: value for name, value in options.items() if value is not None})

    def numpy(self, original: Callable[..., Any], tensor: torch.Tensor, *, force: bool = False) -> Any:
        """``Tensor.numpy``."""
        if self.places.device(tensor) == CUDA:
            if not force:
                raise TypeError(
                    "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                    "memory first."
                )
            tensor = self.cpu(tensor)
        return original(tensor, force=force)

    def type(self, original: Callable[..., Any], tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """``Tensor.type``."""
        if not args and not kwargs:
            return self._type(tensor)
        name = args[0] if args else kwargs.get("dtype")
        if not isinstance(name, torch.dtype):
            where = name if isinstance(name, str) else f"{getattr(name, '__module__', '')}.{name}"
            if "cuda" in where or self.places.device(tensor) == CUDA:
                unsupported(f"Tensor.type({name!r})", "a tensor type that names a device")
        return original(tensor, *args, **kwargs)

    def _type(self, tensor: torch.Tensor) -> str:
        with below():
            name = torch._C.TensorBase.type(tensor)
        return name.replace("torch.", "torch.cuda.", 1) if self.places.device(tensor) == CUDA else name

    def new(self, original: Callable[..., Any], tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """``Tensor.new``."""
        made = original(tensor, *args, **kwargs)
        self.places.mark(made, self.places.of(tensor))
        return made

    def deepcopy(self, original: Callable[..., Any], tensor: torch.Tensor, memo: Any) -> Any:
        """``copy.deepcopy``."""
        if self.places.of(tensor) is Place.DEVICE and tensor.is_leaf and id(tensor) not in memo:
            # torch copies the bytes of what it takes for the host's
            with below():
                made = original(tensor, memo)
            if tensor.grad is not None:
                self.places.mark(made.grad, self.places.of(tensor.grad))
        else:
            made = original(tensor, memo)
        self.places.mark(made, self.places.of(tensor))
        return made

    def _refusal(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if self.places.device(tensor) == CUDA:
                unsupported(f"Tensor.{name}", "the memory of a device, handed to somebody else")
            return original(tensor, *args, **kwargs)

        return method


class _Move(torch.autograd.Function):
    """A copy to another device that autograd knows."""

    @staticmethod
    def forward(
        ctx: Any, tensors: Tensors, tensor: torch.Tensor, place: Place, dtype: torch.dtype | None, layout: Any
    ) -> torch.Tensor:
        ctx.back = tensors, tensors.places.of(tensor), tensor.dtype
        return tensors.copy(tensor, place, dtype, layout)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        tensors, place, dtype = ctx.back
        return None, tensors.move(grads[0], place, dtype, None), None, None, None


def _method(original: Any, ours: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that does ``ours`` for the program and the original below the emulation."""

    @functools.wraps(original)
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs) if is_below() else ours(self, *args, **kwargs)

    return method


def _late(ours: Callable[..., Any], original: Any, *args: Any, **kwargs: Any) -> Any:
    return ours(original, *args, **kwargs)


def _spoken(original: Any) -> Callable[..., Any]:
    """Return a method in which a device is the program's own word."""

    @functools.wraps(original)
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if is_below():
            return original(self, *args, **kwargs)
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = device_of(kwargs["device"])
        with explicit():
            return original(self, *args, **kwargs)

    return method
