"""Family j, performance: kernels compiled again for each batch, and configurations looked up wrongly."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from harness.launch import constraints as constraint_scope
from harness.launch.current import pretending
from kernels import moe_scatter
from tests.bugs.cases import logits, merge, moe, scatter
from tests.bugs.entry import Bug, Policy, Source
from tests.bugs.running import Changed, replaced
from tests.teeth import state_checks
from tests.unit.scatter_checks import arguments

SCATTER_FILE = "kernels/_moe_scatter_kernels.py"


def _sweep(*tokens: int):
    return tuple(scatter((0, 1), experts=2, tokens=count) for count in tokens)


def large_batches_get_large_tiles() -> None:
    with pretending("sm_100"):
        tiles = [moe_scatter.moe_scatter_form(**arguments(tokens=count)).tile.m for count in (1, 64, 1024)]
    assert tiles == [16, 64, 128]


def the_non_persistent_form_has_warps() -> None:
    state_checks.the_non_persistent_form_has_warps(SimpleNamespace(constraints=constraint_scope))


BUGS = (
    Bug("B239", "triton-lang/triton#10884", "the number of programs is a constant of the kernel", "moe_scatter",
        "persistent-store", Source(SCATTER_FILE, "order_ptr, tiles_ptr, num_tiles, num_slots,",
                                   "order_ptr, tiles_ptr, num_tiles: tl.constexpr, num_slots,"), "variants",
        _sweep(32, 40, 33, 48, 72, 51)),
    Bug("B241", "sgl-project/sglang-jax#1249", "a default block that the shape is no multiple of", "mxfp4_moe", "slot",
        Source("kernels/_mxfp4_arguments.py", "    return min(size & -size, limit)",
               '    if size % limit:\n        raise ValueError("block size")\n    return limit'), "raises",
        moe((0,), hidden=64, inter=96, dtype=torch.float16)),
    Bug("B242", "triton-lang/triton#10875", "a stride made of the number of rows is a constant", "moe_scatter",
        "non-persistent", Source(SCATTER_FILE, "    order_ptr, tiles_ptr, num_slots, num_experts,\n    hidden_ptr",
                                 "    order_ptr, tiles_ptr, num_slots: tl.constexpr, num_experts,\n    hidden_ptr"),
        "variants", _sweep(32, 40, 33, 48, 72, 51)),
    Bug("B244", "Dao-AILab/flash-attention#911", "a number that no code needs specialises a kernel",
        "merge_attn_states", "triton",
        Source("kernels/merge_attn_states.py", "num_parts, num_rows, head_dim,\n    BLOCK_R",
               "num_parts, num_rows, head_dim, quads,\n    BLOCK_R",
               (("                head_dim,\n                BLOCK_R",
                 "                head_dim,\n                num_rows // 4,\n                BLOCK_R"),)), "variants",
        tuple(merge(*[()] * rows) for rows in (9, 10, 5, 66))),
    Bug("B245", "sgl-project/sglang#40371", "a length is a constant of the kernel", "paged_mqa_logits", "triton",
        Source("kernels/paged_mqa_logits.py", "logits_ptr, max_seq_len, num_heads,",
               "logits_ptr, max_seq_len: tl.constexpr, num_heads,"), "variants",
        tuple(logits(length) for length in (112, 115, 128, 120, 80, 119))),
)  # fmt: skip

POLICIES = (
    Policy("B246", "vllm-project/vllm#34846", "a default configuration where nothing was tuned",
           replaced(moe_scatter, BLOCK_M=((None, 16),)), large_batches_get_large_tiles),
    Policy("B247", "vllm-project/vllm#52192", "the nearest key is one of a small batch",
           replaced(moe_scatter, BLOCK_M=((16, 16), (None, 64))), large_batches_get_large_tiles),
    Policy("B249", "sgl-project/sglang#24281", "one warp for kernels that are not persistent",
           Changed("harness.launch.constraints", '    if name == "non-persistent" and num_warps == 1:\n',
                   "    if False:\n"),
           the_non_persistent_form_has_warps),
)  # fmt: skip
