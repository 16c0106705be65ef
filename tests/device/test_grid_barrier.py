"""The grid barrier on a real device: resident grids pass, others time out with a report, and nothing ever hangs.

Each test reads what one program of ``barrier_programs`` found in a process of its own, with a deadline.  ``-s`` shows
the measurements.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cuda, pytest.mark.isolated(alone=True)]

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60
H200 = 132
SOME_BLOCK = range(4096)


@pytest.fixture
def measured(child_environment):
    """What a program, given by name, found."""

    def run(program, of="barrier_programs", *more):
        done = subprocess.run(
            [sys.executable, "-m", f"tests.device.{of}", *more, program],
            cwd=ROOT,
            env=child_environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        line = done.stdout.splitlines()[-1]
        sys.stdout.write(f"\n{program}: {line}\n")
        return json.loads(line)

    return run


def passes(run):
    """Every block passed and saw its neighbour's data, and the words are ready for the next launch."""
    return run["passed"] == run["blocks"] and run["clean"] and not run["wrong"] and not run["report"][0]


def times_out(run, arrived):
    """No block passed, one reported that ``arrived`` had come, and the words are ready for the next launch."""
    reported, block, phase, came, wanted = run["report"]
    return (
        (run["passed"], run["clean"], run["wrong"]) == (0, True, 0)
        and (reported, phase, came, wanted) == (1, 1, arrived, run["blocks"])
        and block in SOME_BLOCK
    )


def test_the_widest_resident_grid_passes_and_one_block_more_times_out(measured):
    found = measured("resident")
    bound, runs = found["bound"], found["runs"]
    if found["sms"] == H200:
        assert bound == 264
    assert [run["blocks"] for run in runs] == [bound, bound + 1, bound, bound + 8, bound]
    assert times_out(runs[1], arrived=bound), runs[1]
    assert times_out(runs[3], arrived=bound), runs[3]
    assert all(passes(run) for run in runs[::2]), runs
    assert found["message"].startswith("grid barrier timeout: block ")
    assert found["message"].endswith(f", phase 1, arrived {bound} of {bound + 1}")


def test_with_two_sms_held_the_full_grid_times_out_and_the_reserved_one_passes(measured):
    found = measured("held")
    assert len(set(found["held"])) == 2, found
    ours, theirs = (-(-registers // 8) * 8 * 1024 for registers in found["registers"])
    assert ours + theirs > 65_536, f"a held SM has room for a block: {found}"
    full, reserved = found["full"], found["reserved"]
    if found["sms"] == H200:
        assert (full["blocks"], found["budget"], reserved["blocks"]) == (264, 130, 260)
    assert times_out(full, arrived=full["blocks"] - 4), full
    assert passes(reserved), reserved
    assert passes(found["after"]), found["after"]


@pytest.mark.sm90
@pytest.mark.sm100
@pytest.mark.sm103
@pytest.mark.sm120
def test_in_green_contexts_the_bound_is_the_contexts_own(measured):
    found = measured("green")
    assert [context["units"] for context in found["contexts"]] == [96, 64, 40]
    for context in found["contexts"]:
        assert context["available"] == context["units"] < context["properties"]
        assert context["bound"] == 2 * context["units"]
        clamped, one_more, whole, again = context["runs"]
        assert whole["blocks"] == found["whole"]
        assert passes(clamped), clamped
        assert times_out(one_more, arrived=context["bound"]), one_more
        assert times_out(whole, arrived=context["bound"]), whole
        assert passes(again), again
    assert passes(found["after"]), found["after"]


def late_block_is_waited_for(found):
    """The others wait for a block that the host holds back, and see what it stored after that."""
    first, last = found["waited"]
    bound = found["bound"]
    assert (first["late"], last["late"]) == (0, bound - 1)
    for run in (first, last):
        assert (run["waiting"], run["early"], run["reported"]) == (bound - 1, 0, 0), run
        assert passes(run), run


def test_a_late_block_is_waited_for_until_the_others_give_up(measured):
    found = measured("late", "late_programs")
    late_block_is_waited_for(found)
    given_up = found["given_up"]
    assert (given_up["waiting"], given_up["reported"]) == (found["bound"] - 1, 1), given_up
    assert times_out(given_up, arrived=found["bound"] - 1), given_up
    assert passes(found["after"]), found["after"]


def reservations_are_given_back(found):
    """Whatever was held back when the exception came, the next launch sees all of the device."""
    assert list(found["attempts"]) == ["in_a_budget", "in_a_launch", "beside_a_hog"]
    for attempt, run in found["attempts"].items():
        assert run["raised"], attempt
        assert run["budget"] == [(found["sms"] - 2) // 2 * 2], (attempt, run)
        assert (run["available"], run["budget_left"]) == (found["sms"], None), (attempt, run)
        assert run["after"]["blocks"] == found["bound"], (attempt, run)
        assert passes(run["after"]), (attempt, run)


def test_an_exception_inside_a_budget_gives_back_what_was_reserved(measured):
    reservations_are_given_back(measured("interrupted", "late_programs"))


@pytest.mark.sm90
@pytest.mark.sm100
@pytest.mark.sm103
@pytest.mark.sm120
def test_an_exception_inside_a_budget_of_a_green_context_gives_back_both(measured):
    found = measured("green_interrupted", "late_programs")
    assert found["raised"]
    assert (found["budgets"], found["inside"]) == ([62], [64])
    assert (found["available"], found["budget_left"]) == (found["sms"], None)
    assert passes(found["after"]), found["after"]


@pytest.mark.parametrize(
    ("module", "old", "new", "program", "check"),
    [
        ("grid_barrier", "needed = phase * blocks", "needed = phase * blocks - 1", "late", late_block_is_waited_for),
        ("sm_budget", "if budgets.get(key) is not ours:", "if True:", "interrupted", reservations_are_given_back),
    ],
    ids=["one too few is enough", "a budget stays"],
)
def test_a_fault_planted_in_what_is_launched_is_found(measured, module, old, new, program, check):
    found = measured(program, "planted_programs", module, old, new)
    with pytest.raises(AssertionError):
        check(found)


def test_a_hundred_thousand_launches_publish_what_they_stored(measured):
    found = measured("many")
    assert found["launches"] == 100_000
    assert found["wrong"] == 0
    assert found["clean"]


def test_captures_report_and_threads_take_turns(measured):
    found = measured("host")
    assert "the first launch is being captured" in found["refused"]
    bound = found["bound"]
    assert len(found["messages"]) == 2
    assert all(message.endswith(f"phase 1, arrived {bound} of {bound + 1}") for message in found["messages"])
    assert found["captured_passed"] == bound
    assert found["threads"] == [0, 0]
    assert found["wrong"] == 0
