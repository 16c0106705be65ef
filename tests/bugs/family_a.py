"""Family a, paged KV cache addressing: pages, slots, layouts, lanes past a length, what a table does not say."""

from __future__ import annotations

from typing import Any

import torch

from harness.launch.physical import physical_from
from harness.launch.sm_budget import workspace_key
from harness.strategies.ids import WRAPS_TO_ZERO
from harness.strategies.layouts import far
from tests.bugs.cases import logits, merge, mla, part, scatter
from tests.bugs.entry import Bug, Policy, Source, given, refusing, result
from tests.bugs.running import changed
from tests.unit.budgets import Devices

MLA, LOGITS, MERGE = "sparse_mla_decode", "paged_mqa_logits", "merge_attn_states"
_TO_INT32 = (".to(tl.int64)", ".to(tl.int32)")


def _page_bytes(cache: torch.Tensor) -> torch.Tensor:
    pages, size, _, token = cache.shape
    return cache.view(torch.uint8).reshape(pages, size, token)


def as_records(data: int) -> Any:
    """Return what a reader of records, data then scales token by token, makes of pages with all scales at the end."""

    def change(inputs: dict[str, Any]) -> torch.Tensor:
        cache = inputs["k_cache"] if "k_cache" in inputs else inputs["kv_cache"]
        records = _page_bytes(cache)
        parts = [records[:, :, :data].flatten(1), records[:, :, data:].flatten(1)]
        return torch.cat(parts, dim=1).view(cache.shape).view(cache.dtype)

    return change


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


def _python_index(inputs: dict[str, Any]) -> torch.Tensor:
    ids, pool = inputs["indices"], inputs["k_cache"].shape[0] * inputs["k_cache"].shape[1]
    return torch.where(ids == -1, pool - 1, ids)


def _last_row_lost(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    out, ids = outputs["out"].clone(), inputs["topk_ids"]
    if (ids < 0).any():
        out.view(-1, out.shape[-1])[-1] = 0
    return out


def _dense_pages(inputs: dict[str, Any]) -> torch.Tensor:
    cache = inputs["k_cache"]
    return cache.as_strided(cache.shape, (cache.shape[1] * 584, *cache.stride()[1:]))


def _pages_of_the_main_cache(inputs: dict[str, Any]) -> torch.Tensor:
    extra, size = inputs["extra_k_cache"], inputs["k_cache"].shape[1]
    return extra.as_strided((extra.shape[0] * extra.shape[1] // size, size, 1, 584), (size * 584, 584, 584, 1))


def _fnuz(inputs: dict[str, Any]) -> torch.Tensor:
    codes = inputs["q"].view(torch.uint8)
    # half of the value: an exponent one lower, and -0 is NaN there
    halved = torch.where(codes & 0x7F >= 0x10, codes - 8, codes & 0x80)
    return torch.where(codes == 0x80, 0x7F, halved).view(torch.float8_e4m3fn)


def _one_more_row(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    out = outputs["out"]
    return torch.cat((out, out[-1:])) if len(out) % 2 else out


def _without_the_last_partial_page(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    found, lens = outputs["logits"].clone(), inputs["seq_lens"].flatten()
    for row, length in enumerate(lens.tolist()):
        found[row, length // 64 * 64 :] = float("-inf")
    return found


def _heads_of_whole_blocks(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    out = torch.empty_like(outputs["out"])
    whole = out.shape[2] // 16 * 16
    out[:, :, :whole] = outputs["out"][:, :, :whole]
    return out


def device_is_part_of_a_workspace_key() -> None:
    with physical_from(Devices({0: 148, 1: 78})):
        keys = {workspace_key("split", 64, uses_sms=False, device=device) for device in (0, 1)}
    assert len(keys) == 2


BUGS = (
    Bug("B001", "vllm-project/vllm#47671", "page number times page stride in 32 bits", MLA, "single",
        Source("kernels/_sparse_mla_rows.py", *_TO_INT32), "memory", mla(pages=3, far=True)),
    Bug("B004", "ROCm/aiter#4427", "block stride of a view over all layers, offset in 32 bits", LOGITS, "triton",
        Source("kernels/paged_mqa_logits.py", *_TO_INT32), "memory", logits(130, far=True)),
    Bug("B007", "lightseekorg/tokenspeed#501", "slot number narrowed to 32 bits", MLA, "triton",
        given(indices=lambda i: i["indices"].int()), "oracle:out",
        mla(planted=((0, 2, WRAPS_TO_ZERO),), dtype=torch.int64)),
    Bug("B008", "sgl-project/sglang#20389", "row number times stride in 32 bits", MERGE, "triton",
        Source("kernels/merge_attn_states.py", *_TO_INT32), "memory", merge((), (), (), outs_layout=far(2))),
    Bug("B009", "vllm-project/vllm#43810", "padding slot -1 as an index overwrites the last slot", "moe_scatter",
        "non-persistent", result(out=_last_row_lost), "oracle:out", scatter((-1, 0), (1, 2))),
    Bug("B010", "vllm-project/vllm#40991", "indexer cache written packed, read as records", LOGITS, "triton",
        given(kv_cache=as_records(128)), "oracle:logits", logits(2)),
    Bug("B011", "vllm-project/vllm#40899", "padded page stride on another axis", MLA, "triton",
        given(k_cache=_dense_pages), "oracle:out", mla(page_size=1, topk=2, padding=568)),
    Bug("B012", "vllm-project/vllm#57156", "null page is gathered for invalid indices", MLA, "triton",
        slot_0_times_zero, "poison:unused pages", mla(used=2, planted=((0, 2, -1),))),
    Bug("B013", "sgl-project/sglang#1469", "padded rows keep a sequence length", LOGITS, "triton",
        given(seq_lens=lambda i: i["seq_lens"].clamp(min=1)), "oracle:logits", logits(1, 0, extra_columns=1)),
    Bug("B014", "flashinfer-ai/flashinfer#4541", "a top-k that no kernel was made for", MLA, "triton",
        refusing(lambda i: i["indices"].shape[2] not in (16, 32, 64, 128), RuntimeError("no kernel")), "raises",
        mla(topk=24)),
    Bug("B017", "sgl-project/sglang#32320", "only touched pages are split, others stay as they were", MLA, "triton",
        split_without_reserved_page, "unwritten", mla(used=2, planted=((0, 2, -1),))),
    Bug("B018", "vllm-project/vllm#57158", "scale load guarded, data load clamped to slot 0", MLA, "split",
        slot_0_times_zero, "poison:unreferenced tokens",
        mla(main=part(page_size=2, pages=1, topk=2, planted=((0, 0, 1), (0, 1, -1))))),
    Bug("B019", "vllm-project/vllm#56862", "block table is gathered past its width", LOGITS, "triton",
        Source("kernels/paged_mqa_logits.py", "(column < num_columns)", "(column >= 0)"), "memory",
        logits(65, missing_columns=1)),
    Bug("B022", "XPU-Forces/mojo_opset#321", "bounds check gone though the block is padded to a power of two", MERGE,
        "triton", Source("kernels/merge_attn_states.py", " & (dim < head_dim)[None, :]", ""), "memory",
        merge((), dim=96)),
    Bug("B023", "vllm-project/vllm#39303", "logits wrong one token past a tile", LOGITS, "triton",
        result(logits=_without_the_last_partial_page), "oracle:logits", logits(65)),
    Bug("B024", "vllm-project/vllm#53963", "scales behind the page, read beside each token", MLA, "single",
        given(k_cache=as_records(576)), "oracle:out", mla()),
    Bug("B026", "sgl-project/sglang#39914", "extra cache keeps its page size, its reader has the main one's", MLA,
        "triton", given(extra_k_cache=_pages_of_the_main_cache), "oracle:out",
        mla(extra=part(page_size=16, pages=1, topk=2, planted=((0, 0, 15),)))),
    Bug("B027", "coreweave/ml-containers#228", "pages of 32 are refused", MLA, "triton",
        refusing(lambda i: i["k_cache"].shape[1] not in (64, 256), ValueError("page size")), "raises",
        mla(page_size=16, pages=1)),
    Bug("B028", "vllm-project/vllm#45720", "e4m3 bytes decoded as e4m3fnuz", LOGITS, "triton", given(q=_fnuz),
        "oracle:logits", logits(1)),
    Bug("B031", "flashinfer-ai/flashinfer#5095", "lanes from topk_length on are used", MLA, "triton",
        given(topk_length=lambda i: None), "oracle:out", mla(lengths=(1,))),
    Bug("B032", "flashinfer-ai/flashinfer#3828", "head counts that no kernel was made for", MLA, "triton",
        result(out=_heads_of_whole_blocks), "written", mla(heads=17)),
    Bug("B033", "huggingface/transformers#46765", "padding reads the slot that padding writes", MLA, "triton",
        given(indices=lambda i: i["indices"].clamp(min=0)), "oracle:out", mla(planted=((0, 1, -1),))),
    Bug("B034", "sgl-project/sglang#32902", "page table taken for one of tokens", MLA, "split",
        given(indices=lambda i: i["indices"] // i["k_cache"].shape[1]), "oracle:out", mla()),
    Bug("B036", "ROCm/aiter#1606", "work list too short for the work", "moe_scatter", "non-persistent",
        Source("kernels/_moe_routing.py", "num_slots // block_t + min(num_experts, num_slots)",
               "num_slots // block_t + 1"), "written", scatter((0, 1), (2, 3))),
    Bug("B037", "vllm-project/vllm#41834", "output of padded rows for a query without padding", MERGE, "triton",
        result(out=_one_more_row), "shape", merge((), (), ())),
)  # fmt: skip

POLICIES = (
    Policy("B016", "sgl-project/sglang#27455", "scratch cached without its device",
           changed("harness.launch.sm_budget", "return (kernel, index, *sizes)", "return (kernel, *sizes)"),
           device_is_part_of_a_workspace_key),
)  # fmt: skip
