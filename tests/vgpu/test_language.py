"""Operations of the language against numpy and torch, in batches and one program at a time."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import AssertionFailed, UnsupportedOperation, VirtualGPU

BATCH = pytest.mark.parametrize("batch", [True, False])
SCALE = tl.constexpr(0.5)


@triton.jit
def twice(x):
    return x * 2, x + 1


@triton.jit
def integer_kernel(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    a, b = tl.load(a_ptr + offs), tl.load(b_ptr + offs)
    tl.store(out_ptr + offs, a // b)
    tl.store(out_ptr + N + offs, a % b)
    tl.store(out_ptr + 2 * N + offs, a << (b & 31))
    tl.store(out_ptr + 3 * N + offs, a >> (b & 31))
    tl.store(out_ptr + 4 * N + offs, tl.minimum(a, b) ^ ~tl.maximum(a, b))
    tl.store(out_ptr + 5 * N + offs, tl.where(a < b, -a, tl.abs(b)))
    tl.store(out_ptr + 6 * N + offs, (a * b).to(tl.int8).to(a.dtype))
    tl.store(out_ptr + 7 * N + offs, tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(a.dtype))


@triton.jit
def float_kernel(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    a, b = tl.load(a_ptr + offs), tl.load(b_ptr + offs)
    tl.store(out_ptr + offs, a + b)
    tl.store(out_ptr + N + offs, a * SCALE - b)
    tl.store(out_ptr + 2 * N + offs, tl.clamp(a, -0.5, 0.5))
    tl.store(out_ptr + 3 * N + offs, tl.sigmoid(a.to(tl.float32)))
    tl.store(out_ptr + 4 * N + offs, tl.fma(a, b, a))


@triton.jit
def shape_kernel(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    out = out_ptr + tl.arange(0, M * N)
    tl.store(out, x.T.reshape(M * N))
    low, high = tl.split(tl.reshape(x, (M, N // 2, 2)))
    tl.store(out + M * N, tl.join(high, low).ravel())
    tl.store(out + 2 * M * N, tl.ravel(tl.interleave(low, high)))
    tl.store(out + 3 * M * N, tl.permute(x.reshape(M, 2, N // 2), (1, 0, 2)).reshape([M * N]))
    tl.store(out + 4 * M * N, tl.ravel(tl.flip(x, 1)))
    tl.store(out + 5 * M * N, tl.ravel(tl.sort(x, dim=1, descending=True)))
    index = (tl.arange(0, N)[None, :] * 3) % N + tl.zeros((M, N), tl.int32)
    tl.store(out + 6 * M * N, tl.ravel(tl.gather(x, index, axis=1)))
    both = tl.cat(tl.arange(0, M), tl.arange(0, M) + 100, can_reorder=True)
    tl.store(out_ptr + 7 * M * N + tl.arange(0, 2 * M), both.to(tl.float32))
    tl.store(out + 8 * M * N, tl.broadcast_to(tl.sum(x, axis=1, keep_dims=True), (M, N)).ravel())


@triton.jit
def decode_kernel(x_ptr, out_ptr, N: tl.constexpr):
    offs = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs).to(tl.float32))


@triton.jit
def sugar_kernel(out_ptr, n, flag, missing_ptr, DTYPE: tl.constexpr, FN: tl.constexpr, NAME: tl.constexpr = "sugar"):
    """A docstring."""
    tl.static_assert(NAME == "sugar", "NAME")
    best: tl.float32 = -1e30
    WIDTH: tl.constexpr = 8 if tl.float32 != DTYPE else 4
    a, (b, c) = 1, (2.0, 3)
    for i in tl.static_range(3):
        tl.store(out_ptr + i, WIDTH + i)
    for i in range(5, 2, -1):
        tl.store(out_ptr + i, (i * a).to(DTYPE))
    doubled, plus = FN(n)
    if missing_ptr is None and flag:
        tl.store(out_ptr + 6, doubled + plus * b - c)
    best = tl.maximum(best, tl.cdiv(n, 4).to(tl.float32))
    tl.store(out_ptr + 7, best)
    shape: tl.constexpr = (2, 4)
    total = tl.sum(tl.full(shape, 1, DTYPE))
    assert n > 0, "n"
    tl.device_print("n", n)
    tl.store(out_ptr + 8, total + min(a, 5) + max(b, 7.0) + len(shape))
    tl.store(out_ptr + 9, 1 if 0 < n <= 7 else 0)
    i = 0
    while i < 3 and flag:
        i += 1
    tl.store(out_ptr + 10, i)
    tl.store(out_ptr + 11, tl.program_id(0) + tl.num_programs(0) * (n // 2) ** 1 if False else tl.num_programs(1))


@triton.jit
def pointer_choice_kernel(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    chosen = tl.where(offs % 2 == 0, a_ptr + offs, b_ptr + offs)
    tl.store(out_ptr + offs, tl.load(chosen + 1))
    base = a_ptr if tl.program_id(0) == 0 else b_ptr
    tl.store(out_ptr + N + tl.program_id(0), tl.load(base))


@triton.jit
def pointer_table_kernel(table_ptr, out_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    row = tl.load(table_ptr + pid).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + pid * N + tl.arange(0, N), tl.load(row + tl.arange(0, N)))


@triton.jit
def assert_kernel(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.device_assert(x >= 0, "x is negative")


@triton.jit
def asm_kernel(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    y = tl.inline_asm_elementwise("brev.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(x_ptr + tl.arange(0, N), y)


@BATCH
@pytest.mark.parametrize("unsigned", [False, True])
def test_integer_arithmetic_is_that_of_c(unsigned, batch):
    kind, other = (torch.uint32, np.uint32) if unsigned else (torch.int32, np.int32)
    a = np.array([7, -7, 7, -7, 2**31 - 1, -(2**31), 12345, 0], np.int64).astype(other)
    b = np.array([2, 2, -2, -2, 3, 7, 1000, 5], np.int64).astype(other)
    out = torch.zeros(8, 8, dtype=kind)
    with VirtualGPU(batch=batch):
        integer_kernel[(1,)](torch.from_numpy(a.copy()), torch.from_numpy(b.copy()), out, N=8)
    x, y = [int(v) for v in a], [int(v) for v in b]
    bits = 2**32

    def wrap(v):
        v %= bits
        return v if unsigned or v < bits // 2 else v - bits

    quotient = [abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(x, y, strict=True)]
    rows = [
        quotient,
        [p - q * r for p, q, r in zip(x, y, quotient, strict=True)],
        [p << (q & 31) for p, q in zip(x, y, strict=True)],
        [p >> (q & 31) for p, q in zip(x, y, strict=True)],
        [min(p, q) ^ ~max(p, q) for p, q in zip(x, y, strict=True)],
        [-p if p < q else abs(q) for p, q in zip(x, y, strict=True)],
        [(p * q + 128) % 256 - 128 for p, q in zip(x, y, strict=True)],
        [(p % bits) * (q % bits) >> 32 for p, q in zip(x, y, strict=True)],
    ]
    assert out.tolist() == [[wrap(v) for v in row] for row in rows]


@BATCH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_floats_round_after_every_operation(dtype, batch):
    a, b = torch.randn(64).to(dtype), torch.randn(64).to(dtype)
    out = torch.zeros(5, 64, dtype=dtype)
    with VirtualGPU(batch=batch):
        float_kernel[(1,)](a, b, out, N=64)
    fused = (a.double() * b.double() + a.double()).to(dtype)
    assert torch.equal(out[0], a + b)
    assert torch.equal(out[1], a * 0.5 - b)
    assert torch.equal(out[2], a.clamp(-0.5, 0.5))
    torch.testing.assert_close(out[3], a.float().sigmoid().to(dtype))
    assert torch.equal(out[4], fused)


@BATCH
def test_shapes_move_elements_where_they_belong(batch):
    m, n = 4, 8
    x, out = torch.randn(m, n), torch.zeros(9, m * n)
    with VirtualGPU(batch=batch):
        shape_kernel[(1,)](x, out, M=m, N=n)
    even, odd = x[:, ::2], x[:, 1::2]
    assert torch.equal(out[0], x.t().reshape(-1))
    assert torch.equal(out[1], torch.stack([odd, even], -1).reshape(-1))
    assert torch.equal(out[2], x.reshape(-1))
    assert torch.equal(out[3], x.view(m, 2, n // 2).permute(1, 0, 2).reshape(-1))
    assert torch.equal(out[4], x.flip(1).reshape(-1))
    assert torch.equal(out[5], x.sort(1, descending=True).values.reshape(-1))
    assert torch.equal(out[6], x[:, torch.arange(n) * 3 % n].reshape(-1))
    assert out[7, : 2 * m].tolist() == [0, 1, 2, 3, 100, 101, 102, 103]
    torch.testing.assert_close(out[8], x.sum(1, keepdim=True).expand(m, n).reshape(-1))


@BATCH
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_every_fp8_code_loads_as_torch_decodes_it(name, batch):
    target = "gfx942" if name.endswith("fnuz") else "sm_120"
    codes = torch.arange(256, dtype=torch.uint8).view(getattr(torch, name))
    out = torch.zeros(256)
    with VirtualGPU(batch=batch, profile=target):
        decode_kernel[(4,)](codes, out, N=64)
    torch.testing.assert_close(out, codes.float(), rtol=0, atol=0, equal_nan=True)


def test_e8m0_tensors_are_passed_as_bytes():
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    out = torch.zeros(256)
    with VirtualGPU():
        decode_kernel[(4,)](codes, out, N=64)
    assert torch.equal(out, torch.arange(256.0))


@BATCH
def test_the_language_around_the_operations(batch):
    out = torch.zeros(12)
    with VirtualGPU(batch=batch):
        sugar_kernel[(1, 2)](out, 7, True, None, DTYPE=tl.float32, FN=twice)
    assert out.tolist() == [4, 5, 6, 3, 4, 5, 27, 2, 18, 1, 3, 2]


@BATCH
def test_a_block_may_point_into_two_arguments(batch):
    a, b, out = torch.arange(17.0), torch.arange(17.0) + 100, torch.zeros(18)
    with VirtualGPU(batch=batch):
        pointer_choice_kernel[(2,)](a, b, out, N=16)
    expected = torch.where(torch.arange(16) % 2 == 0, a[1:], b[1:])
    assert torch.equal(out[:16], expected)
    assert out[16:].tolist() == [0, 100]


@BATCH
def test_pointers_loaded_from_memory_find_their_tensor(batch):
    with VirtualGPU(batch=batch):
        rows = [torch.full((16,), float(i)) for i in range(3)]
        table = torch.tensor([row.data_ptr() for row in rows], dtype=torch.int64)
        out = torch.zeros(3, 16)
        pointer_table_kernel[(3,)](table, out, N=16)
    assert torch.equal(out, torch.stack(rows))


@BATCH
def test_a_device_assertion_that_fails_is_a_fault(batch):
    x = torch.ones(4, 8)
    with VirtualGPU(batch=batch):
        assert_kernel[(4,)](x, N=8)
        x[2, 3] = -1
        with pytest.raises(AssertionFailed, match="x is negative") as caught:
            assert_kernel[(4,)](x, N=8)
    assert (caught.value.program, caught.value.lanes) == ((2, 0, 0), 1)


def test_an_operation_that_is_not_modelled_is_named():
    said = r"operation inline_asm\(brev.b32 \$0, \$1\) in asm_kernel"
    with VirtualGPU() as gpu, pytest.raises(UnsupportedOperation, match=said):
        asm_kernel[(1,)](torch.zeros(8, dtype=torch.int32), N=8)
    assert gpu.untrusted == {"inline_asm(brev.b32 $0, $1)"}


def test_closures_and_keyword_arguments_reach_the_kernel():
    offset = tl.constexpr(5)

    @triton.jit
    def local_kernel(out_ptr, value, N: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, N), value + offset)

    out = torch.zeros(8)
    with VirtualGPU():
        local_kernel[(1,)](N=8, value=np.float32(1.5), out_ptr=out)
    assert out.eq(6.5).all()


def test_an_error_of_the_language_says_where():
    @triton.jit
    def wrong_kernel(out_ptr, N: tl.constexpr):
        tl.store(out_ptr, tl.arange(0, N))

    with VirtualGPU(), pytest.raises(ValueError, match="block type") as caught:
        wrong_kernel[(1,)](torch.zeros(8), N=8)
    assert "wrong_kernel (test_language.py:" in caught.value.__notes__[0]
