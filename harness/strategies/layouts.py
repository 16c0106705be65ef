"""Views that are not contiguous, with junk in the gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from hypothesis import strategies as st

from harness.poison import Poison
from harness.strategies.address_space import uncommitted
from harness.strategies.spec import Spec, require

LayoutKind = Literal["contiguous", "padded_rows", "transposed", "offset", "step", "far", "expanded"]
#: The least number of axes that each kind needs.
_RANK: dict[LayoutKind, int] = {
    "contiguous": 0, "padded_rows": 2, "transposed": 2, "offset": 1, "step": 1, "far": 1, "expanded": 1
}  # fmt: skip
#: Kinds that only who asks for them gets.
_ON_REQUEST = ("far", "expanded")
#: The last element of a far axis lies this many elements past the first: an offset in 32 bits wraps.
FAR_ELEMENTS = 2**31


@dataclass(frozen=True, kw_only=True, repr=False)
class Layout(Spec):
    """How a tensor lies in its storage.

    ``padded_rows``: ``amount`` junk elements after each run of the last axis.  ``transposed``: the last two
    axes are swapped in storage.  ``offset``: ``amount`` junk elements in front.  ``step``: the last axis has
    stride ``amount``.  ``far``: axis ``-amount`` reaches ``FAR_ELEMENTS`` elements; with three places or more on it,
    its stride still fits 32 bits.  ``expanded``: axis 0 has stride 0.
    """

    kind: LayoutKind = "contiguous"
    amount: int = 0

    def __post_init__(self) -> None:
        require(self.kind in _RANK, "kind", f"one of {get_args(LayoutKind)}", self.kind)
        least = {"padded_rows": 1, "offset": 1, "step": 2, "far": 1}.get(self.kind, 0)
        require(self.amount >= least, "amount", f"at least {least} for {self.kind}", self.amount)
        require(bool(least) or self.amount == 0, "amount", f"0 for {self.kind}", self.amount)


def far(axis: int) -> Layout:
    """Return the layout of which axis ``-axis`` is far."""
    return Layout(kind="far", amount=axis)


def layouts(*, rank: int, allow: Sequence[LayoutKind] | None = None) -> st.SearchStrategy[Layout]:
    """Layouts of a tensor with ``rank`` axes, of the kinds in ``allow`` (default: all but ``far`` and ``expanded``).

    ``expanded`` is on request because it changes the values, row 0 is repeated; ``far`` because it takes gibibytes of
    address space, and on a GPU of memory.  Shrinks to the first
    allowed kind in the order of ``LayoutKind`` and to small amounts.
    Raises ValueError where ``allow`` is empty or names a kind that needs more axes.
    """
    require(rank >= 0, "rank", "at least 0", rank)
    usual = [kind for kind in _RANK if _RANK[kind] <= rank and kind not in _ON_REQUEST]
    kinds = usual if allow is None else list(allow)
    for kind in kinds:
        require(kind in _RANK, "allow", f"kinds among {get_args(LayoutKind)}", kind)
        require(_RANK[kind] <= rank, "allow", f"kinds that {rank} axes can have", kind)
    require(bool(kinds), "allow", "at least one kind", allow)
    amounts: dict[LayoutKind, tuple[int, ...]] = {"padded_rows": (1, 8, 16), "offset": (1, 8, 16), "step": (2, 3)}
    amounts["far"] = tuple(range(1, rank + 1))
    return st.sampled_from(
        [
            Layout(kind=kind, amount=amount)
            for kind in sorted(kinds, key=list(_RANK).index)
            for amount in amounts.get(kind, (0,))
        ]
    )


def materialise(values: torch.Tensor, layout: Layout, poison: Poison, region: str) -> torch.Tensor:
    """Return a view with the shape, dtype, device and values of ``values``, laid out as ``layout`` says.

    Every element of the storage outside the view is filled by ``poison`` under the name ``region``, except between
    the elements of a far axis, where nothing is committed.
    For ``expanded``, all of axis 0 holds ``values[0]``.  Raises ValueError where ``values`` has too few axes.
    """
    least = layout.amount if layout.kind == "far" else _RANK[layout.kind]
    require(values.dim() >= least, "values", f"{least} axes for {layout.kind}", values.dim())
    shape = list(values.shape)
    order = list(range(len(shape)))
    unit, start = 1, 0
    if layout.kind == "transposed":
        order[-2:] = order[-1], order[-2]
    elif layout.kind == "step":
        unit = layout.amount
    elif layout.kind == "offset":
        start = layout.amount
    elif layout.kind == "far":
        order.insert(0, order.pop(-layout.amount))
    strides = [0] * len(shape)
    run = unit
    for position, axis in enumerate(reversed(order)):
        if layout.kind == "expanded" and axis == 0:
            continue
        strides[axis] = run
        run *= shape[axis]
        if layout.kind == "padded_rows" and position == 0:
            run += layout.amount
    if layout.kind == "far" and values.numel():
        storage = _stretched(values, order[0], strides)
    else:
        storage = torch.empty(start + run, dtype=values.dtype, device=values.device)
    if layout.kind not in ("contiguous", "transposed", "far", "expanded"):
        poison.fill_(storage, region)
    view = storage.as_strided(shape, strides, start)
    if layout.kind == "expanded":
        # the view's elements share memory, and copying into such a view is refused
        view[:1].copy_(values[:1])
    else:
        view.copy_(values)
    return view


def repeated(values: torch.Tensor, axis: int, count: int) -> torch.Tensor:
    """Return a view of which ``axis``, of one place in ``values``, has ``count`` places of the same memory."""
    require(values.shape[axis] == 1, "values", f"one place on axis {axis}", values.shape[axis])
    return values.expand(*(count if place == axis else -1 for place in range(values.dim())))


def _stretched(values: torch.Tensor, axis: int, strides: list[int]) -> torch.Tensor:
    """Return storage in which ``axis``, the outermost, is far, and put its stride into ``strides``."""
    size, inner = values.shape[axis], values.numel() // values.shape[axis]
    strides[axis] = max(inner, -(-FAR_ELEMENTS // max(size - 1, 1)))
    elements = strides[axis] * (size - 1) + inner
    return uncommitted(elements, values.dtype, values.device)
