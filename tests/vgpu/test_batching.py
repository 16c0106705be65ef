"""Many programs at once give, bit for bit, what one program at a time gives."""

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import VirtualGPU, launch
from harness.vgpu.programs import Programs, boxes


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, length_ptr, out_ptr, lse_ptr, T: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr
):
    batch, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.minimum(tl.load(length_ptr + batch), T)
    dims, rows = tl.arange(0, D), tl.arange(0, 16)
    here = (batch * tl.num_programs(1) + head) * tl.num_programs(2) + split
    q = tl.load(q_ptr + here * 16 * D + rows[:, None] * D + dims[None, :])
    best = tl.full((16,), -float("inf"), tl.float32)
    total = tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, D), tl.float32)
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < length
        k = tl.load(k_ptr + (batch * T + at[None, :]) * D + dims[:, None], mask=inside[None, :], other=0.0)
        v = tl.load(v_ptr + (batch * T + at[:, None]) * D + dims[None, :], mask=inside[:, None], other=0.0)
        score = tl.where(inside[None, :], tl.dot(q, k), -float("inf"))
        new = tl.maximum(best, tl.max(score, 1))
        p = tl.exp(score - new[:, None])
        scale = tl.exp(best - new)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * scale[:, None])
        best = new
    if length > 0:
        tl.store(out_ptr + here * 16 * D + rows[:, None] * D + dims[None, :], (acc / total[:, None]).to(q.dtype))
        tl.store(lse_ptr + here * 16 + rows, best + tl.log(total))


@triton.jit
def sums_kernel(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr + pid * (M + N + 1) + tl.arange(0, M), tl.sum(x, 1))
    tl.store(out_ptr + pid * (M + N + 1) + M + tl.arange(0, N), tl.sum(x, 0))
    tl.store(out_ptr + pid * (M + N + 1) + M + N, tl.sum(tl.sigmoid(x.to(tl.float32)) * x))


@triton.jit
def ids_kernel(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(out_ptr + (z * ny + y) * nx + x, x + 100 * y + 10000 * z)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_ragged_attention_is_bit_equal(dtype):
    b, h, s, t, d = 3, 2, 2, 70, 32
    torch.manual_seed(0)
    q = torch.randn(b, h, s, 16, d).to(dtype)
    k, v = torch.randn(b, t, d).to(dtype), torch.randn(b, t, d).to(dtype)
    lengths = torch.tensor([70, 0, 33], dtype=torch.int32)
    results = []
    for batch in (True, False):
        out, lse = torch.zeros_like(q), torch.full((b, h, s, 16), -torch.inf)
        with VirtualGPU(batch=batch):
            attention_kernel[(b, h, s)](q, k, v, lengths, out, lse, T=t, D=d, BLOCK=16)
        results.append((out, lse))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    score = torch.einsum("hsrd,td->hsrt", q[2].float(), k[2, :33].float())
    torch.testing.assert_close(results[0][1][2], score.logsumexp(-1), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_sums_are_bit_equal_along_every_axis(dtype):
    x = torch.randn(9, 16, 64).to(dtype)
    results = []
    for batch in (True, False):
        out = torch.zeros(9, 81, dtype=dtype)
        with VirtualGPU(batch=batch):
            sums_kernel[(9,)](x, out, M=16, N=64)
        results.append(out)
    assert torch.equal(*results)
    torch.testing.assert_close(results[0][:, :16].double(), x.double().sum(2), rtol=2e-2, atol=2e-2 * 8)


@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 1, 1), (3, 4, 5), (1, 7, 1), (2, 1, 40)])
@pytest.mark.parametrize("lanes", [1, 7, 64, 1 << 22])
def test_every_program_runs_once_however_the_grid_is_cut(grid, lanes, monkeypatch):
    monkeypatch.setattr(launch, "_LANES", lanes)
    nx, ny, nz = grid
    out = torch.full((nz, ny, nx), -1, dtype=torch.int32)
    for _ in range(2):
        with VirtualGPU() as gpu:
            ids_kernel[grid](out)
    z, y, x = torch.meshgrid(torch.arange(nz), torch.arange(ny), torch.arange(nx), indexing="ij")
    assert torch.equal(out, (x + 100 * y + 10000 * z).int())
    assert gpu.launches[0].programs == nx * ny * nz


@pytest.mark.parametrize("size", [1, 3, 12, 25, 1000])
def test_boxes_cover_the_grid_in_program_order(size):
    grid = (3, 4, 5)
    seen = []
    for programs, _ in boxes(grid, 0, size):
        assert programs.count <= size
        seen += [Programs.single(int(number), grid).at((0, 0, 0)) for number in programs.numbers(grid)]
    assert seen == [(x, y, z) for z in range(5) for y in range(4) for x in range(3)]


def test_a_split_keeps_every_program_and_the_order_of_first_appearance():
    (programs, _), *_ = boxes((3, 4, 1), 0, 100)
    by_row = programs.split((programs.y % 2 == 1).astype(int))
    assert [group.lead for group in by_row] == [(1, 2, 3), (1, 2, 3)]
    by_both = programs.split((programs.x + programs.y) % 3)
    assert [group.count for group in by_both] == [4, 4, 4]
    assert sorted(n for group in by_both for n in group.numbers((3, 4, 1))) == list(range(12))
    assert isinstance(by_both[0], Programs)
