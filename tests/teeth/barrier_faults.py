"""Faults planted in the grid barrier: what hand-written ones get wrong, one change of source each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BarrierFault:
    """In ``harness/launch/grid_barrier.py``, ``old``, which stands there ``count`` times, becomes ``new``.

    The policy called ``policy`` must not hold then.
    """

    name: str
    old: str
    new: str
    policy: str
    count: int = 1

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


FAULTS = (
    BarrierFault(
        "count one too few",
        "needed = phase * blocks",
        "needed = phase * blocks - 1",
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "count one too many",
        "needed = phase * blocks",
        "needed = phase * blocks + 1",
        "blocks pass exactly when all are resident",
    ),
    BarrierFault(
        "phase not advanced", "needed = phase * blocks", "needed = blocks", "whoever passes has seen what all stored"
    ),
    BarrierFault(
        "blocks of the first axis only",
        "return tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)",
        "return tl.num_programs(0)",
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "release dropped",
        'tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")',
        'tl.atomic_add(words_ptr, 1, sem="relaxed", scope="gpu")',
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "release for the block only",
        'tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")',
        'tl.atomic_add(words_ptr, 1, sem="release", scope="cta")',
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "acquire dropped in the loop",
        '        seen = tl.atomic_add(words_ptr, 0, sem="acquire", scope="gpu")\n        polls',
        '        seen = tl.atomic_add(words_ptr, 0, sem="relaxed", scope="gpu")\n        polls',
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "acquire dropped for the last to arrive",
        'seen = tl.atomic_add(words_ptr, 0, sem="acquire", scope="gpu")\n    polls',
        'seen = tl.atomic_add(words_ptr, 0, sem="relaxed", scope="gpu")\n    polls',
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "acquire dropped where giving up finds the count complete",
        'seen + _POISON, sem="acquire"',
        'seen + _POISON, sem="relaxed"',
        "where one gives up all do",
    ),
    BarrierFault(
        "stores of other warps not gathered",
        "    tl.debug_barrier()\n\n\n@triton.jit\ndef _grid_blocks",
        "    pass\n\n\n@triton.jit\ndef _grid_blocks",
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "stores gathered after the arrival",
        '    _publish()\n    tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")\n',
        '    tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")\n    _publish()\n',
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "stores of other waves left on their way",
        '_BARRIER_IGNORES_STORES = ("gfx942", "gfx950")',
        "_BARRIER_IGNORES_STORES = ()",
        "every wave ends its stores where a barrier does not",
    ),
    BarrierFault("wait without an end", " & (polls < max_polls)", "", "where one gives up all do"),
    BarrierFault("timeout ignored", "return seen < _POISON", "return seen >= needed", "where one gives up all do"),
    BarrierFault(
        "a complete count poisoned",
        'found = tl.atomic_cas(words_ptr, seen, seen + _POISON, sem="acquire", scope="gpu")',
        'found = tl.atomic_add(words_ptr, _POISON, sem="acquire", scope="gpu")',
        "where one gives up all do",
    ),
    BarrierFault(
        "gives up after one try", "    while seen < needed:", "    if seen < needed:", "where one gives up all do"
    ),
    BarrierFault(
        "words not reset",
        "        tl.store(words_ptr, 0)\n        tl.store(words_ptr + _LEFT, 0)",
        "        pass",
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "tickets not reset", "        tl.store(words_ptr + _LEFT, 0)\n", "", "whoever passes has seen what all stored"
    ),
    BarrierFault(
        "poison not cleared",
        "        tl.store(words_ptr, 0)\n",
        "        tl.store(words_ptr, tl.load(words_ptr) & _POISON)\n",
        "where one gives up all do",
    ),
    BarrierFault(
        "reset by the first block out",
        "if before == _grid_blocks() - 1:",
        "if before == 0:",
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "reset by block 0",
        "if before == _grid_blocks() - 1:",
        "if tl.program_id(0) == 0:",
        "whoever passes has seen what all stored",
    ),
    BarrierFault(
        "reset one block early",
        "if before == _grid_blocks() - 1:",
        "if before == _grid_blocks() - 2:",
        "whoever passes has seen what all stored",
    ),
    BarrierFault("relaxed exit", 'sem="acq_rel"', 'sem="relaxed"', "whoever passes has seen what all stored"),
    BarrierFault(
        "exit that only releases", 'sem="acq_rel"', 'sem="release"', "whoever passes has seen what all stored"
    ),
    BarrierFault(
        "exit that only acquires", 'sem="acq_rel"', 'sem="acquire"', "whoever passes has seen what all stored"
    ),
    BarrierFault(
        "no report", "            tl.store(words_ptr + _REPORT, 1)\n", "", "the report names block phase and counts"
    ),
    BarrierFault(
        "arrivals counted from the first phase on",
        "seen - (phase - 1) * blocks",
        "seen",
        "the report names block phase and counts",
    ),
    BarrierFault(
        "block by its first index only",
        "block = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)",
        "block = tl.program_id(0)",
        "the report names block phase and counts",
    ),
    BarrierFault("report not cleared", "        report.zero_()\n", "", "a timeout is raised once"),
    BarrierFault(
        "report not looked at after a launch",
        "        if not on_gpu:\n            _raise_report(words)\n",
        "",
        "a timeout is raised once",
    ),
    BarrierFault(
        "words of a launch that was stopped kept",
        "                _forget(index, user)\n",
        "",
        "a launch that was stopped leaves nothing",
    ),
    BarrierFault(
        "reserve not passed on",
        "sm_budget(reserve, device=index)",
        "sm_budget(device=index)",
        "a launch keeps to its budget and holds the lease",
    ),
    BarrierFault(
        "no lease",
        "with launch_lease(index, kernel=kernel, timeout_s=timeout_s) as lease:",
        "with torch.cuda.device(-1) as lease:",
        "a launch keeps to its budget and holds the lease",
    ),
)
