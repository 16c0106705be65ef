"""Faults planted in ``paged_mqa_logits``: pages, lengths, scales, heads, the vectorised twin."""

from tests.teeth.planting import Planted

NAME = "paged_mqa_logits"


def _logits(name: str, old: str, new: str, check: str, implementation: str = "triton", count: int = 1) -> Planted:
    return Planted(name, NAME, old, new, check, NAME, implementation, count)


FAULTS = (
    Planted("assembly with halves exchanged", "_e4m3_words", "mov.b32 {$0, $1}, pair;\ncvt.rn.f16x2",
            "mov.b32 {$1, $0}, pair;\ncvt.rn.f16x2", "assembly", NAME, "triton"),
    _logits("zero past the end", 'total * scale, float("-inf"))', "total * scale, 0.0)", "oracle:logits"),
    _logits("length off by one", "valid & (token < seq_len)", "valid & (token <= seq_len)", "oracle:logits"),
    _logits("page past the pool read", "(entry >= 0) & (entry < num_pages)", "(entry >= 0)", "memory"),
    _logits("page -1 is page 0", "page = tl.where(owned, entry, -1)",
            "page = tl.where(owned, entry, tl.where((entry == -1) & (column < num_columns), 0, -1))", "oracle:logits"),
    _logits("first entry of the row for every program", "table_column_stride, first, num_columns)",
            "table_column_stride, first * 0, num_columns)", "oracle:logits"),
    _logits("entries past the table read", "(column < num_columns)", "(column >= 0)", "memory"),
    _logits("entries of a row side by side", "column.to(tl.int64) * column_stride", "column.to(tl.int64)", "memory"),
    _logits("scales beside the values", "(_SCALES + offset)", "(offset * 33 + 32)", "oracle:logits"),
    _logits("scale of the first token for all", "(_SCALES + offset)", "(_SCALES + offset * 0)", "oracle:logits"),
    _logits("no relu", "tl.maximum(tl.dot(keys, q), 0.0, propagate_nan=tl.PropagateNan.ALL)", "tl.dot(keys, q)",
            "oracle:logits"),
    _logits("relu hides NaN", ", propagate_nan=tl.PropagateNan.ALL", "", "oracle:logits"),
    _logits("relu after the weights", "return tl.sum(score * weight[None, :], axis=1)",
            "return tl.maximum(tl.sum(score * weight[None, :], axis=1), 0.0)", "oracle:logits"),
    _logits("keys in memory's order", "keys = _values(tl.join(even, odd), words.shape[0])",
            "keys = tl.reshape(tl.join(even, odd), (words.shape[0], 128)).to(\n"
            "            tl.float8e4nv, bitcast=True).to(tl.float16)", "oracle:logits"),
    _logits("upper half of each word is the lower", "(upper >> 8)", "(words >> 8)", "oracle:logits"),
    _logits("first tile of heads only", "range(0, num_heads, BLOCK_H)", "range(0, BLOCK_H, BLOCK_H)", "oracle:logits"),
    _logits("query of the first sequence for all", "q_ptr + row * q_row_stride", "q_ptr", "oracle:logits"),
    _logits("products summed in float16", "tl.dot(keys, q)",
            "tl.dot(keys, q).to(tl.float16).to(tl.float32)", "oracle:logits"),
    _logits("page offset in 32 bits", "page.to(tl.int64) * page_bytes // 4",
            "page * page_bytes.to(tl.int32) // 4", "memory"),
    _logits("weights of far heads in 32 bits", "head.to(tl.int64) * weights_head_stride", "head * weights_head_stride",
            "memory"),
    _logits("stride of the only page believed", "kv_cache.stride(0) if kv_cache.shape[0] > 1 else PAGE_BYTES",
            "kv_cache.stride(0)", "raises"),
    _logits("tokens of another size accepted", '    require_stride("kv_cache", kv_cache, 1, TOKEN_BYTES)\n', "",
            "rejects:tokens of 136 bytes"),
    _logits("torch: invalid pages count", "(token < checked.seq_lens[:, None, None]) & in_pool[:, :, None]",
            "token < checked.seq_lens[:, None, None]", "oracle:logits", "torch"),
    _logits("torch: lengths ignored", "(token < checked.seq_lens[:, None, None]) & in_pool[:, :, None]",
            "in_pool[:, :, None] & (token >= 0)", "oracle:logits", "torch"),
)  # fmt: skip
#: Where a program has several pages: no case of the contract is as large as that.
PAGES_FAULTS = (
    _logits("entry of the page before", "table_column_stride, column + 1, last)",
            "table_column_stride, column, last)", "oracle:logits"),
    _logits("later entries past the table read", "(column < num_columns)", "(column < num_columns + 1)", "memory"),
    _logits("last entry of each program left out", "tl.minimum(first + PAGES, num_columns)",
            "tl.minimum(first + PAGES - 1, num_columns)", "oracle:logits"),
    _logits("page of the turn before", "column = first + turn", "column = first + turn - turn % 2", "oracle:logits"),
)  # fmt: skip
