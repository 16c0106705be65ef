"""The compile lane's part: what a launch function launches for its workloads and pinned cases, without running it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from harness.contract import Implementation
from harness.mutation import frontend
from harness.mutation.targets import Pair

#: The id of the check: launches are those of the original.  ``harness targets`` holds them to what is committed in
#: ``ci/baselines``; of two that are right it finds the other one, too.
CHECK = "baseline"

Find = Callable[[Implementation], Implementation]


def launched(pairs: Sequence[Pair], find: Find) -> dict[str, str]:
    """Return every configuration and grid that the implementations launch on any target, or what raises.

    Where a case is known that launches it, with that.  ``find`` maps an implementation to the one that is launched.
    """
    from harness.compiling import plan
    from harness.device.targets import TARGETS

    made = plan.make([(contract, find(implementation)) for contract, implementation in pairs], list(TARGETS.values()))
    found: dict[str, str] = {}
    for use in made.uses:
        what = use.config if use.problem is None else f"raises: {use.problem}"
        where = f"{use.implementation}: {use.kernel} [{what}] on {use.target.arch}"
        found.setdefault(where, f"{use.contract}-{use.implementation}: {use.case}")
    for (implementation, kernel, arch), grids in made.grids.items():
        found |= {f"{implementation}: {kernel} with grid {grid} on {arch}": "" for grid in grids}
    return found


#: Targets that kernels are shown to the front end for: the oldest, and one for each way to multiply small matrices.
_FRONT_END = ("sm80", "sm90", "sm120", "gfx950")


def refusals(pairs: Sequence[Pair], find: Find) -> list[tuple[str, str]]:
    """Return the target and the words where Triton's front end does not take a kernel, or it starts too early.

    Of each kernel and target one configuration is asked about.
    """
    from harness.compiling import acceptance, plan
    from harness.device.targets import TARGETS

    chosen = [TARGETS[marker] for marker in _FRONT_END]
    made = plan.make([(contract, find(implementation)) for contract, implementation in pairs], chosen)
    one_each = {(one.function, one.target.arch): one for one in made.specialisations.values()}
    asked = [(one.target.arch, acceptance.ask(one)) for one in one_each.values()]
    return [(arch, refusal.message) for arch, refusal in asked if refusal is not None]


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
