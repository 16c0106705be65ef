"""Sizes: edges reached, faults shrunk to the smallest size, nothing illegal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.strategies import sizes


def test_every_tile_edge_is_reached(reach):
    edges = (0, 1, 15, 16, 17, 31, 32, 33)
    reach(
        sizes(tile=16, min_size=0),
        {f"size {edge}": (lambda size, edge=edge: size == edge) for edge in edges}
        | {"between edges": lambda size: size not in edges},
    )


def test_edges_in_a_long_range_are_reached(reach):
    edges = (1, 63, 64, 65, 127, 128, 129, 5000)
    reach(
        sizes(tile=64, max_size=5000),
        {f"size {edge}": (lambda size, edge=edge: size == edge) for edge in edges}
        | {"past the edges": lambda size: 129 < size < 5000},
    )


def test_multiples_next_to_each_edge_are_reached(reach):
    multiples = (32, 64, 96, 128, 160)
    reach(
        sizes(tile=64, multiple_of=32),
        {f"size {edge}": (lambda size, edge=edge: size == edge) for edge in multiples},
    )


def test_every_size_of_the_range_can_be_drawn(examples):
    assert set(examples(sizes(tile=8, min_size=0), 400)) == set(range(18))
    assert set(examples(sizes(tile=64, min_size=32, max_size=320, multiple_of=32), 400)) == set(range(32, 321, 32))


@given(
    tile=st.integers(1, 300),
    min_size=st.integers(0, 300),
    span=st.none() | st.integers(0, 300),
    multiple_of=st.sampled_from([1, 2, 32]),
    data=st.data(),
)
def test_sizes_stay_in_range_and_divisible(tile, min_size, span, multiple_of, data):
    lowest = -(-min_size // multiple_of) * multiple_of
    max_size = None if span is None else lowest + span
    size = data.draw(sizes(tile=tile, min_size=min_size, max_size=max_size, multiple_of=multiple_of))
    assert size >= min_size
    assert size % multiple_of == 0
    assert max_size is None or size <= max_size


@pytest.mark.parametrize(
    ("fault", "smallest"),
    [
        pytest.param(lambda size: size // 64 * 64 != size, 1, id="tail tile dropped"),
        pytest.param(lambda size: size > 64, 65, id="only the first tile done"),
        pytest.param(lambda size: size > 64 and size % 64, 65, id="tail dropped after a full tile"),
        pytest.param(lambda size: size >= 100, 100, id="a limit that is no edge"),
        pytest.param(lambda size: size == 0, 0, id="empty input"),
    ],
)
def test_a_fault_shrinks_to_the_smallest_size_that_shows_it(minimal, fault, smallest):
    assert minimal(sizes(tile=64, min_size=0), fault) == smallest


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"tile": 0}, "tile"),
        ({"tile": 8, "min_size": -1}, "min_size"),
        ({"tile": 8, "min_size": 5, "max_size": 4}, "max_size"),
        ({"tile": 8, "min_size": 1, "max_size": 31, "multiple_of": 32}, "max_size"),
        ({"tile": 8, "multiple_of": 0}, "multiple_of"),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, named):
    with pytest.raises(ValueError, match=f"^{named}: wanted"):
        sizes(**arguments)
