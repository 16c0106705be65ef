"""Quantised formats decoded from their bits: E2M1, E4M3 and E8M0, every code included.

Grids follow the OCP Microscaling Formats specification 1.0 (E2M1, E8M0) and the OCP 8-bit floating point
specification 1.0 (E4M3).  All functions return float64, in which every finite value is exact.
"""

import math

import torch

MX_GROUP = 32


def _e2m1(code: int) -> float:
    exponent, mantissa = code >> 1 & 0b11, code & 0b1
    size = mantissa * 0.5 if exponent == 0 else (1 + mantissa / 2) * 2.0 ** (exponent - 1)
    return -size if code & 0b1000 else size


def _e4m3(code: int) -> float:
    exponent, mantissa = code >> 3 & 0b1111, code & 0b111
    if exponent == 0b1111 and mantissa == 0b111:
        return math.nan
    size = mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -size if code & 0x80 else size


def _e8m0(code: int) -> float:
    return math.nan if code == 0xFF else 2.0 ** (code - 127)


E2M1 = torch.tensor([_e2m1(code) for code in range(16)], dtype=torch.float64)
E4M3 = torch.tensor([_e4m3(code) for code in range(256)], dtype=torch.float64)
E8M0 = torch.tensor([_e8m0(code) for code in range(256)], dtype=torch.float64)


def decode_e4m3(codes: torch.Tensor) -> torch.Tensor:
    """Return the float64 values of E4M3 ``codes`` (uint8 or ``float8_e4m3fn``, any shape); 0x7F and 0xFF are NaN."""
    return E4M3.to(codes.device)[codes.view(torch.uint8).long()]


def decode_e8m0(codes: torch.Tensor) -> torch.Tensor:
    """Return the float64 values 2**(code - 127) of uint8 or ``float8_e8m0fnu`` ``codes``; 255 is NaN."""
    return E8M0.to(codes.device)[codes.view(torch.uint8).long()]


def decode_scale(scale: torch.Tensor) -> torch.Tensor:
    """Return MX group scales as float64: E8M0 bytes are decoded, wider floats are values already."""
    return decode_e8m0(scale) if scale.element_size() == 1 else scale.double()


def decode_e2m1_pairs(packed: torch.Tensor) -> torch.Tensor:
    """Return ``[..., 2 * n]`` float64 from ``packed [..., n]`` uint8: the low nibble is the even element."""
    pairs = torch.stack((packed & 0xF, packed >> 4), dim=-1)
    return E2M1.to(packed.device)[pairs.flatten(-2).long()]


def apply_scale(values: torch.Tensor, scale: torch.Tensor, group: int) -> torch.Tensor:
    """Return ``values [..., n * group]`` times ``scale [..., n]``, one scale per ``group`` consecutive elements.

    The product is float64 and unrounded, but infinite where the float32 product is: dequantising
    6 * 2**127 overflows on every kernel, so it overflows here.
    """
    product = values * scale.repeat_interleave(group, dim=-1)
    return torch.where(product.float().isinf(), product.float().double(), product)
