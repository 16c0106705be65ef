"""A kernel that is launched where its tensors' device need not be current breaks a promise, seen without a device."""

import threading

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import strategies as st

from harness.contract import Contract, Implementation
from harness.guards import Guards, _thread
from harness.run import check_case
from harness.tolerance import Exact

X = torch.zeros(1)


@triton.jit
def _ones(out_ptr, config):
    tl.store(out_ptr + tl.arange(0, 16), 1.0)


_tuned = triton.autotune([triton.Config({}, num_warps=warps) for warps in (1, 2)], key=["config"])(_ones)


def guarded(x):
    out = torch.empty_like(x)
    with torch.cuda.device_of(x):
        _ones[(1,)](out, 0)
    return out


def unguarded(x):
    out = torch.empty_like(x)
    _ones[(1,)](out, 0)
    return out


def too_late(x):
    """The first of two launches has the device, the second has not."""
    out = guarded(x)
    _ones[(1,)](out, 0)
    return out


def refused_within(x):
    """A block that an exception leaves has ended."""
    try:
        with torch.cuda.device_of(x):
            raise ArithmeticError
    except ArithmeticError:
        return unguarded(x)


def tuned(x):
    out = torch.empty_like(x)
    _tuned[(1,)](out, 0)
    return out


def found(launch, *, any_device=True):
    """Return the checks that fail, as (check, number of the configuration), and those that ran."""
    contract = Contract(
        name="ones", cases=lambda: st.just(16), any_device=any_device,
        inputs=lambda case, device, poison: {"x": torch.zeros(case, device=device)},
        oracle=lambda x: {"out": torch.ones_like(x)}, tolerance={"out": Exact()},
    )  # fmt: skip
    result = check_case(contract, Implementation(contract="ones", name="one", launch=launch), 16)
    return [(violation.check, violation.config) for violation in result.violations], result.checks_run


@pytest.mark.parametrize("launch", [unguarded, too_late, refused_within])
def test_a_launch_outside_of_a_block_of_its_tensors_breaks_the_promise(launch):
    failed, ran = found(launch)
    assert failed == [("device", 0)]
    assert "device" in ran


def test_every_configuration_is_looked_at():
    assert found(tuned)[0] == [("device", 0), ("device", 1)]


def test_a_launch_inside_keeps_it():
    failed, ran = found(guarded)
    assert failed == []
    assert "device" in ran


def test_without_the_promise_nobody_looks():
    failed, ran = found(unguarded, any_device=False)
    assert failed == []
    assert "device" not in ran


def test_the_message_names_the_kernel_and_what_to_write():
    contract = Contract(
        name="ones", cases=lambda: st.just(16), any_device=True,
        inputs=lambda case, device, poison: {"x": torch.zeros(case, device=device)},
        oracle=lambda x: {"out": torch.ones_like(x)}, tolerance={"out": Exact()},
    )  # fmt: skip
    implementation = Implementation(contract="ones", name="one", launch=unguarded)
    (violation,) = check_case(contract, implementation, 16, only="device").violations
    assert violation.message.startswith("_ones launched on the current device")
    assert "torch.cuda.device_of(tensor)" in violation.message


def test_the_innermost_block_counts():
    with Guards() as guards:
        assert not guards.inside
        with torch.cuda.device_of(X):
            assert guards.inside
            with torch.cuda.device(-1):
                assert guards.inside
            assert guards.inside
        assert not guards.inside


def test_a_block_of_another_device_counts_for_none_of_these_tensors():
    with Guards() as guards, torch.cuda.device_of(X):
        # such a block needs a device: what one looks like from here
        _thread.blocks.append(0)
        assert not guards.inside
        _thread.blocks.pop()
        assert guards.inside


def test_a_block_around_it_says_nothing_about_what_is_inside():
    with Guards(), torch.cuda.device_of(X), Guards() as inner:
        assert not inner.inside
        with torch.cuda.device_of(X):
            assert inner.inside
        assert not inner.inside


def test_blocks_of_other_threads_are_theirs():
    seen = []
    entered, leave = threading.Event(), threading.Event()

    def other():
        with torch.cuda.device_of(X):
            entered.set()
            leave.wait(10)

    with Guards() as guards:
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(10)
        seen.append(guards.inside)
        leave.set()
        thread.join()
    assert seen == [False]


def test_torch_is_left_as_it_was():
    before = dict(vars(torch.cuda.device))
    with Guards(), Guards():
        assert vars(torch.cuda.device)["__enter__"] is not before["__enter__"]
    assert dict(vars(torch.cuda.device)) == before
    with pytest.raises(ArithmeticError), Guards():
        raise ArithmeticError
    assert dict(vars(torch.cuda.device)) == before
