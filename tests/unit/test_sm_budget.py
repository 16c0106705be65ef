"""SM budgets: each promise holds for ours and is broken by the seed's logic, and what policies do not ask of them.

Those are in `harness.policies.budgets`: how a budget follows, what is refused, what is in force afterwards.
"""

import asyncio
import contextvars
import threading

import pytest

from harness.launch.physical import physical_sms
from harness.launch.sm_budget import (
    current_budget,
    physical_from,
    set_num_sms,
    sm_budget,
    workspace_key,
)
from harness.state import restore, snapshot
from tests.unit.budget_cases import CASES
from tests.unit.budgets import Devices, OurBudgets, SeedBudgets


@pytest.fixture(autouse=True)
def _no_budget_left():
    before = snapshot()
    yield
    restore(before)


@pytest.fixture
def devices():
    """148 SMs on device 0, 78 on device 1."""
    devices = Devices({0: 148, 1: 78})
    with physical_from(devices):
        yield devices


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_it_holds_for_ours(case, devices):
    case(devices, OurBudgets(devices))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_seed_breaks_it(case, devices):
    with pytest.raises(AssertionError):
        case(devices, SeedBudgets(devices))


def test_a_budget_that_another_thread_leaves_stays_and_says_so(devices):
    block, said = sm_budget(2), []
    block.__enter__()

    def leave():
        try:
            block.__exit__(None, None, None)
        except RuntimeError as error:
            said.append(str(error))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert said == [
        "sm_budget on device 0: left in another thread or task than the one that entered it, where launches stay "
        "limited to 146 SMs: leave it there"
    ]
    assert current_budget() == 146


def test_a_device_is_counted_once_a_context(devices):
    for _ in range(3):
        with sm_budget(), sm_budget(device=1):
            pass
    devices.enter_context(0, 96)
    with sm_budget(), sm_budget():
        pass
    assert devices.asked == [0, 1, 0]


def test_a_failed_count_is_not_remembered(devices):
    sms = devices.counts.pop(0)
    with pytest.raises(KeyError), sm_budget():
        pass
    devices.counts[0] = sms
    assert physical_sms(0) == 148


@pytest.mark.parametrize(("device", "target"), [(None, 146), (1, 76), ("cuda:1", 76), ("cuda", 146)])
def test_a_device_can_be_named_in_every_usual_way(devices, device, target):
    with sm_budget(device=device) as sms:
        assert sms == target
        assert current_budget(device) == target
        assert current_budget(0 if target == 76 else 1) is None


def test_a_torch_device_without_a_number_is_the_current_one(devices):
    import torch

    devices.current = 1
    with sm_budget(device=torch.device("cuda")) as sms:
        assert sms == 76


@pytest.mark.parametrize("device", [True, -1, 1.0, "cuda:x", "cuda:", ""])
def test_what_names_no_device_is_rejected(devices, device):
    with pytest.raises((TypeError, ValueError), match="device: want"), sm_budget(device=device):
        pass


def test_another_source_has_its_own_budgets(devices):
    with sm_budget(), physical_from(Devices({0: 8})):
        assert current_budget() is None
        with sm_budget() as sms:
            assert sms == 6


def test_a_thread_starts_without_a_budget_and_can_be_given_its_parents(devices):
    seen = []
    with sm_budget():
        inherited = contextvars.copy_context()

        def look():
            with physical_from(devices):
                seen.append(current_budget(0))

        for run in (look, lambda: inherited.run(look)):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    assert seen == [None, 146]


def test_tasks_that_interleave_are_independent(devices):
    async def task(limit, seen):
        set_num_sms(limit)
        with sm_budget() as sms:
            await asyncio.sleep(0)
            seen.append((sms, current_budget()))
        await asyncio.sleep(0)
        seen.append(current_budget())

    async def both():
        seen = [[], []]
        await asyncio.gather(task(100, seen[0]), task(51, seen[1]))
        return seen

    assert asyncio.run(both()) == [[(100, 100), 100], [(50, 50), 51]]


def test_a_workspace_that_does_not_keeps_its_key(devices):
    outside = workspace_key("mega_moe", 64, uses_sms=False)
    with sm_budget():
        assert workspace_key("mega_moe", 64, uses_sms=False) == outside
    assert workspace_key("mega_moe", 64, uses_sms=False, device=1) != outside
