"""Far pools cost nothing: more of them than the machine has memory, and a process that holds them can still fork."""

import os

import pytest
import torch

from harness.compiling import workers
from harness.strategies.address_space import uncommitted

TEBIBYTE = 2**40


def test_pages_exist_once_they_are_written():
    pool = uncommitted(TEBIBYTE, torch.uint8)
    pool[-1] = 7
    assert (pool.numel(), int(pool[0]), int(pool[TEBIBYTE // 2]), int(pool[-1])) == (TEBIBYTE, 0, 0, 7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
def test_elements_have_the_dtype_that_was_asked_for(dtype):
    assert uncommitted(3, dtype).dtype == dtype
    assert uncommitted(3, dtype).view(torch.uint8).tolist() == [0] * 3 * dtype.itemsize
    assert uncommitted(0, dtype).shape == (0,)


def test_a_process_that_holds_a_tebibyte_of_it_has_workers():
    pool = uncommitted(TEBIBYTE, torch.uint8)
    (ended,) = workers.run([lambda: {"found": int(pool[-1])}], jobs=1, deadline=60)
    assert (ended.how, ended.value) == ("returned", {"found": 0})


def test_a_refused_fork_leaves_no_file_open(monkeypatch):
    def refused():
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "fork", refused)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="Cannot allocate memory"):
        workers.run([dict], jobs=1, deadline=60)
    assert set(os.listdir("/proc/self/fd")) == before
