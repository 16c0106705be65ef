"""The state of one search: what ran, what failed and what explains it, with Hypothesis drawing and shrinking."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import Phase, Verbosity, find, settings
from hypothesis.errors import Flaky, NoSuchExample, Unsatisfiable

from harness.blame import blamed_on
from harness.contract import Contract, Implementation
from harness.elsewhere import check_one_elsewhere
from harness.fault import Fault, fault_of
from harness.known import Ledger
from harness.lanes import Lane, VirtualLane
from harness.outcome import CaseResult, Violation
from harness.run import acceptance, check_case, check_policies, check_rejections, with_race
from harness.vast import check_vast

if TYPE_CHECKING:
    from harness.compiling.acceptance import Acceptance

#: Cases drawn for each case that runs: features are cheap to compute, so common ones make room for rare ones.
DRAWN_PER_RUN = 4
#: Runs that every feature gets, and the draws that finding cases for them may take.
RARE_RUNS = 3
RARE_DRAWS = 400
#: Specialisations of one kernel that Triton is asked about: a few milliseconds to half a second each.
MOST_ASKED = 6
#: Cases whose programs a race is looked for between.
RACE_CASES = 2
#: Runs that shrinking one fault may take.
SHRINK_RUNS = 200
#: Faults of one check after which looking for more of them is given up.
FAULTS_PER_CHECK = 12
#: Cases with fewer features than a fault's that are tried: if none of them fails, the features matter.
DROP_RUNS = 12

Condition = Callable[[Any], bool]


class _PassOver(BaseException):
    """Ends a pass from inside Hypothesis, which would take an Exception for a failing example."""


class _Ended(BaseException):
    """Carries what ends a search out of Hypothesis, which would run the case again and forget what does not recur."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@dataclass(kw_only=True)
class Hunt:
    """One search.  ``faults`` are distinct; ``reached`` counts the cases that came to each check.

    ``drawn`` counts the cases that the contract's strategy gave.  ``unlinted`` names what kept the check ``capturable``
    from a verdict; ``no_room`` says for which cases the lane had no room.
    """

    contract: Contract[Any]
    implementation: Implementation
    lane: Lane
    random: Random
    shrink_seconds: float
    progress: Callable[[str, str, int], object]
    on_fault: Callable[[Fault], object]
    stop_at: float | None = None
    faults: list[Fault] = field(default_factory=list)
    exhausted: set[str] = field(default_factory=set)
    reached: Counter[str] = field(default_factory=Counter)
    untrusted: set[str] = field(default_factory=set)
    unlinted: set[str] = field(default_factory=set)
    no_room: set[str] = field(default_factory=set)
    out_of_time: bool = False
    drawn: int = 0
    known: Ledger = field(init=False)
    _asks: Acceptance | None = field(default=None, init=False)
    _results: dict[str, CaseResult] = field(default_factory=dict)
    _shrunk: dict[tuple[str, str], CaseResult] = field(default_factory=dict)
    _features: dict[str, frozenset[str]] = field(default_factory=dict)
    _origins: dict[str, tuple[Any, int, int]] = field(default_factory=dict)
    _drawn: Counter[str] = field(default_factory=Counter)
    _ran: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.known = Ledger(self.implementation.known)
        if isinstance(self.lane, VirtualLane):
            self._asks = acceptance(self.implementation, self.lane.profile, most=MOST_ASKED)

    @property
    def cases(self) -> int:
        """Number of different cases that ran through all checks."""
        return sum(not result.no_room for result in self._results.values())

    def reject(self) -> None:
        """Check that illegal calls are refused."""
        self.progress("rejects", "", 0)
        result = check_rejections(self.contract, self.implementation, lane=self.lane)
        self.reached.update(result.checks_run)
        self.untrusted |= result.untrusted
        self.known.note_illegal(violation.check for violation in result.violations)
        for violation in result.violations:
            if not self.known.tolerates_illegal(violation.check):
                self._add(fault_of(violation, frozenset(), violation.case))

    def decide(self) -> None:
        """Check what must hold of what stands around launches."""
        result = check_policies(self.contract.policies() if isinstance(self.lane, VirtualLane) else ())
        self.reached.update(result.checks_run)
        for violation in result.violations:
            self._add(fault_of(violation, frozenset(), violation.case))

    def pin(self) -> None:
        """Run the pinned cases with every configuration; they are small already and are reported as they are."""
        for number, case in enumerate(self.contract.pinned):
            if self.known.quarantines(case) or self._is_late():
                continue
            for violation in self._unexplained(case, self._run("pinned", case, every_config=True)):
                self._add(fault_of(self._with_race(violation, case), self._features_of(case), case))
            for violation in self._unexplained(
                case, check_one_elsewhere(self.contract, self.implementation, number, case, self.lane)
            ):
                self._add(fault_of(violation, self._features_of(case), case))

    def reach(self) -> None:
        """Run a few programs of what is too large to be run whole."""
        # torch alone would make all of it: that takes the memory that programs left out do not
        kernels = self.reached["compiles"] > 0
        for case in self.contract.vast if kernels and isinstance(self.lane, VirtualLane) else ():
            if self.known.quarantines(case) or self._is_late():
                continue
            assert isinstance(self.lane, VirtualLane)
            result = check_vast(self.contract, self.implementation, case, self.lane)
            self.untrusted |= result.untrusted
            for violation in self._unexplained(case, result):
                self._add(fault_of(violation, self._features_of(case), case))

    def capture(self) -> None:
        """Look for what a CUDA graph cannot hold in the host code of an implementation that says it is capturable."""
        if self.implementation.capturable is None or not isinstance(self.lane, VirtualLane):
            return
        # loads the emulated device, which nothing else here needs
        from harness.graphs.cases import graph_cases
        from harness.graphs.check import CHECK, check_capturable

        for case in graph_cases(self.contract, self.implementation):
            if self.known.quarantines(case) or self._is_late():
                continue
            self.progress("capture", repr(case), self.cases)
            result = check_capturable(self.contract, self.implementation, case, profile=self.lane.profile)
            self.reached.update(result.checks_run)
            self.unlinted |= result.untrusted
            if result.checks_run:
                self.known.note_alone(case, CHECK, failed=bool(result.violations))
            for violation in self._unexplained(case, result):
                self._add(fault_of(violation, self._features_of(case), case))

    def sweep(self, examples: int) -> bool:
        """Run up to ``examples`` new cases; stop at, shrink and record the first that shows something new."""
        left = examples

        def found(case: Any) -> bool:
            nonlocal left
            features = self._features_of(case)
            if repr(case) in self._results or not self._is_worth_running(case, features):
                return False
            if left == 0:
                raise _PassOver
            left -= 1
            return bool(self._unexplained(case, self._run("search", case)))

        return self._pass(found, examples * DRAWN_PER_RUN)

    def sweep_rare(self, examples: int) -> bool:
        """Run cases with features that each check has rarely seen, leaving out what its known faults explain."""
        wanted = max(RARE_RUNS, examples // 10)
        # "" stands for the checks that have no fault
        checks = ["", *sorted({fault.check for fault in self.faults if fault.features})]
        seen: Counter[tuple[str, str]] = Counter()
        for text in self._results:
            seen.update(self._news(checks, self._features[text]))

        def found(case: Any) -> bool:
            features = self._features_of(case)
            if repr(case) in self._results or self.known.quarantines(case):
                return False
            open_pairs = {pair for name in self._drawn for pair in self._news(checks, frozenset({name}))}
            if self._is_late() or all(seen[pair] >= wanted for pair in open_pairs):
                raise _PassOver
            news = self._news(checks, features)
            if all(seen[pair] >= wanted for pair in news):
                return False
            seen.update(news)
            return bool(self._unexplained(case, self._run("rare", case)))

        return self._pass(found, max(examples * DRAWN_PER_RUN, RARE_DRAWS))

    def _news(self, checks: list[str], features: frozenset[str]) -> list[tuple[str, str]]:
        """Return (check, feature) for each check of which no fault explains what happens with these features."""
        return [
            (check, feature)
            for check in checks
            if not any(fault.check == check and fault.features <= features for fault in self.faults)
            for feature in features
        ]

    def _pass(self, found: Condition, draws: int) -> bool:
        """Draw cases until ``found``; shrink each new violation of that case and record it."""
        seed = self.random.getrandbits(64)
        case = self._find(found, seed, draws, Phase.generate)
        if case is None:
            return False
        for violation in self._unexplained(case, self._results[repr(case)]):
            if not self._is_explained(violation, self._features_of(case)):
                self._add(self._shrink(case, violation, seed, draws))
        return True

    def _shrink(self, case: Any, violation: Violation, seed: int, draws: int) -> Fault:
        """Return the fault behind a violation: the smallest case, with the fewest features, failing the same check.

        ``seed`` and ``draws`` are those of the pass that found ``case``.
        """
        until, runs = time.monotonic() + self.shrink_seconds, iter(range(SHRINK_RUNS))

        def allowed() -> bool:
            return not self._is_late() and time.monotonic() < until and next(runs, None) is not None

        def fails(candidate: Any) -> bool:
            return self._violation(candidate, violation, allowed) is not None

        smallest = self._smaller(case, fails, seed, draws)
        while simpler := self._simpler(self._features_of(smallest), fails):
            bound = self._features_of(simpler)

            def fails_within(candidate: Any, bound: frozenset[str] = bound) -> bool:
                return self._features_of(candidate) <= bound and fails(candidate)

            smallest = self._smaller(simpler, fails_within, *self._origins[repr(simpler)][1:])
        last = self._violation(smallest, violation, allowed) or violation
        return fault_of(self._with_race(last, smallest), self._features_of(smallest), smallest)

    def _with_race(self, violation: Violation, case: Any) -> Violation:
        """Return ``violation`` with the race that may be behind it, unless one was found on this case already."""
        result = self._results.get(repr(case))
        if self._is_late() or (result is not None and result.of("race")):
            return violation
        return with_race(violation, self.contract, self.implementation, case, self.lane)

    def _simpler(self, features: frozenset[str], fails: Condition) -> Any:
        """Return a case drawn before that fails too and has fewer of the features, or None."""
        fewer = [case for text, (case, _, _) in self._origins.items() if self._features[text] < features]
        fewer.sort(key=lambda case: (len(self._features_of(case)), len(repr(case))))
        return next((case for case in fewer[:DROP_RUNS] if fails(case)), None)

    def _smaller(self, case: Any, fails: Condition, seed: int, draws: int) -> Any:
        """Return the smallest case that ``fails``, shrunk from ``case``, which ``seed`` leads to within ``draws``."""
        text, located = repr(case), False

        def condition(candidate: Any) -> bool:
            nonlocal located
            if located:
                return fails(candidate)
            # the cases before this one were passed over or did not fail; they are not run again
            located = repr(candidate) == text
            return located

        return self._find(condition, seed, draws, Phase.generate, Phase.shrink) or case

    def _find(self, condition: Condition, seed: int, draws: int, *phases: Phase) -> Any:
        """Return the case that Hypothesis ends with, or None; equal arguments draw equal cases."""
        options = settings(
            max_examples=draws,
            phases=phases,
            database=None,
            deadline=None,
            derandomize=False,
            print_blob=False,
            verbosity=Verbosity.quiet,
        )
        last: list[Any] = []

        def noting(case: Any) -> bool:
            self.drawn += 1
            try:
                if Phase.shrink not in phases:
                    self._features_of(case)
                    self._origins.setdefault(repr(case), (case, seed, draws))
                failed = condition(case)
            except Exception as error:
                raise _Ended(error) from None
            if failed:
                last[:] = [case]
            return failed

        try:
            return find(self.contract.cases(), noting, settings=options, random=Random(seed))
        except (NoSuchExample, Unsatisfiable, _PassOver):
            return None
        except _Ended as ended:
            raise ended.error from None
        except Flaky:
            # an implementation that keeps state between launches: what failed last is still a failure
            return last[0] if last else None
        except Exception as error:
            # what the condition raises comes as _Ended
            with blamed_on(self.contract, "drawing from cases()"):
                raise error

    def _run(self, phase: str, case: Any, *, every_config: bool = False) -> CaseResult:
        """Run all checks of a case, once per search."""
        text = repr(case)
        if text not in self._results:
            self.progress(phase, text, self.cases)
            self._features_of(case)
            result = check_case(
                self.contract,
                self.implementation,
                case,
                lane=self.lane,
                every_config=every_config,
                asks=self._asks,
                races=self.reached["race"] < RACE_CASES,
            )
            self._results[text] = result
            self._ran.update(self._features[text])
            self.reached.update(result.checks_run)
            self.untrusted |= result.untrusted
            if result.no_room:
                self.no_room.add(result.no_room)
            else:
                self.known.note(case, (violation.check for violation in result.violations))
        return self._results[text]

    def _violation(self, case: Any, like: Violation, allowed: Callable[[], bool]) -> Violation | None:
        """Return the unexplained violation of the same check on ``case``; None if it must run and is not allowed."""
        if self.known.quarantines(case):
            return None
        text, key = repr(case), (repr(case), f"{like.check} {like.config}")
        result = self._results.get(text) or self._shrunk.get(key)
        if result is None:
            if not allowed():
                return None
            self.progress("shrink", text, self.cases)
            result = check_case(
                self.contract, self.implementation, case, lane=self.lane, only=like.check, config=like.config
            )
            self._shrunk[key] = result
        return next((v for v in self._unexplained(case, result) if v.check == like.check), None)

    def _unexplained(self, case: Any, result: CaseResult) -> list[Violation]:
        features = self._features_of(case)
        return [
            violation
            for violation in result.violations
            if not self.known.tolerates(violation.check, case) and not self._is_explained(violation, features)
        ]

    def _is_explained(self, violation: Violation, features: frozenset[str]) -> bool:
        return violation.check in self.exhausted or any(
            fault.explains(violation.check, features, violation.site) for fault in self.faults
        )

    def _is_worth_running(self, case: Any, features: frozenset[str]) -> bool:
        """Prefer what was run least: the rarest feature of a case against the average feature."""
        if self.known.quarantines(case):
            return False
        if self._is_late():
            raise _PassOver
        fair = sum(self._ran.values()) / max(len(self._ran), 1)
        return min((self._ran[feature] for feature in features), default=len(self._results)) <= fair or (
            self.random.random() < 2 / DRAWN_PER_RUN
        )

    def _features_of(self, case: Any) -> frozenset[str]:
        text = repr(case)
        if text not in self._features:
            with blamed_on(self.contract, "features", case):
                self._features[text] = frozenset(self.contract.features(case))
            self._drawn.update(self._features[text])
        return self._features[text]

    def _add(self, fault: Fault) -> None:
        """Keep a fault, and drop those that it explains."""
        self.faults = [old for old in self.faults if not fault.explains(old.check, old.features, old.site)]
        self.faults.append(fault)
        self.on_fault(fault)
        if sum(old.check == fault.check for old in self.faults) >= FAULTS_PER_CHECK:
            self.exhausted.add(fault.check)

    def _is_late(self) -> bool:
        self.out_of_time |= self.stop_at is not None and time.monotonic() > self.stop_at
        return self.out_of_time
