"""Family i, races, memory nobody wrote, rows left out, aliases: what another order or other junk would show."""

from __future__ import annotations

from typing import Any

from tests.bugs.cases import ep, mega, merge, mla, moe, part, scatter
from tests.bugs.entry import Around, Bug, Source
from tests.bugs.family_a import split_without_reserved_page
from tests.bugs.running import BARRIER, Made

MLA, MERGE = "sparse_mla_decode", "merge_attn_states"
MOE, MEGA, EP = "mxfp4_moe", "mega_moe", "ep_dispatch_combine"
_TWO_RANKS = ep((0, 1), live=(1, 1), tokens=1)
_OUT = "out = torch.empty(tokens, hidden, dtype=hidden_states.dtype, device=hidden_states.device)"


def _added_up_over_launches() -> Around:
    """Return the fault of a benchmark that launches more than once into what is not cleared."""
    launched = [0]

    def fault(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        launched[0] += 1
        right = launch(**inputs)
        return right | {"out": right["out"] * (1 + launched[0] % 2)}

    return fault


def not_compacted(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Valid lanes are counted, but not moved to the front: the last ones are dropped."""
    ids = inputs["indices"]
    valid = (ids >= 0).sum(dim=2)[:, 0]
    return launch(**inputs | {"topk_length": valid.int()})


BUGS = (
    Bug("B219", "sgl-project/sglang#39288", "scratch of split pages with NaN in the reserved page", MLA, "split",
        split_without_reserved_page, "unwritten",
        mla(main=part(used=2, rows=3, planted=((1, 2, -1),)))),
    Bug("B220", "vllm-project/vllm#37442", "rows without tokens are not written", MLA, "triton",
        Source("kernels/_sparse_mla_kernels.py", "    share = tl.cdiv(tiles, num_splits)\n",
               "    if tiles == 0:\n        return\n    share = tl.cdiv(tiles, num_splits)\n"), "written",
        mla(rows=2, lengths=(0, 3))),
    Bug("B221", "vllm-project/vllm#56922", "padding rows are not written", MERGE, "triton",
        Source("kernels/merge_attn_states.py", "triton.cdiv(num_rows, block_r), max",
               "max(1, num_rows // block_r), max"), "written", merge(*[()] * 5, parts=1, dim=512)),
    Bug("B222", "sgl-project/sglang#37663", "no barrier between placing and moving", EP, "triton",
        Source("kernels/_ep_kernels.py", "if grid_barrier(words_ptr, 2, max_polls):", "if max_polls > 0:"),
        "interleaving", _TWO_RANKS),
    Bug("B224", "flashinfer-ai/flashinfer#5251", "one thread's release without a barrier of its block before", EP,
        "triton", Made("harness/launch/grid_barrier.py", "_publish", "barrier",
                       "tl.debug_barrier()", "pass"), "interleaving", _TWO_RANKS),
    Bug("B225", "flashinfer-ai/flashinfer#3624", "lanes of padding keep an id past the last", "moe_scatter",
        "non-persistent", Made("kernels/_moe_scatter_kernels.py", "_store_rows", "mask",
                               "live[:, None] & (row < N)[None, :]", "(row < N)[None, :]"), "memory", scatter((0, 1))),
    Bug("B225", "flashinfer-ai/flashinfer#3624", "storage of counts used without waiting for all of them", EP, "triton",
        Source("kernels/_ep_kernels.py", "if grid_barrier(words_ptr, 1, max_polls):\n        _place",
               "if max_polls > 0:\n        _place", (("grid_barrier(words_ptr, 2,", "grid_barrier(words_ptr, 1,"),)),
        "interleaving", _TWO_RANKS),
    Bug("B231", "ROCm/mori#522", "arrival before the stores are out", EP, "triton",
        Source(BARRIER, '    _publish()\n    tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")\n',
               '    tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")\n    _publish()\n'), "interleaving",
        _TWO_RANKS),
    Bug("B232", "triton-lang/triton#6547", "tuning launches add to the result", MOE, "slot", _added_up_over_launches(),
        "repeat", moe((0,))),
    Bug("B234", "sgl-project/sglang#36716", "a compaction that does not move anything", MLA, "triton", not_compacted,
        "oracle:out", mla(planted=((0, 0, -1),))),
    Bug("B235", "flashinfer-ai/flashinfer#1463", "counters in scratch that others leave dirty", MOE, "grouped",
        Source("kernels/_mxfp4_words_kernels.py", "clear_turns(turns_ptr, num_turns, CHUNK)", "pass"), "unwritten",
        moe((0,))),
    Bug("B236", "FlashML-org/FreeToken#463", "experts overwrite what the shared one reads", MOE, "slot",
        Source("kernels/mxfp4_moe.py", _OUT, "out = hidden_states"), "memory", moe((0,))),
    Bug("B237", "vllm-project/vllm#28939", "an output that is an input", MEGA, "auto",
        Source("kernels/mega_moe.py", _OUT, "out = hidden_states"), "memory", mega((0,))),
)  # fmt: skip

POLICIES = ()
