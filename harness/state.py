"""Ledger of process-global state: what stands where before, what changed afterwards, and how to put it back.

``snapshot`` reads everything that is registered and can be read without loading anything: torch's state is part of it
once torch is loaded. What else a project keeps globally joins by ``register_state``.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Longest value that a message shows in full.
_SHOWN = 120


@dataclass(frozen=True, kw_only=True)
class State:
    """One thing that a process has once.

    ``read`` returns a value that later changes do not reach, compared with ``==``; a mapping is compared and reported
    key by key. ``ABSENT`` says that there is nothing to read yet. ``restore`` takes such a value and puts it back; None
    where that is impossible. The state is read only while ``module`` is loaded. A ``consumable`` changes by being used
    (a random generator), so a difference in it is no leak.
    """

    name: str
    read: Callable[[], Any]
    restore: Callable[[Any], object] | None
    module: str | None = None
    consumable: bool = False


@dataclass(frozen=True)
class Difference:
    """One changed value; prints as ``"environment['X']: '1' -> unset"``."""

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Snapshot:
    """What was read, by state name."""

    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Unreadable:
    """Stands for a value whose reading raised ``why``."""

    why: str

    def __repr__(self) -> str:
        return f"<unreadable: {self.why}>"


class _Word:
    def __init__(self, word: str) -> None:
        self._word = word

    def __repr__(self) -> str:
        return self._word


_UNSET = _Word("unset")
#: What a reader returns while its state does not exist; the snapshot then lacks it.
ABSENT: Any = _Word("absent")
_states: dict[str, State] = {}


def register_state(
    name: str,
    read: Callable[[], Any],
    restore: Callable[[Any], object] | None,
    *,
    module: str | None = None,
    consumable: bool = False,
) -> None:
    """Add a state to every later snapshot; see `State` for the arguments.  Raises ValueError for a name in use."""
    if name in states():
        raise ValueError(f"a state named {name!r} is registered already")
    _states[name] = State(name=name, read=read, restore=restore, module=module, consumable=consumable)


def unregister_state(name: str) -> None:
    """Take out a state that `register_state` added; raises KeyError for another name."""
    del _states[name]


def states() -> dict[str, State]:
    """Return every state by name, in the order in which they are restored."""
    from harness.state_readers import BUILT_IN

    return {**{state.name: state for state in BUILT_IN}, **_states}


def snapshot(only: Collection[str] | None = None) -> Snapshot:
    """Read every state that is there to be read, or those of the names in ``only``."""
    wanted = {name: state for name, state in states().items() if only is None or name in only}
    read = {name: _read(state) for name, state in wanted.items() if _loaded(state)}
    return Snapshot({name: value for name, value in read.items() if value is not ABSENT})


def diff(
    before: Snapshot, after: Snapshot, *, ignore: Collection[str] = (), consumables: bool = False
) -> tuple[Difference, ...]:
    """Return what changed, in the order of `states`, without the states named in ``ignore``.

    A state that one of the two snapshots lacks (it came to exist between them) is not compared. ``consumables``
    asks for those too.
    """
    known = states()
    found: list[Difference] = []
    for name, old in before.values.items():
        if name in ignore or name not in after.values:
            continue
        if not consumables and name in known and known[name].consumable:
            continue
        found += [Difference(what, _shown(left), _shown(right)) for what, left, right in _changes(name, old, after)]
    return tuple(found)


def rebase(base: Snapshot, before: Snapshot, after: Snapshot) -> Snapshot:
    """Return ``base`` with the changes that led from ``before`` to ``after`` applied to it."""
    values = dict(base.values)
    for name, old in before.values.items():
        if name not in after.values or name not in values or old == after.values[name]:
            continue
        new = after.values[name]
        if not (isinstance(new, Mapping) and isinstance(old, Mapping) and isinstance(values[name], Mapping)):
            values[name] = new
            continue
        merged = {key: value for key, value in values[name].items() if key in new or key not in old}
        values[name] = merged | {key: value for key, value in new.items() if key not in old or old[key] != value}
    return Snapshot(values)


def restore(to: Snapshot, *, ignore: Collection[str] = (), consumables: bool = False) -> tuple[str, ...]:
    """Put back whatever differs from ``to``; return the names of the states for which that failed.

    ``ignore`` and ``consumables`` as for `diff`.
    """
    failed = []
    for name, state in states().items():
        if name in ignore or name not in to.values or not _loaded(state) or (state.consumable and not consumables):
            continue
        wanted = to.values[name]
        if isinstance(wanted, Unreadable) or wanted == _read(state):
            continue
        if state.restore is not None:
            try:
                state.restore(wanted)
            except Exception:
                failed.append(name)
                continue
        if _read(state) != wanted:
            failed.append(name)
    return tuple(failed)


def _loaded(state: State) -> bool:
    return state.module is None or state.module in sys.modules


def _read(state: State) -> Any:
    try:
        return state.read()
    except Exception as error:
        return Unreadable(f"{type(error).__name__}: {error}")


def _changes(name: str, old: Any, after: Snapshot) -> Iterator[tuple[str, Any, Any]]:
    new = after.values[name]
    if old == new:
        return
    if isinstance(old, tuple) and isinstance(new, tuple):
        start, old, new = _different_part(old, new)
        yield f"{name} from item {start}", old, new
        return
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        yield name, old, new
        return
    for key in [*old, *(key for key in new if key not in old)]:
        left, right = old.get(key, _UNSET), new.get(key, _UNSET)
        if left != right:
            yield f"{name}[{key!r}]", left, right


def _different_part(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[int, tuple[Any, ...], tuple[Any, ...]]:
    """Return what remains without the items that both begin and end with, and where it begins."""
    shorter = min(len(old), len(new))
    start = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    left = shorter - start
    end = next((index for index in range(left) if old[-1 - index] != new[-1 - index]), left)
    return start, old[start : len(old) - end], new[start : len(new) - end]


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes {hashlib.blake2b(value, digest_size=4).hexdigest()}>"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
