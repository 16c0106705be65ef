"""The error for what lies outside the emulated surface, and a count of each use."""

from __future__ import annotations

from collections import Counter
from typing import Any, NoReturn

#: How often each unsupported name was used, even where the program caught the error.
USES: Counter[str] = Counter()


class Unsupported(RuntimeError):
    """Something that a GPU has and the emulation has not; ``name`` says what.

    The message begins with ``UNSUPPORTED: name``.
    """

    def __init__(self, name: str, why: str = "") -> None:
        self.name = name
        detail = f": {why}" if why else ""
        super().__init__(
            f"UNSUPPORTED: {name}{detail}; `python -m harness sanitize --surface` lists what the emulation has"
        )


def unsupported(name: str, why: str = "") -> NoReturn:
    """Count a use of ``name`` and raise Unsupported."""
    USES[name] += 1
    raise Unsupported(name, why)


def missing(name: str, *, model: Any) -> Any:
    """Return a stand-in for ``model``, a class or a function, that raises Unsupported when it is called."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        unsupported(name)

    if isinstance(model, type):
        # still a class: annotations and isinstance checks at import must keep working
        return type(model.__name__, (), {"__new__": refuse, "__module__": model.__module__})
    refuse.__name__ = refuse.__qualname__ = name.rsplit(".", 1)[-1]
    return refuse
