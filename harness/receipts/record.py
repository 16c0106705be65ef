"""One receipt: the facts of a run, as JSON with a digest over all of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.receipts.decoding import Malformed, decoded

SCHEMA = 4


@dataclass(frozen=True, kw_only=True)
class Test:
    """One test: ``outcome`` is passed, failed, error, skipped, xfailed or xpassed; ``seconds`` of all its phases.

    ``hardware``: whether it is marked as a test of some GPU; ``target`` the one that it was collected for, such as
    ``sm_120``, empty for a test that is about none; ``device`` the index of the device that it used, None if that is
    not known; ``note`` why it was skipped.
    """

    # pytest would collect it
    __test__ = False

    id: str
    outcome: str
    seconds: float
    hardware: bool
    target: str = ""
    device: int | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU as its driver names it; ``index`` is the one that the run's environment gave it."""

    name: str
    arch: str
    units: int
    index: int = 0
    uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """All tests about ``target`` that the project has: ``whole`` counts them, ``missing`` those that did not run.

    ``some`` are the first of those.
    """

    target: str
    whole: int
    missing: int = 0
    some: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What ran, on what.

    ``emulated`` is the target whose configurations ran on another device, empty otherwise; ``dirty`` as in
    ``revision.Revision``; ``paths`` the files and folders of which ``sources`` has every file's digest; ``moved`` the
    sources that changed while it ran; ``status`` pytest's exit status; ``arguments`` what pytest was called with, and
    ``added`` what PYTEST_ADDOPTS put before them.  ``profile`` is the Hypothesis profile, which says how much of each
    test ran, ``known`` the file of failures that were excused, empty for none.  ``selections`` says of each target that
    it ran for whether that was all, ``unknown`` why that is not known.
    """

    started: str
    seconds: float
    devices: tuple[Device, ...]
    driver: str
    versions: dict[str, str]
    emulated: str
    commit: str
    dirty: tuple[str, ...] | None
    paths: tuple[str, ...]
    sources: dict[str, str]
    moved: tuple[str, ...]
    arguments: tuple[str, ...]
    status: int
    profile: str
    known: str = ""
    added: str = ""
    selections: tuple[Selection, ...] = ()
    unknown: str = ""
    tests: tuple[Test, ...] = field(repr=False)


class Unreadable(ValueError):
    """Not a receipt, or one that was changed after it was written."""


def write(receipt: Receipt, file: Path) -> None:
    """Write ``receipt``, whose folder is made if it is not there."""
    content = {"schema": SCHEMA, **asdict(receipt)}
    file.parent.mkdir(parents=True, exist_ok=True)
    # a half-written one must not stand where a whole one is looked for
    part = file.with_name(f"{file.name}.part")
    part.write_text(json.dumps({**content, "digest": digest(content)}, indent=1) + "\n")
    part.replace(file)


def read(file: Path) -> Receipt:
    """Return the receipt in ``file``; raises Unreadable saying what is wrong with it, OSError if there is none."""
    try:
        content = json.loads(file.read_text())
    except ValueError as error:
        raise Unreadable(f"{file}: not JSON: {error}") from error
    if not isinstance(content, dict) or "digest" not in content:
        raise Unreadable(f"{file}: not a receipt: it has no digest")
    stated, schema = content.pop("digest"), content.get("schema")
    if schema != SCHEMA:
        raise Unreadable(f"{file}: schema {schema!r}; this version reads {SCHEMA}")
    found = digest(content)
    if stated != found:
        raise Unreadable(f"{file}: changed after it was written: its digest says {stated}, its content has {found}")
    del content["schema"]
    try:
        receipt: Receipt = decoded(Receipt, content)
    except Malformed as error:
        raise Unreadable(f"{file}: not a receipt: {error}") from error
    return receipt


def digest(content: dict[str, Any]) -> str:
    """Return the SHA-256 of ``content`` as JSON with sorted keys and no spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
