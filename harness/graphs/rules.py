"""Which torch operations cannot be in a CUDA graph, by what they do on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from harness.graphs.findings import Rule

Where = Callable[[torch.Tensor], bool]

_CHECKS = "looks on the host whether its arguments are allowed"
_SOLVES = "is computed with the host's help"
#: Operations that hand the host a value, whatever their arguments.
_WAITS = {
    "aten::_local_scalar_dense": "reads a value of the device (item(), bool(), int(), float(), or as an index)",
    "aten::allclose": "compares tensors of the device on the host (torch.allclose)",
    "aten::_linalg_check_errors": "looks on the host whether a factorisation failed (its *_ex form does not)",
    "aten::cholesky": "looks on the host whether a factorisation failed (torch.linalg.cholesky_ex does not)",
    "aten::_linalg_svd": f"a singular value decomposition {_SOLVES}",
    "aten::linalg_pinv": f"a pseudoinverse {_SOLVES}",
    "aten::_linalg_eigh": f"an eigenvalue decomposition {_SOLVES}",
    "aten::linalg_eig": f"an eigenvalue decomposition {_SOLVES}",
    "aten::linalg_eigvals": f"an eigenvalue decomposition {_SOLVES}",
    "aten::_linalg_eigvals": f"an eigenvalue decomposition {_SOLVES}",
    "aten::linalg_matrix_exp": f"matrix_exp {_SOLVES}",
}
_INDEXING = frozenset(("aten::index", "aten::_unsafe_index"))
_WRITING = frozenset(
    ("aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put")
)  # fmt: skip
_COPIES = frozenset(("aten::copy_", "aten::_copy_from", "aten::_foreach_copy_"))
_MASKS = (torch.bool, torch.uint8)
#: torch's own: from so many times a power of the number of elements on, isin sorts.
_ISIN_TIMES, _ISIN_POWER = 10, 0.145

#: What a copy to the host means, said wherever one is found.
TO_HOST = (
    "copies a tensor of the device to the host: the host waits for the device, or with non_blocking reads what no "
    "replay has written yet"
)


def broken(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], on_device: Where, on_host: Where
) -> tuple[Rule, str] | None:
    """Return which rule one operation breaks and how, or None.

    ``on_device`` and ``on_host`` tell where a tensor is; torch's own, made inside of an operation, are neither.
    """
    name = func._schema.name
    given = list(tensors_of((*args, *kwargs.values())))
    if not any(on_device(tensor) for tensor in given):
        # how torch asks inside of an operation, torch.cov for one, whether a number of its own on the device is true
        if name == "aten::equal" and not any(on_host(tensor) for tensor in given):
            return "waits", "compares numbers of the device on the host: the host waits for the device"
        return None
    waits = _WAITS.get(name) or _waits_for(func, name, args, kwargs, on_device)
    if waits:
        return "waits", f"{waits}: the host waits for the device"
    if name in _INDEXING or name in _WRITING:
        return _indexed(name, args, on_device)
    if name in _COPIES:
        return _copied(args, on_device, on_host)
    # repeat_interleave of numbers of times may be told the sum of them
    if torch.Tag.dynamic_output_shape in func.tags and kwargs.get("output_size") is None:
        short = name.removeprefix("aten::").strip("_").rstrip("2")
        return "shape", f"{short} gives a tensor whose shape depends on the data: the host waits for the device"
    return None


def _waits_for(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], on_device: Where) -> str | None:
    """Return what the host waits for in an operation that waits for some arguments only.

    Each was tried on an H200 with torch 2.11, and tests/unit/capture_probes.py says how it came out.
    """
    named = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs

    def is_read(argument: str) -> bool:
        return isinstance(named.get(argument), torch.Tensor) and on_device(named[argument])

    match name.removeprefix("aten::").rstrip("_"):
        case "equal" if _may_be_equal(*args[:2]):
            return "compares tensors of the device on the host (torch.equal)"
        case "masked_fill" | "index_fill" if is_read("value"):
            return "reads the value to fill in, a tensor of the device"
        case "linspace" | "logspace" if is_read("start") or is_read("end"):
            return "reads its ends, tensors of the device"
        case "histc" if named.get("min", 0) == named.get("max", 0):
            return "looks for the range of the values (histc without min and max)"
        case "searchsorted" if is_read("sorter"):
            return f"searchsorted with a sorter {_CHECKS}"
        case "normal" if is_read("std"):
            return f"normal with a tensor of deviations {_CHECKS}"
        case "segment_reduce" if not named.get("unsafe", False):
            return f"segment_reduce without unsafe=True {_CHECKS}"
        case "isin" if _isin_sorts(named):
            return "isin of this many elements looks for the different ones"
    return None


def _may_be_equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether ``torch.equal`` has to look at the values."""
    same = first.data_ptr() == second.data_ptr() and first.stride() == second.stride()
    return first.shape == second.shape and first.numel() > 0 and not same


def _isin_sorts(named: dict[str, Any]) -> bool:
    elements, among = named.get("elements"), named.get("test_elements")
    if not isinstance(elements, torch.Tensor) or not isinstance(among, torch.Tensor) or named.get("assume_unique"):
        return False
    return bool(among.numel() >= _ISIN_TIMES * elements.numel() ** _ISIN_POWER)


def _indexed(name: str, args: tuple[Any, ...], on_device: Where) -> tuple[Rule, str] | None:
    indices = list(tensors_of(args[1:2]))
    masked = any(index.dtype in _MASKS for index in indices)
    if masked and name in _INDEXING:
        return "shape", "a mask as an index gives a tensor whose shape depends on the data: the host waits"
    # a number of the host's is filled in where the mask is set, without counting
    if masked and (args[2].numel() != 1 or on_device(args[2])):
        return "shape", "assigns a tensor where a mask is set: the host waits for the number of places"
    if on_device(args[0]) and not all(on_device(index) for index in indices):
        return "copies", "an index that is a list, an array or a tensor of the host's is copied from pageable memory"
    return None


def _copied(args: tuple[Any, ...], on_device: Where, on_host: Where) -> tuple[Rule, str] | None:
    targets, sources = (list(tensors_of((value,))) for value in args[:2])
    for target, source in zip(targets, sources, strict=False):
        if on_device(source) and on_host(target):
            return "waits", TO_HOST
        if on_device(target) and on_host(source):
            return "copies", "copies memory of the host to the device: a replay reads what is there then"
    return None


def tensors_of(values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among ``values``, those in lists and tuples too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_of(value)
