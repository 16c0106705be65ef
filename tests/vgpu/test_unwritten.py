"""Memory from torch.empty counts as unwritten until a kernel or a torch operation writes it."""

import pytest
import torch
import triton
import triton.language as tl

from harness import poison
from harness.vgpu import UnwrittenRead, VirtualGPU


@triton.jit
def rows_kernel(x_ptr, expert_ptr, out_ptr, num_experts, WIDTH: tl.constexpr):
    pid = tl.program_id(0)
    expert = tl.load(expert_ptr + pid)
    if (expert >= 0) & (expert < num_experts):
        offs = tl.arange(0, WIDTH)
        tl.store(out_ptr + pid * WIDTH + offs, 2.0 * tl.load(x_ptr + pid * WIDTH + offs))


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def test_rows_that_the_kernel_skips_are_unwritten():
    x = torch.randn(4, 64)
    experts = torch.tensor([0, -1, 2, 99], dtype=torch.int32)
    with VirtualGPU() as gpu:
        out = torch.empty(4, 64)
        rows_kernel[(4,)](x, experts, out, 4, WIDTH=64)
        found = gpu.unwritten(out)
        assert (found.count, found.total, found.first_index) == (128, 256, (1, 0))
        assert gpu.unwritten(out[0]) is None
        assert gpu.unwritten(out[1:2]).count == 64
        assert gpu.unwritten(out.view(-1, 32)).first_index == (2, 0)
        assert gpu.unwritten(out.t()).count == 128
    assert torch.equal(out[[0, 2]], 2 * x[[0, 2]])


@pytest.mark.parametrize(
    ("pattern", "expected"), [(poison.QUIET, 0.0), (poison.NAN, float("nan")), (poison.HUGE, 3.0e38)]
)
def test_memory_from_empty_holds_the_pattern(pattern, expected):
    with VirtualGPU(fill=pattern):
        new = [torch.empty(3), torch.empty_like(torch.zeros(3)), torch.zeros(1).new_empty(3)]
        new.append(torch.empty_strided((3,), (2,)))
        ids = torch.empty(3, dtype=torch.int32)
        codes = torch.empty(3, dtype=torch.float8_e4m3fn)
        flags = torch.empty(3, dtype=torch.bool)
    for tensor in new:
        torch.testing.assert_close(tensor, torch.full((3,), expected), equal_nan=True)
    assert ids.tolist() == [pattern.index] * 3
    assert codes.view(torch.uint8).tolist() == [pattern.byte] * 3
    assert flags.tolist() == [pattern.byte != 0] * 3


def test_torch_operations_write():
    with VirtualGPU() as gpu:
        filled = torch.empty(8).fill_(1)
        copied = torch.empty(8)
        copied[2:4].copy_(torch.ones(2))
        result = torch.empty(8)
        torch.add(torch.ones(8), 1, out=result)
        assigned = torch.empty(4, 4)
        assigned[:, 1] = 3
    assert gpu.unwritten(filled) is None
    assert gpu.unwritten(copied).count == 6
    assert gpu.unwritten(result) is None
    assert (gpu.unwritten(assigned).count, gpu.unwritten(assigned[:, 1])) == (12, None)


def test_a_copy_of_unwritten_memory_is_unwritten():
    with VirtualGPU() as gpu:
        source = torch.empty(2, 4)
        source[0] = 1
        copy = source.t().contiguous()
        target = torch.zeros(2, 4)
        target.copy_(source)
        wide = source.double()
        computed = source + 1
    assert gpu.unwritten(copy).count == 4
    assert gpu.unwritten(copy[:, 0]) is None
    assert gpu.unwritten(target).first_index == (1, 0)
    assert gpu.unwritten(wide).count == 4
    assert gpu.unwritten(computed) is None


def test_tensors_from_outside_and_new_results_are_written():
    outside = torch.empty(8)
    with VirtualGPU() as gpu:
        inside = torch.zeros(8)
    assert gpu.unwritten(outside) is None
    assert gpu.unwritten(inside) is None


def test_a_read_of_unwritten_bytes_is_recorded_once_per_line():
    with VirtualGPU() as gpu:
        x, out = torch.empty(64), torch.zeros(64)
        x[:40] = 1
        for _ in range(2):
            copy_kernel[(4,)](x, out, 64, BLOCK=16)
    (suspect,) = gpu.suspects
    assert (suspect.kernel, suspect.file, suspect.argument) == ("copy_kernel", __file__, "x_ptr")
    assert (suspect.program, suspect.index, suspect.extent) == ((2, 0, 0), (40,), (64,))
    assert "unwritten bytes read in copy_kernel (test_unwritten.py:" in str(suspect)


def test_a_read_of_unwritten_bytes_faults_when_asked_to():
    with VirtualGPU(unwritten_reads="fault"):
        x, out = torch.empty(64), torch.zeros(64)
        x[:40] = 1
        copy_kernel[(1,)](x, out, 40, BLOCK=64)
        with pytest.raises(UnwrittenRead) as caught:
            copy_kernel[(1,)](x, out, 41, BLOCK=64)
    assert (caught.value.index, caught.value.lanes) == ((40,), 1)


def test_what_one_kernel_wrote_another_may_read():
    x = torch.randn(100)
    with VirtualGPU() as gpu:
        middle, out = torch.empty(100), torch.empty(100)
        copy_kernel[(2,)](x, middle, 100, BLOCK=64)
        copy_kernel[(2,)](middle, out, 100, BLOCK=64)
        assert gpu.suspects == []
        assert gpu.unwritten(out) is None
    assert torch.equal(out, x)
