"""A case: one kernel, its operands as bits, and how to run it on a device."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from tests.vgpu.conformance.values import BLOCK, TYPES


@dataclass(frozen=True, eq=False)
class In:
    """An operand: bits, any shape."""

    type: str
    bits: np.ndarray


@dataclass(frozen=True, eq=False)
class Out:
    """A result: a tensor of ``shape``, holding ``bits`` before the launch where they are given, else 0xA5 bytes."""

    type: str
    shape: tuple[int, ...]
    bits: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """``kernel[grid](*operands, **constants)``; operands that are ``Out`` are compared.

    ``predict``: the results as numpy computes them, given what the operands hold before, as numbers; close is enough,
    since only the difference is stored.  ``magnitude``: of a sum, the sum of its terms' magnitudes; without it,
    ``predict`` of the operands' magnitudes.  ``growth``: what no partial result exceeds; without it, ``magnitude``.
    """

    id: str
    kernel: Any
    operands: tuple[In | Out, ...]
    constants: dict[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] = (1,)
    predict: Callable[..., Any] | None = None
    magnitude: Callable[..., Any] | None = None
    growth: Callable[..., Any] | None = None

    @property
    def inputs(self):
        return tuple(operand for operand in self.operands if isinstance(operand, In))

    @property
    def outputs(self):
        return tuple(operand for operand in self.operands if isinstance(operand, Out))

    def digest(self):
        """What was asked: a hash of operands and constants, so that a recording of other inputs is noticed."""
        hashed = hashlib.blake2b(self.id.encode(), digest_size=8)
        for operand in self.operands:
            hashed.update(f"{operand.type} {getattr(operand, 'shape', '')}".encode())
            if operand.bits is not None:
                hashed.update(f"{operand.bits.shape}".encode() + np.ascontiguousarray(operand.bits).tobytes())
        return hashed.hexdigest()

    def run(self, device):
        """Launch once; return the bits of every result."""
        tensors = [tensor_of(operand, device) for operand in self.operands]
        self.kernel[self.grid](*tensors, **self.constants)
        results = [t for t, operand in zip(tensors, self.operands, strict=True) if isinstance(operand, Out)]
        return [bits_of(result) for result in results]


def tensor_of(operand, device):
    dtype, width = TYPES[operand.type]
    bits = operand.bits
    if bits is None:
        bits = np.full(operand.shape, 0xA5, np.uint8) if width == 1 else np.full(operand.shape, 0xA5A5, f"u{width}")
        bits = bits % 2 if operand.type == "int1" else bits
    signed = np.array(bits).view(f"i{width}")
    return torch.from_numpy(signed).to(device).view(dtype)


def bits_of(tensor):
    width = tensor.element_size()
    return tensor.view(getattr(torch, f"int{8 * width}")).cpu().numpy().view(f"u{width}")


def numbers(operand):
    """An operand as numpy numbers; 8- and 16-bit floats as float32."""
    tensor = tensor_of(operand, "cpu")
    if tensor.dtype.is_floating_point and tensor.element_size() < 4:
        tensor = tensor.to(torch.float32)
    return tensor.numpy()


_ALL: dict[str, Case] = {}


def add(case):
    """Register a case; its name must be new."""
    assert case.id not in _ALL, case.id
    _ALL[case.id] = case


def every_case():
    """All cases by name."""
    from tests.vgpu.conformance import (  # noqa: F401  importing registers
        arithmetic,
        blocks,
        casts,
        functions,
        libraries,
        memory,
        products,
        promotions,
    )

    return dict(_ALL)


@triton.jit
def map1(x_ptr, out_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, F(tl.load(x_ptr + lane)))


@triton.jit
def map1_by_float32(x_ptr, out_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lane)
    tl.store(out_ptr + lane, F(x.to(tl.float32)).to(x.dtype))


@triton.jit
def map2(x_ptr, y_ptr, out_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, F(tl.load(x_ptr + lane), tl.load(y_ptr + lane)))


@triton.jit
def map3(x_ptr, y_ptr, z_ptr, out_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, F(tl.load(x_ptr + lane), tl.load(y_ptr + lane), tl.load(z_ptr + lane)))


def elementwise(id, function, type, inputs, out=None, predict=None, kernel=None):
    """Register ``function`` over arrays of bits of ``type``; results are of type ``out``, or of the same."""
    operands = tuple(In(type, bits) for bits in inputs)
    (size,) = inputs[0].shape
    kernel = kernel or (map1, map2, map3)[len(inputs) - 1]
    result = Out(out or type, (size,))
    add(
        Case(
            id,
            kernel,
            (*operands, result),
            {"F": function, "BLOCK": BLOCK},
            (size // BLOCK,),
            predict,
        )
    )
