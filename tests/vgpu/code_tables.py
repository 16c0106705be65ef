"""All codes of the float types as tensors, and their bits and values, for the tests that run kernels."""

import numpy as np
import torch
import triton.language as tl

from harness.vgpu import numerics

# name: Triton type, torch type, integer type of the same width
FLOATS = {
    "fp32": (tl.float32, torch.float32, torch.int32),
    "bf16": (tl.bfloat16, torch.bfloat16, torch.int16),
    "fp16": (tl.float16, torch.float16, torch.int16),
    "fp8e4nv": (tl.float8e4nv, torch.float8_e4m3fn, torch.uint8),
    "fp8e5": (tl.float8e5, torch.float8_e5m2, torch.uint8),
}


def every(name):
    """All codes of an 8- or 16-bit type; of float32, every upper half with lower halves that decide rounding."""
    if name == "fp32":
        lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001], np.uint32)
        bits = (np.arange(1 << 16, dtype=np.uint32)[:, None] << np.uint32(16) | lower).ravel()
        return torch.from_numpy(bits.view(np.int32)).view(torch.float32)
    width = FLOATS[name][1].itemsize
    codes = np.arange(1 << 8 * width).astype(f"u{width}")
    return torch.from_numpy(codes.view(f"i{width}")).view(FLOATS[name][1])


def bits(tensor):
    width = tensor.element_size()
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[width]).numpy().view(f"u{width}")


def held(tensor, name):
    return tensor.numpy() if name == "fp32" else numerics.decode(bits(tensor), name)


def stored(values, name):
    return values.view(np.uint32) if name == "fp32" else numerics.pack(values, name)


def mismatches(actual, expected, x):
    bad = np.flatnonzero(actual != expected)
    return [(hex(bits(x)[i]), hex(actual[i]), hex(expected[i])) for i in bad[:6]]
