"""Kernels whose blocks meet at the grid barrier, and launches of them with words of one's own."""

import torch
import triton
import triton.language as tl

from harness.launch.grid_barrier import grid_barrier, grid_leave

LANES = 16
WORDS = 32


@triton.jit
def exchange_kernel(
    x_ptr, out_ptr, passed_ptr, words_ptr, max_polls, reads, absent, PHASES: tl.constexpr, LANES: tl.constexpr
):
    """In each phase store a row, meet, and add up rows of ``reads`` blocks; block ``absent`` leaves after phase 1."""
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    blocks = nx * ny
    block = tl.program_id(1) * nx + tl.program_id(0)
    lanes = tl.arange(0, LANES)
    going = block >= 0
    for phase in tl.static_range(PHASES):
        if going:
            row = phase * blocks
            tl.store(x_ptr + (row + block) * LANES + lanes, lanes + block + phase)
            passed = grid_barrier(words_ptr, phase + 1, max_polls)
            if passed:
                total = tl.zeros((LANES,), tl.int32)
                for ahead in range(reads):
                    total += tl.load(x_ptr + (row + (block + 1 + ahead) % blocks) * LANES + lanes)
                tl.store(out_ptr + (row + block) * LANES + lanes, total)
            tl.store(passed_ptr + row + block, passed.to(tl.int32))
            going = block != absent
    grid_leave(words_ptr)


class Exchange:
    """One launch of ``exchange_kernel``: ``passed`` [phases, blocks], whether the data was right, and the report."""

    def __init__(self, words, grid, *, phases=1, max_polls=1 << 20, reads=None, absent=-1):
        grid = grid if isinstance(grid, tuple) else (grid,)
        blocks = grid[0] * (grid[1] if len(grid) > 1 else 1)
        reads = blocks if reads is None else reads
        x = torch.zeros(phases, blocks, LANES, dtype=torch.int32)
        self.out = torch.full_like(x, -1)
        self.passed = torch.full((phases, blocks), -1, dtype=torch.int32)
        exchange_kernel[grid](x, self.out, self.passed, words, max_polls, reads, absent, PHASES=phases, LANES=LANES)
        ahead = torch.arange(blocks, dtype=torch.int32)
        first = torch.stack([ahead.roll(-1 - step) for step in range(reads)]).sum(0)
        lanes = torch.arange(LANES) + torch.arange(phases)[:, None]
        self._right = (first[:, None] + reads * lanes[:, None]).int()
        self.clean = not words[:2].any()
        self.report = words[2:7].tolist()

    @property
    def all_passed(self):
        return bool((self.passed == 1).all())

    @property
    def sums_are_right(self):
        """Every block that passed added up what all had stored; the others stored nothing."""
        return torch.equal(self.out, self._right.where((self.passed == 1)[..., None], -1))


def fresh_words():
    return torch.zeros(WORDS, dtype=torch.int32)
