"""What kernels move on their pinned cases is held to a complete record, whose change is accepted by name."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from harness import selection
from harness.cli import main
from harness.discover import SetupError, configured, load, search_path_kept
from harness.lanes import VirtualLane
from harness.poison import Poison
from harness.run import check_case
from harness.traffic import command, record
from harness.vgpu.traffic import Traffic
from tests.unit.contract_cases import contract

ROOT = Path(__file__).parents[2]
NAME, LAUNCHED = "merge_attn_states", "merge_attn_states-triton"


def kernels():
    modules, folder = configured(ROOT)
    load(modules, folder=folder)


def merging():
    kernels()
    of = contract(NAME)
    ((_, implementation),) = selection.pairs([NAME])
    return of, implementation, of.pinned[0]


def run(folder, *names, update=False):
    with search_path_kept():
        return command.run(Namespace(contracts=list(names), impl=None, update=update), ["kernels"], folder)


def recorded(folder):
    return record.read(folder)


def test_every_pinned_case_of_every_kernel_is_in_the_record():
    kernels()
    # another test of this process may have registered more
    ours = [pair for pair in selection.pairs([]) if pair[0].inputs.__module__.startswith("harness.contracts.")]
    wanted = {(str(found), repr(case)) for of, found in ours for case in of.pinned}
    assert {(name, case) for name, cases in recorded(ROOT).items() for case in cases} == wanted, record.ACCEPT


def test_more_and_less_than_recorded_fail_and_say_how_far():
    of, implementation, case = merging()
    lane = VirtualLane(counts=True)
    moved = lane.run(implementation.launch, of.inputs(case, lane.device, Poison())).moved
    ((kernel, now),) = moved.items()
    for change, text in ((-2, f"{now.loaded:,} bytes loaded"), (2, f"recorded {now.loaded + 2:,}")):
        wrong = {LAUNCHED: {repr(case): {kernel: now._replace(loaded=now.loaded + change)}}}
        found = check_case(of, implementation, case, lane=VirtualLane(record=wrong), only="traffic").violations
        assert [violation.check for violation in found] == ["traffic"]
        assert text in found[0].message
        assert record.ACCEPT in found[0].message
    right = VirtualLane(record={LAUNCHED: {repr(case): moved}})
    result = check_case(of, implementation, case, lane=right, only="traffic")
    assert "traffic" in result.checks_run
    assert result.violations == []


@pytest.mark.parametrize("kernels", [{}, {"another": Traffic(1, 2, 3)}], ids=str)
def test_a_kernel_too_many_or_too_few_fails(kernels):
    of, implementation, case = merging()
    lane = VirtualLane(record={LAUNCHED: {repr(case): kernels}})
    found = check_case(of, implementation, case, lane=lane, only="traffic").violations
    assert [violation.check for violation in found] == ["traffic"] * (1 + len(kernels))


def test_cases_that_are_not_recorded_and_launches_as_elsewhere_have_no_verdict():
    of, implementation, case = merging()
    lane = VirtualLane(record={LAUNCHED: {repr(case): {}}})
    assert "traffic" not in check_case(of, implementation, of.pinned[1], lane=lane, only="traffic").checks_run
    there = replace(lane, target="sm90")
    assert "traffic" not in check_case(of, implementation, case, lane=there, only="traffic").checks_run


def test_a_printed_case_is_held_to_the_record_again(monkeypatch, capsys):
    *_, case = merging()
    monkeypatch.setattr(record, "read", lambda path: {LAUNCHED: {repr(case): {}}})
    assert main(["case", NAME, repr(case)]) == 1
    assert f"FAIL {NAME} triton traffic\n" in capsys.readouterr().out


def test_an_update_is_read_back_and_leaves_other_kernels_alone(tmp_path, capsys):
    assert not run(tmp_path, NAME)
    assert run(tmp_path, NAME, update=True)
    kept = recorded(tmp_path)
    assert kept == {LAUNCHED: recorded(ROOT)[LAUNCHED]}
    other = {"x-y": {"Case()": {"kernel": Traffic(1, 2, 3)}}}
    record.write(tmp_path, kept | other)
    assert run(tmp_path, NAME)
    assert run(tmp_path, NAME, update=True)
    assert recorded(tmp_path) == kept | other
    capsys.readouterr()
    record.write(tmp_path, {LAUNCHED: {**kept[LAUNCHED], "Case(of=old)": {}}})
    assert not run(tmp_path, NAME)
    assert "Case(of=old) is in the record, and no longer pinned" in capsys.readouterr().out


def test_what_is_no_record_is_refused_by_name(tmp_path, monkeypatch):
    path = tmp_path / record.RECORD
    path.parent.mkdir(parents=True)
    path.write_text('{"a": 3}')
    with pytest.raises(SetupError, match=r"traffic\.json holds no record"):
        run(tmp_path, NAME)
    # nor does a search begin
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nconformance_modules = kernels\n")
    assert main(["verify", NAME, "--impl", "triton"]) == 2
