"""Family b, softmax and log-sum-exp of decode: empty parts, masked rows, bases, splits, tails."""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.strategies.layouts import Layout
from tests.bugs.cases import logits, merge, mla
from tests.bugs.entry import Bug, Source, given, refusing, result

MLA, LOGITS, MERGE = "sparse_mla_decode", "paged_mqa_logits", "merge_attn_states"
MERGE_FILE = "kernels/merge_attn_states.py"
LN_2 = math.log(2)


def merged_in_base_2(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Weights of parts are 2 to the power of their natural logarithm."""
    merged = launch(**inputs | {"lses": inputs["lses"] * LN_2})
    return merged | {"lse": merged["lse"] / LN_2}


def _base_2_if_strided(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    return outputs["lse"] if inputs["q"].is_contiguous() else outputs["lse"] / LN_2


def _other_layout(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    lse = outputs["lse"]
    return lse.T.contiguous().view(lse.shape)


def scaled_twice_in_lse(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    scale = 512**-0.5 if inputs["softmax_scale"] is None else inputs["softmax_scale"]
    return launch(**inputs) | {"lse": launch(**inputs | {"softmax_scale": scale * scale})["lse"]}


def _zero_over_zero(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    nothing = (outputs["lse"] == -math.inf)[:, None, :, None]
    return torch.where(nothing, math.nan, outputs["out"])


def nan_once_a_chunk_is_masked(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """A first chunk of 16 lanes without a token leaves NaN in the running maximum for good."""
    right = launch(**inputs)
    masked = (inputs["indices"][:, 0, :16] < 0).all(dim=1)
    return {
        "out": torch.where(masked[:, None, None, None], math.nan, right["out"]),
        "lse": torch.where(masked[:, None], math.nan, right["lse"]),
    }


def every_masked_key_counts(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """The smallest number in the place of -inf: exp(0) = 1 for every key of a row that has none."""
    right = launch(**inputs)
    keys = launch(**inputs | {"indices": inputs["indices"].clamp(min=0)})
    nothing = right["lse"] == -math.inf
    return {
        "out": torch.where(nothing[:, None, :, None], keys["out"], right["out"]),
        "lse": torch.where(nothing, keys["lse"], right["lse"]),
    }


def _mean_of_empty_parts(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    nothing = (inputs["lses"] == -math.inf).all(dim=0)
    mean = inputs["outs"].float().mean(dim=0).to(inputs["outs"].dtype)
    return torch.where(nothing[:, None], mean, outputs["out"])


def tail_of_page_times_zero(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Tokens behind the last of a sequence are read to the end of their page and weighted with 0."""
    lens = inputs["seq_lens"]
    whole = launch(**inputs | {"seq_lens": (lens + 63) // 64 * 64, "max_seq_len": 64})["logits"]
    return {"logits": launch(**inputs)["logits"] + (whole * 0).sum(dim=1, keepdim=True)}


def masked_by_addition(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Logits behind a sequence get -inf added, which leaves NaN as it is."""
    lens, width = inputs["seq_lens"].flatten(), inputs["max_seq_len"]
    whole = launch(**inputs | {"seq_lens": (lens + 63) // 64 * 64})["logits"]
    return {"logits": whole + torch.where(torch.arange(width, device=lens.device) < lens[:, None], 0.0, -math.inf)}


def last_slot_of_page_times_zero(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """A tile loads V to the end of its page; weights past the last token are 0."""
    right = launch(**inputs)
    size = inputs["k_cache"].shape[1]
    ends = launch(**inputs | {"indices": inputs["indices"] // size * size + size - 1})
    return right | {"out": right["out"] + 0 * ends["out"]}


def _columns_of_a_power_of_two(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    out = outputs["out"].clone()
    out[..., 1 << out.shape[-1].bit_length() - 1 :] = 0
    return out


BUGS = (
    Bug("B038", "flashinfer-ai/flashinfer#4051", "two empty parts merge to NaN", MERGE, "triton",
        Source(MERGE_FILE, 'top = tl.where(tl.abs(top) == float("inf"), 0.0, top)', "top = top"), "oracle:out",
        merge((0, 1))),
    Bug("B039", "flashinfer-ai/flashinfer#4401", "a finite number for -inf hides what is below it", MERGE, "triton",
        Source(MERGE_FILE, 'float("-inf")', "-5.0e4"), "oracle:lse", merge((), lse_ranges=("low",))),
    Bug("B040", "sgl-project/sglang#33064", "natural log-sum-exps merged with powers of 2", MERGE, "triton",
        merged_in_base_2, "oracle:out", merge(())),
    Bug("B041", "vllm-project/vllm#47079", "decode answers in base 2, its caller takes e", MLA, "triton",
        result(lse=lambda o, i: o["lse"] / LN_2), "oracle:lse", mla()),
    Bug("B043", "flashinfer-ai/flashinfer#4485", "the base depends on the layout of the query", MLA, "triton",
        result(lse=_base_2_if_strided), "oracle:lse",
        mla(heads=2, q_layout=Layout(kind="padded_rows", amount=8))),
    Bug("B044", "NVIDIA/Megatron-LM#7103", "offsets in a block compared with the number of all", MERGE, "triton",
        Source(MERGE_FILE, "in_rows = row < num_rows", "in_rows = tl.arange(0, BLOCK_R) < num_rows"), "memory",
        merge(*[()] * 5, parts=1, dim=512)),
    Bug("B045", "vllm-project/vllm#49157", "head counts that are no power of two fail", LOGITS, "triton",
        refusing(lambda i: bool(i["q"].shape[2] & i["q"].shape[2] - 1), ValueError("arange's range")), "raises",
        logits(1, heads=6)),
    Bug("B046", "vllm-project/vllm#27965", "value width taken for a power of two", MLA, "triton",
        result(out=_columns_of_a_power_of_two), "oracle:out", mla(head_dim_v=37)),
    Bug("B048", "ROCm/fleet-chiplet-megakernel#8", "exponent in base 2, mantissa in base e", MERGE, "triton",
        Source(MERGE_FILE, "top + tl.log(total)", "top * 1.4426950408889634 + tl.log(total)"), "oracle:lse",
        merge((), parts=1)),
    Bug("B049", "vllm-project/flash-attention#87", "log-sum-exp of splits in another layout", MLA, "split",
        result(lse=_other_layout), "oracle:lse", mla(heads=3, rows=2)),
    Bug("B051", "HKUSTDial/flash-sparse-attention#106", "softmax scale twice in the log-sum-exp", MLA, "triton",
        scaled_twice_in_lse, "oracle:lse", mla()),
    Bug("B053", "vllm-project/vllm#57094", "padded rows divide 0 by 0", MLA, "triton", result(out=_zero_over_zero),
        "oracle:out", mla(rows=2, lengths=(0, 3))),
    Bug("B054", "vllm-project/vllm#54929", "splits know no valid length", MLA, "split",
        given(topk_length=lambda i: None), "oracle:out", mla(topk=33, lengths=(3,))),
    Bug("B055", "Dao-AILab/flash-attention#1745", "V read past the length and weighted with 0", MLA, "triton",
        last_slot_of_page_times_zero, "poison:unreferenced tokens", mla(topk=1)),
    Bug("B056", "flashinfer-ai/flashinfer#941", "NaN in unfilled slots of the last page", LOGITS, "triton",
        tail_of_page_times_zero, "poison:unreferenced tokens", logits(13)),
    Bug("B058", "vllm-project/vllm#47305", "loop bound a tile too far", LOGITS, "triton",
        given(seq_lens=lambda i: i["seq_lens"] + 64), "oracle:logits", logits(70, 64, room=128)),
    Bug("B059", "deepbeepmeep/Wan2GP#1628", "NaN plus -inf is NaN", LOGITS, "triton", masked_by_addition,
        "poison:unreferenced tokens", logits(13, room=64)),
    Bug("B060", "vllm-project/vllm#48364", "first chunk of indices masked", MLA, "single", nan_once_a_chunk_is_masked,
        "oracle:out", mla(topk=17, planted=tuple((0, lane, -1) for lane in range(16)))),
    Bug("B061", "NVIDIA/TensorRT-LLM#17477", "every masked key of a masked row weighs 1", MLA, "triton",
        every_masked_key_counts, "oracle:lse", mla(topk=2, filled=(0,))),
    Bug("B063", "NVIDIA/apex#1390", "all keys are averaged where all are masked", MERGE, "triton",
        result(out=_mean_of_empty_parts), "poison:empty part", merge((0, 1))),
)  # fmt: skip

POLICIES = ()
