"""SM budgets: how many SMs a launch with a grid barrier may take, and who may launch one.

A grid barrier waits for every block, so every block must be resident; a kernel of another stream that holds one SM is
enough to hang a grid as wide as the device. ``sm_budget`` leaves SMs free for it::

    with sm_budget(reserve=2, device=x.device) as sms, launch_lease(x.device):
        kernel[(sms,)](...)

Budgets belong to the thread or task that sets them (they are context variables), so threads cannot overwrite each
other's; a worker that should see its parent's runs in ``contextvars.copy_context()``.
"""

from __future__ import annotations

import contextvars
import operator
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from harness.launch.lease import Lease, LeaseError, LeaseTimeout, launch_lease
from harness.launch.physical import NoDevice, Physical, device_index, physical_from, physical_sms, source

__all__ = [
    "Lease",
    "LeaseError",
    "LeaseTimeout",
    "NoDevice",
    "Physical",
    "available_sms",
    "current_budget",
    "launch_lease",
    "physical_from",
    "set_num_sms",
    "sm_budget",
    "workspace_key",
]

#: Blocks are paired into clusters of two, so a grid is even and has at least one pair.
_PAIR = 2


@dataclass(frozen=True, eq=False)
class _Budget:
    """One act of setting a budget; compared by identity, because equal numbers may be two decisions.

    ``entered`` is of the thread or task whose block it is, and good there alone.
    """

    sms: int
    entered: contextvars.Token[bool] | None = None


_Key = tuple[Physical, int]
_budgets: contextvars.ContextVar[Mapping[_Key, _Budget]] = contextvars.ContextVar(
    "sm_budgets", default=MappingProxyType({})
)
# Never read: what setting it returns tells the thread or task that set it from all others.
_entered: contextvars.ContextVar[bool] = contextvars.ContextVar("sm_budget_entered", default=False)


def current_budget(device: Any = None) -> int | None:
    """Return the SMs that launches on ``device`` may take here, or None where nobody limited them."""
    budget = _budgets.get().get(_key(device))
    return None if budget is None else budget.sms


def available_sms(device: Any = None) -> int:
    """Return `current_budget`, at most the SMs of the current context, which is the answer without a budget."""
    physical = physical_sms(device_index(device))
    budget = current_budget(device)
    return physical if budget is None else min(budget, physical)


def set_num_sms(sms: int | None, device: Any = None) -> None:
    """Limit launches on ``device`` to ``sms``, or lift the limit with None, until somebody sets another.

    Inside an `sm_budget` block this is a decision that outlives the block: the block restores nothing over it.
    Raises TypeError unless ``sms`` is an integer, ValueError below 1.
    """
    key = _key(device)
    if sms is None:
        _budgets.set(MappingProxyType({other: kept for other, kept in _budgets.get().items() if other != key}))
    else:
        _put(key, _Budget(_integer("sms", sms, least=1)))


@contextmanager
def sm_budget(reserve: int = 2, *, device: Any = None) -> Iterator[int]:
    """Leave ``reserve`` SMs of ``device`` free in the block and yield how many a launch in it may take.

    That is the smaller of (SMs of the current context - ``reserve``) and the budget already in force, rounded down to
    even. Both are measured from the whole, so nested budgets do not add up. The architecture plays no part: a grid
    barrier needs the reserve wherever it runs. Put around the launch only; whatever else runs in the block is limited
    too. On leaving, by whatever exception, the budget found on entry is in force again, unless the block set one
    itself with `set_num_sms`, which is kept.

    Raises ValueError if fewer than 2 SMs are left or ``reserve`` is below 0, TypeError if ``reserve`` is no integer,
    NoDevice if there is none; RuntimeError where another thread or task leaves it, which cannot lift the limit of the
    one that entered.
    """
    index = device_index(device)
    key = _key(index)
    before = _budgets.get().get(key)
    target = _target(index, _integer("reserve", reserve, least=0), None if before is None else before.sms)
    ours = _Budget(target, _entered.set(True))
    try:
        _put(key, ours)
        yield target
    finally:
        try:
            _take_back(key, ours, before)
        except BaseException:
            # an interrupt can arrive between the reading and the writing; taking back twice changes nothing
            _take_back(key, ours, before)
            raise


def workspace_key(kernel: str, *sizes: Hashable, uses_sms: bool, device: Any = None) -> tuple[Hashable, ...]:
    """Return the cache key of a workspace of ``kernel`` that is laid out by ``sizes``.

    ``uses_sms`` says whether size or layout also depend on the number of SMs: then the key carries the budget, and
    must be asked for (and the workspace allocated) inside it. Give sizes and names, never an ``id()``, which a later
    object can have too. Raises ValueError if ``uses_sms`` and no budget is in force.
    """
    index = device_index(device)
    if not uses_sms:
        return (kernel, index, *sizes)
    budget = current_budget(index)
    if budget is None:
        raise ValueError(
            f"workspace of {kernel} on device {index}: it depends on the number of SMs, so allocate it inside "
            "the sm_budget of its launch; no budget is in force"
        )
    return (kernel, index, *sizes, ("num_sms", budget))


def _target(device: int, reserve: int, outer: int | None) -> int:
    physical = physical_sms(device)
    free = physical - reserve if outer is None else min(physical - reserve, outer)
    if free < _PAIR:
        limit = "no outer budget" if outer is None else f"outer budget {outer}"
        raise ValueError(
            f"sm_budget on device {device}: {max(free, 0)} of {physical} SMs left ({reserve} reserved, {limit}); "
            f"a launch with a grid barrier needs at least {_PAIR}"
        )
    return free - free % _PAIR


def _key(device: Any) -> _Key:
    # a virtual GPU's device 0 is not the machine's
    return source(), device_index(device)


def _put(key: _Key, budget: _Budget) -> None:
    _budgets.set(MappingProxyType({**_budgets.get(), key: budget}))


def _take_back(key: _Key, ours: _Budget, before: _Budget | None) -> None:
    """Put ``before`` in the place of ``ours``; a budget that somebody set meanwhile stays."""
    _check_is_ours(key, ours)
    budgets = dict(_budgets.get())
    if budgets.get(key) is not ours:
        return
    del budgets[key]
    if before is not None:
        budgets[key] = before
    _budgets.set(MappingProxyType(budgets))


def _check_is_ours(key: _Key, ours: _Budget) -> None:
    """Raise RuntimeError in another thread or task than the one that entered."""
    assert ours.entered is not None
    try:
        _entered.reset(ours.entered)
    except ValueError:
        raise RuntimeError(
            f"sm_budget on device {key[1]}: left in another thread or task than the one that entered it, "
            f"where launches stay limited to {ours.sms} SMs: leave it there"
        ) from None
    except RuntimeError:
        # used already, by an attempt that an interrupt ended
        return


def _integer(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name}: want an integer >= {least}, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: want an integer >= {least}, got {value!r}") from None
    if number < least:
        raise ValueError(f"{name}: want an integer >= {least}, got {number}")
    return number
