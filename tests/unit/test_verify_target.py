"""``--target``: what the virtual GPU is, in the search's child, in the replay and in what a run leaves."""

import json
from importlib import import_module

import pytest

from harness import cli
from harness._child import _lane
from harness.verify import _runnable

MODULE = ("--module", "tests.unit.target_victims")


def main(capsys, *arguments):
    status = cli.main([*arguments, *MODULE])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def options(*arguments):
    return cli._parser().parse_args(["verify", "asks_its_target", *MODULE, *arguments])


def lane(target):
    return _lane({"lane": "virtual", "target": target, "folder": "."})


def test_a_fault_of_one_target_is_found_for_it_and_replayed_for_it(tmp_path, capsys):
    status, out, _ = main(
        capsys, "verify", "asks_its_target", "--target", "sm89", "--examples", "2", "--out", str(tmp_path)
    )
    assert status == 1
    (replay,) = [line for line in out.splitlines() if "harness case" in line]
    assert replay.endswith("--impl wrong-on-sm_89 --module tests.unit.target_victims --target sm_89")
    assert "for-amd" not in out
    environment = json.loads((tmp_path / "records.jsonl").read_text().splitlines()[0])["environment"]
    assert environment["target"] == "sm_89"


def test_a_case_is_replayed_for_the_target_that_is_named(capsys):
    again = ("case", "asks_its_target", "Case(n=1)", "--impl", "wrong-on-sm_89")
    status, out, _ = main(capsys, *again, "--target", "sm_89")
    assert (status, "FAIL asks_its_target wrong-on-sm_89 oracle:out" in out) == (1, True)
    assert main(capsys, *again, "--target", "gfx942")[0] == 0


def test_the_virtual_gpu_has_the_rules_and_the_launches_of_the_target():
    assert (lane("sm_90").profile, lane("sm_90").target) == ("sm_90", "sm90")
    assert (lane("gfx950").profile, lane("gfx950").target) == ("gfx950", "gfx950")
    assert (lane(None).profile, lane(None).target) == ("sm_120", "")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--target", "sm_91"), "no target 'sm_91'; did you mean 'sm_90'?"),
        (("--target", "sm_86"), "--target sm_86: its numerics are not known; there are: sm_80, "),
        (("--target", "sm_90", "--lane", "device"), "--target: wanted --lane virtual with it"),
        (("--target", "gfx942", "--impl", "for-amd"), "--target gfx942: no chosen implementation is for gfx942"),
    ],
)
def test_a_target_that_cannot_be_is_one_line_and_status_2(capsys, arguments, line):
    status, out, error = main(capsys, "verify", "asks_its_target", *arguments)
    assert (status, out) == (2, "")
    assert error.startswith(f"harness: {line}")


def test_without_a_target_every_implementation_runs_and_with_one_those_that_are_for_it():
    import_module("tests.unit.target_victims")
    assert {one.name for _, one in _runnable(options(), None)} == {"wrong-on-sm_89", "for-amd"}
    assert {one.name for _, one in _runnable(options(), "sm_90")} == {"wrong-on-sm_89"}
    assert {one.name for _, one in _runnable(options(), "gfx950")} == {"wrong-on-sm_89", "for-amd"}
