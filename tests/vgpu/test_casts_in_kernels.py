"""Casts, copies and masked loads in one-operation kernels on the virtual GPU, over all codes of every type."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import VirtualGPU, numerics, profiles
from tests.vgpu.code_tables import FLOATS, bits, every, held, mismatches, stored

SM120 = profiles.profile("sm_120")
BLOCK = 4096


@triton.jit
def cast_kernel(x_ptr, out_ptr, n, TO: tl.constexpr, ROUNDING: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lane, mask=lane < n)
    tl.store(out_ptr + lane, x.to(TO, fp_downcast_rounding=ROUNDING), mask=lane < n)


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, tl.load(x_ptr + lane, mask=lane < n), mask=lane < n)


@triton.jit
def bitcast_kernel(x_ptr, out_ptr, n, TO: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, tl.load(x_ptr + lane, mask=lane < n).to(TO, bitcast=True), mask=lane < n)


@triton.jit
def e8m0_kernel(scale_ptr, out_ptr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    byte = tl.load(scale_ptr + lane).to(tl.uint8, bitcast=True).to(tl.int32)
    # 2**-127 is not a normal float32: its bits are written out
    bits = tl.where(byte == 0, 0x400000, byte << 23)
    tl.store(out_ptr + lane, bits.to(tl.float32, bitcast=True))


@triton.jit
def mask_kernel(x_ptr, pages_ptr, out_ptr, n, BLOCK: tl.constexpr):
    page = tl.load(pages_ptr + tl.program_id(0))
    lane = tl.arange(0, BLOCK)
    valid = (page >= 0) & (lane < n)
    x = tl.load(x_ptr + page * BLOCK + lane, mask=valid, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + lane, x)


@triton.jit
def integer_other_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, tl.load(x_ptr + lane, mask=lane < 3, other=0))


def run(kernel, x, out, *constants, profile="sm_120"):
    n = x.numel()
    with VirtualGPU(profile=profile) as gpu:
        kernel[(triton.cdiv(n, BLOCK),)](x, out, n, *constants, BLOCK)
    assert gpu.unwritten(out) is None
    assert not gpu.untrusted
    return out


PAIRS = [
    (source, target, None)
    for source in FLOATS
    for target in FLOATS
    if source != target and not (source.startswith("fp8") and target.startswith("fp8"))
] + [("fp32", target, "rtz") for target in ("bf16", "fp16", "fp8e5")]


@pytest.mark.parametrize(("source", "target", "rounding"), PAIRS)
def test_a_cast_over_all_codes_gives_the_bits_of_the_target(source, target, rounding):
    to, dtype, _ = FLOATS[target]
    x = every(source)
    out = run(cast_kernel, x, torch.empty(x.shape, dtype=dtype), to, rounding)
    values = numerics.cast(held(x, source), source, target, SM120, rounding or "rtne")
    actual, expected = bits(out), stored(values, target)
    if target == "fp32":
        # which NaN a widened one becomes shows only to a bitcast
        actual, expected = (np.where(np.isnan(v.view(np.float32)), 0x7FFFFFFF, v) for v in (actual, expected))
    assert mismatches(actual, expected, x) == []


@pytest.mark.parametrize("name", sorted(FLOATS))
def test_a_copy_keeps_every_bit(name):
    x = every(name)
    assert mismatches(bits(run(copy_kernel, x, torch.empty_like(x))), bits(x), x) == []


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8e4nv", "fp8e5"])
def test_bitcasts_both_ways_keep_every_bit(name):
    to, dtype, integer = FLOATS[name]
    x = every(name)
    whole = tl.uint8 if x.element_size() == 1 else tl.int16
    raw = run(bitcast_kernel, x, torch.empty(x.shape, dtype=integer), whole)
    assert mismatches(bits(raw), bits(x), x) == []
    assert mismatches(bits(run(bitcast_kernel, raw, torch.empty(x.shape, dtype=dtype), to)), bits(x), x) == []


@pytest.mark.parametrize("dtype", [torch.float8_e8m0fnu, torch.uint8])
def test_an_e8m0_argument_is_its_byte(dtype):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    out = torch.empty(256)
    with VirtualGPU():
        e8m0_kernel[(1,)](codes.view(dtype), out, 256)
    expected = numerics.decode_e8m0(codes.numpy())
    np.testing.assert_array_equal(out.numpy()[:255], expected[:255])
    assert out[255] == np.inf


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp8e4nv", "fp8e5"])
def test_a_scalar_predicate_and_a_block_make_one_mask(name):
    x = torch.arange(1, 17, dtype=torch.float32).to(FLOATS[name][1])
    pages = torch.tensor([1, -1, 0], dtype=torch.int32)
    out = torch.empty(24, dtype=x.dtype)
    with VirtualGPU():
        mask_kernel[(3,)](x, pages, out, 5, 8)
    wanted = [9, 10, 11, 12, 13, 0, 0, 0] + [0] * 8 + [1, 2, 3, 4, 5, 0, 0, 0]
    expected = torch.tensor(wanted, dtype=torch.float32).to(x.dtype)
    np.testing.assert_array_equal(bits(out), bits(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.uint8])
def test_an_integer_fill_value_becomes_a_number_of_the_type(dtype):
    out = torch.ones(8, dtype=dtype)
    with VirtualGPU():
        integer_other_kernel[(1,)](torch.ones(8, dtype=dtype), out, 8)
    assert out.tolist() == [1] * 3 + [0] * 5
