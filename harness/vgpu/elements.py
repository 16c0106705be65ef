"""Element types of the virtual GPU, as a compiler sees them: integers carry no sign, operations do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Scalar:
    """A number type.  ``held``: numpy type of values in flight; ``stored``: numpy type of one element in memory.

    8- and 16-bit floats are held as float32 and rounded after every operation.
    """

    name: str
    bits: int
    floating: bool
    held: np.dtype[Any]
    stored: np.dtype[Any]

    @cached_property
    def bytes(self) -> int:
        """Size of one element in memory; int1 takes a byte."""
        return max(1, self.bits // 8)

    @cached_property
    def narrow(self) -> bool:
        """Whether values are held in a wider type than they have."""
        return self.floating and self.bits < 32

    @property
    def scalar(self) -> Scalar:
        """The element type of a block of this type: itself."""
        return self


def _integer(bits: int) -> Scalar:
    held = np.dtype(np.bool_) if bits == 1 else np.dtype(f"int{bits}")
    return Scalar(f"int{bits}", bits, False, held, np.dtype(np.uint8) if bits == 1 else held)


def _floating(name: str, bits: int) -> Scalar:
    if bits < 32:
        return Scalar(name, bits, True, np.dtype(np.float32), np.dtype(f"uint{bits}"))
    return Scalar(name, bits, True, np.dtype(f"float{bits}"), np.dtype(f"float{bits}"))


INT1, INT8, INT16, INT32, INT64 = (_integer(bits) for bits in (1, 8, 16, 32, 64))
FP16, BF16 = _floating("fp16", 16), _floating("bf16", 16)
FP32, FP64 = _floating("fp32", 32), _floating("fp64", 64)
FP8 = {name: _floating(name, 8) for name in ("fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15")}
VOID = Scalar("void", 0, False, np.dtype(np.bool_), np.dtype(np.uint8))

#: By Triton's names, unsigned ones included: uint32 and int32 are one type.
SCALARS: dict[str, Scalar] = {
    **{t.name: t for t in (INT1, INT8, INT16, INT32, INT64, FP16, BF16, FP32, FP64, VOID)},
    **{f"u{t.name}": t for t in (INT8, INT16, INT32, INT64)},
    **FP8,
}


_ADDRESS = np.dtype(np.int64)


@dataclass(frozen=True)
class Pointer:
    """A pointer to elements of one type; 64 bits, held as a byte offset into its region."""

    element: Scalar | Pointer
    bits: int = 64
    floating: bool = False
    narrow: bool = False
    bytes: int = 8
    held: np.dtype[Any] = _ADDRESS
    stored: np.dtype[Any] = _ADDRESS

    @property
    def scalar(self) -> Pointer:
        """The element type of a block of this type: itself."""
        return self


Element = Scalar | Pointer


@dataclass(frozen=True)
class Block:
    """A tensor type: element type and static shape."""

    element: Element
    shape: tuple[int, ...]

    @property
    def scalar(self) -> Element:
        """The element type."""
        return self.element


Type = Element | Block

_UNSIGNED = {np.dtype(f"int{b}"): np.dtype(f"uint{b}") for b in (8, 16, 32, 64)}


def unsigned(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """View signless integer data as unsigned numbers, same bits."""
    other = _UNSIGNED.get(data.dtype)
    return data if other is None else data.view(other)


def signless(data: np.ndarray[Any, Any], like: Element) -> np.ndarray[Any, Any]:
    """View unsigned results as data of type ``like``, same bits."""
    return data if data.dtype == like.held else data.view(like.held)
