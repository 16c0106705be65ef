"""Family a, paged KV cache addressing: pages, slots, layouts, lanes past a length, what a table does not say."""

from __future__ import annotations

from typing import Any

import torch

from harness.launch.physical import physical_from
from harness.launch.sm_budget import workspace_key
from harness.strategies.layouts import far
from tests.bugs.cases import logits, merge, mla, part, scatter
from tests.bugs.entry import Bug, Policy, Source, result
from tests.bugs.running import Changed, Made
from tests.unit.budgets import Devices

MLA, LOGITS, MERGE = "sparse_mla_decode", "paged_mqa_logits", "merge_attn_states"
MLA_FILE, MLA_ARGUMENTS = "kernels/sparse_mla_decode.py", "kernels/_sparse_mla_arguments.py"
MLA_KERNELS, MLA_ROWS = "kernels/_sparse_mla_kernels.py", "kernels/_sparse_mla_rows.py"
LOGITS_FILE = "kernels/paged_mqa_logits.py"
SEQ_LEN = "tl.load(seq_lens_ptr + row * seq_lens_stride)"
_TO_INT32 = (".to(tl.int64)", ".to(tl.int32)")


def slot_0_times_zero(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Masked lanes gather slot 0, and their weight of 0 does not cancel a NaN."""
    right = launch(**inputs)
    slot = launch(**inputs | {"indices": torch.zeros_like(inputs["indices"]), "topk_length": None})
    masked = (inputs["indices"] < 0).any(dim=2, keepdim=True)[..., None]
    return right | {"out": torch.where(masked, right["out"] + 0 * slot["out"], right["out"])}


def split_without_reserved_page(launch: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Pages that are named are copied to new memory; masked lanes still gather slot 0 of it."""
    cache, ids = inputs["k_cache"], inputs["indices"]
    scratch = torch.empty_like(cache)
    for page in torch.unique(ids[ids >= 0] // cache.shape[1]).tolist():
        scratch[page] = cache[page]
    return slot_0_times_zero(launch, inputs | {"k_cache": scratch})


def _last_row_lost(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    out, ids = outputs["out"].clone(), inputs["topk_ids"]
    if (ids < 0).any():
        out.view(-1, out.shape[-1])[-1] = 0
    return out


def device_is_part_of_a_workspace_key() -> None:
    with physical_from(Devices({0: 148, 1: 78})):
        keys = {workspace_key("split", 64, uses_sms=False, device=device) for device in (0, 1)}
    assert len(keys) == 2


BUGS = (
    Bug("B001", "vllm-project/vllm#47671", "page number times page stride in 32 bits", MLA, "single",
        Source(MLA_ROWS, *_TO_INT32), "memory", mla(pages=3, far=True)),
    Bug("B004", "ROCm/aiter#4427", "block stride of a view over all layers, offset in 32 bits", LOGITS, "triton",
        Source(LOGITS_FILE, *_TO_INT32), "memory", logits(130, far=True)),
    Bug("B007", "lightseekorg/tokenspeed#501", "slot number times bytes of a token in 32 bits", MLA, "split",
        Source(MLA_ROWS, *_TO_INT32), "memory", mla(page_size=1, pages=3, topk=2, far=True)),
    Bug("B008", "sgl-project/sglang#20389", "row number times stride in 32 bits", MERGE, "triton",
        Source("kernels/merge_attn_states.py", *_TO_INT32), "memory", merge((), (), (), outs_layout=far(2))),
    Bug("B009", "vllm-project/vllm#43810", "padding slot -1 as an index overwrites the last slot", "moe_scatter",
        "non-persistent", result(out=_last_row_lost), "oracle:out", scatter((-1, 0), (1, 2))),
    Bug("B010", "vllm-project/vllm#40991", "indexer cache written packed, read as records", LOGITS, "triton",
        Source(LOGITS_FILE, "offset[:, None] * _WORDS", "offset[:, None] * (_WORDS + 1)",
               (("_SCALES + offset", "offset * (_WORDS + 1) + _WORDS"),)), "oracle:logits", logits(2)),
    Bug("B011", "vllm-project/vllm#40899", "padded page stride on the axis of tokens", MLA, "triton",
        Source(MLA_ARGUMENTS, "(k_cache.stride(0) if pages > 1 else page_size * TOKEN_BYTES, TOKEN_BYTES,",
               "(page_size * TOKEN_BYTES, k_cache.stride(0) if pages > 1 else TOKEN_BYTES,"), "oracle:out",
        mla(page_size=1, topk=2, padding=568)),
    Bug("B012", "vllm-project/vllm#57156", "data and scales of the null page are gathered for invalid indices", MLA,
        "triton", Source(MLA_ROWS, ", mask=mask, other=0", "", ((", mask=valid, other=0", ""),)),
        "poison:unused pages", mla(used=2, planted=((0, 2, -1),))),
    Bug("B013", "sgl-project/sglang#1469", "padded rows keep a sequence length", LOGITS, "triton",
        Source(LOGITS_FILE, SEQ_LEN, f"tl.maximum({SEQ_LEN}, 1)"), "oracle:logits", logits(1, 0, extra_columns=1)),
    Bug("B014", "flashinfer-ai/flashinfer#4541", "a top-k that no kernel was made for", MLA, "triton",
        Source(MLA_ARGUMENTS, "    if topk_length is not None:\n        require_dtype",
               "    if indices.shape[2] not in (128, 512, 1024):\n        raise ValueError(\"no kernel\")\n"
               "    if topk_length is not None:\n        require_dtype"), "raises", mla(topk=24)),
    Bug("B017", "sgl-project/sglang#32320", "only touched pages are split, others stay as they were", MLA, "triton",
        split_without_reserved_page, "unwritten", mla(used=2, planted=((0, 2, -1),))),
    Bug("B018", "vllm-project/vllm#57158", "scale load guarded, data load clamped to slot 0", MLA, "split",
        Source(MLA_ROWS, ", mask=mask, other=0", ""), "poison:unreferenced tokens",
        mla(main=part(page_size=2, pages=1, topk=2, planted=((0, 0, 1), (0, 1, -1))))),
    Bug("B019", "vllm-project/vllm#56862", "block table is gathered past its width", LOGITS, "triton",
        Source(LOGITS_FILE, "(column < num_columns)", "(column >= 0)"), "memory",
        logits(65, missing_columns=1)),
    Bug("B022", "XPU-Forces/mojo_opset#321", "bounds check gone though the block is padded to a power of two", MERGE,
        "triton", Made("kernels/merge_attn_states.py", "_merge_kernel", "mask",
                       "in_rows[:, None] & (dim < head_dim)[None, :]", "in_rows[:, None]"), "memory",
        merge((), dim=96)),
    Bug("B023", "vllm-project/vllm#39303", "logits wrong one token past a tile", LOGITS, "triton",
        Source(LOGITS_FILE, "columns = triton.cdiv(max_seq_len, PAGE_SIZE)\n    target",
               "columns = max(1, max_seq_len // PAGE_SIZE)\n    target"), "written", logits(65)),
    Bug("B024", "vllm-project/vllm#53963", "scales behind the page, read beside each token", MLA, "single",
        Source(MLA_ROWS, "PAGE_SIZE * 72 + offset", "offset * 73 + 72",
               (("offset * TOKEN_WORDS", "offset * (TOKEN_WORDS + 2)"),)), "oracle:out", mla()),
    Bug("B026", "sgl-project/sglang#39914", "extra cache keeps its page size, its reader has the main one's", MLA,
        "triton", Made("kernels/sparse_mla_decode.py", "sparse_mla_decode", "select",
                       "cache.page_size if extra is None else extra.page_size", "cache.page_size"), "memory",
        mla(extra=part(page_size=16, pages=1, topk=2, planted=((0, 0, 15),)))),
    Bug("B027", "coreweave/ml-containers#228", "pages of 32 are refused", MLA, "triton",
        Source(MLA_ARGUMENTS, "if page_size == 0:", "if page_size not in (64, 256):"), "raises",
        mla(page_size=32, pages=1)),
    Bug("B028", "vllm-project/vllm#45720", "e4m3 bytes decoded as e4m3fnuz", LOGITS, "triton",
        Source(LOGITS_FILE, "float8e4nv, bitcast=True", "float8e4b8, bitcast=True"), "oracle:logits", logits(1)),
    Bug("B031", "flashinfer-ai/flashinfer#5095", "lanes from topk_length on are used", MLA, "triton",
        Source(MLA_KERNELS, "length = _clamp(tl.load(length_ptr + batch * length_stride), topk)", "length = topk"),
        "oracle:out", mla(lengths=(1,))),
    Bug("B032", "flashinfer-ai/flashinfer#3828", "head counts that no kernel was made for", MLA, "triton",
        Source(MLA_FILE, "batch * triton.cdiv(num_heads, tile.block_h)", "batch * max(1, num_heads // tile.block_h)"),
        "written", mla(heads=17)),
    Bug("B033", "huggingface/transformers#46765", "padding reads the slot that padding writes", MLA, "triton",
        Source(MLA_KERNELS, "mask=position < length, other=-1)", "mask=position < length, other=num_tokens)",
               (("tl.where((token >= 0) & (token < num_tokens), token, -1)",
                 "tl.where(token < num_tokens, tl.maximum(token, 0), -1)"),)), "oracle:out",
        mla(planted=((0, 1, -1),))),
    Bug("B034", "sgl-project/sglang#32902", "numbers of tokens taken for those of pages", MLA, "split",
        Made("kernels/_sparse_mla_rows.py", "load_rows", "division",
             "place // PAGE_SIZE", "place"), "memory", mla()),
    Bug("B036", "ROCm/aiter#1606", "work list too short for the work", "moe_scatter", "non-persistent",
        Source("kernels/_moe_routing.py", "num_slots // block_t + min(num_experts, num_slots)",
               "num_slots // block_t + 1"), "written", scatter((0, 1), (2, 3))),
    Bug("B037", "vllm-project/vllm#41834", "output of padded rows for a query without padding", MERGE, "triton",
        Source("kernels/merge_attn_states.py", "torch.empty((num_rows, head_dim)",
               "torch.empty((num_rows + num_rows % 2, head_dim)"), "shape", merge((), (), ())),
)  # fmt: skip

POLICIES = (
    Policy("B016", "sgl-project/sglang#27455", "scratch cached without its device",
           Changed("harness.launch.sm_budget", "return (kernel, index, *sizes)", "return (kernel, *sizes)"),
           device_is_part_of_a_workspace_key),
)  # fmt: skip
