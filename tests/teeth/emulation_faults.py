"""Faults planted in the virtual GPU's bookkeeping and in sanitize: one change each, and the test that must fail."""

from tests.teeth.planted import Planted


class EmulationFault(Planted):
    """In ``harness.FILE``, ``old``, which stands there once, becomes ``new``; ``check`` of ``CHECKS`` must fail."""


FAULTS = (
    EmulationFault(
        "flags dropped before all is written",
        "vgpu.shadow",
        "if view.dense and view.stop - view.start == flags.flat.size:",
        "if view.dense:",
        "test_flags_take_a_byte_for_a_byte_and_nothing_once_all_is_written",
    ),
    EmulationFault(
        "copies are no tensors that a pointer may reach",
        "vgpu.shadow",
        "        self.see(target)\n        flags",
        "        flags",
        "test_every_tensor_made_in_a_session_is_reached",
    ),
    EmulationFault(
        "a pointer made of an address may leave its tensor",
        "vgpu.memory",
        "    if len(regions) == 1:\n        return Value(data, type, shape)\n",
        "    return Value(data, type, shape)\n",
        "test_an_address_past_a_tensor_is_out_of_bounds_of_its_storage",
    ),
    EmulationFault(
        "float32 gradients are added up one by one",
        "sanitize.precision",
        "        if wide is None:\n",
        "        if wide is not torch.float32:\n",
        "test_float32_gradients_of_long_sums_are_as_good_as_sums_in_blocks",
    ),
    EmulationFault(
        "a journal keeps every old element",
        "vgpu.journal",
        "        if old.size >= _WORTHWHILE:\n",
        "        if False:\n",
        "test_a_kernel_that_fills_new_memory_from_end_to_end_needs_next_to_no_journal",
    ),
    EmulationFault(
        "a range of elements goes one too far",
        "vgpu.journal",
        "    return slice(first, first + count)\n",
        "    return slice(first + 1, first + 1 + count)\n",
        "test_a_kernel_that_fills_new_memory_from_end_to_end_needs_next_to_no_journal",
    ),
    EmulationFault(
        "what overflows the journal is not taken back",
        "vgpu.launch",
        "            except Overflow:\n                execution.roll_back()\n",
        "            except Overflow:\n                execution.commit()\n",
        "test_beyond_a_limit_fewer_programs_run_at_once_and_each_runs_once",
    ),
    EmulationFault(
        "8-bit floats are added",
        "vgpu.refusals",
        'if _is_fp8(type) and host.execution.profile.vendor == "cuda":',
        "if False:",
        "test_the_message_names_line_types_target_and_what_to_do",
    ),
    EmulationFault(
        "what NVIDIA refuses is refused to AMD",
        "vgpu.refusals",
        'if _is_fp8(type) and host.execution.profile.vendor == "cuda":',
        "if _is_fp8(type):",
        "test_amd_targets_are_not_held_to_what_nvidia_refuses",
    ),
    EmulationFault(
        "lanes get the operands of others",
        "vgpu.lanewise",
        ".reshape(-1, pack)[:, place]",
        ".reshape(-1, pack)[::-1, place]",
        "test_lanes_loop_until_each_has_ended",
    ),
    EmulationFault(
        "neighbours in a group change places",
        "vgpu.lanewise",
        "            for place in range(pack)\n",
        "            for place in reversed(range(pack))\n",
        "test_neighbours_are_handled_together",
    ),
    EmulationFault(
        "for loops have no budget",
        "vgpu.flow",
        "        if trips > execution.limits.steps:\n",
        "        if False:\n",
        "test_an_unrolled_loop_counts_too",
    ),
    EmulationFault(
        "directed rounding goes the other way",
        "vgpu.libdevice_exact",
        '((rounding == "rd") | ((rounding == "rz") & positive))',
        '((rounding == "ru") | ((rounding == "rz") & positive))',
        "test_directed_rounding_is_exact",
    ),
    EmulationFault(
        "every function of the library is trusted",
        "vgpu.extern",
        "is None:\n                execution.untrusted.add(operation)",
        "is None:\n                pass",
        "test_functions_with_a_documented_bound_are_trusted_and_others_are_named",
    ),
    EmulationFault(
        "races are not looked for in other orders",
        "lanes",
        "races=self.races or (wanted is not None and wanted.races),",
        "races=self.races,",
        "test_a_wrong_barrier_is_caught_where_plain_launches_pass",
    ),
    EmulationFault(
        "programs never take turns",
        "lanes",
        "schedule=schedule,",
        "schedule=None,",
        "test_orders_alone_show_other_bits",
    ),
    EmulationFault(
        "autocast forgets what needs float32",
        "sanitize.autocast",
        "        elif name in FLOAT32:\n            wanted = torch.float32\n",
        "        elif name in FLOAT32:\n            wanted = lower\n",
        "test_values_are_those_of_casts_by_hand",
    ),
)
