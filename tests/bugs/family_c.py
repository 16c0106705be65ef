"""Family c, mixture of experts: ids that name nobody, scales, clamps, factors, layouts of weights, capacity."""

from __future__ import annotations

from typing import Any

import torch

from harness.contracts.moe_scatter import FAR_EXPERTS
from harness.poison import INT32_MAX
from harness.strategies.layouts import Layout, far
from tests.bugs.cases import ep, mega, moe, scatter
from tests.bugs.entry import Bug, Source, given, result

MOE, MEGA, SCATTER, EP = "mxfp4_moe", "mega_moe", "moe_scatter", "ep_dispatch_combine"
_TO_INT32 = (".to(tl.int64)", ".to(tl.int32)")


def _ids(change: Any) -> Any:
    """Return the fault of ids that are what ``change(ids, number of experts)`` makes of them."""

    def changed(inputs: dict[str, Any]) -> torch.Tensor:
        weights = inputs["w"] if "w" in inputs else inputs["w13_packed"]
        return change(inputs["topk_ids"], weights.shape[0])

    return given(topk_ids=changed)


def _codes(name: str, change: Any) -> Any:
    """Return the fault of bytes of the argument ``name`` that are what ``change`` makes of them."""
    return given(**{name: lambda inputs: change(inputs[name].view(torch.uint8).int()).to(torch.uint8)})


def _zero_scales_are_zero(scale: str, packed: str) -> Any:
    """Return the fault of E8M0 code 0 that decodes to 0 instead of 2**-127."""

    def change(inputs: dict[str, Any]) -> torch.Tensor:
        lost = (inputs[scale] == 0).repeat_interleave(16, dim=-1)
        return torch.where(lost, 0, inputs[packed])

    return given(**{packed: change})


def _lost_above_8_tokens(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    if len(inputs["hidden_states"]) <= 8:
        return launch(**inputs)
    return _zero_scales_are_zero("w13_scale", "w13_packed")(launch, inputs)


def unwritten_for_nobody(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Rows of slots without an expert stay as they were allocated."""
    right = launch(**inputs)["out"]
    out = torch.empty_like(right)
    ids = inputs["topk_ids"]
    for token, slot in ((ids >= 0) & (ids < len(inputs["w"]))).nonzero().tolist():
        out[token, slot] = right[token, slot]
    return {"out": out}


def _masked_by_product(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    valid = (inputs["topk_ids"] >= 0).any(dim=1, keepdim=True)
    return outputs["out"] + torch.where(valid, 0, inputs["hidden_states"] * 0)


def _padding_of_rows(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    w = inputs["w"]
    wide = w.as_strided((*w.shape[:2], w.stride(1)), w.stride())
    return outputs["out"] + (wide[..., w.shape[2] :] * 0).sum()


def _whole_blocks_of_64(inputs: dict[str, Any]) -> torch.Tensor:
    packed = inputs["w2_packed"].clone()
    packed[..., packed.shape[-1] // 32 * 32 :] = 0
    return packed


def counted_with_bincount(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Slots are counted by expert before anybody looks for ids below 0."""
    torch.bincount(inputs["topk_ids"].flatten().long(), minlength=len(inputs["w13_packed"]))
    return launch(**inputs)


def _twice_is_once(ids: torch.Tensor, experts: int) -> torch.Tensor:
    return torch.cat((ids[:, :1], torch.where(ids[:, 1:] == ids[:, :1], -1, ids[:, 1:])), dim=1)


def _squared(inputs: dict[str, Any]) -> float:
    return inputs["routed_scaling_factor"] ** 2


def _shuffled_rows(inputs: dict[str, Any]) -> torch.Tensor:
    w = inputs["w13_packed"]
    return w.view(w.shape[0], 2, -1, w.shape[2]).transpose(1, 2).reshape(w.shape)


BUGS = (
    Bug("B065", "linkedin/Liger-Kernel#1296", "expert's weight offset in 32 bits", MOE, "slot",
        Source("kernels/*.py", *_TO_INT32), "memory", moe((0, 2), experts=3, weight_layout=far(3))),
    Bug("B066", "deepspeedai/DeepSpeed#8261", "expert's base pointer in 32 bits", SCATTER, "non-persistent",
        Source("kernels/_moe_scatter_kernels.py", "own = expert.to(tl.int64)", "own = expert"), "memory",
        scatter((0, 2), experts=3, w_layout=FAR_EXPERTS)),
    Bug("B070", "sgl-project/sglang#12701", "invalid ids aligned with those of an expert", MOE, "grouped",
        _ids(lambda ids, experts: ids.clamp(min=0)), "poison:invalid slot weights", moe((-1, 1))),
    Bug("B071", "ModelTC/LightLLM#1369", "expert number wrapped modulo their count", MOE, "slot",
        _ids(lambda ids, experts: torch.where(ids >= 0, ids % experts, ids)), "poison:invalid slot weights",
        moe((4, 1))),
    Bug("B073", "meta-pytorch/MSLK#36", "output of an expert without tokens never written", SCATTER, "auto",
        unwritten_for_nobody, "written", scatter((-1, 1))),
    Bug("B075", "vllm-project/vllm#41249", "padding rows masked by a product", MOE, "slot",
        result(out=_masked_by_product), "poison:rows of padded tokens", moe((-1, -1), (0, 1))),
    Bug("B076", "sgl-project/sglang#25519", "decoded scale compared with 128 instead of the code with 255", MOE,
        "slot", _codes("w13_scale", lambda code: torch.where(code == 255, 134, code)), "oracle:out",
        moe((0,), nan_in="w13_scale")),
    Bug("B077", "NVIDIA/TransformerEngine#3262", "scale code 0 decodes to 0", MOE, "grouped",
        _zero_scales_are_zero("w13_scale", "w13_packed"), "oracle:out", moe((0,), scale_range="lowest")),
    Bug("B077", "NVIDIA/TransformerEngine#3262", "scale code 255 decodes to infinity", SCATTER, "non-persistent",
        Source("kernels/_fp4.py", "exponent == 255, 0x7FC0,", "exponent == 255, 0x7F80,"), "oracle:out",
        scatter((0, 1), weights="e2m1", nan_in="w_scale")),
    Bug("B078", "vllm-project/vllm#46676", "the smallest scale off by a bit", SCATTER, "auto",
        Source("kernels/_fp4.py", "exponent == 0, 0x0040,", "exponent == 0, 0x0041,"), "oracle:out",
        scatter((0, 1), (2, 3), tokens=4, out=64, weights="e2m1", scale_range="subnormal")),
    Bug("B078", "vllm-project/vllm#46676", "two paths by size apply a scale differently", MOE, "auto",
        _lost_above_8_tokens, "oracle:out", moe((0,), tokens=9, scale_range="lowest")),
    Bug("B080", "jundot/omlx#2159", "scale bytes multiplied as integers", MOE, "slot",
        given(w13_scale=lambda i: i["w13_scale"].float(), w2_scale=lambda i: i["w2_scale"].float()), "oracle:out",
        moe((0,))),
    Bug("B081", "vllm-project/compressed-tensors#538", "scales stored with a bias of 125", MOE, "slot",
        _codes("w2_scale", lambda code: code - 2), "oracle:out", moe((0,))),
    Bug("B083", "sgl-project/sglang#23776", "one of two paths lacks the clamp", MOE, "slot",
        given(clamp_limit=lambda i: None), "oracle:out", moe((0,), clamp_limit=1.0)),
    Bug("B085", "lightseekorg/tokenspeed#1647", "clamp dropped on the way to the kernel", MEGA, "auto",
        given(clamp_limit=lambda i: None), "oracle:out", mega((0,), clamp_limit=1.0)),
    Bug("B086", "vllm-project/vllm-ascend#14363", "clamp lost for routed experts", MOE, "grouped",
        given(clamp_limit=lambda i: None), "oracle:out", moe((0,), clamp_limit=1.0)),
    Bug("B087", "vllm-project/vllm#24119", "routed scaling applied twice", MOE, "slot",
        given(routed_scaling_factor=_squared), "oracle:out", moe((0,), routed_scaling_factor=2.5)),
    Bug("B088", "vllm-project/vllm#45037", "routed scaling applied twice again", MOE, "grouped",
        given(routed_scaling_factor=_squared), "oracle:out", moe((0,), routed_scaling_factor=0.375)),
    Bug("B090", "kvcache-ai/sglang#86", "experts on the device scaled twice", MEGA, "auto",
        given(routed_scaling_factor=_squared), "oracle:out", mega((0,), routed_scaling_factor=2.5)),
    Bug("B091", "sgl-project/sglang#26884", "shuffled weights for a kernel of plain ones", MOE, "slot",
        given(w13_packed=_shuffled_rows), "oracle:out", moe((0,))),
    Bug("B093", "flashinfer-ai/flashinfer#4093", "scales in another order than their groups", MOE, "slot",
        given(w13_scale=lambda i: i["w13_scale"].roll(1, -1)), "oracle:out", moe((0,), hidden=64)),
    Bug("B095", "vllm-project/vllm#55251", "padding of weight rows multiplied with 0", SCATTER, "non-persistent",
        result(out=_padding_of_rows), "poison:weight row padding",
        scatter((0,), w_layout=Layout(kind="padded_rows", amount=16))),
    Bug("B096", "vllm-project/vllm#17604", "intermediate size no multiple of the block", MOE, "slot",
        given(w2_packed=_whole_blocks_of_64), "oracle:out", moe((0,), inter=96)),
    Bug("B097", "sgl-project/sglang#28155", "grouped path counts ids of -1", MOE, "grouped", counted_with_bincount,
        "raises", moe((-1, 1))),
    Bug("B098", "sgl-project/sglang#27194", "more rows than there is room for, in silence", EP, "triton",
        Source("kernels/ep_dispatch_combine.py", "capacity < world * max_tokens and not _capturing(x.device)", "False"),
        "rejects:one row too many"),
    Bug("B100", "sgl-project/sglang#39804", "rows that are no tokens are sent", EP, "triton",
        given(num_tokens=lambda i: torch.full_like(i["num_tokens"], i["x"].shape[1])), "oracle:recv_counts",
        ep((0,), live=(1,), tokens=2)),
    Bug("B101", "sgl-project/sglang#28378", "padded ids followed, whatever they are", SCATTER, "non-persistent",
        Source("kernels/_moe_scatter_kernels.py", "(expert >= 0) & (expert < num_experts)", "expert >= 0"), "memory",
        scatter((INT32_MAX, 0))),
    Bug("B103", "ROCm/aiter#4636", "negative ids count from the end", MOE, "slot",
        _ids(lambda ids, experts: torch.where(ids < 0, ids + experts, ids)), "poison:invalid slot weights",
        moe((-1, 1))),
    Bug("B105", "vllm-project/vllm#50844", "an id past the last is the last", EP, "triton",
        given(topk_ids=lambda i: i["topk_ids"].clamp(max=len(i["x"]) - 1)), "oracle:recv_counts",
        ep((2,), live=(1, 1), tokens=1, spare=None)),
    Bug("B106", "kekzl/imp#2056", "experts from 256 on ignored", MOE, "slot",
        _ids(lambda ids, experts: torch.where(ids >= 256, -1, ids)), "oracle:out", moe((256,), experts=257)),
    Bug("B107", "vllm-project/vllm#42608", "an expert twice in a token", MOE, "slot", _ids(_twice_is_once),
        "oracle:out", moe((0, 0))),
)  # fmt: skip

POLICIES = ()
