"""Making a stored run the baseline of its device, on purpose."""

from __future__ import annotations

from pathlib import Path

from harness.bench import machine, refusals, store
from harness.discover import SetupError


def path_in(folder: Path, device: str) -> Path:
    """Return where the baseline of a device of that name is."""
    return folder / f"{machine.slug(device)}.json"


def accept(
    path: Path,
    folder: Path,
    *,
    repository: Path = Path(),
    allow_dirty: bool = False,
    allow_missing: bool = False,
    allow_lone: bool = False,
    commit: str | None = None,
) -> tuple[Path, str]:
    """Write the run in ``path`` as the baseline of its device; returns the file and a sentence about it.

    ``commit`` is what a run from outside of any repository was made from, in place of what it was told: its sources
    show whether that is so.

    Raises SetupError for a run of uncommitted sources, one without a commit, one that was told its commit and has other
    sources than that has in ``repository``, one that left workloads out, and one that lacks benchmarks of the baseline
    before it, as a run of one contract does, unless ``allow_missing``, one of a few processes, which `bench diff` would
    refuse, and one of a single process, which nothing shows to be near what others would find, unless ``allow_lone``.
    """
    run = store.compared(store.read(path), repository, commit)
    name = run.device.get("name")
    if not name:
        raise SetupError(f"{path} does not say which device it was made on")
    commit = str(run.commit.get("id", "unknown"))
    if not allow_dirty and (reasons := refusals.dirty(run)):
        raise SetupError(f"{reasons[0]}; see --allow-dirty")
    refused = store.wrong(run.document)
    if refused:
        raise SetupError(f"{path} left out {refused[0]['name']}: {refused[0]['reason']}")
    if not allow_lone and any(entry.alone for entry in run.entries.values()):
        raise SetupError(f"{path} is of one process: take --blocks 10, or see --allow-lone")
    if few := refusals.too_few(run, [key for key, entry in run.entries.items() if not entry.alone]):
        raise SetupError(f"{few[0]}: nothing could be compared with it, take --blocks 10")
    target = path_in(folder, str(name))
    old = store.read(target) if target.is_file() else None
    gone = [] if old is None or allow_missing else refusals.missing(old, run)
    if gone:
        raise SetupError(f"{path} beside {target}: {gone[0]}; see --allow-missing")
    store.write(target, _slim(run.document))
    return (
        target,
        f"{target}: {len(run.entries)} benchmarks of {commit[:12]}, {0 if old is None else len(old.entries)} before",
    )


def _slim(document: store.Document) -> store.Document:
    """Return ``document`` without samples: its medians, intervals and blocks are what comparisons read."""
    rows = [
        {**row, "stats": {name: value for name, value in row["stats"].items() if name != "data"}}
        for row in document["benchmarks"]
    ]
    return {**document, "benchmarks": rows}
