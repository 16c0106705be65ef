"""Which cases judge a mutant, and in which order."""

from __future__ import annotations

import contextlib
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import Phase, Verbosity, find, settings
from hypothesis.errors import NoSuchExample, Unsatisfiable

from harness.contract import Contract, Implementation, Policy
from harness.device.targets import Target
from harness.elsewhere import others
from harness.mutation.behind import SURROUNDINGS
from harness.mutation.results import NOTHING_TOLD, Told
from harness.mutation.targets import Pair

#: Cases drawn for each that is kept, so that rare features are among those kept.
DRAWN_PER_CASE = 4


@dataclass(frozen=True)
class Unit:
    """Part of what judges a mutant: illegal calls (``case`` None), the values of a case, or all else about it.

    With a ``target`` it is the values of the case as launched there.  The ``case`` may be a policy of the contract.
    """

    contract: Contract[Any] = field(repr=False)
    implementation: Implementation
    case: Any
    deep: bool
    number: int
    target: Target | None = None

    @property
    def name(self) -> str:
        """The case as it is printed in reports."""
        if self.case is None:
            return "illegal calls"
        return repr(self.case) if self.target is None else f"[as on {self.target.arch}] {self.case!r}"


def cases(contract: Contract[Any], count: int, seed: int) -> list[Any]:
    """Return the pinned cases of ``contract`` and ``count`` drawn ones, the same for equal arguments."""
    drawn: dict[str, Any] = {}

    def see(case: Any) -> bool:
        drawn.setdefault(repr(case), case)
        return False

    options = settings(
        max_examples=max(1, count * DRAWN_PER_CASE),
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        verbosity=Verbosity.quiet,
    )
    random = Random(zlib.crc32(f"{seed} {contract.name}".encode()))
    with contextlib.suppress(NoSuchExample, Unsatisfiable):
        find(contract.cases(), see, settings=options, random=random)
    kept = {repr(case): case for case in contract.pinned}
    rest = [case for text, case in drawn.items() if text not in kept]
    return [*kept.values(), *_varied(contract, rest, count, kept.values())]


def _varied(contract: Contract[Any], drawn: list[Any], count: int, kept: Any) -> Iterator[Any]:
    """Yield ``count`` of the drawn cases, each time the one whose rarest feature was seen least."""
    seen = Counter(feature for case in kept for feature in contract.features(case))
    left = [(contract.features(case), case) for case in drawn]
    for _ in range(min(count, len(left))):
        place = min(range(len(left)), key=lambda i: (min((seen[f] for f in left[i][0]), default=len(seen)), i))
        features, case = left.pop(place)
        seen.update(features)
        yield case


def units(pairs: Sequence[Pair], examples: int, seed: int) -> list[Unit]:
    """Return everything that can judge, cheap first: values of every case, illegal calls, policies, the other checks.

    Of the drawn cases one implementation of a contract, each in turn, runs the other checks: they cost ten times what
    values cost, and what they find is rarely in one implementation alone.
    """
    contracts = {contract.name: contract for contract, _ in pairs}
    by_contract = {name: cases(contract, examples, seed) for name, contract in contracts.items()}
    most = max(len(found) for found in by_contract.values())
    # the first cases of every implementation before the later ones of any
    wide = [
        (contract, implementation, by_contract[contract.name][place])
        for place in range(most)
        for contract, implementation in pairs
        if place < len(by_contract[contract.name])
    ]
    found: list[Unit] = []

    def add(contract: Contract[Any], implementation: Implementation, case: Any, deep: bool) -> None:
        found.append(Unit(contract, implementation, case, deep, len(found)))

    pinned = sum(len(contract.pinned) for contract, _ in pairs)
    for entry in wide[:pinned]:
        add(*entry, deep=False)
    for contract, implementation in pairs:
        add(contract, implementation, None, deep=False)
    policies: set[Policy] = set()
    for contract, implementation in pairs:
        for policy in contract.policies():
            # one that contracts share is about none of them
            if policy not in policies:
                add(contract, implementation, policy, deep=True)
                policies.add(policy)
    for contract, implementation, case in wide[:pinned]:
        for target in others(implementation):
            found.append(Unit(contract, implementation, case, False, len(found), target))
    for contract, implementation in pairs:
        for case in contract.vast:
            add(contract, implementation, case, deep=False)
    for entry in wide[pinned:]:
        add(*entry, deep=False)
    for contract, implementation, case in wide:
        own = [other for owner, other in pairs if owner is contract]
        turn = own[by_contract[contract.name].index(case) % len(own)]
        if case in contract.pinned or implementation is turn:
            add(contract, implementation, case, deep=True)
    return found


def concerning(found: Sequence[Unit], module: str) -> list[Unit]:
    """Return those of ``found`` that run ``module``: policies are about what stands around launches."""
    return [unit for unit in found if module in SURROUNDINGS or not isinstance(unit.case, Policy)]


def label(unit: Unit) -> str:
    """Return how results name ``unit``."""
    return f"{unit.implementation}: {unit.name}"


def _is_by(told: Told, unit: Unit) -> bool:
    if told == NOTHING_TOLD:
        return False
    return unit.case is None if told.check.startswith("rejects:") else told.case == label(unit)


class Order:
    """The order in which units are tried: those first that killed most of what was wrong in the same function.

    One that does not learn has the units as they are planned.
    """

    def __init__(self, *, learns: bool = True) -> None:
        self.learns = learns
        self._kills: Counter[int] = Counter()
        self._in_function: Counter[tuple[str, int]] = Counter()

    def killed(self, function: str, unit: Unit) -> None:
        """Remember a kill."""
        self._kills[unit.number] += 1
        self._in_function[function, unit.number] += 1

    def of(self, function: str, found: Sequence[Unit], told: Told = NOTHING_TOLD, *, turns: bool = False) -> list[Unit]:
        """Return ``found`` with the most promising first: before all others what killed the same mutant earlier.

        With ``turns`` those come next in which programs take turns: of a mutant that orders less than the original.
        """
        if not self.learns:
            return sorted(found, key=lambda u: u.number)
        return sorted(
            found,
            key=lambda u: (
                not _is_by(told, u),
                not (turns and u.deep and u.implementation.interleavings is not None),
                -self._in_function[function, u.number],
                -self._kills[u.number],
                u.number,
            ),
        )
