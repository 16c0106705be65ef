"""Tiles of a forward on 32-bit words of MXFP4 weights, by target and batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import triton

from harness.device.targets import Target
from kernels._fp4 import GROUP

# Groups of 32 whose columns are stored together: one for each of the four threads that share a row.
_MOST_QUADS = 4
# Pairs of columns that a thread of a matrix instruction reads together: mma.sync takes its operands from registers,
# which Triton fills 16 bytes at a time; wgmma finds activations in shared memory, in the instruction's own order.
_PAIRS, _WGMMA_PAIRS = 4, 1
_LIMIT = 168
# Parts of a row of w2 that are rows of one product: as many as a matrix instruction has columns.
_MOST_PARTS = 8
# From Triton 3.8 on 8 columns are enough for wgmma; before they went to mma.sync.
_WGMMA_FROM_8_COLUMNS = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 8)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A multiply: ``block_n`` rows of weights (of each half of w13) and ``block_k`` columns at a time, at most.

    ``registers`` of a thread, where ptxas left alone takes so few that it spills.
    """

    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    registers: int = 0

    def constants(self, rows: int, columns: int) -> dict[str, int]:
        """Return the blocks for weights of ``rows`` and ``columns``: the largest powers of two that divide them.

        For the smallest blocks a limit of registers, too: left alone, ptxas takes so few for sm_120 that it spills.
        """
        blocks = {"BLOCK_N": min(rows & -rows, self.block_n), "BLOCK_K": min(columns & -columns, self.block_k)}
        return blocks | {"maxnreg": _LIMIT} if blocks["BLOCK_K"] == GROUP else blocks

    def token_constants(self, rows: int, columns: int) -> dict[str, int]:
        """Return the blocks of ``token_tile``: BLOCK_N rows, each in SPLIT parts, are ``block_n`` at most."""
        orders = columns // GROUP // quads(columns)
        split = min(orders & -orders, _MOST_PARTS)
        return {"SPLIT": split, **replace(self, block_n=self.block_n // split).constants(rows, columns // split)}

    @property
    def options(self) -> dict[str, int]:
        """The compiler's options."""
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return options | {"maxnreg": self.registers} if self.registers else options


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Both multiplies of tiles of ``block_t`` slots; ``pairs`` see ``kernels._mxfp4_words.to_stored_order``.

    A launch has at most ``most_programs``: how many tiles of a kind there are is known on the device only, and programs
    with nothing to do take time, too.  ``in_turns``: both multiplies of sorted tiles are one launch, see
    ``take_turns``.
    """

    gate_up: Step
    down: Step
    block_t: int
    pairs: int = _PAIRS
    most_programs: int = 4096
    in_turns: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """``large`` tiles for experts with more than ``most_small`` slots, ``small`` ones for the others."""

    small: Kind
    large: Kind
    most_small: int


def quads(columns: int) -> int:
    """Return how many groups of 32 columns are stored together."""
    groups = columns // GROUP
    return min(groups & -groups, _MOST_QUADS)


# No entry spills on a target that takes it.  Shared memory is at most 101,376 bytes but for those with wgmma, which
# sm_90 alone takes.  From sweeps on an H200 (256 experts, K = 4096, I = 2048, 6 experts a token).
_SLOTS = Kind(
    gate_up=Step(block_n=32, block_k=512, num_warps=4, num_stages=3),
    down=Step(block_n=64, block_k=256, num_warps=4, num_stages=3),
    block_t=8,
)
_SMALL = Kind(
    gate_up=Step(block_n=64, block_k=256, num_warps=4, num_stages=3),
    down=Step(block_n=128, block_k=256, num_warps=4, num_stages=3),
    block_t=8,
    # Four times the SMs: each holds four.
    most_programs=528,
    in_turns=True,
)
_LARGE = Kind(
    gate_up=Step(block_n=64, block_k=128, num_warps=8, num_stages=3),
    down=Step(block_n=128, block_k=128, num_warps=8, num_stages=3),
    block_t=64,
    most_programs=1024,
)
# Accumulators that are in tensor memory take no registers.
_TENSOR_MEMORY_LARGE = Kind(
    gate_up=Step(block_n=64, block_k=128, num_warps=4, num_stages=3),
    down=Step(block_n=128, block_k=128, num_warps=4, num_stages=3, registers=255),
    block_t=64,
    most_programs=1024,
)
_MEDIUM = Kind(
    gate_up=Step(block_n=32, block_k=128, num_warps=4, num_stages=3),
    down=Step(block_n=64, block_k=128, num_warps=4, num_stages=3),
    block_t=16,
)
_WGMMA_MEDIUM = Kind(
    gate_up=Step(block_n=64, block_k=128, num_warps=4, num_stages=4),
    down=Step(block_n=128, block_k=128, num_warps=4, num_stages=4),
    block_t=16,
    pairs=_WGMMA_PAIRS,
)
_WGMMA_LARGE = Kind(
    gate_up=Step(block_n=64, block_k=128, num_warps=8, num_stages=4),
    down=Step(block_n=128, block_k=128, num_warps=8, num_stages=4),
    block_t=128,
    pairs=_WGMMA_PAIRS,
    # Twice the SMs: each holds one.
    most_programs=264,
)
# Where there are too few tiles to keep all SMs busy to the end of each multiply.
_WGMMA_TURNS = replace(_WGMMA_LARGE, most_programs=132, in_turns=True)
_MOST_SMALL = 32
# Mean slots an expert from which tiles of 8 slots would decode most weights twice.
_MEDIUM_MEAN = 8


def _eight(kind: Kind, target: Target) -> Kind:
    # ``kind``, whose tiles have 8 slots, for the instruction that multiplies them.
    wgmma = _WGMMA_FROM_8_COLUMNS and "wgmma" in target.capabilities
    return replace(kind, pairs=_WGMMA_PAIRS) if wgmma else kind


def choose_slots(target: Target) -> Kind:
    """Return the tiles of a forward of a slot a tile in gate and up, and a token in down; ``target`` is NVIDIA's."""
    return _eight(_SLOTS, target)


def choose_plan(target: Target, slots: int, experts: int) -> Plan:
    """Return the tiles of a forward of ``slots`` sorted by expert; ``target`` is an NVIDIA one."""
    few = slots <= _MEDIUM_MEAN * experts
    medium, large = _MEDIUM, _LARGE
    if "wgmma" in target.capabilities:
        medium, large = _WGMMA_MEDIUM, _WGMMA_TURNS if few else _WGMMA_LARGE
    elif "tensor_memory" in target.capabilities:
        large = _TENSOR_MEMORY_LARGE
    return Plan(small=_eight(_SMALL, target) if few else medium, large=large, most_small=_MOST_SMALL)


def choose_mega(target: Target, slots: int, experts: int) -> Kind:
    """Return the tiles of a sorted forward in one launch, where all are of one kind; ``target`` is an NVIDIA one."""
    plan = choose_plan(target, slots, experts)
    return plan.large if slots > plan.most_small * experts else plan.small
