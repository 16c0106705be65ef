"""Faults planted in the grid barrier: what hand-written ones get wrong, one change of source each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BarrierFault:
    """In ``harness/launch/grid_barrier.py``, ``old``, which stands there ``count`` times, becomes ``new``.

    ``check``, one of ``tests.unit.barrier_checks``, must fail.
    """

    name: str
    old: str
    new: str
    check: str
    count: int = 1

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


FAULTS = (
    BarrierFault("count one too few", "needed = phase * blocks", "needed = phase * blocks - 1", "nobody_passes_early"),
    BarrierFault(
        "count one too many",
        "needed = phase * blocks",
        "needed = phase * blocks + 1",
        "passes_exactly_when_all_are_resident",
    ),
    BarrierFault("phase not advanced", "needed = phase * blocks", "needed = blocks", "nobody_passes_early"),
    BarrierFault(
        "blocks of the first axis only",
        "return tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)",
        "return tl.num_programs(0)",
        "launches_reuse_the_words",
    ),
    BarrierFault(
        "release dropped",
        'tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")',
        'tl.atomic_add(words_ptr, 1, sem="relaxed", scope="gpu")',
        "nobody_passes_early",
    ),
    BarrierFault(
        "release for the block only",
        'tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")',
        'tl.atomic_add(words_ptr, 1, sem="release", scope="cta")',
        "nobody_passes_early",
    ),
    BarrierFault(
        "acquire dropped in the loop",
        '        seen = tl.atomic_add(words_ptr, 0, sem="acquire", scope="gpu")\n        polls',
        '        seen = tl.atomic_add(words_ptr, 0, sem="relaxed", scope="gpu")\n        polls',
        "nobody_passes_early",
    ),
    BarrierFault(
        "acquire dropped for the last to arrive",
        'seen = tl.atomic_add(words_ptr, 0, sem="acquire", scope="gpu")\n    polls',
        'seen = tl.atomic_add(words_ptr, 0, sem="relaxed", scope="gpu")\n    polls',
        "nobody_passes_early",
    ),
    BarrierFault(
        "acquire dropped where giving up finds the count complete",
        'seen + _POISON, sem="acquire"',
        'seen + _POISON, sem="relaxed"',
        "a_timeout_is_everybodys",
    ),
    BarrierFault(
        "stores of other warps not gathered",
        "    tl.debug_barrier()\n\n\n@triton.jit\ndef _grid_blocks",
        "    pass\n\n\n@triton.jit\ndef _grid_blocks",
        "nobody_passes_early",
    ),
    BarrierFault(
        "stores gathered after the arrival",
        '    _publish()\n    tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")\n',
        '    tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")\n    _publish()\n',
        "nobody_passes_early",
    ),
    BarrierFault(
        "stores of other waves left on their way",
        '_BARRIER_IGNORES_STORES = ("gfx942", "gfx950")',
        "_BARRIER_IGNORES_STORES = ()",
        "every_wave_ends_its_stores_on_cdna",
    ),
    BarrierFault("wait without an end", " & (polls < max_polls)", "", "a_timeout_is_everybodys"),
    BarrierFault("timeout ignored", "return seen < _POISON", "return seen >= needed", "a_timeout_is_everybodys"),
    BarrierFault(
        "a complete count poisoned",
        'found = tl.atomic_cas(words_ptr, seen, seen + _POISON, sem="acquire", scope="gpu")',
        'found = tl.atomic_add(words_ptr, _POISON, sem="acquire", scope="gpu")',
        "a_timeout_is_everybodys",
    ),
    BarrierFault(
        "gives up after one try", "    while seen < needed:", "    if seen < needed:", "a_timeout_is_everybodys"
    ),
    BarrierFault(
        "words not reset",
        "        tl.store(words_ptr, 0)\n        tl.store(words_ptr + _LEFT, 0)",
        "        pass",
        "launches_reuse_the_words",
    ),
    BarrierFault("tickets not reset", "        tl.store(words_ptr + _LEFT, 0)\n", "", "launches_reuse_the_words"),
    BarrierFault(
        "poison not cleared",
        "        tl.store(words_ptr, 0)\n",
        "        tl.store(words_ptr, tl.load(words_ptr) & _POISON)\n",
        "a_good_launch_follows_a_timeout",
    ),
    BarrierFault(
        "reset by the first block out",
        "if before == _grid_blocks() - 1:",
        "if before == 0:",
        "launches_reuse_the_words",
    ),
    BarrierFault(
        "reset by block 0",
        "if before == _grid_blocks() - 1:",
        "if tl.program_id(0) == 0:",
        "launches_reuse_the_words",
    ),
    BarrierFault(
        "reset one block early",
        "if before == _grid_blocks() - 1:",
        "if before == _grid_blocks() - 2:",
        "launches_reuse_the_words",
    ),
    BarrierFault("relaxed exit", 'sem="acq_rel"', 'sem="relaxed"', "launches_reuse_the_words"),
    BarrierFault("exit that only releases", 'sem="acq_rel"', 'sem="release"', "launches_reuse_the_words"),
    BarrierFault("exit that only acquires", 'sem="acq_rel"', 'sem="acquire"', "launches_reuse_the_words"),
    BarrierFault(
        "no report", "            tl.store(words_ptr + _REPORT, 1)\n", "", "the_report_names_block_phase_and_count"
    ),
    BarrierFault(
        "arrivals counted from the first phase on",
        "seen - (phase - 1) * blocks",
        "seen",
        "the_report_names_block_phase_and_count",
    ),
    BarrierFault(
        "block by its first index only",
        "block = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)",
        "block = tl.program_id(0)",
        "the_report_names_block_phase_and_count",
    ),
    BarrierFault("report not cleared", "        report.zero_()\n", "", "the_host_raises_the_report_once"),
    BarrierFault(
        "report not looked at after a launch",
        "        if not on_gpu:\n            _raise_report(words)\n",
        "",
        "the_host_raises_the_report_once",
    ),
    BarrierFault(
        "words of a launch that was stopped kept",
        "                _forget(index, user)\n",
        "",
        "a_launch_that_was_stopped_leaves_nothing",
    ),
    BarrierFault(
        "reserve not passed on",
        "sm_budget(reserve, device=index)",
        "sm_budget(device=index)",
        "a_launch_keeps_to_its_budget_and_holds_the_lease",
    ),
    BarrierFault(
        "no lease",
        "with launch_lease(index, kernel=kernel, timeout_s=timeout_s) as lease:",
        "with torch.cuda.device(-1) as lease:",
        "a_launch_keeps_to_its_budget_and_holds_the_lease",
    ),
)
