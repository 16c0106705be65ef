"""Faults planted in ``paged_mqa_logits``: pages, lengths, scales, heads, the vectorised twin."""

from tests.teeth.planting import Planted

NAME = "paged_mqa_logits"


def _logits(name: str, old: str, new: str, check: str, implementation: str = "triton", count: int = 1) -> Planted:
    return Planted(name, NAME, old, new, check, NAME, implementation, count)


FAULTS = (
    _logits("zero past the end", 'tl.where(valid, total * scale, float("-inf"))', "tl.where(valid, total * scale, 0.0)",
            "oracle:logits"),
    _logits("length off by one", "valid = (token < seq_len)", "valid = (token <= seq_len)", "oracle:logits"),
    _logits("page past the pool read", "(token < seq_len) & (page >= 0) & (page < num_pages)",
            "(token < seq_len) & (page >= 0)", "memory"),
    _logits("page -1 is page 0", "page = tl.load(entry_ptr, mask=owned, other=-1).to(tl.int64)",
            "page = tl.load(entry_ptr, mask=owned, other=-1).to(tl.int64)\n"
            "        page = tl.where(owned & (page == -1), 0, page)", "oracle:logits"),
    _logits("entries past the table read", " & (column < num_columns)", "", "memory"),
    _logits("scales beside the values", "_VALUE_BYTES // 4 + offset", "offset * 33 + 32", "oracle:logits"),
    _logits("scale of the first token for all", "_VALUE_BYTES // 4 + offset", "_VALUE_BYTES // 4 + offset * 0",
            "oracle:logits"),
    _logits("no relu", "tl.where(score < 0, 0.0, score)", "score", "oracle:logits"),
    _logits("relu hides NaN", "tl.where(score < 0, 0.0, score)", "tl.where(score > 0, score, 0.0)", "oracle:logits"),
    _logits("relu after the weights", "total += tl.sum(score * weight[None, :], axis=1)",
            "total += tl.maximum(tl.sum(score * weight[None, :], axis=1), 0.0)", "oracle:logits"),
    _logits("first tile of heads only", "range(0, num_heads, BLOCK_H)", "range(0, BLOCK_H, BLOCK_H)", "oracle:logits"),
    _logits("query of the first sequence for all", "q_ptr + row * q_row_stride", "q_ptr", "oracle:logits"),
    _logits("products summed in float16", "score = tl.dot(k, tl.trans(q))",
            "score = tl.dot(k, tl.trans(q)).to(tl.float16).to(tl.float32)", "oracle:logits"),
    _logits("page offset in 32 bits", "values_start = values_ptr + page * page_stride",
            "values_start = values_ptr + page.to(tl.int32) * page_stride.to(tl.int32)", "memory"),
    _logits("torch: invalid pages count", "(token < checked.seq_lens[:, None, None]) & in_pool[:, :, None]",
            "token < checked.seq_lens[:, None, None]", "oracle:logits", "torch"),
    _logits("torch: lengths ignored", "(token < checked.seq_lens[:, None, None]) & in_pool[:, :, None]",
            "in_pool[:, :, None] & (token >= 0)", "oracle:logits", "torch"),
)  # fmt: skip
