"""Faults planted in constraints, the ledger and the injector: one change of source each."""

from tests.teeth.planted import Planted


class StateFault(Planted):
    """In ``harness/FILE``, ``old``, which stands there once, becomes ``new``; ``check`` must fail.

    ``check`` names one of ``tests.teeth.budget_checks`` or ``state_checks``.
    """


def _constraints(name: str, old: str, new: str, check: str) -> StateFault:
    return StateFault(name, "launch/constraints.py", old, new, check)


#: Stands in for a context variable, and is everybody's.
GLOBAL = """class _Global:
    def __init__(self, value):
        self.value = value
    def get(self):
        return self.value
    def set(self, value):
        self.value = value


"""

FAULTS = (
    _constraints(
        "unknown constraint accepted",
        "        if name not in known:\n",
        "        if False:\n",
        "an_unknown_constraint_is_rejected",
    ),
    _constraints(
        "constraint restored outside finally",
        "    finally:\n        _current.set(outer)",
        "    except LookupError:\n        raise\n    _current.set(outer)",
        "constraints_are_restored_after_an_exception",
    ),
    _constraints(
        "inner scope forgets the outer",
        "inner = replace(outer, **values)",
        "inner = Constraints(**values)",
        "constraints_nest",
    ),
    _constraints(
        "constraints in a global",
        "_current: contextvars.ContextVar[Constraints] = "
        'contextvars.ContextVar("moe_scatter_constraints", default=_FREE)',
        f"{GLOBAL}_current = _Global(_FREE)",
        "crossed_threads_have_their_own_constraints",
    ),
    _constraints(
        "booleans taken for numbers of stages",
        "if type(value) is not type(allowed[0]):",
        "if not isinstance(value, type(allowed[0])):",
        "a_constraint_has_its_type",
    ),
    _constraints(
        "gather asked where scatter is meant",
        'for operation in ("gather", "scatter"))',
        'for operation in ("gather", "gather"))',
        "each_target_gets_its_form",
    ),
    _constraints(
        "lowered taken for native",
        '("lowered" in needed and not forced)',
        "False",
        "each_target_gets_its_form",
    ),
    _constraints(
        "shared memory unchecked", "        if needed <= limit:", "        if True:", "what_does_not_fit_is_refused"
    ),
    _constraints(
        "one warp allowed to the non-persistent form",
        '    if name == "non-persistent" and num_warps == 1:',
        "    if False:",
        "the_non_persistent_form_has_warps",
    ),
    StateFault(
        "one buffer too few",
        "launch/scatter_shared.py",
        "num_stages if asynchronous else max(num_stages - 1, 1)",
        "max(num_stages - 1, 1)",
        "shared_memory_is_the_compilers",
    ),
    StateFault(
        "scattered rows not counted",
        "launch/scatter_shared.py",
        "_bytes(tile.m * tile.n, operands.output) if scatters else 0",
        "0",
        "shared_memory_is_the_compilers",
    ),
    StateFault(
        "new variable left in the environment",
        "state_readers.py",
        "        del os.environ[name]",
        "        pass",
        "the_ledger_puts_back",
    ),
    StateFault(
        "added keys not compared",
        "state.py",
        "for key in [*old, *(key for key in new if key not in old)]:",
        "for key in old:",
        "the_ledger_sees",
    ),
    StateFault(
        "generators counted as leaks",
        "state.py",
        "if not consumables and name in known and known[name].consumable:",
        "if False:",
        "the_ledger_sees",
    ),
    StateFault(
        "failed restoration unnoticed",
        "state.py",
        "        if _read(state) != wanted:\n            failed.append(name)",
        "        continue",
        "the_ledger_says_what_it_cannot_put_back",
    ),
    StateFault(
        "injector blind to what follows a call",
        "injector.py",
        '        if when == "after" and not self._interrupts:\n',
        '        if when == "after":\n',
        "the_injector_finds_what_leaks",
    ),
    StateFault(
        "body never fails as a whole",
        "injector.py",
        '        self._step("after", "the body", "its end")',
        "        pass",
        "the_injector_finds_what_leaks",
    ),
    StateFault(
        "leak of one run blamed on the next",
        "injector.py",
        "                restore(before)\n",
        "                pass\n",
        "the_injector_puts_back",
    ),
    StateFault(
        "threads not crossed",
        "thread_crossing.py",
        "    for thread in (0, 1):\n",
        "    for thread in (0, 1) if done[0] == 2 else (0,):\n",
        "crossing_finds_what_is_shared",
    ),
)
