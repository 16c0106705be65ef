"""Family b, softmax and log-sum-exp of decode: empty parts, masked rows, bases, splits, tails."""

from __future__ import annotations

from typing import Any

from tests.bugs.cases import logits, merge, mla
from tests.bugs.entry import Bug, Source
from tests.bugs.running import Made

MLA, LOGITS, MERGE = "sparse_mla_decode", "paged_mqa_logits", "merge_attn_states"
MERGE_FILE, LOGITS_FILE = "kernels/merge_attn_states.py", "kernels/paged_mqa_logits.py"
MLA_KERNELS = "kernels/_sparse_mla_[km]*.py"
SEQ_LEN = "tl.load(seq_lens_ptr + row * seq_lens_stride)"


def tail_of_page_times_zero(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Tokens behind the last of a sequence are read to the end of their page and weighted with 0."""
    lens = inputs["seq_lens"]
    whole = launch(**inputs | {"seq_lens": (lens + 63) // 64 * 64, "max_seq_len": 64})["logits"]
    return {"logits": launch(**inputs)["logits"] + (whole * 0).sum(dim=1, keepdim=True)}


BUGS = (
    Bug("B038", "flashinfer-ai/flashinfer#4051", "two empty parts merge to NaN", MERGE, "triton",
        Made("kernels/merge_attn_states.py", "_merge_kernel", "select",
             'tl.where(tl.abs(top) == float("inf"), 0.0, top)', "top"), "oracle:out",
        merge((0, 1))),
    Bug("B039", "flashinfer-ai/flashinfer#4401", "a finite number for -inf hides what is below it", MERGE, "triton",
        Source(MERGE_FILE, 'float("-inf")', "-5.0e4"), "oracle:lse", merge((), lse_ranges=("low",))),
    Bug("B040", "sgl-project/sglang#33064", "natural log-sum-exps merged with powers of 2", MERGE, "triton",
        Source(MERGE_FILE, "tl.exp(", "tl.exp2(", (("tl.log(", "tl.log2("),)), "oracle:out", merge(())),
    Bug("B041", "vllm-project/vllm#47079", "decode answers in base 2, its caller takes e", MLA, "triton",
        Source(MLA_KERNELS, "lse * LN_2", "lse"), "oracle:lse", mla()),
    Bug("B043", "flashinfer-ai/flashinfer#4485", "of two kernels behind one call one answers in base 2", MLA, "split",
        Made("kernels/_sparse_mla_merge.py", "combine_splits_kernel", "rescale",
             "lse * LN_2", "lse"), "oracle:lse",
        mla()),
    Bug("B044", "NVIDIA/Megatron-LM#7103", "offsets in a block compared with the number of all", MERGE, "triton",
        Source(MERGE_FILE, "in_rows = row < num_rows", "in_rows = tl.arange(0, BLOCK_R) < num_rows"), "memory",
        merge(*[()] * 5, parts=1, dim=512)),
    Bug("B045", "vllm-project/vllm#49157", "head counts that are no power of two fail", LOGITS, "triton",
        Source(LOGITS_FILE, "triton.next_power_of_2(num_heads)", "num_heads"), "raises", logits(1, heads=24)),
    Bug("B046", "vllm-project/vllm#27965", "a width that is no power of two is the block's", MERGE, "triton",
        Source(MERGE_FILE, "triton.next_power_of_2(max(head_dim, 16))", "max(head_dim, 16)"), "raises",
        merge((), dim=96)),
    Bug("B048", "ROCm/fleet-chiplet-megakernel#8", "exponent in base 2, mantissa in base e", MERGE, "triton",
        Source(MERGE_FILE, "top + tl.log(total)", "top * 1.4426950408889634 + tl.log(total)"), "oracle:lse",
        merge((), parts=1)),
    Bug("B049", "vllm-project/flash-attention#87", "log-sum-exp of splits in another layout", MLA, "split",
        Source(MLA_KERNELS, "part = (batch * num_splits + split) * num_heads + head",
               "part = (batch * num_heads + head) * num_splits + split"), "oracle:lse", mla(heads=3)),
    Bug("B051", "HKUSTDial/flash-sparse-attention#106", "softmax scale twice in the log-sum-exp", MLA, "triton",
        Source(MLA_KERNELS, "lse * LN_2, mask=", "(lse - top + top * score_scale) * LN_2, mask="), "oracle:lse", mla()),
    Bug("B053", "vllm-project/vllm#57094", "padded rows divide 0 by 0", MLA, "triton",
        Source(MLA_KERNELS, "norm = tl.where(mass == 0.0, 0.0, 1.0 / mass)", "norm = 1.0 / mass",
               (("acc = tl.where((total == 0.0)[:, None], 0.0, acc)", "acc = acc"),)), "oracle:out",
        mla(rows=2, lengths=(0, 3))),
    Bug("B054", "vllm-project/vllm#54929", "tiles past the valid length are walked, though nothing of them counts", MLA,
        "single", Source(MLA_KERNELS, "own_tiles = tl.cdiv(length, BLOCK_T)", "own_tiles = tl.cdiv(topk, BLOCK_T)"),
        "cost", (mla(topk=33, lengths=(3,)), mla(topk=129, lengths=(3,)))),
    Bug("B055", "Dao-AILab/flash-attention#1745", "V of what has no token read and weighted with 0", MERGE, "triton",
        Made("kernels/merge_attn_states.py", "_merge_kernel", "select",
             'tl.where((part_lse != float("-inf"))[:, None], part_out, 0.0)', "part_out"),
        "poison:empty part", merge((0,))),
    Bug("B056", "flashinfer-ai/flashinfer#941", "NaN in unfilled slots of the last page", LOGITS, "triton",
        tail_of_page_times_zero, "poison:unreferenced tokens", logits(13)),
    Bug("B058", "vllm-project/vllm#47305", "loop bound a tile too far", LOGITS, "triton",
        Source(LOGITS_FILE, SEQ_LEN, f"{SEQ_LEN} + _PAGE_SIZE"), "oracle:logits", logits(70, 64, room=128)),
    Bug("B059", "deepbeepmeep/Wan2GP#1628", "NaN plus -inf is NaN", LOGITS, "triton",
        Source(LOGITS_FILE, 'tl.where(valid & (token < seq_len), total * scale, float("-inf"))',
               'total * scale + tl.where(valid & (token < seq_len), 0.0, float("-inf"))'),
        "poison:unreferenced tokens", logits(13, room=64)),
    Bug("B060", "vllm-project/vllm#48364", "first chunk of indices masked", MLA, "single",
        Source(MLA_KERNELS, "tl.exp2(score - reference[:, None])", "tl.exp2(score - new_top[:, None])",
               (("tl.exp2(top - reference)", "tl.exp2(top - new_top)"),)), "oracle:out",
        mla(topk=33, planted=tuple((0, lane, -1) for lane in range(32)))),
    Bug("B061", "NVIDIA/TensorRT-LLM#17477", "every masked key of a masked row weighs 1", MLA, "triton",
        Source(MLA_KERNELS, 'float("-inf")', "-3.0e38"), "oracle:lse", mla(topk=2, filled=(0,))),
    Bug("B063", "NVIDIA/apex#1390", "all keys are averaged where all are masked", MERGE, "triton",
        Source(MERGE_FILE, "                lses,\n", "                lses.clamp(min=-3.0e38),\n"),
        "poison:empty part", merge((0, 1))),
)  # fmt: skip

POLICIES = ()
