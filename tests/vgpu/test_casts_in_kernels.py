"""One-operation kernels on the virtual GPU over all codes: the numerics as a kernel sees them, on every Triton."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import VirtualGPU, numerics, profiles

SM120 = profiles.profile("sm_120")
TRITON = tuple(int(part) for part in triton.__version__.split(".")[:2])
BLOCK = 4096
FLOATS = {
    "fp32": (tl.float32, torch.float32, torch.int32),
    "bf16": (tl.bfloat16, torch.bfloat16, torch.int16),
    "fp16": (tl.float16, torch.float16, torch.int16),
    "fp8e4nv": (tl.float8e4nv, torch.float8_e4m3fn, torch.uint8),
    "fp8e5": (tl.float8e5, torch.float8_e5m2, torch.uint8),
}


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
def arithmetic_kernel(x_ptr, y_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lane, mask=lane < n)
    y = tl.load(y_ptr + lane, mask=lane < n)
    if OP == "add":
        z = x + y
    elif OP == "sub":
        z = x - y
    elif OP == "mul":
        z = x * y
    elif OP == "div":
        z = x / y
    elif OP == "max":
        z = tl.maximum(x, y)
    elif OP == "where":
        z = tl.where(x < y, x, y)
    else:
        z = -x
    tl.store(out_ptr + lane, z, mask=lane < n)


@triton.jit
def e8m0_kernel(scale_ptr, out_ptr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    byte = tl.load(scale_ptr + lane).to(tl.uint8, bitcast=True).to(tl.int32)
    # 2**-127 is not a normal float32: its bits are written out
    bits = tl.where(byte == 0, 0x400000, byte << 23)
    tl.store(out_ptr + lane, bits.to(tl.float32, bitcast=True))


@triton.jit
def dot_kernel(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


@triton.jit
def sum_kernel(x_ptr, out_ptr, N: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * N + tl.arange(0, N)), axis=0))


@triton.jit
def mask_kernel(x_ptr, pages_ptr, out_ptr, n, BLOCK: tl.constexpr):
    page = tl.load(pages_ptr + tl.program_id(0))
    lane = tl.arange(0, BLOCK)
    valid = (page >= 0) & (lane < n)
    x = tl.load(x_ptr + page * BLOCK + lane, mask=valid, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + lane, x)


@triton.jit
def atomic_kernel(acc_ptr, x_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + lane)
    if OP == "add":
        tl.atomic_add(acc_ptr + lane % 4, x)
    elif OP == "max":
        tl.atomic_max(acc_ptr + lane % 4, x)
    elif OP == "min":
        tl.atomic_min(acc_ptr + lane % 4, x)
    else:
        tl.atomic_or(acc_ptr + lane % 4, x)


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


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "max", "where", "neg"])
@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_narrow_arithmetic_rounds_once_after_every_operation(name, op):
    x = every(name)
    y = x[torch.randperm(x.numel(), generator=torch.Generator().manual_seed(0))]
    out = torch.empty_like(x)
    with VirtualGPU() as gpu:
        arithmetic_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), op, BLOCK)
    assert not gpu.untrusted
    a, b = held(x, name).astype(np.float32), held(y, name)
    with np.errstate(all="ignore"):
        exact = {
            "add": lambda: a + b,
            "sub": lambda: a - b,
            "mul": lambda: a * b,
            "div": lambda: a / b,
            "max": lambda: numerics.maximum(a, b, propagate_nan=False),
            "where": lambda: np.where(a < b, a, b),
            # a subtraction from zero up to Triton 3.7, so that -(+0) is +0; a sign flip from 3.8 on
            "neg": lambda: np.float32(0) - a if TRITON < (3, 8) else -a,
        }[op]()
    expected = numerics.round_to(exact, name, SM120)
    actual = held(out, name)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    number = ~np.isnan(expected)
    assert mismatches(bits(out)[number], stored(expected, name)[number], x[torch.from_numpy(number)]) == []


@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("name", ["fp8e4nv", "fp8e5"])
def test_bytes_widened_to_float32_compute_exactly(name, op):
    x = every(name).repeat_interleave(256)
    y = every(name).repeat(256)
    wide_x, wide_y = torch.empty(x.shape), torch.empty(y.shape)
    out = torch.empty(x.shape)
    run(cast_kernel, x, wide_x, tl.float32, None)
    run(cast_kernel, y, wide_y, tl.float32, None)
    with VirtualGPU():
        arithmetic_kernel[(triton.cdiv(x.numel(), BLOCK),)](wide_x, wide_y, out, x.numel(), op, BLOCK)
    a, b = held(x, name), held(y, name)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out.numpy(), a + b if op == "add" else a * b)


@pytest.mark.parametrize("dtype", [torch.float8_e8m0fnu, torch.uint8])
def test_an_e8m0_argument_is_its_byte(dtype):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    out = torch.empty(256)
    with VirtualGPU():
        e8m0_kernel[(1,)](codes.view(dtype), out, 256)
    expected = numerics.decode_e8m0(codes.numpy())
    np.testing.assert_array_equal(out.numpy()[:255], expected[:255])
    assert out[255] == np.inf


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8e4nv", "fp8e5"])
def test_dot_multiplies_values_not_bits(name):
    rng = np.random.default_rng(0)
    a, b = (torch.from_numpy(rng.integers(-3, 4, (32, 32)).astype(np.float32)) for _ in "ab")
    out = torch.empty(32, 32)
    with VirtualGPU() as gpu:
        dot_kernel[(1,)](a.to(FLOATS[name][1]), b.to(FLOATS[name][1]), out, 32)
    assert not gpu.untrusted
    np.testing.assert_array_equal(out.numpy(), a.numpy() @ b.numpy())


def test_dot_of_float32_is_tf32_by_default_on_nvidia_only():
    a = torch.eye(32) * (1 + 2.0**-10 + 2.0**-11)
    out = torch.empty(32, 32)
    for name, expected in (("sm_120", 1 + 2.0**-10), ("gfx950", 1 + 2.0**-10 + 2.0**-11)):
        with VirtualGPU(profile=name):
            dot_kernel[(1,)](a, torch.eye(32), out, 32)
        assert out[0, 0] == expected, name


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_a_narrow_sum_adds_values_and_rounds(name):
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 3, (4, 64)).astype(np.float32))
    x[3, :] = 1000
    out = torch.empty(4, dtype=FLOATS[name][1])
    with VirtualGPU() as gpu:
        sum_kernel[(4,)](x.to(FLOATS[name][1]), out, 64)
    assert not gpu.untrusted
    assert out[:3].tolist() == x[:3].sum(1).tolist()
    # 64 thousands: representable in both, and far below if bits were added
    assert out[3] == 64000


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


def test_an_integer_fill_value_is_accepted_where_the_compiler_accepts_it():
    for dtype in (torch.float32, torch.bfloat16, torch.uint8):
        out = torch.ones(8, dtype=dtype)
        with VirtualGPU():
            integer_other_kernel[(1,)](torch.ones(8, dtype=dtype), out, 8)
        assert out.tolist() == [1] * 3 + [0] * 5
    # Triton 3.7 to 3.9 compile no cast of an integer to 8-bit floats
    x = torch.ones(8).to(torch.float8_e4m3fn)
    with VirtualGPU(), pytest.raises(AssertionError, match="cannot cast int32"):
        integer_other_kernel[(1,)](x, torch.empty_like(x), 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64])
def test_atomic_add_counts_every_lane_of_every_program(dtype):
    x = torch.ones(64, dtype=dtype) * 3
    acc = torch.zeros(4, dtype=dtype)
    with VirtualGPU() as gpu:
        atomic_kernel[(4,)](acc, x, "add", 16)
    assert not gpu.untrusted
    assert acc.tolist() == [48] * 4


def test_a_bfloat16_atomic_add_rounds_at_every_step():
    acc = torch.full((4,), 256, dtype=torch.bfloat16)
    with VirtualGPU():
        atomic_kernel[(4,)](acc, torch.ones(64, dtype=torch.bfloat16), "add", 16)
    # 256 + 1 is a tie that rounds back to 256, sixteen times
    assert acc.tolist() == [256] * 4


@pytest.mark.parametrize(("op", "expected"), [("max", [7] * 4), ("min", [-8] * 4), ("or", [-1] * 4)])
def test_integer_atomics_combine_every_lane(op, expected):
    x = torch.arange(-8, 8, dtype=torch.int32).repeat_interleave(4)
    acc = torch.zeros(4, dtype=torch.int32)
    with VirtualGPU():
        atomic_kernel[(4,)](acc, x, op, 16)
    assert acc.tolist() == expected


def test_a_float_atomic_maximum_compares_numbers():
    x = torch.tensor([-1.5, 2.5, -0.0, 1.0] * 4).repeat_interleave(4)
    acc = torch.full((4,), -10.0)
    with VirtualGPU():
        atomic_kernel[(4,)](acc, x, "max", 16)
    assert acc.tolist() == [2.5] * 4
