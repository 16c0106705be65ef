"""Family h, numerics: roundings, saturation, NaN, precision of sums, results that depend on the batch."""

from __future__ import annotations

from typing import Any

import torch

from harness.contracts.sparse_mla_decode import HUGE_SCALE
from reference import _formats
from tests.bugs.cases import merge, mla, scatter
from tests.bugs.entry import Bug, Policy, Source, given, result
from tests.bugs.running import Changed, Made, replaced

SCATTER, MERGE, MLA, LOGITS, MOE = (
    "moe_scatter",
    "merge_attn_states",
    "sparse_mla_decode",
    "paged_mqa_logits",
    "mxfp4_moe",
)
SCATTER_FILE, MLA_KERNELS = "kernels/_moe_scatter_kernels.py", "kernels/_sparse_mla_kernels.py"
_E4M3_NAN = 'tl.where(magnitude == 0x7F, float("nan"), value)'


def _by_row(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    out = outputs["out"].clone()
    out.view(torch.int16)[1::2] ^= 1
    return out


def _cut_to_tf32(inputs: dict[str, Any]) -> torch.Tensor:
    return (inputs["outs"].view(torch.int32) & ~0x1FFF).view(torch.float32)


def codes_have_their_values() -> None:
    values = _formats.decode_e4m3(torch.tensor([0x00, 0x01, 0x38, 0x7E, 0x7F, 0x80, 0xFE, 0xFF], dtype=torch.uint8))
    assert values.isnan().tolist() == [False] * 4 + [True] + [False] * 2 + [True]
    assert values.nan_to_num(0).tolist() == [0.0, 2.0**-9, 1.0, 448.0, 0.0, 0.0, -448.0, 0.0]
    scales = _formats.decode_e8m0(torch.tensor([0, 1, 127, 254, 255], dtype=torch.uint8))
    assert scales[:4].tolist() == [2.0**-127, 2.0**-126, 1.0, 2.0**127]
    assert scales[4].isnan()


def a_product_that_overflows_in_float32_is_infinite() -> None:
    six, largest = torch.full((1, 32), 6.0, dtype=torch.float64), torch.tensor([[2.0**127]], dtype=torch.float64)
    assert _formats.apply_scale(six, largest, 32).isinf().all()


def _nan_as_480() -> torch.Tensor:
    return torch.where(_formats.E4M3.isnan(), 480.0, _formats.E4M3)


BUGS = (
    Bug("B198", "sgl-project/sglang#37140", "everything from 256 on becomes 448", SCATTER, "non-persistent",
        Source(SCATTER_FILE, "    magnitude = bits & 0x7F\n",
               "    magnitude = bits & 0x7F\n"
               "    magnitude = tl.where((magnitude >= 0x78) & (magnitude < 0x7F), 0x7E, magnitude).to(tl.uint16)\n"),
        "oracle:out", scatter((0,), weights="e4m3")),
    Bug("B201", "sgl-project/sglang#31712", "NaN clamped to the largest", SCATTER, "non-persistent",
        Source(SCATTER_FILE, _E4M3_NAN, "tl.where(magnitude == 0x7F, 448.0, value)"), "oracle:out",
        scatter((0,), weights="e4m3", nan_in="w")),
    Bug("B203", "deepseek-ai/FlashMLA#212", "a row depends on its place in the batch", MLA, "triton",
        result(out=_by_row), "relation:batch permuted", mla(rows=2)),
    Bug("B208", "flagos-ai/FlagGems#6322", "float32 operands cut to TF32", MERGE, "triton", given(outs=_cut_to_tf32),
        "oracle:out", merge((), dtype=torch.float32)),
    Bug("B210", "pytorch/pytorch#125557", "exp2 flushes 2**-127 to 0", SCATTER, "non-persistent",
        Source("kernels/_fp4.py", "return bits.to(tl.uint16).to(tl.bfloat16, bitcast=True)",
               "return tl.exp2(scale_bytes.to(tl.float32) - 127.0).to(tl.bfloat16)"), "oracle:out",
        scatter((0,), weights="e2m1-uint8", scale_range="lowest")),
    Bug("B214", "vllm-project/vllm#49077", "an E4M3 decoder without NaN: 480", SCATTER, "persistent-store",
        Made("kernels/_moe_scatter_kernels.py", "e4m3_to_bfloat16", "select",
             'tl.where(magnitude == 0x7F, float("nan"), value)', "value"),
        "oracle:out", scatter((0,), weights="e4m3", nan_in="w")),
    Bug("B216", "pytorch/pytorch#188998", "products summed in bfloat16", SCATTER, "non-persistent",
        Source("kernels/_moe_scatter_kernels.py", "acc = tl.dot(x, w.T, acc)",
               "acc = (acc + tl.dot(x, w.T)).to(tl.bfloat16).to(tl.float32)"), "oracle:out",
        scatter((0, 1), hidden=1024, out=72)),
    Bug("B218", "modular/modular#7165", "partial sums of splits stored in bfloat16", MLA, "split",
        Source("kernels/sparse_mla_decode.py", "torch.empty(rows, dtype=torch.float32, device=q.device)",
               "torch.empty(rows, dtype=torch.bfloat16, device=q.device)"), "oracle:lse", mla(topk=33)),
    Bug("B209", "pytorch/pytorch#122260", "a rounded maximum taken from an unrounded product", MLA, "triton",
        Source(MLA_KERNELS, "    score = tl.where(valid[None, :], score * score_scale,",
               "    raw = score\n    score = tl.where(valid[None, :], score * score_scale,",
               (("weight = tl.exp2(score - reference[:, None])",
                 "fused = tl.fma(raw, raw * 0 + score_scale, raw * 0 - reference[:, None])\n"
                 '    weight = tl.where(score == float("-inf"), 0.0, tl.exp2(fused))'),)), "oracle:out",
        mla(softmax_scale=HUGE_SCALE)),
)  # fmt: skip

POLICIES = (
    Policy("B200", "pytorch/pytorch#178817", "the reference saturates where the format does not",
           Changed("reference._formats", "torch.where(product.float().isinf(), product.float().double(), product)",
                   "product.clamp(-3.4e38, 3.4e38)"),
           a_product_that_overflows_in_float32_is_infinite),
    Policy("B213", "triton-lang/triton#10745", "a NaN byte decodes to a number in the reference",
           replaced(_formats, E4M3=_nan_as_480()), codes_have_their_values),
)  # fmt: skip
