"""Entries that only a GPU shows: graphs that are captured and replayed, and two devices in one process.

``graph:`` checks are those of ``harness.graphs.check_graphs``; the case is what is captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.bugs.cases import logits, mla, moe
from tests.bugs.entry import Around, Bug, Inputs, Outputs

LOGITS, MLA, MOE = "paged_mqa_logits", "sparse_mla_decode", "mxfp4_moe"


def _capturing() -> bool:
    return torch.cuda.is_current_stream_capturing()


def _plan_of_the_first_launch(lengths: str) -> Around:
    """Return the fault of a plan, made of the argument ``lengths`` before the capture and not again."""
    kept: dict[str, torch.Tensor] = {}

    def fault(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
        if not _capturing():
            kept["lengths"] = inputs[lengths].clone()
        return launch(**inputs | {lengths: kept["lengths"]})

    return fault


def zeros_while_capturing(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
    """Metadata is left at 0 on the branch that only a capture takes."""
    lens = torch.zeros_like(inputs["seq_lens"]) if _capturing() else inputs["seq_lens"]
    return launch(**inputs | {"seq_lens": lens})


def _one_output_for_all() -> Around:
    """Return the fault of an output buffer that the next launch writes again."""
    kept: dict[Any, torch.Tensor] = {}

    def fault(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
        right = launch(**inputs)["out"]
        with torch.inference_mode(False):
            out = kept.setdefault(tuple(right.shape), torch.empty_like(right))
        return {"out": out.copy_(right)}

    return fault


def waits_while_capturing(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
    """Lengths are read on the host."""
    assert inputs["topk_length"].max().item() >= 0
    return launch(**inputs)


BUGS = (
    Bug("B129", "flashinfer-ai/flashinfer#5176", "a plan of an earlier batch is replayed", LOGITS, "triton",
        _plan_of_the_first_launch("seq_lens"), "graph:inputs", logits(70, 3)),
    Bug("B135", "sgl-project/sglang#26521", "metadata left at 0 while it is captured", LOGITS, "triton",
        zeros_while_capturing, "graph:replay", logits(70, 3)),
    Bug("B145", "vllm-project/vllm-ascend#16794", "an output that the next launch takes away", MOE, "slot",
        _one_output_for_all(), "graph:", moe((0, 1), (2, 3))),
    Bug("B137", "sgl-project/sglang#24692", "lengths read on the host in a capture", MLA, "triton",
        waits_while_capturing, "graph:capture", mla(rows=2, lengths=(3, 2))),
    Bug("B149", "sgl-project/sglang#34190", "the tail of an earlier plan is used for padded rows", MLA, "triton",
        _plan_of_the_first_launch("topk_length"), "graph:inputs", mla(rows=2, lengths=(3, 2))),
)  # fmt: skip
