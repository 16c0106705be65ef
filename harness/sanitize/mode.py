"""Every torch operation of a session: devices named in it, where its results are, and what may not be mixed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.sanitize import precision
from harness.sanitize.errors import unsupported
from harness.sanitize.generators import Random
from harness.sanitize.places import CPU, CUDA, Place, Places, below, device_of, is_below, is_explicit, real_device

#: Operations that take their arguments from any device.
_ANYWHERE = frozenset(
    (
        *("aten::copy_", "aten::_copy_from", "aten::_to_copy", "aten::_foreach_copy_", "aten::set_"),
        *("aten::record_stream", "aten::_pin_memory", "aten::is_pinned"),
    )
)
#: Operations whose indices, the second argument, may be on the host while the rest is not.
_INDEXING = frozenset(
    (
        *("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"),
        *("aten::_unsafe_index_put",),
    )
)
#: Operations with an argument, by number, that is always on the host.
_ON_HOST = {"aten::tensor_split": 1, "aten::_pack_padded_sequence": 1}
#: Namespaces of torch's own operations, whose kernels for the CPU do the work.
_TORCH = frozenset(("aten", "prim", "prims", "quantized", "profiler", "inductor", "_c10d_functional"))
#: torch's words for a host without memory.
_NO_MEMORY = re.compile(r"DefaultCPUAllocator: .*?tried to allocate (\d+) bytes", re.DOTALL)
#: Where a kernel written in Python may be registered, the first that is used.
_KEYS = ("CUDA", "CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


class Emulation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs operations on "cuda" on the CPU and marks their results."""

    def __init__(self, places: Places, random: Random) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._places = places
        self._random = random

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # the wrapper that the base class would put around us imports all of torch._dynamo, seconds of it
        return False

    def __torch_dispatch__(
        self, func: Any, types: Iterable[Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation; raises RuntimeError where hardware would refuse the mixture of devices."""
        kwargs = dict(kwargs or {})
        named = kwargs.get("device")
        if named is not None:
            named = device_of(named)
            if named == CUDA:
                kwargs["device"] = CPU
        if is_below():
            return func(*args, **kwargs)
        pinned = bool(kwargs.get("pin_memory"))
        if pinned:
            kwargs["pin_memory"] = False
        given = [*_tensors(args), *_tensors(kwargs.values())]
        place = self._place(func, args, given, named)
        result = self._run(func, args, kwargs, place)
        if pinned and place is Place.HOST:
            place = Place.PINNED
        self._mark(func, args, given, result, place)
        return result

    def _place(self, func: Any, args: tuple[Any, ...], given: list[torch.Tensor], named: torch.device | None) -> Place:
        """Return where the results will be."""
        name = func._schema.name
        places = self._places
        if named == CUDA:
            return Place.DEVICE
        if named is not None and is_explicit():
            return Place.HOST
        if not given:
            return Place.HOST if is_explicit() else Place.EITHER
        found = [places.of(tensor) for tensor in given]
        if name in _ANYWHERE:
            return found[0]
        if Place.DEVICE in found:
            if Place.HOST in found or Place.PINNED in found:
                self._check_mixture(name, args, given, found)
            return Place.DEVICE
        if Place.EITHER in found and all(
            place is Place.EITHER or tensor.dim() == 0 for place, tensor in zip(found, given, strict=True)
        ):
            return Place.EITHER
        return Place.HOST

    def _check_mixture(self, name: str, args: tuple[Any, ...], given: list[torch.Tensor], found: list[Place]) -> None:
        allowed: set[int] = set()
        if name in _INDEXING:
            indices = list(_tensors(args[1:2]))
            if found[0] is not Place.DEVICE and any(self._places.of(index) is Place.DEVICE for index in indices):
                raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
            allowed = {id(index) for index in indices}
        elif name in _ON_HOST:
            allowed = {id(tensor) for tensor in _tensors(args[_ON_HOST[name] :][:1])}
        for tensor, place in zip(given, found, strict=True):
            # a number in a CPU tensor is passed by value
            if place in (Place.HOST, Place.PINNED) and tensor.dim() > 0 and id(tensor) not in allowed:
                if real_device(tensor).type != "cpu" or tensor.layout != torch.strided:
                    continue
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                    f"(in {name}, on a tensor of shape {tuple(tensor.shape)} that is on the CPU)"
                )

    def _run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place) -> Any:
        if func.namespace not in _TORCH:
            call = self._foreign(func, place)
            if call is not None:
                # a kernel in Python: what it does is seen here again
                with self:
                    return call(*args, **kwargs)
        draws = torch.Tag.nondeterministic_seeded in func.tags
        if draws:
            self._random.check(kwargs.get("generator"), place)
        with below():
            if place is not Place.DEVICE:
                return func(*args, **kwargs)
            try:
                if draws and kwargs.get("generator") is None:
                    with self._random.drawing():
                        return func(*args, **kwargs)
                return precision.call(func, args, kwargs)
            except RuntimeError as error:
                if (asked := _NO_MEMORY.search(str(error))) is None:
                    raise
                # what the host has no memory for no device has either
                raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {asked[1]} bytes.") from error

    @staticmethod
    def _foreign(func: Any, place: Place) -> Callable[..., Any] | None:
        """Return how to call somebody's own operation, None if it is C++ for the CPU; raises Unsupported for CUDA's."""
        name = func._schema.name
        overload = func._schema.overload_name
        full = f"{name}.{overload}" if overload else name
        space, short = full.split("::")
        for key in _KEYS if place is Place.DEVICE else _KEYS[1:]:
            if f"{space}/{short}/{key}" in torch.library._impls:
                target = torch._C.DispatchKey.CUDA if key == "CUDA" else torch._C.DispatchKey.CPU
                keys = torch._C.DispatchKeySet(target)
                return lambda *args, **kwargs: func.redispatch(keys, *args, **kwargs)
        has: Any = torch._C._dispatch_has_kernel_for_dispatch_key
        if place is Place.DEVICE and has(full, "CUDA") and not has(full, "CPU"):
            unsupported(f"torch.ops.{space}.{short}", "a compiled operation for CUDA")
        return None

    def _mark(self, func: Any, args: tuple[Any, ...], given: list[torch.Tensor], result: Any, place: Place) -> None:
        places = self._places
        if place is Place.DEVICE and func._schema.name not in _ANYWHERE:
            for tensor in given:
                # what torch made by itself and now met a tensor of the device is written, or read, there
                if places.of(tensor) is Place.EITHER:
                    places.mark(tensor, place)
        if func._schema.name == "aten::copy_" and len(given) > 1:
            target, source = given[:2]
            if (places.of(target), places.of(source)) == (Place.EITHER, Place.DEVICE):
                # torch made it by the options of a tensor of the device, to gather others in
                places.mark(target, Place.DEVICE)
        if place is Place.HOST:
            return
        before = {torch._C.TensorBase.untyped_storage(tensor)._cdata for tensor in given if _has_storage(tensor)}
        # the sizes of a packed sequence's batches stay on the host
        made = result[:1] if func._schema.name == "aten::_pack_padded_sequence" else (result,)
        for tensor in _tensors(made):
            if _has_storage(tensor) and torch._C.TensorBase.untyped_storage(tensor)._cdata not in before:
                places.mark(tensor, place)


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
