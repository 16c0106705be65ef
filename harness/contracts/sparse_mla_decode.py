"""Contract of sparse MLA decode: attention of one query a sequence over listed tokens of paged FP8 caches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from harness.checks import permuted_rows, renamed_pages, retyped
from harness.contract import Contract, Inputs, Rejection, Relation
from harness.contracts import _replays, _work
from harness.contracts._illegal import Illegal, apart, on_another_device, shorter, strided, value, zeros
from harness.contracts._mla_parts import Part, part_features, parts
from harness.contracts._mla_values import WIDTH, Sink, Special, TokenKind, put_special, queries, sinks, token_bytes
from harness.poison import Poison
from harness.registry import register
from harness.strategies.indices import IndexLists, Lengths, index_tensor, length_tensor
from harness.strategies.layouts import Layout, far, layouts, materialise, repeated
from harness.strategies.paged import PagedCache, alone, build_cache
from harness.strategies.sizes import sizes
from harness.strategies.spec import Spec, derived_seed, require
from harness.tolerance import Budget
from reference.sparse_mla_decode import sparse_mla_decode as oracle
from reference.sparse_mla_decode import sparse_mla_decode_magnitude

CONTIGUOUS = Layout()
#: Scores of about 1e31, past any finite stand-in for -inf; half of the rows with one token have it negative.
HUGE_SCALE = 2.0**104


@dataclass(frozen=True, kw_only=True, repr=False)
class Case(Spec):
    """One decode of ``main.lists.num_rows`` sequences; with ``copies`` the only one stands for so many."""

    num_heads: int
    main: Part
    extra: Part | None = None
    head_dim_v: int = WIDTH
    softmax_scale: float | None = None
    sink: Sink = "none"
    tokens: TokenKind = "plain"
    special: Special = "nothing"
    q_layout: Layout = CONTIGUOUS
    index_layout: Layout = CONTIGUOUS
    copies: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.num_heads >= 1, "num_heads", "at least 1", self.num_heads)
        require(1 <= self.head_dim_v <= WIDTH, "head_dim_v", f"1 to {WIDTH}", self.head_dim_v)
        if self.extra is not None:
            rows = self.main.lists.num_rows
            require(self.extra.lists.num_rows == rows, "extra", f"{rows} rows", self.extra.lists.num_rows)

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.main.lists.num_rows

    @property
    def parts(self) -> tuple[Part, ...]:
        """The caches of this case."""
        return (self.main,) if self.extra is None else (self.main, self.extra)


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    batch = draw(st.integers(1, 3))
    tokens: TokenKind = draw(
        st.sampled_from(["plain", "plain", "all_codes", "subnormal_codes", "lowest_scales", "highest_scales"])
    )
    scales = [None, None, 0.1, 0.0625, HUGE_SCALE] if tokens != "lowest_scales" else [None, 0.1]
    specials: list[Special] = ["nan_code", "nan_scale", "nan_rope", "nan_query", "overflow"]
    return Case(
        num_heads=draw(sizes(tile=8, min_size=1, max_size=17) | st.sampled_from([16, 33, 64])),
        main=draw(parts(batch=batch, max_pages=4, long_lists=(63, 64, 65))),
        extra=draw(st.none() | parts(batch=batch, max_pages=2)),
        head_dim_v=draw(st.sampled_from([WIDTH, WIDTH, 448, 256, 64, 16, 1, 37, 500])),
        softmax_scale=draw(st.sampled_from(scales)),
        sink=draw(st.sampled_from(["none", "plain", "-inf", "+inf", "mixed"])),
        tokens=tokens,
        special=draw(st.sampled_from(["nothing"] * 5 + specials)),
        q_layout=draw(layouts(rank=4, allow=("contiguous", "padded_rows", "offset"))),
        seed=draw(st.integers(0, 2**16 - 1)),
    )


def cases() -> st.SearchStrategy[Case]:
    """Legal cases: 1 to 3 sequences, 1 to 64 heads, 1 to 65 lanes a row, one or two caches of their own page size."""
    return _cases()


def inputs(case: Case, device: torch.device, poison: Poison) -> Inputs:
    """Build the launch arguments of ``case``; contents that may not matter are ``poison``."""
    q = queries(batch=case.batch, num_heads=case.num_heads, kind=case.tokens, seed=case.seed)
    stored = [
        token_bytes(part.cache.num_tokens, kind=case.tokens, seed=derived_seed(case.seed, f"part {number}"))
        for number, part in enumerate(case.parts)
    ]
    read = [(number, token) for number, part in enumerate(case.parts) for token in part.referenced]
    number, token = read[derived_seed(case.seed, "special token") % len(read)] if read else (0, None)
    put_special(case.special, q=q, token=None if token is None else stored[number][token], seed=case.seed)
    sink = sinks(case.sink, num_heads=case.num_heads, seed=case.seed)
    built: Inputs = dict.fromkeys(("extra_k_cache", "extra_indices", "extra_topk_length"))
    built["q"] = materialise(q.to(device), case.q_layout, poison, "q padding")
    for part, content, prefix in zip(case.parts, stored, ("", "extra_"), strict=False):
        built |= {
            f"{prefix}k_cache": alone(
                build_cache(part.cache, content, poison, device=device, referenced=part.referenced)
            ),
            f"{prefix}indices": index_tensor(part.lists, part.cache, poison, lengths=part.lengths, device=device)[
                :, None
            ],
            f"{prefix}topk_length": length_tensor(part.lengths, device=device),
        }
        for name in (f"{prefix}indices", f"{prefix}topk_length"):
            built[name] = _spread(built[name], case.index_layout, poison)
    if case.copies > 1:
        rows = [name for name, tensor in built.items() if tensor is not None and not name.endswith("k_cache")]
        built |= {name: repeated(built[name], 0, case.copies) for name in rows}
    return built | {
        "attn_sink": _spread(None if sink is None else sink.to(device), case.index_layout, poison),
        "head_dim_v": case.head_dim_v,
        "softmax_scale": case.softmax_scale,
    }


def _spread(tensor: torch.Tensor | None, layout: Layout, poison: Poison) -> torch.Tensor | None:
    """Lay ``tensor`` out as ``layout`` says, as far as its rank allows."""
    if tensor is None or (tensor.dim() < 2 and layout.kind != "step"):
        return tensor
    return materialise(tensor, layout, poison, "index padding")


def features(case: Case) -> frozenset[str]:
    """Name what is special about ``case``; one head over one token of a dense FP8 page has nothing."""
    read = any(part.referenced for part in case.parts)
    special = case.special == "nan_query" or (case.special != "nothing" and read)
    tags = {
        "sink": case.sink in ("plain", "mixed"),
        "sink=-inf": case.sink == "-inf" or (case.sink == "mixed" and case.num_heads > 1),
        "sink=+inf": case.sink == "+inf" or (case.sink == "mixed" and case.num_heads > 2),
        "head_dim_v<512": case.head_dim_v < WIDTH,
        "softmax_scale given": case.softmax_scale is not None,
        "huge scores": case.softmax_scale == HUGE_SCALE,
        "extra cache": case.extra is not None,
        "extra page size": case.extra is not None and case.extra.cache.page_size != case.main.cache.page_size,
        "row without tokens": any(not found for found in _tokens_of_rows(case)),
        case.tokens.replace("_", " "): case.tokens != "plain",
        f"{case.special.replace('_', ' ')}": special,
        "q non-contiguous": case.q_layout.kind != "contiguous",
        "indices non-contiguous": case.index_layout.kind != "contiguous",
    }
    found = {tag for tag, present in tags.items() if present}
    return frozenset(found.union(*(part_features(part) for part in case.parts)))


def _tokens_of_rows(case: Case) -> Iterator[list[int]]:
    """Yield, for each sequence, the logical tokens it reads in either cache."""
    for rows in zip(*(part.rows for part in case.parts), strict=True):
        parts = zip(case.parts, rows, strict=True)
        yield [index for part, row in parts for index in row if 0 <= index < part.cache.num_tokens]


def _other_view(case: Case, arguments: Inputs) -> Inputs:
    """Return the same bytes as the other of the two dtypes that a cache may have."""
    caches = {name: arguments[name] for name in ("k_cache", "extra_k_cache") if arguments[name] is not None}
    other = {torch.uint8: torch.float8_e4m3fn, torch.float8_e4m3fn: torch.uint8}
    return arguments | {name: cache.view(other[cache.dtype]) for name, cache in caches.items()}


def _wide_lengths(case: Case, arguments: Inputs) -> Inputs | None:
    """Return the same lengths, and indices of the second cache, as int64."""
    names = [name for name in ("topk_length", "extra_topk_length", "extra_indices") if arguments[name] is not None]
    return arguments | {name: arguments[name].long() for name in names} if names else None


def rejects() -> tuple[Rejection, ...]:
    """Illegal arguments: dtypes, ranks, widths, strides, shapes that disagree, halves of an extra cache."""
    illegal = Illegal(lambda: inputs(_LEGAL, torch.device("cpu"), Poison()))
    nothing = value(None)
    return (
        illegal("float16 query", "q", q=torch.Tensor.half),
        illegal("float32 query", "q", q=torch.Tensor.float),
        illegal("float64 query", "q", q=torch.Tensor.double),
        illegal("s_q = 2", "q", q=lambda t: t.expand(-1, 2, -1, -1).contiguous()),
        illegal("head width 576", "q", q=zeros(2, 1, 3, 576)),
        illegal("query of rank 3", "q", q=lambda t: t[:, 0]),
        illegal("bfloat16 cache", "k_cache", k_cache=lambda t: torch.zeros(t.shape, dtype=torch.bfloat16)),
        illegal("int8 cache", "k_cache", k_cache=lambda t: t.view(torch.int8)),
        illegal("cache of rank 5", "k_cache", k_cache=lambda t: t[None]),
        illegal("cache of rank 3", "k_cache", k_cache=lambda t: t[:, :, 0]),
        illegal("cache of 656 bytes a token", "k_cache", k_cache=zeros(3, 16, 1, 656)),
        illegal("cache of two heads", "k_cache", k_cache=zeros(3, 16, 2, 584)),
        illegal(
            "cache with bytes apart",
            "k_cache",
            k_cache=lambda t: torch.zeros_like(t.transpose(1, 3)).contiguous().transpose(1, 3),
        ),
        illegal("cache with bytes apart alone", "k_cache", k_cache=strided(16 * 1200, 584, 584, 2)),
        illegal("tokens of 592 bytes", "k_cache", k_cache=strided(16 * 592, 592, 592, 1)),
        illegal("overlapping pages", "k_cache", k_cache=strided(584, 584, 584, 1)),
        illegal("pages at odd distances", "k_cache", k_cache=strided(16 * 584 + 4, 584, 584, 1)),
        illegal("cache at an odd address", "k_cache", k_cache=_four_bytes_on),
        illegal("pages of no token", "k_cache", k_cache=lambda t: t[:, :0]),
        illegal(
            "more tokens than int32 numbers",
            "k_cache",
            k_cache=lambda t: torch.empty((2**27, 16, 1, 584), dtype=t.dtype, device="meta"),
            **{name: on_another_device for name in ("q", "indices", "topk_length", "attn_sink", "extra_k_cache")},
            **{name: on_another_device for name in ("extra_indices", "extra_topk_length")},
        ),
        illegal("no heads", "q", q=lambda t: t[:, :, :0], attn_sink=lambda t: t[:0]),
        illegal("query with elements apart", "q", q=apart),
        illegal("sink on another device", "attn_sink", attn_sink=on_another_device),
        illegal("cache on another device", "k_cache", k_cache=on_another_device),
        illegal("extra indices on another device", "extra_indices", extra_indices=on_another_device),
        illegal("extra lengths on another device", "extra_topk_length", extra_topk_length=on_another_device),
        illegal("lengths on another device", "topk_length", topk_length=on_another_device),
        illegal("indices of rank 2", "indices", indices=lambda t: t[:, 0]),
        illegal("int16 indices", "indices", indices=torch.Tensor.short),
        illegal("float32 indices", "indices", indices=torch.Tensor.float),
        illegal("indices of fewer sequences", "indices", indices=shorter(0)),
        illegal("indices of two queries", "indices", indices=lambda t: t.expand(-1, 2, -1)),
        illegal("float32 lengths", "topk_length", topk_length=torch.Tensor.float),
        illegal("lengths of fewer sequences", "topk_length", topk_length=shorter(0)),
        illegal("lengths of rank 2", "topk_length", topk_length=lambda t: t[:, None]),
        illegal("indices on another device", "indices", indices=on_another_device),
        illegal("bfloat16 sink", "attn_sink", attn_sink=torch.Tensor.bfloat16),
        illegal("sink of fewer heads", "attn_sink", attn_sink=shorter(0)),
        illegal("head_dim_v 0", "head_dim_v", head_dim_v=value(0)),
        illegal("head_dim_v 513", "head_dim_v", head_dim_v=value(513)),
        illegal("head_dim_v None", "head_dim_v", head_dim_v=value(None)),
        illegal("head_dim_v True", "head_dim_v", head_dim_v=value(True)),
        illegal("softmax_scale NaN", "softmax_scale", softmax_scale=value(math.nan)),
        illegal("softmax_scale of text", "softmax_scale", softmax_scale=value("1")),
        illegal("extra cache of rank 3", "extra_k_cache", extra_k_cache=lambda t: t[:, :, 0]),
        illegal("extra cache of int8", "extra_k_cache", extra_k_cache=lambda t: t.view(torch.int8)),
        illegal("extra indices of rank 2", "extra_indices", extra_indices=lambda t: t[:, 0]),
        illegal("extra lengths of fewer sequences", "extra_topk_length", extra_topk_length=shorter(0)),
        illegal("extra indices alone", "extra_k_cache", extra_k_cache=nothing, extra_topk_length=nothing),
        illegal("extra cache alone", "extra_indices", extra_indices=nothing, extra_topk_length=nothing),
        illegal("extra lengths alone", "extra_topk_length", extra_k_cache=nothing, extra_indices=nothing),
    )


def _four_bytes_on(cache: torch.Tensor) -> torch.Tensor:
    longer = torch.zeros(cache.numel() + 4, dtype=torch.uint8)
    return longer[4:].view(cache.shape).view(cache.dtype)


def _part(page_size: int, num_pages: int, num_rows: int, topk: int, lengths: Lengths = None, padding: int = 0) -> Part:
    cache = PagedCache(
        page_size=page_size,
        num_tokens=page_size * num_pages,
        page_order=tuple(reversed(range(num_pages))),
        page_padding=padding,
        dtype=torch.float8_e4m3fn,
    )
    return Part(cache=cache, lists=IndexLists(num_rows=num_rows, topk=topk, shuffle=1), lengths=lengths)


_LEGAL = Case(
    num_heads=3,
    main=_part(16, 3, 2, 5, lengths=(5, 3)),
    extra=_part(2, 4, 2, 3, lengths=(3, 1)),
    sink="plain",
)

#: Corners that must stay right: the last token of a page of 256, both caches with their own page size and a sink,
#: a row without tokens, whose sink may have no weight either, beside one with, a sink and NaN together, everything but
#: q and the caches strided; scores so far apart that a weight just above 2^-125 is all that some element is made of;
#: heads, sequences and lanes of indices 2^31 elements apart.
PINNED = (
    Case(num_heads=1, main=_part(1, 1, 1, 1)),
    Case(num_heads=16, main=_part(256, 2, 2, 64, padding=256), sink="plain"),
    Case(num_heads=17, main=_part(64, 2, 2, 33, padding=64), extra=_part(2, 3, 2, 5), sink="mixed", head_dim_v=256),
    Case(num_heads=2, main=_part(2, 3, 3, 5, lengths=(0, 9, 2)), sink="mixed"),
    Case(num_heads=2, main=_part(16, 2, 2, 17, lengths=(17, -1)), special="nan_code", sink="plain"),
    Case(num_heads=1, main=_part(2, 2, 1, 3), special="nan_scale"),
    Case(
        num_heads=2,
        main=_part(2, 3, 2, 5, lengths=(5, 3)),
        extra=_part(1, 3, 2, 3, lengths=(2, 3)),
        sink="mixed",
        index_layout=Layout(kind="step", amount=2),
    ),
    Case(num_heads=16, main=_part(16, 1, 3, 5), softmax_scale=4.0, tokens="all_codes", seed=15),
    Case(num_heads=3, main=_part(2, 2, 1, 3), extra=_part(1, 2, 1, 2), q_layout=far(2), index_layout=far(1)),
    Case(num_heads=2, main=_part(2, 2, 3, 3), extra=_part(1, 2, 3, 2), q_layout=far(4), index_layout=far(2)),
)

#: An output past 2^31 elements.
VAST = (Case(num_heads=64, main=_part(2, 2, 1, 3), copies=2**16 + 1),)

#: DeepSeek-V4-Flash: 64 heads, a window of 128 tokens in pages of 256 and 512 tokens of a compressed cache in pages
#: of 64; and one cache alone, decode and large batches.
WORKLOADS = (
    *(
        Case(
            num_heads=64,
            main=_part(256, batch, batch, 128, padding=256),
            extra=_part(64, 8 * batch, batch, 512, padding=64),
            sink="plain",
        )
        for batch in (1, 16, 64)
    ),
    *(
        Case(num_heads=64, main=_part(256, 4 * batch, batch, topk, padding=256))
        for batch, topk in ((1, 1024), (16, 512), (64, 512), (64, 1024), (256, 1024))
    ),
)

register(
    Contract(
        name="sparse_mla_decode",
        cases=cases,
        inputs=inputs,
        oracle=oracle,
        magnitude=sparse_mla_decode_magnitude,
        tolerance={"out": Budget(), "lse": Budget(axis=None)},
        features=features,
        relations=(
            renamed_pages("pages renamed", cache="k_cache", ids="indices", tokens=True),
            renamed_pages("extra pages renamed", cache="extra_k_cache", ids="extra_indices", tokens=True),
            permuted_rows(
                "batch permuted",
                arguments=("q", "indices", "topk_length", "extra_indices", "extra_topk_length"),
                outputs=("out", "lse"),
            ),
            retyped("int64 indices", argument="indices", dtype=torch.int64),
            Relation(name="int64 lengths", transform=_wide_lengths),
            Relation(name="other dtype of the same bytes", transform=_other_view),
        ),
        rejects=rejects,
        stores_once=True,
        any_device=True,
        pinned=PINNED,
        workloads=WORKLOADS,
        work=_work.sparse_mla_decode,
        replays=_replays.attended,
        vast=VAST,
    )
)
