"""Index lists and lengths: corners reached, lanes past the length poisoned, faults shrunk to one lane."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.poison import HUGE, INT32_MAX, NAN, QUIET, Poison
from harness.strategies import (
    IndexLists,
    PagedCache,
    index_lists,
    index_tensor,
    length_tensor,
    lengths,
    logical_ids,
    paged_caches,
    referenced_tokens,
)

CACHE = PagedCache(page_size=2, num_tokens=5, page_order=(3, 0, 1, 2))
FULL = PagedCache(page_size=2, num_tokens=4, page_order=(1, 0))


@st.composite
def attended(draw, **arguments):
    """A cache, index lists into it, and lengths, with all sizes drawn, as a contract draws them."""
    cache = draw(paged_caches(page_sizes=(1, 2), max_pages=3, far=False))
    sizes = {"num_rows": draw(st.integers(1, 2)), "topk": draw(st.integers(1, 5))}
    return cache, draw(index_lists(cache=cache, **sizes, **arguments)), draw(lengths(**sizes))


def slots(spec, cache=FULL, counted=None, poison=None):
    return index_tensor(spec, cache, poison or Poison(), lengths=counted).tolist()


def test_every_corner_of_an_index_list_is_reached(reach):
    flat = lambda spec: [slot for row in slots(spec) for slot in row]  # noqa: E731 -- read below as a word
    invalid = {"-1": -1, "the pool": 4, "the pool + 1": 5, "INT32_MAX": INT32_MAX, "INT32_MIN": -(2**31), "2^32": 2**32}
    corners = {f"index {name}": (lambda spec, index=index: index in flat(spec)) for name, index in invalid.items()}
    corners |= {
        "index 0": lambda spec: 0 in flat(spec),
        "last index": lambda spec: 3 in flat(spec),
        "only valid indices": lambda spec: all(0 <= slot < 4 for slot in flat(spec)),
        "a row without valid index": lambda spec: any(not any(0 <= s < 4 for s in row) for row in slots(spec)),
        "a hole between valid indices": lambda spec: any(
            0 <= a < 4 and b == -1 and 0 <= c < 4
            for row in slots(spec)
            for a, b, c in zip(row, row[1:], row[2:], strict=False)
        ),
        "a tail of -1": lambda spec: any(row[0] >= 0 and row[-8:] == [-1] * 8 for row in slots(spec)),
        "an index twice in a row": lambda spec: any(row.count(2) > 1 for row in slots(spec)),
        "shuffled": lambda spec: spec.shuffle > 0,
        "in order": lambda spec: spec.shuffle == 0,
        "int32": lambda spec: spec.dtype == torch.int32,
        "int64": lambda spec: spec.dtype == torch.int64,
    }
    reach(index_lists(cache=FULL, num_rows=3, topk=33), corners)


def test_minus_one_is_the_commonest_invalid_index(examples):
    drawn = examples(index_lists(cache=FULL, num_rows=3, topk=33))
    planted = [index for spec in drawn for _, _, index in spec.planted if not 0 <= index < 4]
    counts = {index: planted.count(index) for index in set(planted)}
    assert max(counts, key=counts.__getitem__) == -1


def test_every_corner_of_lengths_is_reached(reach):
    corners = {
        "None": lambda drawn: drawn is None,
        "zero": lambda drawn: drawn and 0 in drawn,
        "negative": lambda drawn: drawn and min(drawn) < 0,
        "one": lambda drawn: drawn and 1 in drawn,
        "partial": lambda drawn: drawn and 16 in drawn,
        "one short": lambda drawn: drawn and 32 in drawn,
        "all": lambda drawn: drawn and 33 in drawn,
        "more than there are": lambda drawn: drawn and max(drawn) > 33,
        "different rows": lambda drawn: drawn and len(set(drawn)) > 1,
    }
    reach(lengths(num_rows=3, topk=33), corners)


@given(attended(), st.sampled_from([QUIET, NAN, HUGE]))
def test_each_lane_holds_its_slot_its_invalid_id_or_poison(drawn, pattern):
    cache, spec, counted = drawn
    poison = Poison(pattern)
    tensor = index_tensor(spec, cache, poison, lengths=counted)
    ids, exceptions = logical_ids(spec, cache).tolist(), {(r, lane): index for r, lane, index in spec.planted}
    assert (tensor.dtype, tensor.shape) == (spec.dtype, (spec.num_rows, spec.topk))
    named, beyond = set(), False
    for row in range(spec.num_rows):
        for lane in range(spec.topk):
            logical, slot = ids[row][lane], tensor[row, lane].item()
            if (row, lane) in exceptions:
                assert logical == exceptions[row, lane]
            elif spec.filled is not None and lane >= spec.filled[row]:
                assert logical == -1
            elif spec.shuffle == 0:
                assert logical == (row + lane) % cache.num_tokens
            else:
                assert 0 <= logical < cache.num_tokens
            if counted is not None and lane >= counted[row]:
                beyond = True
                assert slot == pattern.index
            elif 0 <= logical < cache.num_tokens:
                named.add(logical)
                page, offset = divmod(logical, cache.page_size)
                assert slot == cache.page_order[page] * cache.page_size + offset
            else:
                assert slot == logical
                assert not 0 <= slot < cache.pool
    assert referenced_tokens(spec, cache, counted) == named
    assert poison.regions == ({"index lanes past the length"} if beyond else set())


@given(attended(invalid=False))
def test_without_invalid_every_lane_names_a_token(drawn):
    cache, spec, _ = drawn
    assert all(0 <= index < cache.num_tokens for row in logical_ids(spec, cache).tolist() for index in row)


@given(st.data())
def test_an_empty_cache_has_only_invalid_indices(data):
    empty = PagedCache(page_size=2, num_tokens=0, page_order=(0,))
    spec = data.draw(index_lists(cache=empty, num_rows=2, topk=4))
    assert all(not 0 <= slot < empty.pool for row in slots(spec, empty) for slot in row)


def test_lengths_become_an_int32_tensor_or_none():
    assert length_tensor(None) is None
    assert torch.equal(length_tensor((3, -1)), torch.tensor([3, -1], dtype=torch.int32))


def int32(value):
    return (value + 2**31) % 2**32 - 2**31


def gathered(
    cache, spec, counted, *, within=lambda lane, length: lane < length, valid=lambda slot, pool: 0 <= slot < pool
):
    """Return the valid slots of each row, under the given ideas of "before the length" and "valid"."""
    limits = [spec.topk] * spec.num_rows if counted is None else counted
    return [
        [s for lane, s in enumerate(row) if within(lane, limits[r]) and valid(s, cache.pool)]
        for r, row in enumerate(slots(spec, cache, counted, Poison(QUIET)))
    ]


@pytest.mark.parametrize(
    ("fault", "index", "counted"),
    [
        pytest.param({"within": lambda lane, length: lane <= length}, 0, (0,), id="length off by one"),
        pytest.param({"within": lambda lane, length: True}, 0, (0,), id="length ignored"),
        pytest.param({"valid": lambda slot, pool: 0 < slot < pool}, 0, None, id="index 0 invalid"),
        pytest.param({"valid": lambda slot, pool: 0 <= slot <= pool}, 1, None, id="index == pool not masked"),
        pytest.param({"valid": lambda slot, pool: slot < pool}, -1, None, id="negative index not masked"),
        pytest.param({"valid": lambda slot, pool: 0 <= int32(slot) < pool}, 2**32, None, id="index cut to 32 bits"),
    ],
)
def test_a_masking_fault_shrinks_to_one_lane(minimal, fault, index, counted):
    cache, spec, found_counted = minimal(attended(), lambda drawn: gathered(*drawn) != gathered(*drawn, **fault))
    assert cache == PagedCache(page_size=1, num_tokens=1, page_order=(0,))
    assert (slots(spec, cache), found_counted) == ([[index]], counted)


def test_indices_of_row_0_used_for_all_shrinks_to_two_rows(minimal):
    cache, spec, _ = minimal(attended(), lambda drawn: any(row != gathered(*drawn)[0] for row in gathered(*drawn)[1:]))
    assert (spec.num_rows, spec.topk, cache.page_size) == (2, 1, 1)


def test_a_duplicate_counted_once_shrinks_to_one_token_twice(minimal):
    fails = lambda drawn: any(len(set(row)) < len(row) for row in gathered(*drawn))  # noqa: E731 -- one expression
    _, spec, counted = minimal(attended(), fails)
    assert (spec, counted) == (IndexLists(num_rows=1, topk=2), None)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: index_lists(cache=CACHE, num_rows=-1, topk=1), "num_rows"),
        (lambda: index_lists(cache=CACHE, num_rows=1, topk=-1), "topk"),
        (lambda: index_lists(cache=CACHE, num_rows=1, topk=1, dtypes=()), "dtypes"),
        (lambda: index_lists(cache=CACHE, num_rows=1, topk=1, dtypes=(torch.int8,)), "dtypes"),
        (
            lambda: index_lists(
                cache=PagedCache(page_size=1, num_tokens=0, page_order=(0,)), num_rows=1, topk=1, invalid=False
            ),
            "cache",
        ),
        (lambda: lengths(num_rows=-1, topk=1), "num_rows"),
        (lambda: lengths(num_rows=1, topk=-1), "topk"),
        (lambda: IndexLists(num_rows=1, topk=1, filled=(1, 1)), "filled"),
        (lambda: IndexLists(num_rows=1, topk=1, planted=((1, 0, 0),)), "planted"),
        (lambda: IndexLists(num_rows=1, topk=1, planted=((0, 0, 2**32),)), "planted"),
        (lambda: IndexLists(num_rows=1, topk=1, dtype=torch.float32), "dtype"),
        (lambda: index_tensor(IndexLists(num_rows=1, topk=1), CACHE, Poison(), lengths=(1, 1)), "lengths"),
        (lambda: index_tensor(IndexLists(num_rows=1, topk=1, planted=((0, 0, 6),)), CACHE, Poison()), "planted"),
    ],
)
def test_impossible_arguments_are_refused_by_name(call, named):
    with pytest.raises(ValueError, match=f"^{named}: wanted"):
        call()
