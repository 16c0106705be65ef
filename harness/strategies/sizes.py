"""Sizes that sit on the edges of tiles."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from hypothesis import strategies as st

from harness.strategies.spec import require


def sizes(*, tile: int, min_size: int = 1, max_size: int | None = None, multiple_of: int = 1) -> st.SearchStrategy[int]:
    """Sizes in ``[min_size, max_size]`` divisible by ``multiple_of``, half of them at an edge of ``tile``.

    Edges are 0, 1, tile - 1, tile, tile + 1, 2 tile - 1, 2 tile, 2 tile + 1 and both ends of the range,
    each moved to the nearest legal size on either side.  ``max_size`` is 2 tile + 1 (rounded up to a
    legal size) by default.  A failing size shrinks to the smallest one that fails.
    Raises ValueError where no size is legal.
    """
    require(tile >= 1, "tile", "at least 1", tile)
    require(min_size >= 0, "min_size", "at least 0", min_size)
    require(multiple_of >= 1, "multiple_of", "at least 1", multiple_of)
    lowest = -(-min_size // multiple_of)
    highest = max(lowest, -(-(2 * tile + 1) // multiple_of)) if max_size is None else max_size // multiple_of
    require(highest >= lowest, "max_size", f"a multiple of {multiple_of} that is at least {min_size}", max_size)

    return _sizes(tile, lowest, highest, multiple_of)


@lru_cache(maxsize=256)
def _sizes(tile: int, lowest: int, highest: int, multiple_of: int) -> st.SearchStrategy[int]:
    # cached: strategies draw page and tile sizes first and ask for the same few again in every example
    edges = {0, 1, tile - 1, tile, tile + 1, 2 * tile - 1, 2 * tile, 2 * tile + 1}
    quotients = {q for edge in edges for q in (edge // multiple_of, -(-edge // multiple_of))}
    corners = sorted({q for q in quotients if lowest <= q <= highest} | {lowest, highest})
    # A corner stands for a run of integers as long as its share of all other sizes, so that one integer
    # is drawn, corners come half of the time, and order is kept: this is what makes it shrink well.
    share = 1 + (highest - lowest + 1) // len(corners)
    starts = [0, *accumulate([(corners[i] - corners[i - 1] - 1) + share for i in range(1, len(corners))])]

    def size_of(ticket: int) -> int:
        run = bisect_right(starts, ticket) - 1
        return (corners[run] + max(0, ticket - starts[run] - share + 1)) * multiple_of

    # not st.integers, which favours small numbers
    return st.sampled_from(range(starts[-1] + share)).map(size_of)
