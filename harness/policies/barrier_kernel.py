"""A kernel whose blocks exchange rows across grid barriers, and launches of it."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from harness.launch import grid_barrier as barrier

LANES = 16
#: int32 words that a barrier may use, as many as ``barrier_launch`` gives.
WORDS = 32
#: Looks that nobody comes to the end of.
PATIENCE = 1 << 20


# Triton's code generator looks up annotations, so what it compiles has none; the barrier is looked up at each launch.
@triton.jit  # type: ignore[untyped-decorator]
def exchange(x_ptr, out_ptr, passed_ptr, words_ptr, polls, impatient, looks, absent, first, PHASES: tl.constexpr, LANES: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, E501  # fmt: skip
    """In each phase store a row, meet, and add up the rows of all; ``absent`` leaves after the first phase.

    A block looks ``polls`` times, block ``impatient`` ``looks`` times; phases are numbered from ``first``.
    """
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    blocks = nx * ny * tl.num_programs(2)
    block = (tl.program_id(2) * ny + tl.program_id(1)) * nx + tl.program_id(0)
    own = tl.where(block == impatient, looks, polls)
    lanes = tl.arange(0, LANES)
    going = block >= 0
    for phase in tl.static_range(PHASES):
        if going:
            row = phase * blocks
            tl.store(x_ptr + (row + block) * LANES + lanes, lanes + block + phase)
            passed = barrier.grid_barrier(words_ptr, first + phase, own)
            if passed:
                total = tl.zeros((LANES,), tl.int32)
                for ahead in range(blocks):
                    total += tl.load(x_ptr + (row + (block + 1 + ahead) % blocks) * LANES + lanes)
                tl.store(out_ptr + (row + block) * LANES + lanes, total)
            tl.store(passed_ptr + row + block, passed.to(tl.int32))
            going = block != absent
    barrier.grid_leave(words_ptr)


class Exchange:
    """One launch: who ``passed``, int32 ``[phases, blocks]`` (-1: never came), and what it leaves in the words.

    ``right``: everybody who passed added up the rows of all, and nobody else stored anything; ``clean``: nothing is
    counted any more; ``report``: the five words of the report.
    """

    def __init__(
        self,
        words: torch.Tensor,
        grid: tuple[int, ...],
        *,
        phases: int = 1,
        polls: int = PATIENCE,
        impatient: int = -1,
        looks: int = 0,
        absent: int = -1,
        first: int = 1,
    ) -> None:
        blocks = 1
        for size in grid:
            blocks *= size
        x = torch.zeros(phases, blocks, LANES, dtype=torch.int32)
        out = torch.full_like(x, -1)
        self.passed = torch.full((phases, blocks), -1, dtype=torch.int32)
        launch: Any = exchange[grid]
        launch(x, out, self.passed, words, polls, impatient, looks, absent, first, PHASES=phases, LANES=LANES)
        lanes = torch.arange(LANES) + torch.arange(phases)[:, None]
        sums = (blocks * lanes + blocks * (blocks - 1) // 2).int()[:, None].expand(phases, blocks, LANES)
        self.right = torch.equal(out, sums.where((self.passed == 1)[..., None], -1))
        self.clean = not words[:2].any()
        self.report: list[int] = words[2:7].tolist()

    @property
    def good(self) -> bool:
        """Whether all passed, everybody saw everybody's data, and the words are ready for the next launch."""
        return bool((self.passed == 1).all()) and self.right and self.clean and not any(self.report)


def fresh_words() -> torch.Tensor:
    """Return words of a barrier that nobody has used, int32 ``[32]``."""
    return torch.zeros(WORDS, dtype=torch.int32)
