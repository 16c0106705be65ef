"""The corpus as a whole: every family of reports, what is in it, and how a case of it is run again."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bugs import (
    family_a,
    family_b,
    family_c,
    family_d,
    family_e,
    family_f,
    family_g,
    family_h,
    family_i,
    family_j,
    on_device,
)
from tests.bugs.entry import Bug, Policy, Source
from tests.bugs.running import Changed, Made

#: Letter of a family -> what it is about and its entries.
FAMILIES: dict[str, tuple[str, tuple[Bug | Policy, ...]]] = {
    "a": ("paged KV cache addressing", (*family_a.BUGS, *family_a.POLICIES)),
    "b": ("softmax and log-sum-exp", (*family_b.BUGS, *family_b.POLICIES)),
    "c": ("mixture of experts", (*family_c.BUGS, *family_c.POLICIES)),
    "d": ("architectures", (*family_d.BUGS, *family_d.POLICIES)),
    "e": ("capture and replay", (*family_e.BUGS, *family_e.POLICIES, *on_device.BUGS)),
    "f": ("grid barriers, occupancy", (*family_f.BUGS, *family_f.POLICIES)),
    "g": ("process-global state", (*family_g.BUGS, *family_g.POLICIES)),
    "h": ("numerics", (*family_h.BUGS, *family_h.POLICIES)),
    "i": ("races, memory nobody wrote", (*family_i.BUGS, *family_i.POLICIES)),
    "j": ("performance", (*family_j.BUGS, *family_j.POLICIES)),
}
ENTRIES = tuple(entry for _, entries in FAMILIES.values() for entry in entries)
#: What runs without a GPU.
BUGS = tuple(entry for entry in ENTRIES if isinstance(entry, Bug) and entry not in on_device.BUGS)
POLICIES = tuple(entry for entry in ENTRIES if isinstance(entry, Policy))
#: Reports of one fault in one place, each with a trigger of its own: the offset of a page and of a slot in 32 bits (one
#: product here, for a slot is a page of one token), and split pages without the reserved one, which were first reported
#: as the change that made them reachable.
ONE_FAULT = (("B001", "B007"), ("B017", "B219"))


def in_source(entry: Bug | Policy) -> bool:
    """Whether the fault is a changed text of a kernel, its wrapper, or what decides about launches and devices."""
    if isinstance(entry.fault, Source | Made):
        return True
    return isinstance(entry.fault, Changed) and entry.fault.dotted.startswith(
        ("kernels.", "harness.launch.", "harness.device.")
    )


def cases_of(bug: Bug) -> tuple[object, ...]:
    """Return the cases of an entry: none, one, or those of a sweep."""
    if bug.case is None:
        return ()
    return bug.case if isinstance(bug.case, tuple) else (bug.case,)


def table() -> Iterator[str]:
    """Yield a line a family: distinct reports, those with a fault in source, entries, and how many need a GPU."""
    yield f"{'family':32} {'reports':>8} {'in source':>10} {'entries':>8} {'need a GPU':>11}"
    rows = [(f"{letter}, {about}", entries) for letter, (about, entries) in FAMILIES.items()]
    for name, entries in (*rows, ("all", ENTRIES)):
        reports, changed = len({entry.number for entry in entries}), len({e.number for e in entries if in_source(e)})
        needy = sum(entry in on_device.BUGS for entry in entries)
        yield f"{name:32} {reports:8} {changed:10} {len(entries):8} {needy:11}"


def listing() -> Iterator[str]:
    """Yield what each entry is: report, fault, check, and the case as ``python -m harness replay`` takes it."""
    for entry in ENTRIES:
        yield f"{entry.number} {entry.link}: {entry.says}"
        if isinstance(entry, Policy):
            yield f"    right: {entry.check}"
            continue
        yield f"    {entry.contract} {entry.implementation}: {entry.check}"
        yield from (f"    {case!r}" for case in cases_of(entry))
