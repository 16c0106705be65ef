"""A small operation for testing the engine: its contract, a right implementation, and how wrong ones are made."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from hypothesis import strategies as st

from harness.contract import Contract, Implementation, Inputs, Outputs, Rejection
from harness.known import Known
from harness.lanes import Execution
from harness.poison import QUIET, Pattern, Poison
from harness.tolerance import Budget


@dataclass(frozen=True, kw_only=True)
class Case:
    """``rows`` hold slot ids, -1 for none; ``width`` elements a slot; ``slots`` in the cache."""

    rows: tuple[tuple[int, ...], ...]
    width: int = 16
    slots: int = 4
    sink: bool = False
    nan: bool = False
    half: bool = False
    seed: int = 0


def features(case: Case) -> frozenset[str]:
    flags = {name for name in ("sink", "nan", "half") if getattr(case, name)}
    return frozenset(flags | ({"invalid"} if any(-1 in row for row in case.rows) else set()))


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    slots = draw(st.integers(1, 6))
    top_k = draw(st.integers(1, 4))
    row = st.lists(st.integers(-1, slots - 1), min_size=top_k, max_size=top_k).map(tuple)
    return Case(
        rows=tuple(draw(st.lists(row, min_size=1, max_size=12))),
        width=draw(st.sampled_from([16, 24, 64])),
        slots=slots,
        sink=draw(st.booleans()),
        nan=draw(st.sampled_from([False, False, False, True])),
        half=draw(st.booleans()),
        seed=draw(st.integers(0, 99)),
    )


def inputs(case: Case, device: torch.device, poison: Poison) -> Inputs:
    generator = torch.Generator().manual_seed(case.seed)
    cache = torch.randn(case.slots, case.width + 2, generator=generator).to(torch.bfloat16)
    scores = torch.randn(len(case.rows), len(case.rows[0]), generator=generator)
    indices = torch.tensor(case.rows, dtype=torch.int32)
    used = {slot for row in case.rows for slot in row}
    for slot in set(range(case.slots)) - used:
        poison.fill_(cache[slot], "unused slots")
    poison.fill_(cache[:, case.width :], "row padding")
    scores[indices < 0] = poison.pattern_for("scores of invalid slots").value
    if case.nan and max(used) >= 0:
        cache[max(used), 0] = math.nan
    return {
        "cache": cache[:, : case.width],
        "indices": indices,
        "scores": scores,
        "sink": torch.ones(len(case.rows)) if case.sink else None,
        "half": case.half,
    }


def pooled(
    cache: torch.Tensor, indices: torch.Tensor, scores: torch.Tensor, sink: torch.Tensor | None, half: bool
) -> dict[str, torch.Tensor]:
    """Softmax average of the valid slots: out in the dtype of cache, lse [rows] without the sink."""
    wide = torch.promote_types(cache.dtype, torch.float32)
    valid = indices >= 0
    scores = scores.to(wide).masked_fill(~valid, -math.inf) * (0.5 if half else 1.0)
    lse = torch.logsumexp(scores, dim=1)
    total = lse if sink is None else torch.logaddexp(lse, sink.to(wide))
    p = torch.exp(scores - total[:, None]).masked_fill(~valid, 0).to(cache.dtype).to(wide)
    values = cache[indices.clamp(min=0).long()].to(wide).masked_fill(~valid[:, :, None], 0)
    return {"out": (p[:, :, None] * values).sum(dim=1).to(cache.dtype), "lse": lse}


def magnitude(
    cache: torch.Tensor, indices: torch.Tensor, scores: torch.Tensor, sink: torch.Tensor | None, half: bool
) -> dict[str, torch.Tensor]:
    high = scores.masked_fill(indices < 0, 0).abs().amax(dim=1)
    return {"out": pooled(cache.abs(), indices, scores, sink, half)["out"], "lse": high.clamp(min=1)}


def rejections() -> tuple[Rejection, ...]:
    def wide_indices() -> Inputs:
        return inputs(Case(rows=((0,),)), torch.device("cpu"), Poison()) | {"indices": torch.zeros(1, 1, 1)}

    return (Rejection(label="indices rank", argument="indices", inputs=wide_indices),)


CONTRACT: Contract[Case] = Contract(
    name="pooling",
    cases=_cases,
    inputs=inputs,
    oracle=pooled,
    magnitude=magnitude,
    tolerance={"out": Budget(), "lse": Budget(axis=None)},
    features=features,
)
#: A case with every poison region and eight different rows.
CASE = Case(rows=((0, 1, -1), (1, 2, 0), (2, 2, 1), (0, 0, 0), (1, 1, -1), (2, 0, -1), (2, 1, 1), (0, 2, 2)), slots=4)
REJECTING = replace(CONTRACT, rejects=rejections)


def implementation(launch: Callable[..., Any], known: tuple[Known, ...] = ()) -> Implementation:
    return Implementation(contract="pooling", name="torch", launch=launch, known=known)


RIGHT = implementation(pooled)


@dataclass(kw_only=True)
class PlainLane:
    """Runs a launch as it is, with what a virtual GPU would report given beforehand."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    oracle_device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    launches: int = 0
    configs: int = 1
    kernels: int = 0
    missed: Any = None
    untrusted: frozenset[str] = frozenset()
    current_config: int = 0
    current_fill: Pattern = QUIET

    def room(self, contract: Contract[Any], case: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def run(self, launch: Callable[..., Any], inputs: Inputs, *, config: int = 0, fill: Pattern = QUIET) -> Execution:
        self.launches += 1
        self.current_config, self.current_fill = config, fill
        result, error = None, None
        try:
            result = launch(**inputs)
        except MemoryError:
            raise
        except Exception as raised:
            error = raised
        return Execution(
            result=result,
            error=error,
            kernels=self.kernels,
            configs=self.configs,
            untrusted=self.untrusted,
            unwritten=lambda tensor: self.missed,
        )


def changed(change: Callable[[dict[str, torch.Tensor]], Outputs | Any]) -> Implementation:
    """Return an implementation that spoils the right outputs."""
    return implementation(lambda **inputs: change(pooled(**inputs)))
