"""Vector addition, as Triton's first tutorial has it: default device, ``torch.cuda`` questions, a timing."""

import pytest
import torch
import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x + y, mask=mask)


def add(x, y):
    output = torch.empty_like(x)
    assert x.device == DEVICE
    assert y.device == DEVICE
    assert output.device == DEVICE

    def grid(meta):
        return (triton.cdiv(output.numel(), meta["BLOCK_SIZE"]),)

    add_kernel[grid](x, y, output, output.numel(), BLOCK_SIZE=256)
    return output


def test_whole_blocks():
    torch.manual_seed(0)
    x, y = torch.rand(1024, device=DEVICE), torch.rand(1024, device=DEVICE)
    torch.testing.assert_close(add(x, y), x + y)


def test_rest():
    x, y = torch.rand(1000).cuda(), torch.rand(1000).to("cuda")
    actual = add(x, y)
    torch.cuda.synchronize()
    assert actual.is_cuda
    torch.testing.assert_close(actual.cpu(), x.cpu() + y.cpu())


def test_time():
    x = torch.rand(512, device="cuda")
    middle, low, high = triton.testing.do_bench(lambda: add(x, x), quantiles=[0.5, 0.2, 0.8])
    assert 0 < low <= middle <= high
