"""Argument checks shared by the launch functions: every message names the argument, what was wanted and what came."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch


def dtype_name(dtype: torch.dtype) -> str:
    """Return ``bfloat16`` for ``torch.bfloat16``."""
    return str(dtype).removeprefix("torch.")


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def require_tensor(name: str, value: object) -> None:
    """Raise TypeError unless ``value`` is a tensor."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: wanted a tensor, got {type(value).__name__}")


def require_dtype(name: str, tensor: torch.Tensor, *dtypes: torch.dtype) -> None:
    """Raise TypeError unless ``tensor`` is a tensor of one of ``dtypes``."""
    require_tensor(name, tensor)
    if tensor.dtype not in dtypes:
        raise TypeError(f"{name}: wanted {_alternatives([dtype_name(d) for d in dtypes])}, got {tensor.dtype}")


def require_rank(name: str, tensor: torch.Tensor, rank: int, symbols: str = "") -> None:
    """Raise ValueError unless ``tensor`` has ``rank`` dimensions; ``symbols`` (``"[M, K]"``) says what they are."""
    if tensor.dim() != rank:
        raise ValueError(
            f"{name}: wanted {rank} dimensions{f' {symbols}' if symbols else ''}, "
            f"got {tensor.dim()} of shape {list(tensor.shape)}"
        )


def require_shape(name: str, tensor: torch.Tensor, expected: Sequence[int | None], symbols: str = "") -> None:
    """Raise ValueError unless ``tensor`` has the ``expected`` shape; None stands for any size.

    ``symbols`` (``"[E, 2I, K/32]"``) says where the numbers come from.
    """
    require_rank(name, tensor, len(expected), symbols)
    if any(want is not None and want != have for want, have in zip(expected, tensor.shape, strict=True)):
        wanted = "[" + ", ".join("any" if want is None else str(want) for want in expected) + "]"
        raise ValueError(f"{name}: wanted shape {f'{symbols} = ' if symbols else ''}{wanted}, got {list(tensor.shape)}")


def require_multiple(name: str, symbol: str, value: int, multiple: int) -> None:
    """Raise ValueError unless ``value`` (the size called ``symbol``) is a positive multiple of ``multiple``."""
    if not value or value % multiple:
        raise ValueError(f"{name}: wanted {symbol} a positive multiple of {multiple}, got {symbol} = {value}")


def require_stride(name: str, tensor: torch.Tensor, dim: int, expected: int) -> None:
    """Raise ValueError unless ``tensor`` has stride ``expected`` in ``dim``, or at most one element there."""
    if tensor.shape[dim] > 1 and tensor.stride(dim) != expected:
        raise ValueError(
            f"{name}: wanted stride({dim}) = {expected}, got strides {list(tensor.stride())} "
            f"of shape {list(tensor.shape)}"
        )


def require_same_device(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raise ValueError unless all of ``tensors`` (by argument name) are on the first one's device."""
    names = iter(tensors.items())
    first_name, first = next(names)
    for name, tensor in names:
        if tensor.device != first.device:
            raise ValueError(f"{name}: wanted device {first.device} (that of {first_name}), got {tensor.device}")


def require_number(name: str, value: object, *, positive: bool = False) -> float:
    """Return ``value`` as a float.

    Raises TypeError if it is not a real number, ValueError if it is NaN or, with ``positive``, not above zero.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: wanted a number, got {type(value).__name__}")
    if math.isnan(value) or (positive and value <= 0):
        raise ValueError(f"{name}: wanted a number{' > 0' if positive else ''}, got {value}")
    return float(value)


def require_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise ValueError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name}: wanted {_alternatives([repr(choice) for choice in choices])}, got {value!r}")
