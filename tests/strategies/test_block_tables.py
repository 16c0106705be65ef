"""Block tables: corners reached, unowned entries and pages poisoned, faults shrunk to the sequence that shows them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.poison import HUGE, NAN, Poison
from harness.strategies import (
    BlockTable,
    block_table_tensor,
    block_tables,
    build_block_cache,
    row_layout,
    sample_codes,
    sizes,
)

ROW = row_layout(4)


@st.composite
def tables(draw, far=False):
    """Tables with all sizes drawn, as a contract draws them."""
    page_size = draw(st.sampled_from([1, 2, 4]))
    seq_lens = draw(st.lists(sizes(tile=page_size, min_size=0), min_size=1, max_size=3))
    return draw(block_tables(seq_lens=seq_lens, page_size=page_size, far=far))


def owned(spec):
    return {page for row in spec.pages for page in row}


def contents(spec):
    """Return the bytes of each sequence; tokens in shared pages are those of sequence 0."""
    first = [sample_codes("e4m3", (length, 4), seed=seq) for seq, length in enumerate(spec.seq_lens)]
    for seq in range(1, len(first)):
        shared = sum(a == b for a, b in zip(spec.pages[0], spec.pages[seq], strict=False)) * spec.page_size
        first[seq][:shared] = first[0][:shared]
    return first


def test_every_corner_of_a_table_is_reached(reach):
    corners = {
        "pages out of order": lambda spec: spec.pages[0] != tuple(sorted(spec.pages[0])),
        "shared page": lambda spec: spec.pages[0][:1] == spec.pages[2][:1],
        "no shared page": lambda spec: spec.shared_pages == 0,
        "unused page": lambda spec: len(owned(spec)) < len(spec.page_order),
        "first page unused": lambda spec: 0 not in owned(spec),
        "every page owned": lambda spec: len(owned(spec)) == len(spec.page_order),
        "columns past the longest row": lambda spec: spec.extra_columns > 0,
        "no column too many": lambda spec: spec.extra_columns == 0,
        "far": lambda spec: spec.far,
        "a page owned past 2^31": lambda spec: (
            spec.far and max(owned(spec)) * spec.cache(token=ROW).page_bytes >= 2**31
        ),
    }
    reach(block_tables(seq_lens=(33, 0, 17), page_size=16), corners)


def test_lengths_at_page_edges_come_from_sizes(reach):
    corners = {
        "empty sequence": lambda spec: 0 in spec.seq_lens,
        "partial last page": lambda spec: any(length % spec.page_size for length in spec.seq_lens),
        "full last page": lambda spec: any(length and length % spec.page_size == 0 for length in spec.seq_lens),
        "shared page": lambda spec: spec.shared_pages > 0,
    }
    reach(tables(), corners)


@given(tables())
def test_only_shared_pages_have_two_owners_and_those_are_full_in_both(spec):
    for seq, row in enumerate(spec.pages):
        assert len(row) == -(-spec.seq_lens[seq] // spec.page_size)
        assert len(set(row)) == len(row)
        for other in range(seq):
            for page in set(row) & set(spec.pages[other]):
                column = row.index(page)
                assert spec.pages[0][column] == page
                assert (column + 1) * spec.page_size <= min(spec.seq_lens[seq], spec.seq_lens[other], spec.seq_lens[0])


@given(tables(), st.sampled_from([NAN, HUGE]), st.sampled_from([torch.int32, torch.int64]))
def test_exactly_the_unowned_entries_are_poison(spec, pattern, dtype):
    poison = Poison(pattern)
    table = block_table_tensor(spec, poison, dtype=dtype)
    width = max(map(len, spec.pages)) + spec.extra_columns
    assert (table.dtype, table.shape) == (dtype, (len(spec.seq_lens), width))
    for seq, row in enumerate(spec.pages):
        assert table[seq].tolist() == [*row, *[pattern.index] * (width - len(row))]
    assert bool(poison.regions) == any(len(row) < width for row in spec.pages)


@settings(max_examples=50)
@given(tables())
def test_every_token_lies_in_its_page_and_every_other_byte_is_poison(spec):
    cache = spec.cache(token=ROW)
    pool = build_block_cache(spec, contents(spec), Poison(NAN), cache=cache)
    expected = torch.full((len(spec.page_order), spec.page_size, 4), 0xFF, dtype=torch.uint8)
    for seq, content in enumerate(contents(spec)):
        for position, row in enumerate(content):
            page = spec.pages[seq][position // spec.page_size]
            expected[page, position % spec.page_size] = row
    assert torch.equal(pool.squeeze(2), expected)


def test_a_far_table_owns_a_page_past_2_to_the_31_bytes():
    spec = BlockTable(seq_lens=(3,), page_size=2, page_order=(2, 0, 1), far=True)
    cache = spec.cache(token=ROW)
    pool = build_block_cache(spec, contents(spec), Poison(NAN), cache=cache)
    assert pool[2].data_ptr() - pool[0].data_ptr() >= 2**31 > pool.stride(0)
    assert torch.equal(pool[2, :, 0], contents(spec)[0][:2])


def gather(spec, table, *, seq_lens=None, row=lambda seq: seq):
    """Return the tokens of each sequence as a kernel finds them: through the table."""
    lengths = seq_lens or spec.seq_lens
    pool = build_block_cache(spec, contents(spec), Poison(NAN), cache=spec.cache(token=ROW)).flatten(0, 2)
    found = []
    for seq, length in enumerate(lengths):
        pages = table[row(seq)].tolist()
        slots = [pages[i // spec.page_size] * spec.page_size + i % spec.page_size for i in range(length)]
        found.append(pool[[min(max(slot, 0), pool.shape[0] - 1) for slot in slots]].tolist())
    return found


def right(spec):
    return [content.tolist() for content in contents(spec)]


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        pytest.param(
            lambda spec: gather(spec, torch.arange(99).repeat(3, 1)[: len(spec.seq_lens)])[:1],
            BlockTable(seq_lens=(1,), page_size=1, page_order=(1, 0)),
            id="table ignored",
        ),
        pytest.param(
            lambda spec: gather(
                spec,
                block_table_tensor(spec, Poison(NAN)),
                seq_lens=[length // spec.page_size * spec.page_size for length in spec.seq_lens],
            )[:1],
            BlockTable(seq_lens=(1,), page_size=2, page_order=(0,)),
            id="last partial page dropped",
        ),
    ],
)
def test_a_table_fault_shrinks_to_one_sequence(minimal, wrong, found):
    assert minimal(tables(), lambda spec: wrong(spec) != right(spec)[:1]) == found


def test_row_0_used_for_all_shrinks_to_two_sequences_of_one_page(minimal):
    def fails(spec):
        return gather(spec, block_table_tensor(spec, Poison(NAN)), row=lambda seq: 0) != right(spec)

    found = minimal(tables().filter(lambda spec: min(spec.seq_lens) > 0 and len(set(spec.seq_lens)) == 1), fails)
    assert found == BlockTable(seq_lens=(1, 1), page_size=1, page_order=(0, 1))


def test_writing_into_a_shared_page_shrinks_to_one_shared_page(minimal):
    found = minimal(tables(), lambda spec: len(owned(spec)) < sum(map(len, spec.pages)))
    assert found == BlockTable(seq_lens=(1, 1), page_size=1, page_order=(0,), shared_pages=1)


FINE = {"seq_lens": (3,), "page_size": 2, "page_order": (0, 1)}


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: block_tables(seq_lens=(-1,), page_size=2), "seq_lens"),
        (lambda: block_tables(seq_lens=(1,), page_size=0), "page_size"),
        (lambda: block_tables(seq_lens=(1,), page_size=1, unused=-1), "unused"),
        (lambda: block_tables(seq_lens=(1,), page_size=1, extra_columns=-1), "extra_columns"),
        (lambda: BlockTable(**FINE | {"page_size": 0}), "page_size"),
        (lambda: BlockTable(**FINE | {"seq_lens": (-1,)}), "seq_lens"),
        (lambda: BlockTable(**FINE | {"page_order": (0,)}), "page_order"),
        (lambda: BlockTable(**FINE | {"page_order": (1, 1)}), "page_order"),
        (lambda: BlockTable(**FINE, shared_pages=-1), "shared_pages"),
        (lambda: BlockTable(**FINE, extra_columns=-1), "extra_columns"),
        (
            lambda: build_block_cache(BlockTable(**FINE), [], Poison(), cache=BlockTable(**FINE).cache(token=ROW)),
            "token_bytes",
        ),
    ],
)
def test_impossible_arguments_are_refused_by_name(call, named):
    with pytest.raises(ValueError, match=f"^{named}: wanted"):
        call()
