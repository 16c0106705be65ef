"""Paged caches: corners reached, every byte in its place, far pools that cost nothing, faults shrunk to two pages."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.poison import NAN, Poison
from harness.strategies import MLA_TOKEN, PagedCache, TokenLayout, build_cache, paged_caches, row_layout, sample_codes

SMALL = TokenLayout(data_bytes=4, scale_bytes=3, pad_bytes=1, page_multiple=8)
RECORDS = replace(SMALL, split=False)
REGIONS = ("unused pages", "unreferenced tokens", "page padding", "token pad bytes")


def used_pages(spec):
    return -(-spec.num_tokens // spec.page_size)


def token_codes(spec):
    """Return content in which no byte equals the poison of NAN or of QUIET."""
    return sample_codes("e4m3", (spec.num_tokens, spec.token.token_bytes), seed=0)


def test_every_corner_of_a_cache_is_reached(reach):
    corners = {f"page size {size}": (lambda spec, size=size: spec.page_size == size) for size in (1, 2, 16, 64, 256)}
    normal = {1: 568, 2: 560, 16: 448, 64: 64, 256: 256}
    corners |= {
        "one page": lambda spec: spec.num_pages == 1,
        "shuffled pages": lambda spec: spec.page_order[: used_pages(spec)] != tuple(range(used_pages(spec))),
        "unused pages": lambda spec: used_pages(spec) < spec.num_pages,
        "full pool": lambda spec: spec.num_tokens == spec.pool,
        "last slot in use": lambda spec: spec.pool - 1 in map(spec.slot, range(spec.num_tokens)),
        "first page unused": lambda spec: 0 in spec.page_order[used_pages(spec) :],
        "partial last page": lambda spec: spec.num_tokens % spec.page_size > 0,
        "last page with one token": lambda spec: spec.num_tokens % spec.page_size == 1 < spec.num_tokens,
        "dense pages": lambda spec: spec.page_padding == 0,
        "pages padded to 576": lambda spec: spec.page_padding == normal[spec.page_size],
        "pages of a larger allocation": lambda spec: spec.page_padding > normal[spec.page_size],
        "far": lambda spec: spec.far,
        "a page used past 2^31": lambda spec: (
            spec.far and max(spec.page_order[: used_pages(spec)]) * spec.page_bytes >= 2**31
        ),
        "uint8": lambda spec: spec.dtype == torch.uint8,
        "float8_e4m3fn": lambda spec: spec.dtype == torch.float8_e4m3fn,
    }
    reach(paged_caches(), corners)


@given(paged_caches(min_tokens=0, token_layout=row_layout(16), page_sizes=(2,), far=False))
def test_plain_rows_have_no_padding_of_their_own_and_a_cache_may_be_empty(spec):
    assert spec.page_padding in (0, 64)
    assert build_cache(spec, token_codes(spec), Poison()).shape == (spec.num_pages, 2, 1, 16)


@pytest.mark.parametrize(("page_size", "page_bytes"), [(64, 37_440), (256, 149_760), (2, 1_728)])
def test_padded_pages_have_the_documented_size(page_size, page_bytes):
    dense = page_size * MLA_TOKEN.token_bytes
    spec = PagedCache(
        page_size=page_size, num_tokens=1, page_order=(0, 1), page_padding=MLA_TOKEN.padded(dense) - dense
    )
    assert spec.page_bytes == page_bytes
    view = build_cache(spec, token_codes(spec), Poison())
    assert view.stride() == (page_bytes, 584, 584, 1)


def test_two_caches_with_different_page_sizes_are_two_draws(examples):
    pairs = examples(st.tuples(paged_caches(page_sizes=(64,)), st.none() | paged_caches(page_sizes=(2, 16))))
    assert {extra.page_size if extra else 0 for _, extra in pairs} == {0, 2, 16}
    assert {cache.page_size for cache, _ in pairs} == {64}


def owners(spec, referenced):
    """Return, for each byte of the pool, the region it belongs to or (token, byte of the token)."""
    token, size = spec.token, spec.page_size
    where = ["page padding"] * (spec.num_pages * spec.page_bytes)
    logical = {page: i for i, page in enumerate(spec.page_order)}
    for page in range(spec.num_pages):
        held = [logical[page] * size + offset for offset in range(size)]
        held = [t if t < spec.num_tokens and t in referenced else None for t in held]
        for offset, t in enumerate(held):
            for byte in range(token.token_bytes):
                if not token.split:
                    place = offset * token.token_bytes + byte
                elif byte < token.data_bytes:
                    place = offset * token.data_bytes + byte
                else:
                    place = size * token.data_bytes + offset * token.scale_bytes + (byte - token.data_bytes)
                if all(h is None for h in held):
                    owner = "unused pages"
                elif t is None:
                    owner = "unreferenced tokens"
                else:
                    owner = "token pad bytes" if byte >= token.token_bytes - token.pad_bytes else (t, byte)
                where[page * spec.page_bytes + place] = owner
    return where


def assert_bytes_in_place(spec, referenced, region):
    content, poison = token_codes(spec), Poison(NAN, only=region)
    view = build_cache(spec, content, poison, referenced=referenced)
    assert (view.dtype, view.stride(0)) == (spec.dtype, spec.page_bytes)
    stored, where = torch.empty(0, dtype=torch.uint8).set_(view.untyped_storage()).tolist(), owners(spec, referenced)
    assert len(stored) == len(where)
    for byte, owner in zip(stored, where, strict=True):
        if isinstance(owner, tuple):
            assert byte == content[owner]
        else:
            assert byte == (0xFF if owner == region else 0)
    assert poison.regions == {owner for owner in where if isinstance(owner, str)}


@settings(max_examples=60)
@given(
    spec=st.sampled_from([SMALL, RECORDS, row_layout(5)]).flatmap(
        lambda token: paged_caches(page_sizes=(1, 2, 3), token_layout=token, min_tokens=0, far=False)
    ),
    region=st.sampled_from(REGIONS),
    data=st.data(),
)
def test_every_byte_of_the_pool_is_the_token_or_the_poison_that_belongs_there(spec, region, data):
    referenced = data.draw(st.sets(st.integers(0, spec.num_tokens - 1)) if spec.num_tokens else st.just(set()))
    assert_bytes_in_place(spec, referenced, region)


@pytest.mark.parametrize("region", REGIONS)
def test_every_byte_of_an_mla_pool_is_in_its_place(region):
    spec = PagedCache(page_size=2, num_tokens=3, page_order=(2, 0, 1), page_padding=560, dtype=torch.float8_e4m3fn)
    assert_bytes_in_place(spec, {0, 1, 2}, region)


def read(cache, slot, *, page_bytes, page_size, token=MLA_TOKEN):
    """Return the bytes of the token in ``slot``, as a kernel finds them: by address."""
    flat = cache.view(torch.uint8).as_strided(((cache.shape[0] - 1) * cache.stride(0) + cache[0].numel(),), (1,))
    page, offset = divmod(slot, page_size)
    data = page * page_bytes + offset * token.data_bytes
    scale = page * page_bytes + page_size * token.data_bytes + offset * token.scale_bytes
    return torch.cat([flat[data : data + token.data_bytes], flat[scale : scale + token.scale_bytes - token.pad_bytes]])


@settings(max_examples=25)
@given(paged_caches())
def test_every_token_is_found_at_its_slot(spec):
    content = token_codes(spec)
    cache = build_cache(spec, content, Poison(NAN))
    for token in {0, spec.num_tokens // 2, spec.num_tokens - 1}:
        found = read(cache, spec.slot(token), page_bytes=spec.page_bytes, page_size=spec.page_size)
        assert torch.equal(found, content[token, :-1])


def wrong_reads(change):
    """Return a predicate: does reading with ``change(spec, token) -> (slot, page_bytes)`` give a wrong token?"""

    def fails(spec):
        content = token_codes(spec)
        cache = build_cache(spec, content, Poison(NAN))
        for token in range(min(spec.num_tokens, 80)):
            slot, page_bytes = change(spec, token)
            try:
                found = read(cache, slot, page_bytes=page_bytes, page_size=spec.page_size)
            except RuntimeError:
                return True
            if not torch.equal(found, content[token, :-1]):
                return True
        return False

    return fails


def int32(value):
    return (value + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize(
    ("fails", "found"),
    [
        pytest.param(
            wrong_reads(lambda spec, token: (token, spec.page_bytes)),
            PagedCache(page_size=1, num_tokens=1, page_order=(1, 0)),
            id="page order ignored",
        ),
        pytest.param(
            wrong_reads(lambda spec, token: (spec.slot(token), spec.page_bytes - spec.page_padding)),
            PagedCache(page_size=1, num_tokens=1, page_order=(1, 0), page_padding=568),
            id="page padding ignored",
        ),
        pytest.param(
            lambda spec: any(int32(page * spec.page_bytes) < 0 for page in spec.page_order[: used_pages(spec)]),
            PagedCache(page_size=1, num_tokens=1, page_order=(2, 1, 0), far=True),
            id="byte offset in 32 bits",
        ),
        pytest.param(
            lambda spec: spec.num_tokens // spec.page_size < used_pages(spec),
            PagedCache(page_size=2, num_tokens=1, page_order=(0,)),
            id="last partial page dropped",
        ),
        pytest.param(
            lambda spec: spec.dtype == torch.float8_e4m3fn,
            PagedCache(page_size=1, num_tokens=1, page_order=(0,), dtype=torch.float8_e4m3fn),
            id="fp8 view not taken for bytes",
        ),
        pytest.param(
            lambda spec: spec.num_pages > used_pages(spec),
            PagedCache(page_size=1, num_tokens=1, page_order=(0, 1)),
            id="unused page read",
        ),
        pytest.param(
            lambda spec: spec.num_tokens > 64,
            PagedCache(page_size=64, num_tokens=65, page_order=(0, 1)),
            id="second tile of 64 tokens lost",
        ),
    ],
)
def test_a_paging_fault_shrinks_to_the_pages_that_show_it(minimal, fails, found):
    assert minimal(paged_caches(), fails) == found


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


@pytest.mark.parametrize("page_size", [1, 256])
def test_a_far_pool_passes_2_to_the_31_bytes_and_commits_almost_none(page_size):
    spec = PagedCache(page_size=page_size, num_tokens=4 * page_size, page_order=(3, 2, 1, 0), page_padding=64, far=True)
    content = token_codes(spec)
    before = resident_bytes()
    cache = build_cache(spec, content, Poison(NAN))
    grown = resident_bytes() - before
    assert grown < 64 * 2**20
    assert 2**30 <= cache.stride(0) < 2**31
    assert cache[2].data_ptr() - cache[0].data_ptr() >= 2**31
    assert int32(2 * cache.stride(0)) < 0
    assert cache.untyped_storage().nbytes() > 3 * 2**30
    found = read(cache, spec.slot(0), page_bytes=spec.page_bytes, page_size=page_size)
    assert torch.equal(found, content[0, :-1])


def test_a_far_pool_is_poisoned_behind_each_page():
    spec = PagedCache(page_size=2, num_tokens=6, page_order=(0, 1, 2), page_padding=560, far=True)
    cache = build_cache(spec, token_codes(spec), Poison(NAN)).view(torch.uint8)
    behind = cache.as_strided((3, 560), (spec.page_bytes, 1), 2 * 584)
    assert bool((behind == 0xFF).all())


FINE = {"page_size": 2, "num_tokens": 1, "page_order": (0, 1)}


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: paged_caches(page_sizes=()), "page_sizes"),
        (lambda: paged_caches(page_sizes=(0, 2)), "page_sizes"),
        (lambda: paged_caches(max_pages=0), "max_pages"),
        (lambda: paged_caches(min_tokens=-1), "min_tokens"),
        (lambda: paged_caches(page_sizes=(2, 16), max_pages=2, min_tokens=5), "min_tokens"),
        (lambda: paged_caches(dtypes=()), "dtypes"),
        (lambda: paged_caches(dtypes=(torch.float8_e5m2,)), "dtypes"),
        (lambda: PagedCache(**FINE | {"page_size": 0}), "page_size"),
        (lambda: PagedCache(**FINE | {"num_tokens": 5}), "num_tokens"),
        (lambda: PagedCache(**FINE | {"page_order": (0, 0)}), "page_order"),
        (lambda: PagedCache(**FINE | {"page_order": ()}), "page_order"),
        (lambda: PagedCache(**FINE, page_padding=-1), "page_padding"),
        (lambda: PagedCache(**FINE, dtype=torch.float32), "dtype"),
        (lambda: TokenLayout(data_bytes=0), "data_bytes"),
        (lambda: TokenLayout(scale_bytes=-1), "scale_bytes"),
        (lambda: TokenLayout(scale_bytes=1, pad_bytes=2), "pad_bytes"),
        (lambda: TokenLayout(page_multiple=0), "page_multiple"),
        (lambda: build_cache(PagedCache(**FINE), torch.zeros(1, 8, dtype=torch.uint8), Poison()), "token_bytes"),
        (lambda: build_cache(PagedCache(**FINE), torch.zeros(1, 584), Poison()), "token_bytes"),
        (
            lambda: build_cache(PagedCache(**FINE), torch.zeros(1, 584, dtype=torch.uint8), Poison(), referenced={1}),
            "referenced",
        ),
    ],
)
def test_impossible_arguments_are_refused_by_name(call, named):
    with pytest.raises(ValueError, match=f"^{named}: wanted"):
        call()
