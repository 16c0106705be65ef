"""Attributes that are replaced while the emulation lasts, and put back afterwards."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """Replaces attributes and restores them in reverse order."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Give ``owner`` an attribute of its own; an inherited one of the same name comes back with ``restore``."""
        self._old.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def restore(self) -> None:
        """Undo every ``set``."""
        while self._old:
            owner, name, value = self._old.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
