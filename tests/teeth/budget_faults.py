"""Faults planted in SM budgets and launch leases: one change of source each."""

from tests.teeth.state_faults import GLOBAL, StateFault


def _budget(name: str, old: str, new: str, check: str) -> StateFault:
    return StateFault(name, "launch/sm_budget.py", old, new, check)


def _physical(name: str, old: str, new: str, check: str) -> StateFault:
    return StateFault(name, "launch/physical.py", old, new, check)


def _lease(name: str, old: str, new: str, check: str) -> StateFault:
    return StateFault(name, "launch/lease.py", old, new, check)


_RESTORE = """    finally:
        try:
            _take_back(key, ours, before)
        except BaseException:
            # an interrupt can arrive between the reading and the writing; taking back twice changes nothing
            _take_back(key, ours, before)
            raise
"""

FAULTS = (
    _budget(
        "budget restored outside finally",
        _RESTORE,
        "    except LookupError:\n        raise\n    _take_back(key, ours, before)\n",
        "a_budget_is_restored_after_an_exception",
    ),
    _budget(
        "budget restored after ordinary exceptions only",
        _RESTORE,
        "    except Exception:\n        _take_back(key, ours, before)\n        raise\n"
        "    _take_back(key, ours, before)\n",
        "a_budget_is_restored_after_an_exception",
    ),
    _budget(
        "budget set before the try",
        "    try:\n        _put(key, ours)\n        yield target\n",
        "    _put(key, ours)\n    try:\n        yield target\n",
        "a_budget_survives_interrupts",
    ),
    _budget(
        "whoever leaves a budget is let go",
        "    _check_is_ours(key, ours)\n",
        "",
        "who_did_not_enter_a_budget_cannot_leave_it",
    ),
    _budget(
        "a budget is left where it is not in force",
        "    assert ours.entered is not None\n",
        "    if _budgets.get().get(key) is not ours:\n        return\n",
        "who_did_not_enter_a_budget_cannot_leave_it",
    ),
    _budget(
        "one attempt to take the budget back",
        _RESTORE,
        "    finally:\n        _take_back(key, ours, before)\n",
        "a_budget_survives_interrupts",
    ),
    _budget(
        "nested budgets compound",
        "physical - reserve if outer is None else min(physical - reserve, outer)",
        "(physical if outer is None else outer) - reserve",
        "nested_budgets_do_not_compound",
    ),
    _budget(
        "outer budget ignored",
        "physical - reserve if outer is None else min(physical - reserve, outer)",
        "physical - reserve",
        "the_outer_budget_counts",
    ),
    _budget("odd target", "return free - free % _PAIR", "return free", "targets_are_even"),
    _budget("target rounded up", "return free - free % _PAIR", "return free + free % _PAIR", "targets_are_even"),
    _budget(
        "too few SMs clamped to a pair",
        "    if free < _PAIR:",
        "    free = max(free, 2)\n    if False:",
        "too_few_are_refused",
    ),
    _budget("one SM taken for enough", "    if free < _PAIR:", "    if free < 1:", "too_few_are_refused"),
    _budget(
        "reserve skipped where the count is a Hopper's",
        "    physical = physical_sms(device)\n    free",
        "    physical = physical_sms(device)\n    reserve = 0 if physical in (114, 132) else reserve\n    free",
        "every_architecture_has_the_reserve",
    ),
    _budget(
        "what the body set is lost",
        "    if budgets.get(key) is not ours:\n        return\n    del budgets[key]",
        "    budgets.pop(key, None)",
        "what_the_body_sets_is_kept",
    ),
    _budget(
        "what the body set is told by its number",
        "    if budgets.get(key) is not ours:",
        "    if key not in budgets or budgets[key].sms != ours.sms:",
        "what_the_body_sets_is_kept",
    ),
    _budget(
        "budgets in a global",
        "_budgets: contextvars.ContextVar[Mapping[_Key, _Budget]] = contextvars.ContextVar(\n"
        '    "sm_budgets", default=MappingProxyType({})\n)',
        f"{GLOBAL}_budgets = _Global(MappingProxyType({{}}))",
        "crossed_threads_have_their_own_budgets",
    ),
    _budget(
        "budgets without a device",
        "    return source(), device_index(device)",
        "    return source(), 0",
        "devices_have_their_own_budgets",
    ),
    _budget(
        "budget without a source",
        "    return source(), device_index(device)",
        "    return None, device_index(device)",
        "sources_have_their_own_budgets",
    ),
    _budget(
        "booleans taken for integers", "    if isinstance(value, bool):", "    if False:", "a_reserve_is_an_integer"
    ),
    _budget("negative reserve taken", "    if number < least:", "    if False:", "a_reserve_is_an_integer"),
    _budget(
        "workspace key without the SMs",
        'return (kernel, index, *sizes, ("num_sms", budget))',
        "return (kernel, index, *sizes)",
        "a_workspace_carries_its_sms",
    ),
    _budget(
        "workspace key always with the SMs",
        "        return (kernel, index, *sizes)\n",
        "        return (kernel, index, *sizes, current_budget(index))\n",
        "a_workspace_that_needs_none_carries_none",
    ),
    _budget(
        "workspace outside its budget",
        '    if budget is None:\n        raise ValueError(\n            f"workspace',
        '    if False:\n        raise ValueError(\n            f"workspace',
        "a_workspace_carries_its_sms",
    ),
    _physical(
        "count cached without the device",
        "key = (device, asked.context(device))",
        "key = (0, asked.context(device))",
        "devices_have_their_own_counts",
    ),
    _physical(
        "count cached without the context",
        "key = (device, asked.context(device))",
        "key = (device, None)",
        "contexts_have_their_own_counts",
    ),
    _physical(
        "count cached for the process",
        "known = _counts.setdefault(asked, {})",
        "known = _counts.setdefault(_DRIVER, {})",
        "sources_have_their_own_budgets",
    ),
    _physical("count not cached", "        if key in known:", "        if False:", "a_count_is_asked_for_once"),
    _physical(
        "device without a number taken for the first",
        "        return _source.get().current_device()",
        "        return 0",
        "no_device_is_the_current_one",
    ),
    _lease(
        "lease kept after an exception",
        "    finally:\n        if slot.holder is lease:\n            slot.holder = None\n",
        "    except LookupError:\n        raise\n    slot.holder = None\n",
        "a_lease_is_given_back",
    ),
    _lease(
        "one lease for all devices", ".setdefault(index, _Slot())", ".setdefault(0, _Slot())", "leases_are_per_device"
    ),
    _lease(
        "lease given to everybody", "            if holder is None:", "            if True:", "a_lease_has_one_holder"
    ),
    _lease(
        "end of the kernel not waited for",
        "            slot.pending()\n            slot.pending = None",
        "            slot.pending = None",
        "a_lease_waits_for_the_kernel",
    ),
    _lease(
        "failed wait forgotten",
        "            slot.pending()\n            slot.pending = None",
        "            wait, slot.pending = slot.pending, None\n            wait()",
        "a_lease_stays_behind_a_failed_wait",
    ),
)
