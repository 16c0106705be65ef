"""Contracts in words, for ``list`` and ``show``."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from textwrap import indent
from typing import Any

from harness import registry
from harness.contract import Contract


def listing() -> str:
    """Return one line a contract: its name, its outputs, its implementations."""
    rows = [
        (known.name, ", ".join(known.outputs), ", ".join(i.name for i in registry.implementations(known.name)) or "-")
        for known in registry.contracts()
    ]
    rows.insert(0, ("contract", "outputs", "implementations"))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "".join(f"{name:{widths[0]}}  {outputs:{widths[1]}}  {who}\n" for name, outputs, who in rows)


def contract(known: Contract[Any]) -> str:
    """Return the arguments, outputs, tolerances, checks, illegal calls and pinned cases of one contract."""
    names = [implementation.name for implementation in registry.implementations(known.name)]
    parts = [
        f"{known.name}{_signature(known)}",
        indent(inspect.getdoc(known.oracle) or "", "    "),
        _section("outputs", (f"{name}: {tolerance!r}" for name, tolerance in known.tolerance.items())),
        _section("relations", (relation.name for relation in known.relations)),
        _section("must refuse", (f"{item.label} (names {item.argument})" for item in known.rejects())),
        _section("pinned cases", (repr(case) for case in known.pinned)),
        _section("implementations", names),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _signature(known: Contract[Any]) -> str:
    parameters = inspect.signature(known.oracle).parameters.values()
    shown = [f"{item.name}={item.default!r}" if item.default is not item.empty else item.name for item in parameters]
    return f"({', '.join(shown)})"


def _section(title: str, lines: Iterable[str]) -> str:
    found = list(lines)
    return "\n".join([title, *(f"    {line}" for line in found)]) if found else ""
