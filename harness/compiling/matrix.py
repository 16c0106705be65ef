"""The matrix that ``targets`` prints: kernels by targets, then what failed, then what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.compiling.baseline import Change, Difference
from harness.compiling.grids import Regridded
from harness.compiling.lane import Judged
from harness.compiling.verdicts import ORDER
from harness.device.targets import Target

#: What differs from a baseline.
Shown = Difference | Regridded
_SHORT = {"EXPECTED_REFUSED": "refused*", "LOWERED": "lowered"}
_LEGEND = (
    "cell: most registers a thread, shared memory of a block, blocks resident on an SM or CU (fewest); "
    "refused*: as declared; -: not for this target\n"
)


def render(
    judged: Sequence[Judged],
    targets: Sequence[Target],
    changes: Sequence[Shown],
    summary: str,
    accepted: Sequence[Shown] = (),
) -> str:
    """Return the whole report, one line at a time, ending with ``summary``; ``accepted`` by an update of baselines."""
    failures = [one for one in judged if one.judgement.failing]
    return "".join(
        [
            *_table(judged, targets),
            _LEGEND,
            *(f"\n{line}" for line in _failures(failures)),
            *_changes(changes),
            *_accepted(accepted),
            f"\n{summary}\n",
        ]
    )


def failure_line(one: Judged) -> str:
    """Return what, where, how far and what was allowed."""
    use = one.use
    config = f" [{use.config}]" if use.config else ""
    where = f"{use.contract} {use.implementation}: {use.kernel}{config} on {use.target.arch}"
    return f"{one.judgement.verdict} {where}: {one.judgement.message}\n  launched by {_cut(use.case)}"


def _table(judged: Sequence[Judged], targets: Sequence[Target]) -> list[str]:
    cells: dict[tuple[str, str], dict[Target, list[Judged]]] = {}
    for one in judged:
        row = cells.setdefault((one.use.contract, one.use.kernel), {})
        row.setdefault(one.use.target, []).append(one)
    head = ["", *(target.arch for target in targets)]
    rows = [
        [f"{contract}: {kernel.rpartition('.')[2]}", *(_cell(row.get(target, ())) for target in targets)]
        for (contract, kernel), row in cells.items()
    ]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() + "\n"
        for row in [head, *rows]
    ]


def _cell(found: Sequence[Judged]) -> str:
    """The worst verdict of a kernel on a target, or what it takes at most where all fit."""
    if not found:
        return "-"
    worst = min((one.judgement for one in found), key=lambda j: (not j.failing, ORDER.index(j.verdict)))
    figures = [one.result.figures for one in found if one.result.figures is not None]
    if worst.failing or not figures:
        return _SHORT.get(worst.verdict, worst.verdict)
    shared = max(one.shared + one.shared_static for one in figures)
    resident = [one.judgement.residency.blocks_per_sm for one in found if one.judgement.residency is not None]
    text = f"{max(one.registers for one in figures)}r {-(-shared // 1024)}K {min(resident)}b"
    declared = {one.judgement.verdict for one in found} - {"FITS"}
    return f"{text} {','.join(_SHORT.get(verdict, verdict.lower()) for verdict in sorted(declared))}".rstrip()


def _failures(failures: Sequence[Judged]) -> list[str]:
    """One entry for each different message; how many configurations share it."""
    entries: dict[tuple[str, str, str, str], list[Judged]] = {}
    for one in failures:
        key = (one.use.kernel, one.use.target.arch, one.judgement.verdict, one.judgement.message)
        entries.setdefault(key, []).append(one)
    return [
        failure_line(same[0]) + (f"\n  and {len(same) - 1} more like it" if len(same) > 1 else "") + "\n"
        for same in entries.values()
    ]


def _changes(changes: Sequence[Shown]) -> Iterable[str]:
    worse = [change for change in changes if change.failing]
    better = [change for change in changes if isinstance(change, Change) and change.now < change.before]
    yield from (f"\nREGRESSION {change}" for change in worse)
    if worse:
        yield "\n"
    if better:
        yield f"\n{len(better)} figures are better than the baseline's, such as {better[0]}\n"


def _accepted(accepted: Sequence[Shown]) -> Iterable[str]:
    """A line for each figure that is worse, spills first, and one for all that is only new, gone or of another grid."""
    worse = [change for change in accepted if isinstance(change, Change)]
    yield from (f"\nACCEPTED {change}" for change in sorted(worse, key=lambda one: (one.figure != "spilled", str(one))))
    if worse:
        yield "\n"
    if others := len(accepted) - len(worse):
        yield f"\n{others} configurations and grids are accepted that are new or gone\n"


def _cut(case: str, width: int = 200) -> str:
    return case if len(case) <= width else f"{case[: width - 3]}..."
