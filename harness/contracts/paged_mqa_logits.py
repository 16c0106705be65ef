"""Contract of the indexer's logits: a query of many heads against every token of a paged FP8 cache."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from hypothesis import strategies as st

from harness.checks import permuted_rows, renamed_pages, retyped
from harness.contract import Contract, Inputs, Outputs, Rejection, Relation
from harness.contracts import _replays, _work
from harness.contracts._illegal import Change, Illegal, on_another_device, shorter, strided, value, zeros
from harness.poison import Poison
from harness.registry import register
from harness.strategies.block_tables import BlockTable, block_table_tensor, block_tables, build_block_cache
from harness.strategies.formats import sample_codes
from harness.strategies.ids import invalid_ids
from harness.strategies.layouts import Layout, far, layouts, materialise
from harness.strategies.paged import PagedCache, TokenLayout, alone
from harness.strategies.sizes import sizes
from harness.strategies.spec import Spec, derived_seed, require
from harness.tolerance import Budget
from reference.paged_mqa_logits import HEAD_DIM, PAGE_SIZE, paged_mqa_logits_magnitude
from reference.paged_mqa_logits import paged_mqa_logits as oracle

CONTIGUOUS = Layout()
#: 128 E4M3 values of each token of a page, then the float32 scales of all of them; a page may be wider.
TOKEN = TokenLayout(data_bytes=HEAD_DIM, scale_bytes=4, pad_bytes=0, page_multiple=64)

Special = Literal["nothing", "nan_query", "nan_key", "nan_scale", "inf_scale", "nan_weight"]
#: One table entry that names no page: sequence, column, id.
Planted = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True, repr=False)
class Case(Spec):
    """Logits of ``len(table.seq_lens)`` sequences; ``planted`` entries of the table name pages outside the pool.

    The last ``missing_columns`` of the table are not there, so that sequences may be longer than it.
    """

    num_heads: int
    table: BlockTable
    max_seq_len: int
    planted: tuple[Planted, ...] = ()
    missing_columns: int = 0
    page_padding: int = 0
    every_code: bool = False
    special: Special = "nothing"
    cache_dtype: torch.dtype = torch.uint8
    table_dtype: torch.dtype = torch.int32
    table_layout: Layout = CONTIGUOUS
    lens_dtype: torch.dtype = torch.int32
    lens_rank: int = 1
    lens_layout: Layout = CONTIGUOUS
    q_layout: Layout = CONTIGUOUS
    weights_layout: Layout = CONTIGUOUS
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.num_heads >= 1, "num_heads", "at least 1", self.num_heads)
        require(self.table.page_size == PAGE_SIZE, "table", f"pages of {PAGE_SIZE}", self.table.page_size)
        require(self.max_seq_len >= 0, "max_seq_len", "at least 0", self.max_seq_len)
        require(self.missing_columns >= 0, "missing_columns", "at least 0", self.missing_columns)
        require(self.lens_rank in (1, 2), "lens_rank", "1 or 2", self.lens_rank)
        owned = {(row, column) for row, pages in enumerate(self.table.pages) for column in range(len(pages))}
        outside = [page for _, _, page in self.planted if 0 <= page < len(self.table.page_order)]
        there = {(row, column) for row, column, _ in self.planted} <= owned
        require(there and not outside, "planted", "owned entries with pages outside the pool", self.planted)

    @property
    def cache(self) -> PagedCache:
        """The pool of pages."""
        return self.table.cache(token=TOKEN, page_padding=self.page_padding, dtype=self.cache_dtype)


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    # the largest stands for 0, so that an empty sequence is not what everything shrinks to
    most = 2 * PAGE_SIZE + 2
    lengths = sizes(tile=PAGE_SIZE, min_size=1, max_size=most).map(lambda size: size if size < most else 0)
    seq_lens = tuple(draw(st.lists(lengths, min_size=1, max_size=3)))
    table = draw(block_tables(seq_lens=seq_lens, page_size=PAGE_SIZE))
    table_dtype = draw(st.sampled_from([torch.int32, torch.int64]))
    owned = [(row, column) for row, pages in enumerate(table.pages) for column in range(len(pages))]
    planted: tuple[Planted, ...] = ()
    # drawn also where nothing is owned: a sequence of no tokens must not be the simplest for taking fewer draws
    if draw(st.booleans()) and owned:
        bad = invalid_ids(limit=len(table.page_order), dtype=table_dtype)
        planted = ((*draw(st.sampled_from(owned)), draw(st.sampled_from(bad))),)
    specials: list[Special] = ["nan_query", "nan_key", "nan_scale", "inf_scale", "nan_weight"]
    return Case(
        num_heads=draw(sizes(tile=16, min_size=1, max_size=33) | st.sampled_from([64, 65])),
        table=table,
        max_seq_len=draw(st.just(max(seq_lens)) | sizes(tile=PAGE_SIZE, min_size=0, max_size=200)),
        planted=planted,
        missing_columns=draw(st.sampled_from([0, 0, 0, 1])),
        page_padding=draw(st.sampled_from([0, 0, 64, 132 * PAGE_SIZE])),
        every_code=draw(st.booleans()),
        special=draw(st.sampled_from(["nothing"] * 5 + specials)),
        cache_dtype=draw(st.sampled_from([torch.uint8, torch.float8_e4m3fn])),
        table_dtype=table_dtype,
        table_layout=draw(layouts(rank=2, allow=("contiguous", "padded_rows", "step"))),
        lens_dtype=draw(st.sampled_from([torch.int32, torch.int64])),
        lens_rank=draw(st.sampled_from([1, 2])),
        lens_layout=draw(layouts(rank=1, allow=("contiguous", "step"))),
        q_layout=draw(layouts(rank=4, allow=("contiguous", "padded_rows", "offset"))),
        weights_layout=draw(layouts(rank=2)),
        seed=draw(st.integers(0, 2**16 - 1)),
    )


def cases() -> st.SearchStrategy[Case]:
    """Legal cases: 1 to 3 sequences of 0 to 129 tokens, 1 to 65 heads, logits narrower and wider than the table."""
    return _cases()


def inputs(case: Case, device: torch.device, poison: Poison) -> Inputs:
    """Build the launch arguments of ``case``; contents that may not matter are ``poison``."""
    batch = len(case.table.seq_lens)
    kind: Literal["all_codes", "plain"] = "all_codes" if case.every_code else "plain"
    shape = (batch, 1, case.num_heads, HEAD_DIM)
    codes = sample_codes("e4m3", shape, seed=derived_seed(case.seed, "q"), kind=kind)
    tokens = [_token_bytes(case, row, length, kind) for row, length in enumerate(case.table.seq_lens)]
    generator = torch.Generator().manual_seed(derived_seed(case.seed, "weights"))
    weights = torch.randn(batch, case.num_heads, generator=generator)
    _put_special(case, codes, tokens, weights)
    table = block_table_tensor(case.table, poison, dtype=case.table_dtype)
    for row, column, page in case.planted:
        table[row, column] = page
    table = table[:, : _columns(case)].to(device)
    seq_lens = torch.tensor(case.table.seq_lens, dtype=case.lens_dtype, device=device)
    seq_lens = materialise(seq_lens, case.lens_layout, poison, "seq_lens padding")
    return {
        "q": materialise(codes.view(torch.float8_e4m3fn).to(device), case.q_layout, poison, "q padding"),
        "kv_cache": alone(build_block_cache(case.table, tokens, poison, cache=case.cache, device=device)),
        "weights": materialise(weights.to(device), case.weights_layout, poison, "weights padding"),
        "seq_lens": seq_lens if case.lens_rank == 1 else seq_lens[:, None],
        "page_table": materialise(table, case.table_layout, poison, "page table padding"),
        "max_seq_len": case.max_seq_len,
    }


def _token_bytes(case: Case, row: int, length: int, kind: Literal["all_codes", "plain"]) -> torch.Tensor:
    """Return uint8 ``[length, 132]``: codes, then a positive scale of a size of its own for each token."""
    codes = sample_codes("e4m3", (length, HEAD_DIM), seed=derived_seed(case.seed, f"keys {row}"), kind=kind)
    generator = torch.Generator().manual_seed(derived_seed(case.seed, f"scales {row}"))
    exponents = torch.randint(-8, 3, (length, 1), generator=generator)
    scales = torch.exp2(exponents.double()) * (1 + torch.rand(length, 1, generator=generator))
    return torch.cat((codes, scales.float().view(torch.uint8)), dim=1)


def _put_special(case: Case, codes: torch.Tensor, tokens: list[torch.Tensor], weights: torch.Tensor) -> None:
    generator = torch.Generator().manual_seed(derived_seed(case.seed, "special"))

    def drawn(limit: int) -> int:
        return int(torch.randint(limit, (), generator=generator))

    row = drawn(len(tokens))
    if case.special == "nan_query":
        codes[row].view(-1)[drawn(codes[row].numel())] = (0x7F, 0xFF)[drawn(2)]
    elif case.special == "nan_weight":
        weights[row, drawn(case.num_heads)] = math.nan
    elif case.special != "nothing" and len(tokens[row]):
        token = tokens[row][drawn(len(tokens[row]))]
        if case.special == "nan_key":
            token[drawn(HEAD_DIM)] = (0x7F, 0xFF)[drawn(2)]
        else:
            token[HEAD_DIM:].view(torch.float32)[0] = math.nan if case.special == "nan_scale" else math.inf


def features(case: Case) -> frozenset[str]:
    """Name what is special about ``case``; one head over a token has nothing."""
    table, invalid = case.table, [page for _, _, page in case.planted]
    lengths = table.seq_lens
    tags = {
        "several heads": case.num_heads > 1,
        "several sequences": len(lengths) > 1,
        "several pages": any(length > PAGE_SIZE for length in lengths),
        "partial last page": any(length > PAGE_SIZE and length % PAGE_SIZE for length in lengths),
        "empty sequence": 0 in lengths,
        "sequence past the table": any(length > PAGE_SIZE * _columns(case) for length in lengths),
        "shared pages": table.shared_pages > 0,
        "pages out of order": table.page_order != tuple(range(len(table.page_order))) and not table.far,
        "far pages": table.far,
        "page padding": case.page_padding > 0 and not table.far,
        "max_seq_len below a length": any(length > case.max_seq_len for length in lengths),
        "max_seq_len past a length": any(length < case.max_seq_len for length in lengths),
        "invalid page -1": -1 in invalid,
        "invalid page < -1": any(page < -1 for page in invalid),
        "invalid page >= pool": any(page > 0 for page in invalid),
        "every code": case.every_code,
        case.special.replace("_", " "): case.special != "nothing",
        "float8 cache": case.cache_dtype == torch.float8_e4m3fn,
        "table non-contiguous": case.table_layout.kind != "contiguous",
        "int64 table": case.table_dtype == torch.int64,
        "seq_lens of rank 2": case.lens_rank == 2,
        "seq_lens apart": case.lens_layout.kind != "contiguous",
        "q non-contiguous": case.q_layout.kind != "contiguous",
        "weights non-contiguous": case.weights_layout.kind != "contiguous",
    }
    return frozenset(tag for tag, present in tags.items() if present)


def _columns(case: Case) -> int:
    widest = max(len(pages) for pages in case.table.pages)
    return max(0, widest + case.table.extra_columns - case.missing_columns)


def _other_view(case: Case, arguments: Inputs) -> Inputs:
    """Return the same bytes as the other of the two dtypes that the cache may have."""
    other = {torch.uint8: torch.float8_e4m3fn, torch.float8_e4m3fn: torch.uint8}
    cache = arguments["kv_cache"]
    return arguments | {"kv_cache": cache.view(other[cache.dtype])}


_MORE = 70


def _with_room(case: Case, outputs: Outputs) -> Outputs:
    logits = outputs["logits"]
    return {"logits": torch.cat((logits, logits.new_full((len(logits), _MORE), -math.inf)), dim=1)}


def _wider(case: Case, arguments: Inputs) -> Inputs | None:
    """Return room for more logits, where every sequence has room already: what is added is past all of them."""
    return (
        arguments | {"max_seq_len": case.max_seq_len + _MORE} if case.max_seq_len >= max(case.table.seq_lens) else None
    )


def rejects() -> tuple[Rejection, ...]:
    """Illegal arguments: dtypes, ranks, widths, strides, shapes that disagree."""
    illegal = Illegal(lambda: inputs(_LEGAL, torch.device("cpu"), Poison()))
    return (
        illegal("bfloat16 query", "q", q=lambda t: torch.zeros(t.shape, dtype=torch.bfloat16)),
        illegal("uint8 query", "q", q=lambda t: t.view(torch.uint8)),
        illegal("float8_e5m2 query", "q", q=lambda t: t.view(torch.float8_e5m2)),
        illegal("s_q = 2", "q", q=lambda t: t.view(torch.uint8).expand(-1, 2, -1, -1).view(t.dtype)),
        illegal("head width 64", "q", q=lambda t: t[..., :64]),
        illegal("query of rank 3", "q", q=lambda t: t[:, 0]),
        illegal("query with elements apart", "q", q=lambda t: t.transpose(2, 3).contiguous().transpose(2, 3)),
        illegal("float32 cache", "kv_cache", kv_cache=lambda t: torch.zeros(t.shape)),
        illegal("pages of 32", "kv_cache", kv_cache=zeros(3, 32, 1, 132)),
        illegal("tokens of 128 bytes", "kv_cache", kv_cache=zeros(3, 64, 1, 128)),
        illegal("cache of two heads", "kv_cache", kv_cache=zeros(3, 64, 2, 132)),
        illegal("cache of rank 3", "kv_cache", kv_cache=lambda t: t[:, :, 0]),
        illegal("no heads", "q", q=lambda t: t[:, :, :0], weights=lambda t: t[:, :0]),
        illegal("cache with bytes apart alone", "kv_cache", kv_cache=_bytes_apart(TOKEN.token_bytes, 2)),
        illegal("tokens of 136 bytes", "kv_cache", kv_cache=_bytes_apart(136, 1)),
        illegal("overlapping pages", "kv_cache", kv_cache=lambda t: t.as_strided(t.shape, (132, 132, 132, 1))),
        illegal("cache with bytes apart", "kv_cache", kv_cache=lambda t: t.repeat(1, 1, 1, 2)[..., ::2]),
        illegal("cache at an odd address", "kv_cache", kv_cache=_one_byte_on),
        illegal("bfloat16 weights", "weights", weights=torch.Tensor.bfloat16),
        illegal("float64 weights", "weights", weights=torch.Tensor.double),
        illegal("weights of fewer heads", "weights", weights=shorter(1)),
        illegal("weights of fewer sequences", "weights", weights=shorter(0)),
        illegal("float32 lengths", "seq_lens", seq_lens=torch.Tensor.float),
        illegal("lengths of fewer sequences", "seq_lens", seq_lens=shorter(0)),
        illegal("two lengths a sequence", "seq_lens", seq_lens=lambda t: t[:, None].repeat(1, 2)),
        illegal("int16 table", "page_table", page_table=torch.Tensor.short),
        illegal("table of rank 1", "page_table", page_table=lambda t: t[:, 0]),
        illegal("table of fewer sequences", "page_table", page_table=shorter(0)),
        illegal("max_seq_len -1", "max_seq_len", max_seq_len=value(-1)),
        illegal("max_seq_len 2^31", "max_seq_len", max_seq_len=value(2**31)),
        illegal("max_seq_len 64.0", "max_seq_len", max_seq_len=value(64.0)),
        illegal("weights on another device", "weights", weights=on_another_device),
        illegal("cache on another device", "kv_cache", kv_cache=on_another_device),
    )


def _bytes_apart(token: int, byte: int) -> Change:
    """Return the change to a cache of which tokens and bytes are so far apart, pages further than both."""
    return strided(PAGE_SIZE * max(token, TOKEN.token_bytes * byte), token, token, byte)


def _one_byte_on(cache: torch.Tensor) -> torch.Tensor:
    longer = torch.zeros(cache.numel() + 1, dtype=torch.uint8)
    return longer[1:].view(cache.shape).view(cache.dtype)


def _table(seq_lens: tuple[int, ...], *, unused: int = 0) -> BlockTable:
    pages = sum(-(-length // PAGE_SIZE) for length in seq_lens) + unused
    return BlockTable(seq_lens=seq_lens, page_size=PAGE_SIZE, page_order=tuple(reversed(range(max(1, pages)))))


_LEGAL = Case(num_heads=3, table=_table((70, 5)), max_seq_len=80)

#: Corners that must stay right: an empty sequence, logits wider than the table, ids outside the pool beside good
#: ones, NaN in a sequence beside one without, entries of a table apart, heads and sequences 2^31 elements apart.
PINNED = (
    Case(num_heads=1, table=_table((1,)), max_seq_len=1),
    Case(num_heads=1, table=_table((66, 1)), max_seq_len=66, table_layout=Layout(kind="step", amount=2)),
    Case(num_heads=64, table=_table((65, 0)), max_seq_len=200),
    Case(num_heads=17, table=_table((129,)), max_seq_len=129, planted=((0, 0, -1), (0, 2, 3))),
    Case(num_heads=2, table=_table((3, 64), unused=2), max_seq_len=64, special="nan_key", lens_rank=2),
    Case(num_heads=2, table=_table((64,)), max_seq_len=0),
    Case(num_heads=2, table=_table((130,)), max_seq_len=140, missing_columns=2),
    Case(
        num_heads=65,
        table=_table((3, 64)),
        max_seq_len=64,
        weights_layout=Layout(kind="step", amount=2),
        lens_layout=Layout(kind="step", amount=3),
    ),
    Case(num_heads=3, table=_table((2,)), max_seq_len=3, q_layout=far(2), weights_layout=far(1)),
    Case(num_heads=2, table=_table((2, 1, 65)), max_seq_len=66, q_layout=far(4), weights_layout=far(2)),
    Case(num_heads=1, table=_table((200, 65)), max_seq_len=64 * 512),
)

#: DeepSeek-V4 indexer: 64 heads; lengths and batches of upstream's measurements.
WORKLOADS = tuple(
    Case(num_heads=64, table=_table((length,) * batch), max_seq_len=length)
    for batch, length in ((4, 4096), (16, 16384), (64, 8192))
)

register(
    Contract(
        name="paged_mqa_logits",
        cases=cases,
        inputs=inputs,
        oracle=oracle,
        magnitude=paged_mqa_logits_magnitude,
        # each logit has a scale of its own
        tolerance={"logits": Budget(axis=None)},
        features=features,
        relations=(
            renamed_pages("pages renamed", cache="kv_cache", ids="page_table", tokens=False),
            permuted_rows("batch permuted", arguments=("q", "weights", "seq_lens", "page_table"), outputs=("logits",)),
            retyped("int64 table", argument="page_table", dtype=torch.int64),
            Relation(name="other dtype of the same bytes", transform=_other_view),
            Relation(name="wider logits", transform=_wider, expect=_with_room),
        ),
        rejects=rejects,
        stores_once=True,
        any_device=True,
        pinned=PINNED,
        workloads=WORKLOADS,
        work=_work.paged_mqa_logits,
        replays=_replays.paged,
    )
)
