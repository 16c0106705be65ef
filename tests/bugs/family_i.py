"""Family i, races, memory nobody wrote, rows left out, aliases: what another order or other junk would show."""

from __future__ import annotations

from typing import Any

import torch

from tests.bugs.cases import ep, mega, merge, mla, moe, part
from tests.bugs.entry import Around, Bug, Source
from tests.bugs.family_a import split_without_reserved_page
from tests.bugs.running import BARRIER

MLA, MERGE = "sparse_mla_decode", "merge_attn_states"
MOE, MEGA, EP = "mxfp4_moe", "mega_moe", "ep_dispatch_combine"
_TWO_RANKS = ep((0, 1), live=(1, 1), tokens=1)


def rows_without_tokens_left_out(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    right = launch(**inputs)
    out = torch.empty_like(right["out"])
    for row, length in enumerate(inputs["topk_length"].tolist()):
        if length > 0:
            out[row] = right["out"][row]
    return right | {"out": out}


def padded_rows_left_out(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    right = launch(**inputs)
    out = torch.empty_like(right["out"])
    out[:-1] = right["out"][:-1]
    return right | {"out": out}


def _added_up_over_launches() -> Around:
    """Return the fault of a benchmark that launches more than once into what is not cleared."""
    launched = [0]

    def fault(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        launched[0] += 1
        right = launch(**inputs)
        return right | {"out": right["out"] * (1 + launched[0] % 2)}

    return fault


def scratch_not_cleared(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Partial sums are added to scratch that another kernel is expected to have left clear."""
    right = launch(**inputs)
    return right | {"out": torch.empty_like(right["out"]) + right["out"]}


def experts_in_place(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    right = launch(**inputs)
    inputs["hidden_states"].copy_(right["out"])
    return right


def answers_with_its_input(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    return {"out": inputs["hidden_states"].copy_(launch(**inputs)["out"])}


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
        rows_without_tokens_left_out, "written", mla(rows=2, lengths=(0, 3))),
    Bug("B221", "vllm-project/vllm#56922", "padding rows are not written", MERGE, "triton", padded_rows_left_out,
        "written", merge((), ())),
    Bug("B222", "sgl-project/sglang#37663", "no barrier between placing and moving", EP, "triton",
        Source("kernels/_ep_kernels.py", "if grid_barrier(words_ptr, 2, max_polls):", "if max_polls > 0:"),
        "interleaving", _TWO_RANKS),
    Bug("B224", "flashinfer-ai/flashinfer#5251", "one thread's release without a barrier of its block before", EP,
        "triton", Source(BARRIER, "    tl.debug_barrier()\n", "    pass\n"), "interleaving", _TWO_RANKS),
    Bug("B225", "flashinfer-ai/flashinfer#3624", "lanes of padding keep an id past the last", EP, "triton",
        Source("kernels/_ep_kernels.py", "tl.where(expert >= 0, expert // experts_per_rank, -1)",
               "tl.where(expert >= 0, tl.minimum(expert // experts_per_rank, RANKS - 1), -1)"), "oracle:recv_counts",
        ep((5,), live=(1, 1), tokens=1, spare=None)),
    Bug("B231", "ROCm/mori#522", "arrival before the stores are out", EP, "triton",
        Source(BARRIER, '    _publish()\n    tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")\n',
               '    tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")\n    _publish()\n'), "interleaving",
        _TWO_RANKS),
    Bug("B232", "triton-lang/triton#6547", "tuning launches add to the result", MOE, "slot", _added_up_over_launches(),
        "repeat", moe((0,))),
    Bug("B234", "sgl-project/sglang#36716", "a compaction that does not move anything", MLA, "triton", not_compacted,
        "oracle:out", mla(planted=((0, 0, -1),))),
    Bug("B235", "flashinfer-ai/flashinfer#1463", "counters in scratch that others leave dirty", MOE, "grouped",
        scratch_not_cleared, "unwritten", moe((0,))),
    Bug("B236", "FlashML-org/FreeToken#463", "experts overwrite what the shared one reads", MOE, "slot",
        experts_in_place, "inputs", moe((0,))),
    Bug("B237", "vllm-project/vllm#28939", "an output that is an input", MEGA, "auto", answers_with_its_input, "inputs",
        mega((0,))),
)  # fmt: skip

POLICIES = ()
