"""Every fault planted in what a search does unasked, and in promises and launches, is killed by the test it names."""

import pytest

from harness.vgpu.faults import KernelFault
from tests.teeth.swapping import swapped
from tests.unit import test_compiles, test_interleavings, test_stores_once, test_verify_target
from tests.vgpu import test_promises

ACCEPTANCE, RUN, TRIAL, HUNT = "harness.compiling.acceptance", "harness.run", "harness.trial", "harness.hunt"

FAULTS = {
    "what Triton raises is passed over": (
        ACCEPTANCE,
        "            return _refusal(found, error)\n",
        "            return None if error else _refusal(found, error)\n",
        test_compiles.test_a_refused_kernel_fails_where_every_value_is_right,
    ),
    "a promise to store once is forgotten": (
        TRIAL,
        '"strict" if self.contract.stores_once else True',
        "True",
        lambda: test_stores_once.test_an_element_that_two_programs_store_alike_breaks_the_promise(8),
    ),
    "everybody promises to store once": (
        TRIAL,
        '"strict" if self.contract.stores_once else True',
        '"strict"',
        test_stores_once.test_without_the_promise_two_stores_of_one_value_are_no_race,
    ),
    "nobody is asked": (
        RUN,
        'if isinstance(trial.lane, VirtualLane) and only in (None, "compiles"):',
        'if isinstance(trial.lane, VirtualLane) and only == "compiles":',
        test_compiles.test_a_refused_kernel_fails_where_every_value_is_right,
    ),
    "whatever is checked, Triton is asked": (
        RUN,
        'if isinstance(trial.lane, VirtualLane) and only in (None, "compiles"):',
        "if isinstance(trial.lane, VirtualLane):",
        test_compiles.test_a_launch_without_a_virtual_gpu_or_for_another_check_is_not_asked_about,
    ),
    "every value is news": (
        ACCEPTANCE,
        "(not news or self._asked[function] >= self._most)",
        "(self._asked[function] >= self._most)",
        test_compiles.test_of_one_kernel_so_many_are_asked_about_and_only_what_brings_something_new,
    ),
    "warps are another kernel": (
        ACCEPTANCE,
        'if name not in ("num_warps", "num_stages")]',
        'if name != "num_stages"]',
        test_compiles.test_of_one_kernel_so_many_are_asked_about_and_only_what_brings_something_new,
    ),
    "there is no end to asking": (
        ACCEPTANCE,
        "        self._asked[function] += 1\n",
        "",
        test_compiles.test_of_one_kernel_so_many_are_asked_about_and_only_what_brings_something_new,
    ),
    "a launch of nothing is accepted": (
        ACCEPTANCE,
        "filter(None, answers))) if answers else None\n",
        "filter(None, answers)))\n",
        test_compiles.test_a_launch_of_nothing_passes_no_check,
    ),
    "words do not matter in a declared refusal": (
        ACCEPTANCE,
        " and one.says in refusal.message\n",
        "\n",
        test_compiles.test_a_declared_refusal_is_no_fault_and_another_is,
    ),
    "a refusal is declared for every target": (
        ACCEPTANCE,
        "self.target.marker in one.targets and ",
        "",
        test_compiles.test_a_declared_refusal_is_no_fault_and_another_is,
    ),
    "the profile asked for is taken whatever the implementation needs": (
        RUN,
        "target if not wanted or target.marker in wanted else TARGETS[wanted[0]]",
        "target",
        test_compiles.test_the_target_asked_for_is_one_that_the_implementation_is_for,
    ),
    "the line of the wrapper": (
        ACCEPTANCE,
        "        place = _place(one) or place\n",
        "        place = place or _place(one)\n",
        lambda: test_compiles.told(test_compiles.refused_kernels.calls_a_helper),
    ),
    "the function's line is not counted": (
        ACCEPTANCE,
        'generator.begin_line + getattr(node, "lineno", 1)',
        'getattr(node, "lineno", 1)',
        lambda: test_compiles.told(test_compiles.break_in_a_loop),
    ),
    "races are looked for on request": (
        RUN,
        "    if races:\n",
        '    if races and trial.only == "race":\n',
        test_interleavings.test_a_race_is_caught_where_nobody_asked_for_orders,
    ),
    "races are looked for although the implementation says they do not count": (
        RUN,
        "races and implementation.interleavings is None",
        "races",
        test_interleavings.test_whoever_asks_for_orders_says_whether_races_count,
    ),
    "one program is looked at": (
        TRIAL,
        "not 1 < _most_programs(first) <= MOST_RACING",
        "not 0 < _most_programs(first) <= MOST_RACING",
        test_interleavings.test_one_program_or_too_many_to_remember_are_not_looked_at,
    ),
    "no launch is too large": (
        TRIAL,
        "not 1 < _most_programs(first) <= MOST_RACING",
        "not 1 < _most_programs(first)",
        test_interleavings.test_one_program_or_too_many_to_remember_are_not_looked_at,
    ),
    "every case is looked at": (
        HUNT,
        'races=self.reached["race"] < RACE_CASES,',
        "races=True,",
        test_interleavings.test_a_search_looks_for_races_in_two_cases_and_shrinks_what_it_finds,
    ),
    "a child is not told the target": (
        "harness._child",
        'virtual_lane(job["target"])',
        "virtual_lane(None)",
        test_verify_target.test_the_virtual_gpu_has_the_rules_and_the_launches_of_the_target,
    ),
    "the numerics of a target stay the default's": (
        "harness.elsewhere",
        "VirtualLane() if target is None else as_on(VirtualLane(), target_of(target))",
        "VirtualLane() if target is None else VirtualLane(target=target_of(target).marker)",
        test_verify_target.test_the_virtual_gpu_has_the_rules_and_the_launches_of_the_target,
    ),
    "an implementation for other targets runs all the same": (
        "harness.verify",
        "        if virtual is None:\n            return pairs\n",
        "        if virtual is None or pairs:\n            return pairs\n",
        test_verify_target.test_without_a_target_every_implementation_runs_and_with_one_those_that_are_for_it,
    ),
    "an element that follows another must be a multiple too": (
        "harness.vgpu.hints",
        "        begins[tuple(later)] = np.diff(data, axis=axis) != 1\n",
        "",
        test_promises.test_a_block_may_count_on_from_a_multiple_and_be_clamped_and_not_begin_elsewhere,
    ),
    "a promise of a block is kept by its first half": (
        "harness.vgpu.hints",
        "if value.shape else (None,)",
        "if value.shape and value.shape[0] < 16 else (None,) * (not value.shape)",
        test_promises.test_a_block_may_count_on_from_a_multiple_and_be_clamped_and_not_begin_elsewhere,
    ),
    "a program that does not run divides": (
        "harness.vgpu.arithmetic",
        "running is None or (bad := bad & running).any()",
        "running is None or bad.any()",
        lambda: test_promises.divided(2),
    ),
    "a masked lane divides": (
        "harness.vgpu.arithmetic",
        "if not b.shape and (bad := b.data == 0).any():",
        "if (bad := b.data == 0).any():",
        test_promises.test_a_lane_that_divides_by_zero_may_be_masked,
    ),
    "the host's descriptors need memory too": (
        "harness.vgpu.descriptors",
        "and not self.by_host and",
        "and",
        test_promises.test_a_descriptor_made_in_a_kernel_needs_an_allocator_where_hardware_has_descriptors,
    ),
    "whatever target it is, descriptors need memory": (
        "harness.vgpu.descriptors",
        " and self.execution.profile.native_tma:",
        ":",
        test_promises.test_a_descriptor_made_in_a_kernel_needs_an_allocator_where_hardware_has_descriptors,
    ),
    "a search takes the allocator for given": (
        "harness.lanes",
        "allocator=True,",
        "allocator=False,",
        test_promises.test_a_search_needs_the_allocator,
    ),
    "a fraction is cut off": (
        "harness.vgpu.launch",
        "return operator.index(number)",
        "return int(number)",
        lambda: test_promises.test_a_grid_of_fractions_is_refused_as_the_driver_refuses_it((2.0,)),
    ),
    "any number of warps is a power of two": (
        "harness.vgpu.launch",
        "or warps < 1 or warps & (warps - 1):",
        "or warps < 1:",
        lambda: test_promises.test_warps_are_a_power_of_two(3),
    ),
    "a warp has 32 lanes everywhere": (
        "harness.vgpu.launch",
        '(32 if profile.vendor == "cuda" else 64)',
        "32",
        lambda: test_promises.test_a_block_has_as_many_warps_as_the_device_holds("gfx942", 16),
    ),
    "a wrong value stays unexplained": (
        HUNT,
        "        return with_race(violation, self.contract, self.implementation, case, self.lane)\n",
        "        return violation\n",
        test_interleavings.test_a_wrong_value_is_told_with_the_race_behind_it,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_named_test_kills(name):
    module, old, new, test = FAULTS[name]
    killed = (AssertionError, KeyError, KernelFault, RuntimeError, pytest.fail.Exception)
    with swapped(module, old, new), pytest.raises(killed):
        test()
