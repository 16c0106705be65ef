"""Faults planted in kernels that change no value: more is loaded, stored or done than need be."""

from tests.teeth.planting import Planted


def _costs(name: str, file: str, old: str, new: str, contract: str, implementation: str) -> Planted:
    return Planted(name, file, old, new, "traffic", contract, implementation)


FAULTS = (
    _costs("entries of the next program are loaded", "paged_mqa_logits",
           "last = tl.minimum(first + PAGES, num_columns)", "last = num_columns", "paged_mqa_logits", "triton"),
    _costs("rows without a slot are loaded", "_moe_scatter_kernels",
           "mask=live[:, None] & (depth < K)[None, :], other=0.0)", "mask=(depth < K)[None, :], other=0.0)",
           "moe_scatter", "non-persistent"),
    _costs("weights of unused tiles are loaded", "_moe_scatter_words", "tl.store(tiles_ptr + unused * 3, -1)",
           "tl.store(tiles_ptr + unused * 3, 0)", "moe_scatter", "words"),
    _costs("one tile more without a position", "_sparse_mla_kernels",
           "    extra_length = 0\n", "    extra_length = 1\n", "sparse_mla_decode", "single"),
    _costs("one program more sorts", "_mega_moe_words_kernel", "if block < num_experts:", "if block <= num_experts:",
           "mega_moe", "grouped"),
    _costs("ids that narrow to an expert are computed with it", "_moe_routing",
           "torch.where(ids < 0, num_experts, ids).clamp(max=num_experts)", "ids.clamp(max=num_experts)",
           "mxfp4_moe", "grouped"),
)  # fmt: skip
