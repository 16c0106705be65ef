"""Launches and budgets: corners reached, faults of grids shrunk to the launch that shows them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.vendor.pretty import pretty

from harness.device import target_of
from harness.launch import DoesNotFit
from harness.strategies.launches import ARCHS, COUNTS, Budgets, Launch, budgets, launches


def room(launch, reserved=None):
    """Blocks that are resident at the same time, clusters aside."""
    return max(0, launch.num_sms - (launch.reserved if reserved is None else reserved)) * launch.blocks_per_sm


def refused(launch):
    try:
        launch.safe_grid()
    except DoesNotFit as refusal:
        return str(refusal)
    return ""


def test_every_corner_of_a_launch_is_reached(reach):
    corners = {
        "one below what is resident": lambda launch: launch.wanted == room(launch) - 1 > 0,
        "all that is resident": lambda launch: launch.wanted == room(launch) > 0,
        "one more than is resident": lambda launch: launch.wanted == room(launch) + 1 > 1,
        "more than the SM count, all resident": lambda launch: launch.num_sms < launch.wanted <= room(launch),
        "at most the SM count, not all resident": lambda launch: room(launch) < launch.wanted <= launch.num_sms,
        "no SM holds a block": lambda launch: launch.blocks_per_sm == 0,
        "one block an SM": lambda launch: launch.blocks_per_sm == 1,
        "more than eight blocks an SM": lambda launch: launch.blocks_per_sm > 8,
        "nothing reserved": lambda launch: launch.reserved == 0,
        "all reserved": lambda launch: launch.reserved == launch.num_sms,
        "more reserved than there is": lambda launch: launch.reserved > launch.num_sms,
        "all but one reserved": lambda launch: launch.reserved == launch.num_sms - 1,
        "an odd count": lambda launch: launch.num_sms % 2 == 1,
        "pairs on an odd count": lambda launch: launch.num_sms % 2 == 1 and launch.clusters == 2,
        "pairs on an even count": lambda launch: launch.num_sms % 2 == 0 and launch.clusters == 2,
        "an even grid from an odd wish": lambda launch: launch.even and launch.wanted % 2 == 1,
        "the reserve matters": lambda launch: room(launch) < launch.wanted <= room(launch, 0),
        "a refusal": lambda launch: refused(launch) != "",
        "a grid": lambda launch: refused(launch) == "",
    }
    corners |= {f"target {arch}": (lambda launch, arch=arch: launch.arch == arch) for arch in ARCHS}
    reach(launches(), corners)


def test_every_count_of_the_contracts_is_drawn(examples):
    assert {launch.num_sms for launch in examples(launches(), 400)} == set(COUNTS)


@given(launches(archs=("sm_120", "gfx942"), counts=(7, 8), clusters=False))
def test_launches_stay_within_what_was_asked_for(launch):
    assert launch.arch in ("sm_120", "gfx942")
    assert launch.num_sms in (7, 8)
    assert launch.clusters == 1


@given(launches())
def test_pairs_are_drawn_only_where_the_target_has_them(launch):
    assert launch.clusters == 1 or "clusters" in target_of(launch.arch).capabilities


@given(st.one_of(launches(), budgets()))
def test_the_repr_evaluates_to_the_spec_and_is_short(spec):
    assert eval(repr(spec), {"Launch": Launch, "Budgets": Budgets}) == spec
    assert pretty(spec) == repr(spec)
    assert len(repr(spec)) < 200


def granted(launch):
    try:
        return launch.safe_grid().grid
    except DoesNotFit:
        return 0


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        pytest.param(
            lambda launch: launch.wanted > room(launch) > 0, {"num_sms": 48, "shared": 0}, id="more than are resident"
        ),
        pytest.param(
            lambda launch: launch.shared and launch.blocks_per_sm == 0,
            {"wanted": 1, "shared": 232_449},
            id="a block that no SM holds",
        ),
        pytest.param(
            lambda launch: 0 < room(launch) < launch.wanted <= room(launch, 0),
            {"num_sms": 48, "reserved": 2, "shared": 0, "clusters": 1},
            id="reserve forgotten",
        ),
        pytest.param(
            lambda launch: launch.clusters == 2 and launch.num_sms % 2 == 1, {"num_sms": 49}, id="pairs on an odd count"
        ),
        pytest.param(lambda launch: granted(launch) % 2 == 1, {"wanted": 1, "even": False}, id="an odd grid"),
        pytest.param(
            lambda launch: launch.reserved >= launch.num_sms, {"reserved": 48, "wanted": 1}, id="all SMs reserved"
        ),
    ],
)
def test_a_fault_of_a_grid_shrinks_to_a_plain_launch(minimal, fault, found):
    shown = vars(minimal(launches(archs=("sm_90",)), fault))
    plain = {"arch": "sm_90", "num_warps": 4, "registers": 32} | found
    assert {name: shown[name] for name in plain} == plain


def test_every_corner_of_a_nest_of_budgets_is_reached(reach):
    def reserves(spec):
        return [amount for kind, amount in spec.steps if kind == "reserve"]

    def limits(spec):
        return [amount for kind, amount in spec.steps if kind == "set"]

    corners = {
        "no budget": lambda spec: not spec.steps,
        "the same reserve twice": lambda spec: len(reserves(spec)) > len(set(reserves(spec))),
        "a reserve in a budget": lambda spec: [kind for kind, _ in spec.steps[:2]] == ["set", "reserve"],
        "a budget in a reserve": lambda spec: [kind for kind, _ in spec.steps[:2]] == ["reserve", "set"],
        "outer budget 1": lambda spec: spec.steps[:1] == (("set", 1),),
        "a budget above what there is": lambda spec: max(limits(spec), default=0) > spec.physical,
        "nothing reserved": lambda spec: 0 in reserves(spec),
        "all reserved": lambda spec: spec.physical in reserves(spec),
        "more reserved than there is": lambda spec: max(reserves(spec), default=0) > spec.physical,
        "one SM left": lambda spec: spec.physical - 1 in reserves(spec),
        "an odd number left": lambda spec: any((spec.physical - amount) % 2 for amount in reserves(spec)),
        "a device of one SM": lambda spec: spec.physical == 1,
        "an exception in the innermost": lambda spec: spec.raises_at == len(spec.steps) - 1,
        "an exception further out": lambda spec: spec.raises_at is not None and spec.raises_at < len(spec.steps) - 1,
        "no exception": lambda spec: spec.raises_at is None and len(spec.steps) > 1,
        "four deep": lambda spec: len(spec.steps) == 4,
    }
    reach(budgets(), corners)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        pytest.param(
            lambda spec: sum(amount for kind, amount in spec.steps if kind == "reserve") > 0,
            Budgets(physical=48, steps=(("reserve", 2),)),
            id="a reserve",
        ),
        pytest.param(
            lambda spec: [kind for kind, amount in spec.steps if amount].count("reserve") > 1,
            Budgets(physical=48, steps=(("reserve", 2), ("reserve", 2))),
            id="reserves that add up",
        ),
        pytest.param(
            lambda spec: spec.raises_at is not None,
            Budgets(physical=48, steps=(("reserve", 0),), raises_at=0),
            id="not restored after an exception",
        ),
        pytest.param(
            lambda spec: ("set", 1) in spec.steps, Budgets(physical=48, steps=(("set", 1),)), id="a budget of 1"
        ),
    ],
)
def test_a_fault_of_budgets_shrinks_to_the_steps_that_show_it(minimal, fault, found):
    assert minimal(budgets(), fault) == found


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: launches(archs=()), "archs"),
        (lambda: launches(archs=("sm_75",)), "archs"),
        (lambda: launches(counts=()), "counts"),
        (lambda: launches(counts=(0,)), "counts"),
        (lambda: budgets(counts=(0,)), "counts"),
        (lambda: budgets(max_steps=-1), "max_steps"),
        (lambda: Launch(wanted=0), "wanted"),
        (lambda: Launch(wanted=1, arch="sm_75"), "arch"),
        (lambda: Launch(wanted=1, num_sms=0), "num_sms"),
        (lambda: Launch(wanted=1, reserved=-1), "reserved"),
        (lambda: Budgets(physical=0), "physical"),
        (lambda: Budgets(physical=4, steps=(("set", 0),)), "steps"),
        (lambda: Budgets(physical=4, steps=(("take", 1),)), "steps"),
        (lambda: Budgets(physical=4, raises_at=0), "raises_at"),
    ],
)
def test_impossible_arguments_are_refused_by_name(call, named):
    with pytest.raises(ValueError, match=f"^{named}: wanted"):
        call()
