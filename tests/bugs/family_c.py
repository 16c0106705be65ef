"""Family c, mixture of experts: ids that name nobody, scales, clamps, factors, layouts of weights, capacity."""

from __future__ import annotations

from typing import Any

import torch

from harness.contracts.moe_scatter import FAR_EXPERTS
from harness.poison import INT32_MAX
from harness.strategies.layouts import Layout, far
from tests.bugs.cases import ep, mega, mla, moe, scatter
from tests.bugs.entry import Bug, Source, given, result
from tests.bugs.running import Made

MOE, MEGA, SCATTER, EP, MLA = "mxfp4_moe", "mega_moe", "moe_scatter", "ep_dispatch_combine", "sparse_mla_decode"
MOE_FILE, ARGUMENTS, SUMS = "kernels/mxfp4_moe.py", "kernels/_mxfp4_arguments.py", "kernels/_mxfp4_moe_kernels.py"
TILES, SLOTS, FP4 = "kernels/_mxfp4_tiles.py", "kernels/_mxfp4_[st]*.py", "kernels/_fp4.py"
SCATTER_FILE, EP_FILE = "kernels/_moe_scatter_kernels.py", "kernels/_ep_kernels.py"
MLA_ROWS = "kernels/_sparse_mla_rows.py"
_TO_INT32 = (".to(tl.int64)", ".to(tl.int32)")


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


BUGS = (
    Bug("B065", "linkedin/Liger-Kernel#1296", "expert's weight offset in 32 bits", MOE, "slot",
        Source("kernels/*.py", *_TO_INT32), "memory", moe((0, 2), experts=3, weight_layout=far(3))),
    Bug("B066", "deepspeedai/DeepSpeed#8261", "expert's base pointer in 32 bits", SCATTER, "non-persistent",
        Made("kernels/_moe_scatter_kernels.py", "moe_scatter_kernel", "dtype",
             "expert.to(tl.int64)", "expert"), "memory",
        scatter((0, 2), experts=3, w_layout=FAR_EXPERTS)),
    Bug("B070", "sgl-project/sglang#12701", "invalid ids counted with those of an expert, and not placed", MOE,
        "grouped", Source(TILES, ", EXPERTS, mask=valid)", ", EXPERTS)"), "memory", moe((-1, 1))),
    Bug("B071", "ModelTC/LightLLM#1369", "lanes past the last wrap around and overwrite the first counts", EP, "triton",
        Source(EP_FILE, "recv_counts_ptr + peer * WORLD + rank, of_rank, mask=peer < WORLD",
               "recv_counts_ptr + peer % WORLD * WORLD + rank, of_rank"), "oracle:recv_counts",
        ep((0, 1, 2), live=(1, 1, 1), tokens=1)),
    Bug("B073", "meta-pytorch/MSLK#36", "output of an expert without tokens never written", SCATTER, "auto",
        unwritten_for_nobody, "written", scatter((-1, 1))),
    Bug("B075", "vllm-project/vllm#41249", "padding rows masked by a product", MOE, "slot",
        result(out=_masked_by_product), "poison:rows of padded tokens", moe((-1, -1), (0, 1))),
    Bug("B076", "sgl-project/sglang#25519", "128 is compared, not code 255: NaN for code 134", MLA, "triton",
        Source(MLA_ROWS, "code == 255", "code == 134"), "oracle:out", mla(topk=1, tokens="subnormal_codes")),
    Bug("B076", "sgl-project/sglang#25519", "128 is compared, not code 255: infinity for code 255", SCATTER,
        "non-persistent", Source(FP4, "tl.where(exponent == 255, 0x7FC0, exponent << 7)",
                                 "tl.where(exponent == 134, 0x7FC0, exponent << 7)"), "oracle:out",
        scatter((0, 1), weights="e2m1", nan_in="w_scale")),
    Bug("B077", "NVIDIA/TransformerEngine#3262", "scale code 0 decodes to 0", MLA, "triton",
        Made("kernels/_sparse_mla_rows.py", "_e8m0", "select",
             "tl.where(code == 0, 0x00400000, code << 23)", "code << 23"), "oracle:out",
        mla(topk=1, tokens="lowest_scales", seed=1)),
    Bug("B077", "NVIDIA/TransformerEngine#3262", "scale code 255 decodes to infinity", SCATTER, "non-persistent",
        Source("kernels/_fp4.py", "exponent == 255, 0x7FC0,", "exponent == 255, 0x7F80,"), "oracle:out",
        scatter((0, 1), weights="e2m1", nan_in="w_scale")),
    Bug("B078", "vllm-project/vllm#46676", "the smallest scale off by a bit", SCATTER, "auto",
        Source("kernels/_fp4.py", "exponent == 0, 0x0040,", "exponent == 0, 0x0041,"), "oracle:out",
        scatter((0, 1), (2, 3), tokens=4, out=64, weights="e2m1", scale_range="subnormal")),
    Bug("B078", "vllm-project/vllm#46676", "two paths by size apply a scale differently", MOE, "auto",
        _lost_above_8_tokens, "oracle:out", moe((0,), tokens=9, scale_range="lowest")),
    Bug("B080", "jundot/omlx#2159", "scale bytes multiplied as integers", MOE, "slot",
        Source(FP4, "factor = e8m0_to_bfloat16(scale)[:, :, None]", "factor = scale.to(tl.bfloat16)[:, :, None]"),
        "oracle:out", moe((0,), dtype=torch.float16)),
    Bug("B081", "vllm-project/compressed-tensors#538", "scales with a bias of 125", SCATTER, "non-persistent",
        Source(FP4, "exponent << 7", "(exponent + 2) << 7"), "oracle:out", scatter((0,), weights="e2m1")),
    Bug("B083", "sgl-project/sglang#23776", "one of two paths lacks the clamp", MOE, "slot",
        Source(SUMS, "swiglu(gate, up, clamp_limit, HAS_CLAMP)", "swiglu(gate, up, clamp_limit, False)"), "oracle:out",
        moe((0,), dtype=torch.float16, clamp_limit=1.0)),
    Bug("B085", "lightseekorg/tokenspeed#1647", "clamp dropped on the way to one backend's kernel", MEGA, "auto",
        Source("kernels/mega_moe.py", "limit=limit, max_blocks", "limit=None, max_blocks"), "oracle:out",
        mega((0,), clamp_limit=1.0)),
    Bug("B086", "vllm-project/vllm-ascend#14363", "an adapter does not hand the clamp on", MOE, "grouped",
        Source(MOE_FILE, 'clamp_limit=clamp_limit, path="grouped"', 'path="grouped"'), "oracle:out",
        moe((0,), clamp_limit=1.0)),
    Bug("B087", "vllm-project/vllm#24119", "router and layer both apply the routed scaling", MOE, "slot",
        Source(MOE_FILE, "topk_ids, topk_weights)\n        if words",
               "topk_ids, topk_weights * scaling)\n        if words"), "oracle:out",
        moe((0,), routed_scaling_factor=2.5)),
    Bug("B088", "vllm-project/vllm#45037", "the sum of slots is scaled twice at its end", MOE, "grouped",
        Source(SUMS, "total * scaling", "total * scaling * scaling"), "oracle:out",
        moe((0,), routed_scaling_factor=0.375)),
    Bug("B090", "kvcache-ai/sglang#86", "the fused experts alone scale twice", MEGA, "auto",
        Source(SLOTS, ", 0) * scaling", ", 0) * scaling * scaling"), "oracle:out",
        mega((0,), routed_scaling_factor=2.5)),
    Bug("B091", "sgl-project/sglang#26884", "interleaved rows of gate and up for a plain kernel", MOE, "grouped",
        Source(TILES, "row_block * BLOCK_N + index % BLOCK_N + index // BLOCK_N * INTER",
               "2 * (row_block * BLOCK_N + index % BLOCK_N) + index // BLOCK_N"), "oracle:out", moe((0,))),
    Bug("B093", "flashinfer-ai/flashinfer#4093", "scales in another order than their groups", SCATTER, "non-persistent",
        Source(SCATTER_FILE, "(row.to(tl.int64) * row_stride)[:, None] + group[None, :]",
               "row.to(tl.int64)[:, None] + (group * N)[None, :]"), "oracle:out",
        scatter((0,), hidden=64, weights="e2m1")),
    Bug("B095", "vllm-project/vllm#55251", "padding of weight rows read, and multiplied with 0", SCATTER,
        "non-persistent",
        Made("kernels/_moe_scatter_kernels.py", "moe_scatter_kernel", "mask",
             "inside[:, None] & (depth < K)[None, :]", "inside[:, None]"),
        "memory", scatter((0,), w_layout=Layout(kind="padded_rows", amount=16))),
    Bug("B096", "vllm-project/vllm#17604", "intermediate size no multiple of the block", MOE, "slot",
        Made("kernels/_mxfp4_arguments.py", "_block", "clamp",
             "min(size & -size, limit)", "limit"), "memory",
        moe((0,), hidden=64, inter=96, dtype=torch.float16)),
    Bug("B097", "sgl-project/sglang#28155", "grouped path counts ids of -1", MOE, "grouped",
        Source(MOE_FILE, '(path == "auto" and tokens > SLOT_MAX_TOKENS)\n',
               '(path == "auto" and tokens > SLOT_MAX_TOKENS)\n'
               "    if grouped:\n        torch.bincount(topk_ids.flatten())\n"), "raises", moe((-1, 1))),
    Bug("B098", "sgl-project/sglang#27194", "more rows than there is room for, in silence", EP, "triton",
        Source("kernels/ep_dispatch_combine.py", "capacity < world * max_tokens and not _capturing(x.device)", "False"),
        "rejects:one row too many"),
    Bug("B100", "sgl-project/sglang#39804", "count of unpadded rows that is not the sub-batch's own", EP, "triton",
        Made("kernels/_ep_kernels.py", "_sends", "index",
             "num_tokens_ptr + rank", "num_tokens_ptr"), "oracle:recv_counts",
        ep((0,), live=(2, 1), tokens=2)),
    Bug("B101", "sgl-project/sglang#28378", "padded ids followed, whatever they are", SCATTER, "non-persistent",
        Made("kernels/_moe_scatter_kernels.py", "slot_tile", "mask",
             "(expert >= 0) & (expert < num_experts)", "expert >= 0"), "memory",
        scatter((INT32_MAX, 0))),
    Bug("B103", "ROCm/aiter#4636", "negative ids count from the end", SCATTER, "non-persistent",
        Source("kernels/moe_scatter.py", "torch.where((ids >= 0) & (ids < experts), ids, experts)",
               "torch.where(ids < 0, ids + experts, ids.clamp(max=experts))"), "oracle:out",
        scatter((1, -1), experts=2)),
    Bug("B105", "vllm-project/vllm#50844", "a kernel looks at the sign of an id alone", MOE, "slot",
        Source(SLOTS, "(expert >= 0) & (expert < num_experts)", "expert >= 0"), "memory", moe((4, 1))),
    Bug("B106", "kekzl/imp#2056", "experts from 256 on ignored", MOE, "slot",
        Source(SLOTS, "(expert >= 0) & (expert < num_experts)",
               "(expert >= 0) & (expert < tl.minimum(num_experts, 256))"), "oracle:out", moe((256,), experts=257)),
    Bug("B107", "vllm-project/vllm#42608", "places left over name the first one again, not nobody", EP, "triton",
        Made("kernels/_ep_kernels.py", "ep_dispatch_kernel", "sentinel",
             "-1", "0"),
        "oracle:recv_src", ep((0,), live=(1,), tokens=1, spare=1)),
)  # fmt: skip

POLICIES = ()
