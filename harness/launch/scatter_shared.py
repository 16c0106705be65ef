"""Shared memory that one block of ``moe_scatter`` takes, from its tile, its stages and its number formats.

    buffers * (activations + weights + scales) + widened weights + barriers + (scattered rows)

``activations`` is ``block_m * block_k`` elements, ``weights`` ``block_n * block_k``, ``scattered rows``
``block_m * block_n`` of the output, staged only for tile scatter. Products that run behind the program (wgmma,
tcgen05) keep as many buffers as stages, the others read a buffer at once and need one fewer. Weights narrower than the
activations pass through registers, so one buffer fewer holds them; where the product reads its operands from shared
memory, and on AMD possibly, one tile of them is staged in the activations' type. Compiled figures for bf16,
128 x 128 x 64, 3 stages: 98,304 bytes on sm_90 without TMA, 131,120 on sm_100 with gather and scatter, 65,552 on sm_120
with gather; for E4M3 weights 81,920, 114,752 and 49,168.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.device.capabilities import has_tensor_memory, has_wgmma
from harness.device.targets import Target

# Asynchronous products work on at least so many rows; smaller tiles take the synchronous ones.
_ASYNCHRONOUS_ROWS = 64
# An mbarrier is 8 bytes: one for each buffer that TMA fills, one more where tcgen05 says when it was read.
_BARRIER_BYTES = 8
# gfx950 and gfx1250 copy to LDS asynchronously (as many buffers as stages) into rows padded by at most an eighth.
_PADDED = frozenset({"gfx950", "gfx1250"})


@dataclass(frozen=True)
class Tile:
    """Rows, columns and depth of one block's product, in elements."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"a tile of {self.m} x {self.n} x {self.k}"


@dataclass(frozen=True, kw_only=True)
class Operands:
    """Bits of one element; ``scaled`` adds one byte for each 32 weights.

    ``swapped``: weights are the left operand of the product, which reads them from registers, so that its rows are
    ``Tile.n`` and nothing widened is staged.
    """

    activations: int = 16
    weights: int = 16
    output: int = 16
    scaled: bool = False
    swapped: bool = False


BF16 = Operands()


def shared_bytes(
    target: Target, tile: Tile, num_stages: int, operands: Operands = BF16, *, gathers: bool, scatters: bool
) -> int:
    """Return the bytes that one block asks for, or an upper bound of them.

    ``gathers`` and ``scatters`` say which tile operations the form uses. For bf16 on NVIDIA with two or three stages
    the number is the compiler's, on sm_100 and sm_103 up to 16 bytes a stage more; with one stage and on AMD it may be
    well above.
    """
    inputs = _bytes(tile.m * tile.k, operands.activations)
    weights = _bytes(tile.n * tile.k, operands.weights) + (tile.n * tile.k // 32 if operands.scaled else 0)
    rows = _bytes(tile.m * tile.n, operands.output) if scatters else 0
    narrow = operands.weights < operands.activations
    widened = _bytes(tile.n * tile.k, operands.activations) if narrow and not operands.swapped else 0
    if target.arch in _PADDED:
        return (num_stages * (inputs + weights) + widened + rows) * 9 // 8 + num_stages * _BARRIER_BYTES
    asynchronous = (has_wgmma(target) or has_tensor_memory(target)) and (
        tile.n if operands.swapped else tile.m
    ) >= _ASYNCHRONOUS_ROWS
    buffers = num_stages if asynchronous else max(num_stages - 1, 1)
    behind = has_tensor_memory(target) and asynchronous
    barriers = buffers * _BARRIER_BYTES * (2 if behind else 1 if gathers else 0)
    if narrow and asynchronous:
        fewer = max(buffers - 1, 1)
        barriers += fewer * _BARRIER_BYTES if gathers else 0
        return buffers * inputs + fewer * weights + widened + rows + barriers
    return buffers * (inputs + weights) + (widened if target.vendor == "rocm" else 0) + rows + barriers


def _bytes(elements: int, bits: int) -> int:
    return -(-elements * bits // 8)
