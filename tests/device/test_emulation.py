"""Standing in for another target: its choices, its shared memory, and forms that this GPU cannot compile."""

import pytest
import torch
import triton
import triton.language as tl

from harness.device.capabilities import shared_memory_per_block
from harness.device.targets import target_of
from harness.hardware.emulation import SharedMemoryExceeded, emulating
from harness.hardware.launches import watching
from harness.launch.current import current_target

pytestmark = pytest.mark.cuda


@triton.jit
def _sum_of_rows(x_ptr, y_ptr, rows: tl.constexpr, columns: tl.constexpr):
    row, column = tl.arange(0, rows), tl.arange(0, columns)
    tile = tl.load(x_ptr + row[:, None] * columns + column[None, :])
    # a product of two tiles: both go through shared memory as a whole
    tl.store(y_ptr + row[:, None] * rows + row[None, :], tl.dot(tile, tl.trans(tile)))


def product(device, rows, columns):
    x = torch.ones(rows, columns, dtype=torch.bfloat16, device=device)
    y = torch.empty(rows, rows, dtype=torch.float32, device=device)
    _sum_of_rows[(1,)](x, y, rows, columns)
    return y


def test_a_kernel_that_asks_for_more_shared_memory_is_named_and_not_launched(device):
    smallest = target_of("sm_120")
    limit = shared_memory_per_block(smallest)
    with watching() as seen, emulating(smallest), pytest.raises(SharedMemoryExceeded) as raised:
        product(device, 128, 512)
    assert raised.value.asked > limit == raised.value.limit
    assert f"_sum_of_rows: {raised.value.asked} bytes of shared memory" in str(raised.value)
    assert "sm_120" in str(raised.value)
    assert seen.kernels == 0


def test_a_kernel_that_fits_runs_under_another_targets_name(device):
    with emulating("sm_120"), watching() as seen:
        assert current_target(device).arch == "sm_120"
        assert (product(device, 16, 64) == 64).all()
    assert seen.kernels == 1


def test_a_test_is_about_the_target_that_it_was_collected_for(device, gpu_target):
    assert current_target(device) == gpu_target
