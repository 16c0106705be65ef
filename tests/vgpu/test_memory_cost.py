"""What checking costs in memory, counted in bytes: flags of what was written, and the journal that undoes."""

from contextlib import contextmanager

import pytest
import torch
import triton
import triton.language as tl

from harness import poison
from harness.vgpu import VirtualGPU, execution
from harness.vgpu.journal import Journal
from tests.benchmarks.memory import transposed

TILE = 64


@triton.jit
def rows_kernel(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        offs = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offs, 2 * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)
        tl.atomic_add(count_ptr, 1)


@contextmanager
def watched_journals():
    """Yield the most bytes that any journal held, in a list of one."""
    most = [0]

    class Watched(Journal):
        def add(self, *change):
            super().add(*change)
            most[0] = max(most[0], self.nbytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "Journal", Watched)
        yield most


@pytest.fixture
def peak():
    with watched_journals() as most:
        yield most


def flags_of(gpu, tensor):
    flags = gpu._shadow.written(tensor)
    return 0 if flags is None else flags.flat.nbytes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.complex128])
def test_flags_take_a_byte_for_a_byte_and_nothing_once_all_is_written(dtype):
    with VirtualGPU() as gpu:
        by_torch, by_part, strided = (torch.empty(64, 32, dtype=dtype) for _ in range(3))
        assert flags_of(gpu, by_torch) == by_torch.nbytes
        by_torch.zero_()
        by_part[:40].zero_()
        assert gpu.unwritten(by_part).count == 24 * 32
        by_part[40:].zero_()
        strided[::2] = 1
        strided[1::2, 3:] = 1
        assert gpu.unwritten(strided).first_index == (1, 0)
        assert gpu.unwritten(strided).count == 32 * 3
        assert flags_of(gpu, strided) == strided.nbytes
        copied = strided.clone()
        assert gpu.unwritten(copied).count == 32 * 3
        strided[1::2, :3] = 1
        assert gpu.unwritten(strided) is None
        assert gpu.unwritten(by_part) is None
        assert [flags_of(gpu, t) for t in (by_torch, by_part, strided)] == [0, 0, 0]


def test_tensors_that_were_never_empty_have_no_flags():
    with VirtualGPU() as gpu:
        made = [torch.zeros(64), torch.randn(64), torch.arange(64), torch.empty(64).fill_(1).clone()]
        assert [flags_of(gpu, t) for t in made] == [0] * 4


def test_a_kernel_that_fills_new_memory_from_end_to_end_needs_next_to_no_journal(peak):
    x, count = torch.randn(1 << 16), torch.zeros(1, dtype=torch.int32)
    with VirtualGPU(fill=poison.NAN) as gpu:
        out = torch.empty(1 << 16)
        rows_kernel[(4,)](x, out, count, x.numel(), BLOCK=2048)
        assert gpu.unwritten(out) is None
    assert torch.equal(out, 2 * x)
    assert peak[0] < out.nbytes // 10


def test_a_journal_of_tiles_holds_no_more_than_places_of_elements(peak):
    x = torch.randn(256, 512)
    with VirtualGPU(fill=poison.NAN) as gpu:
        out = torch.empty(512, 256)
        transposed[(4,)](x, out, 256, 512, TILE=TILE)
        assert gpu.unwritten(out) is None
    assert torch.equal(out, x.t())
    assert peak[0] <= 8 * out.numel() + 1024


def test_beyond_a_limit_fewer_programs_run_at_once_and_each_runs_once(peak, monkeypatch):
    monkeypatch.setattr(execution, "MOST", 1 << 15)
    x, out, count = torch.randn(1 << 16), torch.randn(1 << 16), torch.zeros(1, dtype=torch.int32)
    with VirtualGPU():
        rows_kernel[(16,)](x, out, count, x.numel(), BLOCK=2048)
    assert torch.equal(out, 2 * x)
    assert count.item() == 32
    # the one operation that shows it; all of them together change twice as much
    assert peak[0] == 16 * 2048 * 4
