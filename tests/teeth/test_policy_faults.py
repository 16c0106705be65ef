"""Faults planted in how policies are asked, and in each that they are about, are killed by the test they name."""

from contextvars import copy_context

import pytest

from harness import policies
from harness.mutation.install import installed
from harness.run import check_policies
from tests.bugs.running import Made
from tests.teeth.swapping import swapped
from tests.unit import test_policies

RUN = "harness.run"
GRIDS, BUDGET = "harness/launch/grids.py", "harness/launch/sm_budget.py"
BARRIER = "harness/launch/grid_barrier.py"

FAULTS = {
    "what is wrong is passed over": (
        RUN,
        "return next(iter(policy.right()), None)",
        "return next(iter([policy.right()][:0]), None)",
        test_policies.test_the_first_thing_that_is_wrong_is_told_and_what_raises_is_wrong,
    ),
    "what a policy sets stays": (
        RUN,
        "contextvars.copy_context().run(_first_wrong, policy)",
        "_first_wrong(policy)",
        test_policies.test_what_a_policy_sets_is_nobody_elses,
    ),
}
_ALLOCATED = (
    "table[key] = torch.zeros(_WORDS, dtype=torch.int32, device=device) "
    'if device.type == "cuda": '
    'table.setdefault(_key(index, "capture"), torch.zeros(_WORDS, dtype=torch.int32, device=device))'
)
#: Policy -> a mutant that it kills.
MADE = {
    "a grid is resident as a whole": Made(
        GRIDS, "barrier_safe_grid", "clamp", "min(wanted, bound)", "max(wanted, bound)"
    ),
    "a grid that cannot be is refused": Made(
        GRIDS, "_clusters", "sign", "not has_clusters(target)", "has_clusters(target)"
    ),
    "a grid says why it is no larger": Made(
        GRIDS, "barrier_safe_grid", "one path", 'why = f"{units} - {reserved} reserved = {why}"', "pass"
    ),
    "clusters are counted by the driver where it can be asked": Made(
        GRIDS, "barrier_safe_grid", "one path",
        "active_clusters = drivers.active_clusters(function, cluster, resources)", "pass",
    ),
    "a real devices own limits and units count": Made(
        GRIDS, "barrier_safe_grid", "select",
        "where.limits if isinstance(where, Device) else target.limits", "target.limits",
    ),
    "what this context may use of a device counts": Made(
        GRIDS, "_may_use", "clamp", "min(whole, available_sms(index))", "whole"
    ),
    "a budget is the smaller one rounded down to even": Made(
        BUDGET, "_target", "clamp", "min(physical - reserve, outer)", "outer"
    ),
    "every device has its own": Made(BUDGET, "set_num_sms", "comparison", "other != key", "other == key"),
    "a decision in the block outlives it": Made(
        BUDGET, "_take_back", "guard", "if budgets.get(key) is not ours: return", "pass"
    ),
    "threads have their own": Made(BUDGET, "_take_back", "validation", "_check_is_ours(key, ours)", "pass"),
    "what is no number of sms is refused": Made(BUDGET, "_integer", "comparison", "number < least", "number <= least"),
    "a launch has its device its budget and the lease": Made(
        BARRIER, "barrier_launch", "select", "index if on_gpu else -1", "(-1)"
    ),
    "a captured launch has words of its own": Made(
        BARRIER, "barrier_launch", "mask", "on_gpu and torch.cuda.is_current_stream_capturing()", "on_gpu"
    ),
    "a timeout on a device is silent until it is asked for": Made(
        BARRIER, "check_grid_barriers", "barrier", "torch.cuda.synchronize(index)", "pass"
    ),
    "nested budgets do not add up": Made(
        BUDGET, "_target", "clamp",
        "min(physical - reserve, outer)",
        "max(physical - reserve, outer)",
    ),
    "a host has one set of words": Made(
        BARRIER, "barrier_launch", "select",
        '"host" if stream is None else stream.cuda_stream',
        "stream.cuda_stream",
    ),
    "words can be cleared wherever they were made": Made(
        BARRIER, "_words", "restore", f"with torch.inference_mode(False): {_ALLOCATED}", _ALLOCATED.replace('"', "'"),
    ),
    "a launch that was stopped leaves nothing": Made(
        BARRIER, "barrier_launch", "comparison",
        'device.type == "cuda"',
        "device.type != 'cuda'",
    ),
    "an exception at any step leaves the budget as it was": Made(
        BUDGET, "_take_back", "guard",
        "if budgets.get(key) is not ours: return",
        "pass",
    ),
    "what was interrupted is forgotten": Made(BARRIER, "barrier_launch", "select", "index if on_gpu else -1", "(-1)"),
    "a timeout is raised once": Made(BARRIER, "barrier_launch", "comparison", "stream is not None", "stream is None"),
    "a launch keeps to its budget and holds the lease": Made(
        BARRIER, "barrier_launch", "comparison",
        'device.type == "cuda"',
        "device.type != 'cuda'",
    ),
    "blocks pass exactly when all are resident": Made(
        BARRIER, "grid_barrier", "comparison",
        "seen < needed",
        "(seen <= needed)",
    ),
    "phases may come to nearly 2 to the 30": Made(
        BARRIER, "grid_barrier", "atomic",
        'tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")',
        "tl.atomic_xchg(words_ptr, 1, sem='release', scope='gpu')",
    ),
    "the report names block phase and counts": Made(BARRIER, "grid_barrier", "constant", "3", "4"),
    "every wave ends its stores where a barrier does not": Made(
        BARRIER, "_ends_own_stores", "comparison",
        'options.backend_name == "hip"',
        "(options.backend_name != 'hip')",
    ),
    "whoever passes has seen what all stored": Made(
        BARRIER, "grid_barrier", "comparison",
        "seen < needed",
        "(seen <= needed)",
    ),
    "where one gives up all do": Made(
        BARRIER, "grid_barrier", "atomic",
        'tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")',
        "tl.atomic_xchg(words_ptr, 1, sem='release', scope='gpu')",
    ),
    "a block looks as often as it may": Made(
        BARRIER, "grid_barrier", "bound",
        "polls < max_polls",
        "(polls < max_polls - 1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_named_test_kills_the_fault(name):
    dotted, old, new, killer = FAULTS[name]
    with swapped(dotted, old, new), pytest.raises((AssertionError, KeyError)):
        copy_context().run(killer)


def test_every_policy_kills_one():
    assert sorted(MADE) == sorted(policy.name for policy in policies.BARRIERS)


@pytest.mark.parametrize("name", MADE)
def test_the_policy_kills_the_mutant(name):
    (policy,) = (one for one in policies.BARRIERS if one.name == name)
    made = MADE[name]
    # in the place of the module, where kernels look it up too
    with installed(made.dotted, made.mutant.source, ()):
        assert check_policies([policy]).violations
    assert not check_policies([policy]).violations
