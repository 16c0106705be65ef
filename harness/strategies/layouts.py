"""Views that are not contiguous, with junk in the gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from hypothesis import strategies as st

from harness.poison import Poison
from harness.strategies.spec import Spec, require

LayoutKind = Literal["contiguous", "padded_rows", "transposed", "offset", "step", "expanded"]
#: The least number of axes that each kind needs.
_RANK: dict[LayoutKind, int] = {
    "contiguous": 0, "padded_rows": 2, "transposed": 2, "offset": 1, "step": 1, "expanded": 1
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class Layout(Spec):
    """How a tensor lies in its storage.

    ``padded_rows``: ``amount`` junk elements after each run of the last axis.  ``transposed``: the last two
    axes are swapped in storage.  ``offset``: ``amount`` junk elements in front.  ``step``: the last axis has
    stride ``amount``.  ``expanded``: axis 0 has stride 0.
    """

    kind: LayoutKind = "contiguous"
    amount: int = 0

    def __post_init__(self) -> None:
        require(self.kind in _RANK, "kind", f"one of {get_args(LayoutKind)}", self.kind)
        least = {"padded_rows": 1, "offset": 1, "step": 2}.get(self.kind, 0)
        require(self.amount >= least, "amount", f"at least {least} for {self.kind}", self.amount)
        require(bool(least) or self.amount == 0, "amount", f"0 for {self.kind}", self.amount)


def layouts(*, rank: int, allow: Sequence[LayoutKind] | None = None) -> st.SearchStrategy[Layout]:
    """Layouts of a tensor with ``rank`` axes, of the kinds in ``allow`` (default: all but ``expanded``).

    ``expanded`` is on request because it changes the values: row 0 is repeated.  Shrinks to the first
    allowed kind in the order of ``LayoutKind`` and to small amounts.
    Raises ValueError where ``allow`` is empty or names a kind that needs more axes.
    """
    require(rank >= 0, "rank", "at least 0", rank)
    kinds = [kind for kind in _RANK if _RANK[kind] <= rank and kind != "expanded"] if allow is None else list(allow)
    for kind in kinds:
        require(kind in _RANK, "allow", f"kinds among {get_args(LayoutKind)}", kind)
        require(_RANK[kind] <= rank, "allow", f"kinds that {rank} axes can have", kind)
    require(bool(kinds), "allow", "at least one kind", allow)
    amounts: dict[LayoutKind, tuple[int, ...]] = {"padded_rows": (1, 8, 16), "offset": (1, 8, 16), "step": (2, 3)}
    return st.sampled_from(
        [
            Layout(kind=kind, amount=amount)
            for kind in sorted(kinds, key=list(_RANK).index)
            for amount in amounts.get(kind, (0,))
        ]
    )


def materialise(values: torch.Tensor, layout: Layout, poison: Poison, region: str) -> torch.Tensor:
    """Return a view with the shape, dtype, device and values of ``values``, laid out as ``layout`` says.

    Every element of the storage outside the view is filled by ``poison`` under the name ``region``.
    For ``expanded``, all of axis 0 holds ``values[0]``.  Raises ValueError where ``values`` has too few axes.
    """
    require(values.dim() >= _RANK[layout.kind], "values", f"{_RANK[layout.kind]} axes for {layout.kind}", values.dim())
    shape = list(values.shape)
    order = list(range(len(shape)))
    unit, start = 1, 0
    if layout.kind == "transposed":
        order[-2:] = order[-1], order[-2]
    elif layout.kind == "step":
        unit = layout.amount
    elif layout.kind == "offset":
        start = layout.amount
    strides = [0] * len(shape)
    run = unit
    for position, axis in enumerate(reversed(order)):
        if layout.kind == "expanded" and axis == 0:
            continue
        strides[axis] = run
        run *= shape[axis]
        if layout.kind == "padded_rows" and position == 0:
            run += layout.amount
    storage = torch.empty(start + run, dtype=values.dtype, device=values.device)
    if layout.kind not in ("contiguous", "transposed", "expanded"):
        poison.fill_(storage, region)
    view = storage.as_strided(shape, strides, start)
    if layout.kind == "expanded":
        # the view's elements share memory, and copying into such a view is refused
        view[:1].copy_(values[:1])
    else:
        view.copy_(values)
    return view
