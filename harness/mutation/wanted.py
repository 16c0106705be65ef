"""What a mutant is judged with: the mutant as it is asked for, and what is known about the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.lanes import Lane
from harness.mutation.judge import Judging, Oracles, Place, Trusted
from harness.mutation.plan import Unit
from harness.mutation.results import NOTHING_TOLD, Told
from harness.mutation.targets import Pair

#: Seconds that a survivor and the original may take to be compiled, unless more are given to a mutant.
COMPARE_SECONDS = 40.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A mutant of a loaded module; ``modules`` are all that belong to its kernel, used ones before users.

    ``orders``: it is about the order in which programs do things; ``told``: what killed it in an earlier run;
    ``patience``: seconds in which a survivor's programs are compared with the original's.
    """

    module: str
    device: bool
    source: str
    modules: tuple[str, ...]
    orders: bool = False
    told: Told = NOTHING_TOLD
    patience: float = COMPARE_SECONDS


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What judges: a lane, the units in their order, and what is known about the original.

    ``seconds`` of a processor are for a mutant.  For one of host code ``launches`` is what the original launches; for
    one of device code ``digests`` are those of the original's functions and ``kernels`` which of them are launched, as
    far as it is known; ``launched`` is told of others, and units that launch nothing else than the original does come
    last, unless all are wanted ``in_order``.  ``reached`` is what a tool launches of the original, where it
    sees that: it has no say in a mutant of device code that is in none of these.  With another kind of ``judging`` than
    the contracts' a survivor is one, whatever else could be said of it.
    """

    lane: Lane
    pairs: Sequence[Pair]
    units: Sequence[Unit]
    trusted: Trusted
    oracles: Oracles
    seconds: float
    launches: Mapping[str, str]
    digests: Mapping[str, str]
    kernels: Mapping[Place, frozenset[str]]
    progress: Callable[[Unit | None], object]
    launched: Callable[[Unit, frozenset[str]], object] = lambda unit, kernels: None
    judging: type[Judging] = Judging
    reached: frozenset[str] | None = None
    in_order: bool = False
