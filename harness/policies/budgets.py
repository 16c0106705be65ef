"""SM budgets: how many SMs a launch may take, who may say so, and what is in force again afterwards."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from harness.injector import inject
from harness.launch import sm_budget
from harness.launch.physical import Described, physical_from
from harness.policies.saying import accepts, differs, standing_in
from harness.state import register_state, unregister_state

#: SMs of the device, reserve, outer budget (None: nobody set one), what a launch may take.
_TARGETS = (
    (148, 2, None, 146),
    (148, 0, None, 148),
    (148, 2, 131, 130),
    (148, 40, 131, 108),
    (148, 2, 200, 146),
    (78, 3, None, 74),
    (4, 2, None, 2),
    (2, 0, None, 2),
    (9, 2, 2, 2),
)
#: SMs of the device, reserve, outer budget, what the refusal says.
_TOO_FEW = (
    (3, 2, None, "device 0: 1 of 3 SMs left (2 reserved, no outer budget)"),
    (148, 2, 1, "device 0: 1 of 148 SMs left (2 reserved, outer budget 1)"),
    (148, 148, None, "device 0: 0 of 148 SMs left"),
    (148, 200, 100, "device 0: 0 of 148 SMs left"),
)


class Devices(Described):
    """Several devices; ``current`` is the one that a launch without a device would use."""

    def __init__(self, *units: int) -> None:
        super().__init__(units[0])
        self._all = units
        self.current = 0

    def current_device(self) -> int:
        return self.current

    def count(self, device: int) -> int:
        return self._all[device]


def _entered(reserve: Any, device: Any = None) -> int:
    with sm_budget.sm_budget(reserve, device=device) as sms:
        return int(sms)


def a_budget_is_the_smaller_one_rounded_down_to_even() -> Iterator[str]:
    """Reserves are taken from the whole, and at least a pair is left."""
    for physical, reserve, outer, target in _TARGETS:
        with physical_from(Described(physical)):
            sm_budget.set_num_sms(outer)
            with sm_budget.sm_budget(reserve) as sms:
                inside = (sms, sm_budget.current_budget(), sm_budget.available_sms())
            what = f"{physical} SMs, {reserve} reserved, budget {outer}"
            yield from differs(what, inside, (target, target, target))
            yield from differs(f"{what}, afterwards", sm_budget.current_budget(), outer)
            yield from differs(f"{what}, to be had", sm_budget.available_sms(), min(outer or physical, physical))
    for physical, reserve, outer, words in _TOO_FEW:
        with physical_from(Described(physical)):
            sm_budget.set_num_sms(outer)
            yield from accepts(words, ValueError, words, partial(_entered, reserve))
            yield from differs(f"after the refusal, {words}", sm_budget.current_budget(), outer)


def nested_budgets_do_not_add_up() -> Iterator[str]:
    """Each takes its reserve from the whole; on leaving the outer one is in force again."""
    with physical_from(Described(148)), sm_budget.sm_budget(2) as outer:
        with sm_budget.sm_budget(2) as inner, sm_budget.sm_budget(20) as third:
            yield from differs("the same reserve twice, and a larger one", (outer, inner, third), (146, 146, 128))
        yield from differs("after the inner ones", sm_budget.current_budget(), 146)


def every_device_has_its_own() -> Iterator[str]:
    """A budget is of one device, named in any way, and lifting one leaves the other."""
    devices = Devices(148, 78)
    with physical_from(devices):
        with sm_budget.sm_budget(device=1) as sms:
            yield from differs("device 1", (sms, sm_budget.current_budget("cuda:1")), (76, 76))
            yield from differs("device 0 meanwhile", sm_budget.current_budget(0), None)
        sm_budget.set_num_sms(100, device=0)
        sm_budget.set_num_sms(50, device=1)
        sm_budget.set_num_sms(None, device=0)
        both = (sm_budget.current_budget(0), sm_budget.current_budget(1))
        yield from differs("after the first is lifted", both, (None, 50))
        devices.current = 1
        yield from differs("the current device", sm_budget.available_sms(), 50)


def a_decision_in_the_block_outlives_it() -> Iterator[str]:
    """What the block sets itself is kept, the same number too; what it lifts stays lifted."""
    for chosen, kept in ((64, 64), (146, 146), (None, None)):
        with physical_from(Described(148)):
            sm_budget.set_num_sms(None)
            with sm_budget.sm_budget():
                sm_budget.set_num_sms(chosen)
            yield from differs(f"set to {chosen} inside", sm_budget.current_budget(), kept)


def an_exception_at_any_step_leaves_the_budget_as_it_was() -> Iterator[str]:
    """Whatever raises, in the block or in a step of entering or leaving it, with a budget outside or without."""
    with physical_from(Described(148)):
        for outer in (None, 100):
            sm_budget.set_num_sms(outer)
            for error in (ValueError, KeyboardInterrupt):
                with contextlib.suppress(error), sm_budget.sm_budget():
                    raise error
                yield from differs(f"{error.__name__} with a budget of {outer}", sm_budget.current_budget(), outer)
            register_state("budget of a policy", sm_budget.current_budget, sm_budget.set_num_sms)
            try:
                tried = inject(sm_budget.sm_budget, lambda sms: sm_budget.current_budget())
            finally:
                unregister_state("budget of a policy")
            yield from (f"with a budget of {outer}: {leak}" for leak in tried.leaks)


def threads_have_their_own() -> Iterator[str]:
    """A budget is not seen by another thread, and one that another thread leaves stays in force, and says so."""
    with physical_from(Described(148)):
        inside = sm_budget.sm_budget()
        inside.__enter__()
        seen = _in_thread(lambda: sm_budget.current_budget(0))
        yield from differs("in another thread", seen, None)
        said = _in_thread(lambda: _left(inside))
        yield from differs("left by another thread", "left in another thread or task" in str(said), True)
        yield from differs("afterwards", sm_budget.current_budget(), 146)


def _left(block: Any) -> str:
    try:
        block.__exit__(None, None, None)
    except RuntimeError as error:
        return str(error)
    return "nothing"


def _in_thread(call: Callable[[], Any]) -> Any:
    """Return what ``call`` returns in a thread that starts with nothing of this one's."""
    found: list[Any] = []
    thread = threading.Thread(target=contextvars.Context().run, args=(lambda: found.append(call()),))
    with standing_in(threading, excepthook=lambda given: found.append(given.exc_value)):
        thread.start()
        thread.join()
    return found[0]


def what_is_no_number_of_sms_is_refused() -> Iterator[str]:
    """A reserve is an integer from 0, a limit one from 1; a workspace that depends on the SMs needs a budget."""
    with physical_from(Described(148)):
        for wrong in (True, 2.0, "2", None):
            words = "reserve: want an integer >= 0"
            yield from accepts(f"a reserve of {wrong!r}", TypeError, words, partial(_entered, wrong))
        yield from accepts("a reserve of -1", ValueError, "reserve: want an integer >= 0", lambda: _entered(-1))
        yield from differs("a reserve of 0", _entered(0), 148)
        for wrong in (0, -2):
            words = "sms: want an integer >= 1"
            yield from accepts(f"{wrong} SMs", ValueError, words, partial(sm_budget.set_num_sms, wrong))
        sm_budget.set_num_sms(1)
        yield from differs("a limit of 1", sm_budget.available_sms(), 1)
        sm_budget.set_num_sms(None)
        key = sm_budget.workspace_key
        yield from differs("of sizes alone", key("k", 64, uses_sms=False), ("k", 0, 64))
        words = "workspace of k on device 0"
        yield from accepts("outside of a budget", ValueError, words, lambda: key("k", 64, uses_sms=True))
        with sm_budget.sm_budget(2):
            yield from differs("in a budget", key("k", 64, uses_sms=True), ("k", 0, 64, ("num_sms", 146)))
            yield from differs("of sizes, in a budget", key("k", 64, uses_sms=False), ("k", 0, 64))


RIGHT = (
    a_budget_is_the_smaller_one_rounded_down_to_even,
    nested_budgets_do_not_add_up,
    every_device_has_its_own,
    a_decision_in_the_block_outlives_it,
    an_exception_at_any_step_leaves_the_budget_as_it_was,
    threads_have_their_own,
    what_is_no_number_of_sms_is_refused,
)
