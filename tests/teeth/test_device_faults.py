"""Every fault planted in how it is seen which device is current at a launch is killed by the test it names."""

import pytest

from tests.teeth.swapping import swapped
from tests.unit import test_guards

GUARDS, LANES, TRIAL = "harness.guards", "harness.lanes", "harness.trial"

FAULTS = {
    "any block will do": (
        GUARDS,
        "return bool(blocks) and blocks[-1] < 0",
        "return bool(blocks)",
        test_guards.test_a_block_of_another_device_counts_for_none_of_these_tensors,
    ),
    "the outermost block counts": (
        GUARDS,
        "blocks[-1] < 0",
        "blocks[0] < 0",
        test_guards.test_a_block_of_another_device_counts_for_none_of_these_tensors,
    ),
    "blocks around it count": (
        GUARDS,
        "        blocks = _thread.blocks[self._outside :]\n",
        "        blocks = _thread.blocks\n",
        test_guards.test_a_block_around_it_says_nothing_about_what_is_inside,
    ),
    "blocks do not end": (
        GUARDS,
        "        if _thread.blocks:\n            _thread.blocks.pop()\n",
        "",
        test_guards.test_the_innermost_block_counts,
    ),
    "torch stays patched": (
        GUARDS,
        "            if not _looking:\n                for name",
        "            if _looking:\n                for name",
        test_guards.test_torch_is_left_as_it_was,
    ),
    "the last one in forgets what torch had": (
        GUARDS,
        "            if not _looking:\n                _patch()\n",
        "            _patch()\n",
        test_guards.test_torch_is_left_as_it_was,
    ),
    "every launch has its device": (
        LANES,
        "            if not guards.inside:\n",
        "            if not guards.inside and stray:\n",
        lambda: test_guards.test_a_launch_outside_of_a_block_of_its_tensors_breaks_the_promise(test_guards.unguarded),
    ),
    "the first launch speaks for all": (
        LANES,
        "            if not guards.inside:\n",
        "            if not (guards.inside or gpu.launches):\n",
        lambda: test_guards.test_a_launch_outside_of_a_block_of_its_tensors_breaks_the_promise(test_guards.too_late),
    ),
    "whoever promised nothing is held to it": (
        TRIAL,
        "if not self.contract.any_device or execution.stray is None:",
        "if execution.stray is None:",
        test_guards.test_without_the_promise_nobody_looks,
    ),
    "one configuration is looked at": (
        TRIAL,
        "            self.judge_device(execution, config)\n            self.judge(execution, config)\n",
        "            self.judge(execution, config)\n",
        test_guards.test_every_configuration_is_looked_at,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_named_test_kills_the_fault(name):
    dotted, old, new, killer = FAULTS[name]
    killer()
    with swapped(dotted, old, new), pytest.raises(AssertionError):
        killer()
