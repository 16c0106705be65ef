"""What kernels took before: a file per Triton version, and what became worse, better, new or gone since.

A file is JSON, sorted, with one line for each (kernel, configuration, target): registers, bytes of shared memory,
bytes spilled.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.compiling.lane import Judged

#: Registers may grow by this share: the compilers' schedules move them a little with any change of source.
REGISTER_SLACK = 0.10

Row = tuple[int, int, int]
#: Kernel -> configuration -> target -> (registers, shared, spilled).
Table = dict[str, dict[str, dict[str, Row]]]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One figure of one compilation that differs from the baseline's; ``failing`` if it is worse than allowed."""

    kernel: str
    config: str
    target: str
    figure: str
    before: int
    now: int
    failing: bool

    def __str__(self) -> str:
        allowed = f", allowed {self.before * (1 + REGISTER_SLACK):.0f}" if self.figure == "registers" else ""
        return f"{self.kernel} [{self.config}] on {self.target}: {self.figure} {self.before} -> {self.now}{allowed}"


@dataclass(frozen=True, kw_only=True)
class Unlisted:
    """A configuration that only one side has: ``new`` is compiled now, otherwise the baseline alone knows it.

    It fails until the baseline is updated: nobody has looked at what it takes, or at why it is launched no more.
    """

    kernel: str
    config: str
    target: str
    new: bool
    failing: bool = True

    def __str__(self) -> str:
        what = "is not in the baseline" if self.new else "is in the baseline and launched no more"
        return f"{self.kernel} [{self.config}] on {self.target} {what}; --update-baseline accepts it"


Difference = Change | Unlisted


def path_in(folder: Path, triton: tuple[int, int]) -> Path:
    """Return where the baseline for a Triton of that minor version is."""
    return folder / f"triton-{triton[0]}.{triton[1]}.json"


def table_of(judged: Iterable[Judged]) -> Table:
    """Return the figures of everything that compiled."""
    table: Table = {}
    for one in judged:
        figures = one.result.figures
        if figures is not None:
            row = (figures.registers, figures.shared + figures.shared_static, figures.spilled)
            table.setdefault(one.use.kernel, {}).setdefault(one.use.config, {})[one.use.target.arch] = row
    return table


def read(path: Path) -> Table:
    """Return the table in ``path``, an empty one where there is no file; raises ValueError for what is no table."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text())
        return {
            kernel: {
                config: {target: (int(row[0]), int(row[1]), int(row[2])) for target, row in targets.items()}
                for config, targets in configs.items()
            }
            for kernel, configs in content.items()
        }
    except (ValueError, AttributeError, TypeError, IndexError) as error:
        raise ValueError(f"{path} is no baseline: {error}") from error


def write(path: Path, table: Table) -> None:
    """Write ``table`` sorted, one line a compilation."""
    lines = ["{"]
    for kernel in sorted(table):
        lines.append(f" {json.dumps(kernel)}: {{")
        for config in sorted(table[kernel]):
            targets = table[kernel][config]
            lines.append(f"  {json.dumps(config)}: {{")
            lines += [f"   {json.dumps(target)}: {json.dumps(list(targets[target]))}," for target in sorted(targets)]
            lines[-1] = lines[-1].removesuffix(",")
            lines.append("  },")
        lines[-1] = lines[-1].removesuffix(",")
        lines.append(" },")
    lines[-1] = lines[-1].removesuffix(",")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, "}"]) + "\n")


def excused(judged: Iterable[Judged], before: Table) -> list[Judged]:
    """Return ``judged`` in which a spill that is no larger than the baseline's does not fail."""
    return [replace(one, judgement=replace(one.judgement, failing=_fails(one, before))) for one in judged]


def _fails(one: Judged, before: Table) -> bool:
    if one.judgement.verdict != "SPILLS" or one.result.figures is None:
        return one.judgement.failing
    return one.judgement.failing and one.result.figures.spilled > _row(one, before)[2]


def _row(one: Judged, table: Table) -> Row:
    """Return what ``table`` says of a compilation, zeros where it says nothing."""
    return table.get(one.use.kernel, {}).get(one.use.config, {}).get(one.use.target.arch, (0, 0, 0))


def newly_excused(judged: Iterable[Judged], before: Table, after: Table) -> list[Change]:
    """Return the spills that table ``after`` excuses and ``before`` does not, as changes of what is spilled."""
    found = []
    for one in judged:
        if _fails(one, before) and not _fails(one, after) and one.result.figures is not None:
            kernel, config, target = one.use.kernel, one.use.config, one.use.target.arch
            was, now = _row(one, before)[2], one.result.figures.spilled
            change = Change(
                kernel=kernel, config=config, target=target, figure="spilled", before=was, now=now, failing=True
            )
            found.append(change)
    return list(dict.fromkeys(found))


def compare(before: Table, now: Table) -> list[Change]:
    """Return every figure that changed of what is in both, failing ones first.

    Failing: registers more than ``REGISTER_SLACK`` up, shared memory up, more bytes spilled.
    """
    changes = []
    for kernel, configs in now.items():
        for config, targets in configs.items():
            for target, row in targets.items():
                old = before.get(kernel, {}).get(config, {}).get(target)
                if old is not None:
                    changes += _changes(kernel, config, target, old, row)
    return sorted(changes, key=lambda change: (not change.failing, str(change)))


def unlisted(before: Table, judged: Iterable[Judged], *, whole: bool) -> list[Unlisted]:
    """Return the configurations on one side only, of kernels and targets that both know.

    ``whole``: everything that launches these kernels was asked, so that what is missing now is gone.
    """
    asked: dict[tuple[str, str], set[str]] = {}
    compiled: dict[tuple[str, str], set[str]] = {}
    for one in judged:
        where = (one.use.kernel, one.use.target.arch)
        asked.setdefault(where, set()).add(one.use.config)
        if one.result.figures is not None:
            compiled.setdefault(where, set()).add(one.use.config)
    found = []
    for (kernel, target), configs in asked.items():
        known = {config for config, targets in before.get(kernel, {}).items() if target in targets}
        new = compiled.get((kernel, target), set()) - known if known else set()
        gone = known - configs if whole else set()
        found += [Unlisted(kernel=kernel, config=config, target=target, new=True) for config in new]
        found += [Unlisted(kernel=kernel, config=config, target=target, new=False) for config in gone]
    return sorted(found, key=str)


def _changes(kernel: str, config: str, target: str, old: Row, new: Row) -> list[Change]:
    slack = {"registers": REGISTER_SLACK, "shared": 0.0, "spilled": 0.0}
    return [
        Change(
            kernel=kernel,
            config=config,
            target=target,
            figure=figure,
            before=before,
            now=now,
            failing=now > before * (1 + share),
        )
        for (figure, share), before, now in zip(slack.items(), old, new, strict=True)
        if before != now
    ]


def updated(before: Table, now: Table, kernels: Collection[str], targets: Collection[str]) -> Table:
    """Return ``before`` with ``now`` in place of what it says about ``kernels`` on ``targets``: what was compiled."""
    table: Table = {}
    for source, keeps in ((before, True), (now, False)):
        for kernel, configs in source.items():
            for config, rows in configs.items():
                for target, row in rows.items():
                    if not keeps or kernel not in kernels or target not in targets:
                        table.setdefault(kernel, {}).setdefault(config, {})[target] = row
    return table
