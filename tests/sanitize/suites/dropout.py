"""Dropout by mask and by seed, as Triton's fourth tutorial has it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _dropout(x_ptr, x_keep_ptr, output_ptr, n_elements, p, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    x_keep = tl.load(x_keep_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, tl.where(x_keep, x / (1 - p), 0.0), mask=mask)


@triton.jit
def _seeded_dropout(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    x_keep = tl.rand(seed, offsets) > p
    tl.store(output_ptr + offsets, tl.where(x_keep, x / (1 - p), 0.0), mask=mask)


def seeded_dropout(x, p, seed):
    output = torch.empty_like(x)
    assert x.is_contiguous()
    n_elements = x.numel()
    _seeded_dropout[lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)](
        x, output, n_elements, p, seed, BLOCK_SIZE=64
    )
    return output


def test_mask():
    x = torch.randn(size=(150,), device="cuda")
    p = 0.5
    x_keep = (torch.rand(size=(150,), device="cuda") > p).to(torch.int32)
    output = torch.empty_like(x)
    _dropout[(3,)](x, x_keep, output, x.numel(), p, BLOCK_SIZE=64)
    torch.testing.assert_close(output, torch.where(x_keep.bool(), x / (1 - p), 0.0))


def test_seed_decides():
    x = torch.randn(size=(1000,), device="cuda")
    first, again, other = (seeded_dropout(x, p=0.5, seed=seed) for seed in (123, 123, 512))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert 350 < int((first == 0).sum()) < 650
