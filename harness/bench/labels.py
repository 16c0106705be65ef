"""Short names of workloads: what tells a case from the contract's others, and a digest of all of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any


def labels(cases: Sequence[Any]) -> list[str]:
    """Return a name for each case, such as ``"num_tokens=64"``: the fields in which the cases differ, shortest path.

    Fields without which the cases are still told apart are left out; cases that look alike are numbered.
    """
    flat = [_flat(case) for case in cases]
    paths = [path for path in dict.fromkeys(path for case in flat for path in case) if _differ(flat, path)]
    told: list[str] = []
    for path in paths:
        if not any(_follows(flat, path, earlier) for earlier in told):
            told = [earlier for earlier in told if not _follows(flat, earlier, path)] + [path]
    for path in list(told):
        others = [other for other in told if other != path]
        if _distinct(flat, others) == _distinct(flat, told):
            told = others
    names = [",".join(f"{_short(path, told)}={case[path]}" for path in told if path in case) or "only" for case in flat]
    return [
        name if names.count(name) == 1 else f"{name}#{names[:place].count(name)}" for place, name in enumerate(names)
    ]


def digest(case: Any) -> str:
    """Return 12 hexadecimal digits that another case does not have."""
    return hashlib.sha256(repr(case).encode()).hexdigest()[:12]


def _flat(value: Any, path: str = "") -> dict[str, str]:
    """Return the fields of a case by their dotted path; long tuples as their length."""
    if is_dataclass(value):
        found: dict[str, str] = {}
        for field in fields(value):
            found |= _flat(getattr(value, field.name), f"{path}.{field.name}" if path else field.name)
        return found
    if isinstance(value, tuple):
        plain = not any(isinstance(item, tuple) for item in value)
        if plain and len(value) > 1 and len(set(value)) == 1:
            return {path: f"{len(value)}x{value[0]}"}
        return {path: "+".join(map(str, value)) if plain and len(value) <= 2 else str(len(value))}
    return {path: str(value).removeprefix("torch.")}


def _differ(flat: Sequence[dict[str, str]], path: str) -> bool:
    return len({case.get(path) for case in flat}) > 1


def _distinct(flat: Sequence[dict[str, str]], paths: Sequence[str]) -> int:
    return len({tuple(case.get(path) for path in paths) for case in flat})


def _follows(flat: Sequence[dict[str, str]], path: str, other: str) -> bool:
    """Whether the value at ``path`` is the same wherever the one at ``other`` is."""
    return len({(case.get(path), case.get(other)) for case in flat}) == len({case.get(other) for case in flat})


def _short(path: str, among: Sequence[str]) -> str:
    last = path.rpartition(".")[2]
    return last if [other.rpartition(".")[2] for other in among].count(last) == 1 else path
