"""What must hold of constraints, ledger and injector; a check is called with the modules to judge."""

import contextlib
import itertools
import os
import random

import pytest

CHECKS = {}
NAME = "KERNEL_HARNESS_TEST_STATE"


def check(function):
    CHECKS[function.__name__] = function
    return function


@check
def an_unknown_constraint_is_rejected(api):
    with pytest.raises(TypeError, match="did you mean 'block_m'"), api.constraints.constraints(block_size_m=64):
        pass


@check
def constraints_are_restored_after_an_exception(api):
    with contextlib.suppress(ValueError), api.constraints.constraints(num_stages=2):
        raise ValueError
    assert api.constraints.current_constraints() == api.constraints.Constraints()


@check
def constraints_nest(api):
    with api.constraints.constraints(num_stages=2), api.constraints.constraints(block_m=64) as both:
        assert (both.num_stages, both.block_m) == (2, 64)


@check
def crossed_threads_have_their_own_constraints(api):
    stages = itertools.cycle((2, 3))
    crossing = api.injector.cross_threads(
        lambda: api.constraints.constraints(num_stages=next(stages)), api.constraints.current_constraints
    )
    assert not crossing.problems, str(crossing)


@check
def a_constraint_has_its_type(api):
    with pytest.raises(TypeError), api.constraints.constraints(num_stages=True):
        pass


@check
def each_target_gets_its_form(api):
    forms = {arch: api.constraints.choose_form(arch, "3.7.1").name for arch in ("sm_80", "sm_90", "sm_100", "sm_120")}
    assert list(forms.values()) == ["non-persistent", "non-persistent", "persistent-scatter", "persistent-store"]


@check
def what_does_not_fit_is_refused(api):
    limits = api.constraints.Constraints(is_persistent=True, num_stages=5)
    with pytest.raises(api.constraints.NoForm, match="131104 bytes"):
        api.constraints.choose_form("sm_120", "3.7.1", limits)


@check
def the_non_persistent_form_has_warps(api):
    with pytest.raises(api.constraints.NoForm, match="at least 2 warps"):
        api.constraints.choose_form("sm_90", "3.7.1", api.constraints.Constraints(num_warps=1))


@check
def shared_memory_is_the_compilers(api):
    sizes = [api.constraints.choose_form(arch, "3.7.1").shared_bytes for arch in ("sm_90", "sm_100", "sm_120")]
    assert sizes == [98_304, 131_120, 65_552]


@check
def the_ledger_sees(api):
    before = api.state.snapshot()
    random.random()
    try:
        os.environ[NAME] = "1"
        assert [str(item) for item in api.state.diff(before, api.state.snapshot())] == [
            f"environment['{NAME}']: unset -> '1'"
        ]
    finally:
        del os.environ[NAME]


@check
def the_ledger_puts_back(api):
    before = api.state.snapshot()
    os.environ[NAME] = "1"
    try:
        api.state.restore(before)
        assert NAME not in os.environ
    finally:
        os.environ.pop(NAME, None)


@contextlib.contextmanager
def shared_value(api):
    """A registered state that a check can change."""
    value = {"now": 0}
    api.state.register_state("shared", lambda: value["now"], lambda wanted: value.update(now=wanted))
    try:
        yield value
    finally:
        api.state.unregister_state("shared")


@check
def the_ledger_says_what_it_cannot_put_back(api):
    value = [0]
    api.state.register_state("stuck", lambda: value[0], lambda wanted: None)
    before = api.state.snapshot()
    value[0] = 1
    assert api.state.restore(before) == ("stuck",)


@check
def the_injector_finds_what_leaks(api):
    with shared_value(api) as value:

        @contextlib.contextmanager
        def sets_before_try():
            value.update(now=1)
            try:
                yield
            finally:
                value.update(now=0)

        @contextlib.contextmanager
        def without_finally():
            value.update(now=1)
            yield
            value.update(now=0)

        assert [leak.step.call for leak in api.injector.inject(sets_before_try).leaks] == ["dict.update"]
        assert "the body" in [leak.step.call for leak in api.injector.inject(without_finally).leaks]


@check
def the_injector_puts_back(api):
    with shared_value(api) as value:

        @contextlib.contextmanager
        def forgets():
            value.update(now=value["now"] + 1)
            yield

        injection = api.injector.inject(forgets)
        assert {str(leak.differences[0]) for leak in injection.leaks} == {"shared: 0 -> 1"}
        assert value["now"] == 0


@check
def crossing_finds_what_is_shared(api):
    with shared_value(api) as value:

        @contextlib.contextmanager
        def saves_and_restores():
            before = value["now"]
            value.update(now=before + 1)
            try:
                yield
            finally:
                value.update(now=before)

        problems = api.injector.cross_threads(saves_and_restores, lambda: value["now"]).problems
        assert "enter B, enter A, exit B, exit A: B reads 2 inside, expected 1" in problems
