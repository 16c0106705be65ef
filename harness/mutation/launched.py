"""The compile lane's part: what a launch function launches for its workloads and pinned cases, without running it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from harness.contract import Implementation
from harness.mutation import frontend
from harness.mutation.targets import Pair

#: The target that launches are recorded for.
MARKER = "sm120"
#: The id of the check: launches are those of the original.
CHECK = "launches"

Find = Callable[[Implementation], Implementation]


def launched(pairs: Sequence[Pair], find: Find) -> dict[str, str]:
    """Return every configuration that the implementations launch, or what a launch raises, with the case.

    ``find`` maps an implementation to the one that is launched.
    """
    from harness.compiling import plan
    from harness.device.targets import TARGETS

    made = plan.make([(contract, find(implementation)) for contract, implementation in pairs], [TARGETS[MARKER]])
    found = {}
    for use in made.uses:
        what = use.config if use.problem is None else f"raises: {use.problem}"
        found[f"{use.implementation}: {use.kernel} [{what}]"] = f"{use.contract}-{use.implementation}: {use.case}"
    return found


def specialisations(pairs: Sequence[Pair], modules: Iterable[str]) -> list[frontend.Specialisation]:
    """Return how the kernels of ``modules`` are compiled for the implementations' workloads and pinned cases.

    On every target where the compile lane knows both, each once.
    """
    from harness.compiling import plan
    from harness.device.targets import TARGETS

    recorded = plan.make(pairs, [TARGETS[marker] for marker in sorted(plan.CORNER_TARGETS)]).specialisations.values()
    inside = set(modules)
    found = [frontend.of_recorded(one) for one in recorded if one.function.__module__ in inside]
    return list({(one.module, one.kernel, one.key): one for one in found}.values())


def difference(original: Mapping[str, str], mutated: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first launch that only one of the two has, and its case; None if they launch the same."""
    for found, others, word in ((mutated, original, "launches"), (original, mutated, "no longer launches")):
        for what, case in found.items():
            if what not in others:
                return f"{word} {what}", case
    return None
