"""Family h, numerics: roundings, saturation, NaN, precision of sums, results that depend on the batch."""

from __future__ import annotations

from typing import Any

import torch

from reference import _formats
from tests.bugs.cases import logits, merge, mla, moe, scatter
from tests.bugs.entry import Bug, Policy, Source, given, result
from tests.bugs.running import changed, replaced

SCATTER, MERGE, MLA, LOGITS, MOE = (
    "moe_scatter",
    "merge_attn_states",
    "sparse_mla_decode",
    "paged_mqa_logits",
    "mxfp4_moe",
)


def _codes(change: Any) -> Any:
    return lambda inputs: change(inputs["w"].view(torch.uint8)).view(torch.float8_e4m3fn)


def _saturated_from_256(codes: torch.Tensor) -> torch.Tensor:
    return torch.where((codes & 0x7F >= 0x78) & (codes & 0x7F < 0x7F), codes | 0x7E, codes)


def _nan_is_the_largest(codes: torch.Tensor) -> torch.Tensor:
    return torch.where(codes & 0x7F == 0x7F, codes & 0xFE, codes)


def _by_row(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    out = outputs["out"].clone()
    out.view(torch.int16)[1::2] ^= 1
    return out


def _keys_without_nan(inputs: dict[str, Any]) -> torch.Tensor:
    cache = inputs["kv_cache"]
    flat = cache.view(torch.uint8).flatten(1).clone()
    flat[:, : 64 * 128] = _nan_is_the_largest(flat[:, : 64 * 128])
    return flat.view(cache.shape).view(cache.dtype)


def _cut_to_tf32(inputs: dict[str, Any]) -> torch.Tensor:
    return (inputs["outs"].view(torch.int32) & ~0x1FFF).view(torch.float32)


def _zero_where_the_scale_is_subnormal(inputs: dict[str, Any]) -> torch.Tensor:
    return torch.where((inputs["w_scale"] == 0).repeat_interleave(16, dim=-1), 0, inputs["w"])


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
        given(w=_codes(_saturated_from_256)), "oracle:out", scatter((0,), weights="e4m3")),
    Bug("B201", "sgl-project/sglang#31712", "NaN clamped to the largest", SCATTER, "auto",
        given(w=_codes(_nan_is_the_largest)), "oracle:out", scatter((0,), weights="e4m3", nan_in="w")),
    Bug("B203", "deepseek-ai/FlashMLA#212", "a row depends on its place in the batch", MLA, "triton",
        result(out=_by_row), "relation:batch permuted", mla(rows=2)),
    Bug("B208", "flagos-ai/FlagGems#6322", "float32 operands cut to TF32", MERGE, "triton", given(outs=_cut_to_tf32),
        "oracle:out", merge((), dtype=torch.float32)),
    Bug("B210", "pytorch/pytorch#125557", "2**-127 flushed to 0", SCATTER, "non-persistent",
        given(w=_zero_where_the_scale_is_subnormal), "oracle:out",
        scatter((0,), weights="e2m1-uint8", scale_range="lowest")),
    Bug("B214", "vllm-project/vllm#49077", "an E4M3 decoder without NaN", LOGITS, "triton",
        given(kv_cache=_keys_without_nan), "oracle:logits", logits(1, special="nan_key")),
    Bug("B216", "pytorch/pytorch#188998", "products summed in bfloat16", SCATTER, "non-persistent",
        Source("kernels/_moe_scatter_kernels.py", "acc = tl.dot(x, w.T, acc)",
               "acc = (acc + tl.dot(x, w.T)).to(tl.bfloat16).to(tl.float32)"), "oracle:out",
        scatter((0, 1), hidden=1024, out=72)),
    Bug("B218", "modular/modular#7165", "partial sums of splits stored in bfloat16", MERGE, "triton",
        given(outs=lambda i: i["outs"].bfloat16().float()), "oracle:out", merge((), dtype=torch.float32)),
    Bug("B209", "pytorch/pytorch#122260", "a rounded and an unrounded difference mixed", MOE, "slot",
        result(out=lambda o, i: (o["out"].float() * (1 + 2.0**-7)).to(o["out"].dtype)), "oracle:out",
        moe((0, 1), tokens=3)),
)  # fmt: skip

POLICIES = (
    Policy("B200", "pytorch/pytorch#178817", "the reference saturates where the format does not",
           changed("reference._formats", "torch.where(product.float().isinf(), product.float().double(), product)",
                   "product.clamp(-3.4e38, 3.4e38)"),
           a_product_that_overflows_in_float32_is_infinite),
    Policy("B213", "triton-lang/triton#10745", "a NaN byte decodes to a number in the reference",
           replaced(_formats, E4M3=_nan_as_480()), codes_have_their_values),
)  # fmt: skip
