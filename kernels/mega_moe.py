"""Mixture of experts with MXFP4 weights in one persistent launch: ``mega_moe``."""

from __future__ import annotations

from typing import Any, Literal

import torch
import triton
import triton.language as tl

from harness import Capturable, Compiles, Interleavings, implements
from harness.launch import Resources, barrier_safe_grid
from harness.launch.current import current_target
from harness.launch.grid_barrier import MAX_POLLS, barrier_launch
from kernels._mega_moe_kernel import mega_moe_kernel
from kernels._mega_moe_words_launch import run_mega_words
from kernels._mxfp4_arguments import Forward, float32, prepare, validate
from kernels._mxfp4_words_launch import words_operands
from kernels._validate import require_choice, require_number

#: Largest batch for which ``path="auto"`` takes the slot path.  By shape alone: the same under graph capture.
SLOT_MAX_TOKENS = 2

_COMBINE_BLOCK = 1024
# Blocks are paired into clusters of two where a device has them, so grids are even.
_PAIR = 2
# No target compiles a thread with more, and a unit holds at least one block of 8 warps that has them.
_MOST_REGISTERS = 255
# What a virtual GPU with its default profile is.
_VIRTUAL_TARGET = "sm_120"


# What no workload of the contract reaches: other numbers of choices, among them more than are summed unrolled.
_MANY_CHOICES = Compiles(
    cases=tuple(
        f"Case(routing=Routing(num_tokens={tokens}, num_experts=256, rows=({tuple(range(topk))},)), "
        "hidden_size=4096, intermediate_size=2048)"
        for tokens, topk in ((1, 10), (1, 65), (SLOT_MAX_TOKENS + 1, 65))
    )
)


# Whole tiles of every entry of the table, one slot beyond each switch.
_SLOT, *_GROUPED = (
    f"Case(routing=Routing(num_tokens={tokens}, num_experts=4, rows=((0, 1, 2), (2, 3, 0), (0, 1, -1))), "
    f"hidden_size={hidden}, intermediate_size={inter}, clamp_limit=10.0, max_blocks=64)"
    for tokens, hidden, inter in (
        (SLOT_MAX_TOKENS, 1024, 2048),
        (SLOT_MAX_TOKENS + 1, 1024, 256),
        (11, 1024, 256),
        (43, 4096, 256),
    )
)
# The kernel that takes bytes of weights.
_SLOT_BYTES, *_GROUPED_BYTES = (
    f"Case(routing=Routing(num_tokens={tokens}, num_experts=4, rows=((0, 1), (2, 3), (3, 0), (1, -1))), "
    f"hidden_size=64, intermediate_size=64, {operand}, max_blocks=64)"
    for tokens, operand in (
        (SLOT_MAX_TOKENS, "dtype=torch.float16"),
        (SLOT_MAX_TOKENS + 1, "dtype=torch.float16"),
        (SLOT_MAX_TOKENS + 1, 'scale_type="float32"'),
    )
)
# Many choices a token.
_SLOT_MANY, _GROUPED_MANY = (
    f"Case(routing=Routing(num_tokens={tokens}, num_experts={experts}, "
    f"rows=({tuple(choice % 16 for choice in range(65))},)), "
    f"hidden_size=1024, intermediate_size={inter}, max_blocks=64)"
    for tokens, experts, inter in ((1, 16, 2048), (SLOT_MAX_TOKENS + 1, 64, 256))
)
_GROUPED_GRAPHS = Capturable(cases=(*_GROUPED, *_GROUPED_BYTES, _GROUPED_MANY))
_GRAPHS = Capturable(cases=(_SLOT, _SLOT_BYTES, _SLOT_MANY, *_GROUPED_GRAPHS.cases))


# Without a barrier most orders of the blocks still give the right values; the race is there in every one.
_TURNS = Interleavings(seeds=1, everywhere=True)


@implements("mega_moe", name="auto", compiles=_MANY_CHOICES, capturable=_GRAPHS, interleavings=_TURNS)
def mega_moe(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_packed: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
    *,
    routed_scaling_factor: float = 1.0,
    clamp_limit: float | None = None,
    path: Literal["auto", "slot", "grouped"] = "auto",
    max_blocks: int | None = None,
    reserve: int = 2,
) -> torch.Tensor:
    """Return what ``mxfp4_moe`` returns, computed by one launch: its steps with grid barriers between them.

    Small tiles of slots sorted by expert are taken in turns, and a second multiply waits for its own first one alone.

    Arguments as for ``kernels.mxfp4_moe.mxfp4_moe``, with the same checks.  ``reserve``: SMs that the launch leaves to
    others (``sm_budget``); the grid has at most as many blocks as the rest hold, an even number, and at most
    ``max_blocks``, an integer >= 2, by default no limit.  The result does not depend on either.  One such launch runs
    on a device at a time (``launch_lease``), whatever the stream; it can be captured in a graph once one ran outside.
    Workspace: that of ``mxfp4_moe`` at most, independent of the number of SMs.

    The launch waits for nothing on the host.  Where blocks were not resident, the result is not complete and
    ``harness.launch.grid_barrier.check_grid_barriers`` raises GridBarrierTimeout.

    Raises TypeError or ValueError naming the argument before any launch, ValueError too if fewer than 2 SMs are left.
    """
    require_choice("path", path, ("auto", "slot", "grouped"))
    validate(hidden_states, w13_packed, w13_scale, w2_packed, w2_scale, topk_ids, topk_weights)
    scaling = float32(require_number("routed_scaling_factor", routed_scaling_factor))
    limit = None if clamp_limit is None else float32(require_number("clamp_limit", clamp_limit, positive=True))
    _require_blocks(max_blocks)

    tokens, hidden = hidden_states.shape
    experts, topk = w13_packed.shape[0], topk_ids.shape[1]
    if topk_ids.numel() == 0 or experts == 0:
        return torch.zeros(tokens, hidden, dtype=hidden_states.dtype, device=hidden_states.device)

    grouped = path == "grouped" or (path == "auto" and tokens > SLOT_MAX_TOKENS)
    with torch.cuda.device_of(hidden_states):
        out = torch.empty(tokens, hidden, dtype=hidden_states.dtype, device=hidden_states.device)
        words = words_operands(hidden_states, w13_packed, w13_scale, w2_packed, w2_scale, topk_ids, topk_weights)
        if words is not None:
            run_mega_words(
                words, out, grouped=grouped, scaling=scaling, limit=limit, max_blocks=max_blocks, reserve=reserve
            )
            return out
        forward = prepare(hidden_states, w13_packed, w13_scale, w2_scale, topk_ids, topk_weights, grouped=grouped)
        configuration = _configuration(forward)
        with barrier_launch(hidden_states.device, kernel="mega_moe", reserve=reserve) as launch:
            mega_moe_kernel[(_grid(forward, configuration, tokens, launch.num_sms, max_blocks),)](
                *forward.route,
                forward.groups, tokens,
                forward.x, forward.x.stride(0),
                w13_packed, w13_packed.stride(0), w13_packed.stride(1),
                forward.w13_scale, forward.w13_scale.stride(0), forward.w13_scale.stride(1),
                forward.act, 0.0 if limit is None else limit,
                w2_packed, w2_packed.stride(0), w2_packed.stride(1),
                forward.w2_scale, forward.w2_scale.stride(0), forward.w2_scale.stride(1),
                forward.partial,
                forward.ids, forward.weights, out, scaling,
                launch.words, MAX_POLLS,
                TOPK=topk, HAS_CLAMP=limit is not None, **configuration,
            )  # fmt: skip
    return out


@implements("mega_moe", name="grouped", capturable=_GROUPED_GRAPHS, interleavings=_TURNS)
def mega_moe_grouped(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_packed: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
    *,
    routed_scaling_factor: float = 1.0,
    clamp_limit: float | None = None,
    max_blocks: int | None = None,
) -> torch.Tensor:
    """``mega_moe`` with ``path="grouped"``."""
    return mega_moe(
        hidden_states, w13_packed, w13_scale, w2_packed, w2_scale, topk_ids, topk_weights,
        routed_scaling_factor=routed_scaling_factor, clamp_limit=clamp_limit, path="grouped", max_blocks=max_blocks,
    )  # fmt: skip


def _require_blocks(max_blocks: int | None) -> None:
    if max_blocks is None:
        return
    if isinstance(max_blocks, bool) or not isinstance(max_blocks, int):
        raise TypeError(f"max_blocks: wanted an integer, got {type(max_blocks).__name__}")
    if max_blocks < _PAIR:
        raise ValueError(f"max_blocks: wanted at least {_PAIR}, got {max_blocks}")


def _configuration(forward: Forward) -> dict[str, Any]:
    """Return the constants and options of the launch that are not those of the single steps."""
    float32_operands = forward.shared["OPERAND"] == tl.float32
    configuration: dict[str, Any] = {
        "DOWN_BLOCK_N": forward.down["BLOCK_N"],
        "DOWN_BLOCK_K": forward.down["BLOCK_K"],
        "COMBINE_BLOCK": _COMBINE_BLOCK,
    }
    # The three steps together spill where each alone does not.
    if float32_operands:
        configuration |= {"num_warps": 8, "BLOCK_K": 32}
    return forward.shared | forward.gate_up | configuration


def _grid(forward: Forward, configuration: dict[str, Any], tokens: int, num_sms: int, max_blocks: int | None) -> int:
    """Return how many blocks: as many as tiles in the widest step, at most one for each of ``num_sms``, even."""
    inter, hidden = configuration["INTER"], configuration["K"]
    widest = max(
        forward.groups * (inter // configuration["BLOCK_N"]),
        forward.groups * (hidden // configuration["DOWN_BLOCK_N"]),
        tokens * triton.cdiv(hidden, _COMBINE_BLOCK),
    )
    wanted = min(widest + widest % _PAIR, num_sms)
    if max_blocks is not None:
        wanted = min(wanted, max_blocks)
    # An upper bound of what any configuration takes, so nothing has to be compiled first; its shared memory leaves room
    # for one block, or the launch is refused.
    resources = Resources(num_warps=configuration["num_warps"], registers=_MOST_REGISTERS)
    where = current_target(forward.x.device, _VIRTUAL_TARGET)
    return barrier_safe_grid(wanted, resources, where, num_sms=num_sms, even=True).grid
