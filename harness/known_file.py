"""Known failures kept in a file of the user's repository, so that nobody edits a kernel to excuse it.

One table a failure, in TOML; ``contract`` and ``issue`` are required, everything left out matches all::

    [[known]]
    contract = "mxfp4_moe"
    implementation = "acme"
    check = "oracle:out"
    features = ["float16"]      # cases that have all of these, as reports print them
    issue = "#41"
    kind = "tolerated"          # or "quarantine": matching cases do not run
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from harness.contract import Contract, Implementation
from harness.discover import SetupError
from harness.known import Known

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One table of the file."""

    contract: str
    issue: str
    implementation: str | None = None
    check: str = "*"
    features: tuple[str, ...] = ()
    kind: Literal["tolerated", "quarantine"] = "tolerated"


def read(path: Path) -> tuple[Entry, ...]:
    """Return the entries of ``path``; raises SetupError naming the file, the entry and what is wrong with it."""
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as error:
        raise SetupError(f"--known {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SetupError(f"--known {path} does not parse: {error}") from error
    known = tables.pop("known", [])
    if tables or not isinstance(known, list) or not all(isinstance(table, dict) for table in known):
        raise SetupError(f"--known {path}: wanted [[known]] tables and nothing else")
    return tuple(_entry(f"--known {path}, entry {number}", table) for number, table in enumerate(known, 1))


def _entry(where: str, table: dict[str, Any]) -> Entry:
    texts = {"contract", "issue", "implementation", "check", "kind"}
    if unknown := set(table) - texts - {"features"}:
        keys = ", ".join(sorted(texts | {"features"}))
        raise SetupError(f"{where}: no key {sorted(unknown)[0]!r}; there are: {keys}")
    for key, value in table.items():
        if key in texts and not (isinstance(value, str) and value.strip()):
            raise SetupError(f"{where}: {key}: wanted a text, got {value!r}")
    if missing := {"contract", "issue"} - set(table):
        raise SetupError(f"{where}: {sorted(missing)[0]} is missing")
    if table.get("kind", "tolerated") not in ("tolerated", "quarantine"):
        raise SetupError(f"{where}: kind: wanted 'tolerated' or 'quarantine', got {table['kind']!r}")
    features = table.get("features", [])
    if not (isinstance(features, list) and all(isinstance(feature, str) for feature in features)):
        raise SetupError(f"{where}: features: wanted a list of texts, got {features!r}")
    return Entry(**cast(dict[str, Any], {**table, "features": tuple(features)}))


def excused_by(config: pytest.Config, implementation: Implementation, contract: Contract[Any]) -> Implementation:
    """Return ``implementation`` with the failures of the file that ``--known`` names, if any, added to its own."""
    path: Path | None = config.getoption("known")
    return implementation if path is None else excused(implementation, contract, read(path))


def excused(implementation: Implementation, contract: Contract[Any], entries: tuple[Entry, ...]) -> Implementation:
    """Return ``implementation`` with the failures that ``entries`` name for it added to its own."""
    added = tuple(
        Known(match=_match(contract, entry), issue=entry.issue, check=entry.check, kind=entry.kind)
        for entry in entries
        if entry.contract == contract.name and entry.implementation in (None, implementation.name)
    )
    return replace(implementation, known=implementation.known + added) if added else implementation


def _match(contract: Contract[Any], entry: Entry) -> Any:
    wanted = frozenset(entry.features)
    return lambda case: wanted <= contract.features(case)
