"""Faults planted in ``sparse_mla_decode`` and ``merge_attn_states``: layout, softmax, sink, splits, wrapper."""

from tests.teeth.planting import Planted

MLA = "sparse_mla_decode"
DEVICE = "_sparse_mla_kernels"
MERGE = "_sparse_mla_merge"
ROWS = "_sparse_mla_rows"
ARGUMENTS = "_sparse_mla_arguments"
LANES = "token = tl.load(index_ptr + position.to(tl.int64) * index_stride, mask=position < length, other=-1)"
SCORE = 'score = tl.where(valid[None, :], score * score_scale, float("-inf"))'


def _mla(
    name: str, file: str, old: str, new: str, check: str, implementation: str = "single", count: int = 1
) -> Planted:
    return Planted(name, file, old, new, check, MLA, implementation, count)


def _merge(name: str, old: str, new: str, check: str) -> Planted:
    return Planted(name, "merge_attn_states", old, new, check, "merge_attn_states", "triton")


FAULTS = (
    _mla(
        "assembly with another factor for every other code", "_e4m3_words", "half * 0x10001", "half * 0x10002",
        "assembly",
    ),
    _mla("length off by one", DEVICE, LANES, LANES.replace("< length", "<= length"), "poison:"),
    _mla("index 0 treated as invalid", DEVICE, "tl.where((token >= 0)", "tl.where((token > 0)", "oracle:"),
    _mla("index past the pool read", DEVICE, " & (token < num_tokens)", "", "memory"),
    _mla("index -1 is the last token", DEVICE, LANES,
         LANES + "\n    token = tl.where(token == -1, num_tokens - 1, token)", "oracle:"),
    _mla("stride of the only page believed", ARGUMENTS, "k_cache.stride(0) if pages > 1 else page_size * TOKEN_BYTES",
         "k_cache.stride(0)", "raises"),
    _mla("tokens of another size accepted", ARGUMENTS, "    require_stride(name, k_cache, 1, TOKEN_BYTES)\n", "",
         "rejects:tokens of 592 bytes"),
    _mla("sink skipped", DEVICE, "        if HAS_SINK:\n            half", "        if False:\n            half",
         "oracle:out"),
    _mla("sink in the lse", DEVICE, "            half, whole = sink_factors(lse, sink * LOG2_E)\n",
         "            half, whole = sink_factors(lse, sink * LOG2_E)\n"
         "            tl.store(lse_ptr + row, lse * LN_2 - tl.log(whole) - 2 * tl.log(half), mask=in_heads)\n",
         "oracle:lse"),
    _mla("sink taken in base 2", DEVICE, "sink_factors(lse, sink * LOG2_E)", "sink_factors(lse, sink)", "oracle:out"),
    _mla("lse in base 2", DEVICE, "tl.store(lse_ptr + row, lse * LN_2, mask=in_heads)",
         "tl.store(lse_ptr + row, lse, mask=in_heads)", "oracle:lse"),
    _mla("lse of the splits in base 2", MERGE, "tl.store(lse_ptr + row, lse * LN_2)", "tl.store(lse_ptr + row, lse)",
         "oracle:lse", "split"),
    _mla("scale groups of 128", ROWS, ">> (8 * GROUP)", ">> (8 * (GROUP // 2))", "oracle:out"),
    _mla("scale bias 126", ROWS, "code == 0, 0x00400000, code << 23", "code == 0, 0x00800000, (code + 1) << 23",
         "oracle:out"),
    _mla("NaN scale read as 1", ROWS, "code == 255, 0x7FC00000,", "code == 255, 0x3F800000,", "oracle:"),
    _mla("scales of page 0", ROWS, "scale_ptr + ((page >> 3) + ", "scale_ptr + (", "oracle:"),
    _mla("rope one word late", ROWS, "quads = row_ptr + 112", "quads = row_ptr + 113", "oracle:"),
    _mla("quads of rope exchanged", ROWS, "_rope(even, odd, BLOCK_T))", "_rope(odd, even, BLOCK_T))", "oracle:"),
    _mla("page offset in 32 bits", ROWS, "(place // PAGE_SIZE).to(tl.int64) * page_bytes",
         "(place // PAGE_SIZE) * page_bytes.to(tl.int32)", "memory"),
    _mla("output not rescaled", DEVICE, "acc = tl.dot(p, k, acc * kept[:, None])", "acc = tl.dot(p, k, acc)",
         "oracle:out"),
    _mla("sum not rescaled", DEVICE, "total = total * shrink + ", "total = total + ", "oracle:lse"),
    _mla("unit of the longest list", DEVICE, "tl.where(total == 0.0, 127, tl.maximum(253 - exponent, 1))",
         "tl.where(total == 0.0, 127, 116)", "oracle:out"),
    _mla("tail tile dropped", DEVICE, "own_tiles = tl.cdiv(length, BLOCK_T)", "own_tiles = length // BLOCK_T",
         "oracle:"),
    _mla("share of the tiles rounded down", DEVICE, "share = tl.cdiv(tiles, num_splits)", "share = tiles // num_splits",
         "oracle:", "split"),
    _mla("extra cache ignored", DEVICE, "    extra_length = 0\n    if HAS_EXTRA:",
         "    extra_length = 0\n    if False:", "oracle:"),
    _mla("extra cache with the first page size", DEVICE, "extra_page_bytes, token, EXTRA_PAGE_SIZE",
         "extra_page_bytes, token, PAGE_SIZE", "oracle:"),
    _mla("indices of the first sequence for all", DEVICE, "index_row = index_ptr + batch * index_batch_stride",
         "index_row = index_ptr", "oracle:"),
    _mla("invalid tokens read as token 0", ROWS, "w0 = tl.load(row_ptr + word, mask=mask, other=0)",
         "w0 = tl.load(row_ptr + word)", "poison:"),
    _mla("sentinel instead of -inf", DEVICE, SCORE, SCORE.replace('float("-inf")', "-1e30"), "oracle:"),
    _mla("NaN score hidden", DEVICE, "    total = total * shrink",
         "    weight = tl.where(score == score, weight, 0.0)\n    total = total * shrink", "oracle:lse"),
    _mla("e4m3 NaN read as 480", ROWS, "value * _e8m0(exponent)",
         "tl.where(value == value, value, tl.where(code == 0x7F, 480.0, -480.0)) * _e8m0(exponent)", "oracle:"),
    _mla("e4m3 sign lost", ROWS, "code.to(tl.float8e4nv", "(code & 0x7F).to(tl.float8e4nv", "oracle:"),
    _mla("head_dim_v not masked", DEVICE, "mask = in_heads[:, None] & (dim < HEAD_DIM_V)[None, :]",
         "mask = in_heads[:, None]", "memory"),
    _mla("padded heads written", DEVICE, "tl.store(lse_ptr + row, lse * LN_2, mask=in_heads)",
         "tl.store(lse_ptr + row, lse * LN_2)", "memory"),
    _mla("splits not rescaled", MERGE, "weight = part_total * tl.exp2(part_top - top)", "weight = part_total",
         "oracle:", "split"),
    _mla("unit of a split not taken back", MERGE, "part_out.to(tl.float32) * part_unit[:, None]",
         "part_out.to(tl.float32)", "oracle:out", "split"),
    _mla("numbers far below the largest in float16", MERGE, "loses = smallest < largest * RANGE",
         "loses = smallest < 0.0 * RANGE", "oracle:out", "split"),
    _mla("float32 numbers of a split not read", MERGE, "if tl.min(part_unit, 0) == 0.0:",
         "if tl.min(part_unit, 0) < 0.0:", "oracle:out", "split"),
    _mla("unit of each row, float32 numbers of a tile", DEVICE, "tl.where(loses, 0.0, power_of_two(254 - unit))",
         "power_of_two(254 - unit)", "oracle:out", "split"),
    _mla("empty split not written", DEVICE, "tl.store(part_total_ptr + row, total, mask=in_heads)",
         "tl.store(part_total_ptr + row, total, mask=in_heads & (total > 0))", "unwritten", "split"),
    _mla("last split skipped", "sparse_mla_decode", "[(programs, splits)](", "[(programs, splits - 1)](", "unwritten",
         "split"),
    _mla("query taken as contiguous", "sparse_mla_decode", "            q.stride(0),\n            q.stride(2),",
         "            num_heads * 512,\n            512,", "memory"),
    _mla("default scale of the nope part", ARGUMENTS, "HEAD_DIM**-0.5 if", "448**-0.5 if", "oracle:"),
    _mla("two query tokens accepted", ARGUMENTS, "(None, 1, None, HEAD_DIM)", "(None, None, None, HEAD_DIM)",
         "rejects:"),
    _merge("empty part counted", 'tl.where((part_lse != float("-inf"))[:, None], part_out, 0.0)', "part_out",
           "poison:empty part"),
    _merge("parts past the last read", "mask=in_tile & there, other=0.0)", "mask=in_tile, other=0.0)", "memory"),
    _merge("lse is the maximum only", "top + tl.log(total)", "top", "oracle:lse"),
    _merge("no part gives NaN", 'top = tl.where(tl.abs(top) == float("inf"), 0.0, top)', "top = top", "oracle:"),
    _merge("last part dropped", "there = part < num_parts\n", "there = part < num_parts - 1\n",
           "oracle:out"),
    _merge("weights of the last part for all", "share = tl.where(total == 0.0, 0.0, tl.exp(part_lse - top) / total)",
           "share = 1.0 / total", "oracle:out"),
)  # fmt: skip
