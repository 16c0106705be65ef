"""``python -m harness targets``: its matrix, its exit status, its baseline."""

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import strategies as st

from harness import Compiles, Contract, Exact, Requires, cli
from harness.compiling import plan
from harness.contract import Implementation
from tests.unit import compile_kernels

CONTRACT = Contract(
    name="copy",
    cases=lambda: st.just(64),
    inputs=lambda case, device, poison: {"x": torch.zeros(case, device=device)},
    oracle=None,
    tolerance={"out": Exact()},
    workloads=(64,),
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def run(own_registry, tmp_path, monkeypatch, capsys, cache):
    """Run ``targets`` on one kernel in an empty folder; returns its status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    own_registry.register(CONTRACT)
    own_registry._implementations["copy", "test"] = Implementation(
        contract="copy", name="test", launch=compile_kernels.copy, requires=Requires(targets=("sm90",))
    )

    def run(*arguments):
        status = cli.main(["targets", "--target", "sm_90", "--target", "sm120", "--cache", str(cache), *arguments])
        return status, *capsys.readouterr()

    return run


def baseline_in(folder):
    (file,) = set((folder / "ci" / "baselines").iterdir()) - set((folder / "ci" / "baselines").glob("*-grids.json"))
    return file


def test_the_matrix_has_a_row_a_kernel_and_a_column_a_target(run, tmp_path):
    status, out, progress = run("--json", "found.json")
    assert status == 0
    head, row, *_ = out.splitlines()
    assert head.split() == ["sm_90", "sm_120"]
    assert row.startswith("copy: copy_kernel")
    assert row.endswith("-")
    assert "1 FITS; 0 regressions" in out
    assert "launching copy" in progress
    (result,) = json.loads((tmp_path / "found.json").read_text())["results"]
    assert (result["target"], result["verdict"]) == ("sm_90", "FITS")
    assert f"{result['figures']['registers']}r" in row
    assert result["config"].startswith("BLOCK=128 w4 #")


def test_more_than_the_baseline_is_a_failing_diff_with_both_figures(run, tmp_path):
    assert run("--update-baseline")[0] == 0
    file = baseline_in(tmp_path)
    assert file.name.startswith("triton-3.")
    (configs,) = json.loads(file.read_text()).values()
    ((config, targets),) = configs.items()
    registers = targets["sm_90"][0]
    assert run()[0] == 0

    lower = file.read_text().replace(f"[{registers}, ", f"[{registers // 2}, ")
    file.write_text(lower)
    status, out, _ = run()
    assert status == 1
    wanted = f"registers {registers // 2} -> {registers}, allowed {registers // 2 * 1.1:.0f}"
    assert f"REGRESSION tests.unit.compile_kernels.copy_kernel [{config}] on sm_90: {wanted}" in out

    status, out, _ = run("--update-baseline")
    assert status == 0
    assert f"ACCEPTED tests.unit.compile_kernels.copy_kernel [{config}] on sm_90: {wanted}" in out
    assert "ACCEPTED" not in run("--update-baseline")[1]

    file.write_text(lower.replace(f"[{registers // 2}, ", f"[{registers + 1}, "))
    status, out, _ = run()
    assert status == 0
    assert "1 figures are better than the baseline's" in out


def test_an_update_keeps_what_it_did_not_compile(run, tmp_path):
    run("--update-baseline")
    file = baseline_in(tmp_path)
    table = json.loads(file.read_text())
    table["kernel_of_others"] = {"w4 #0000": {"sm_90": [1, 2, 0]}}
    table["tests.unit.compile_kernels.copy_kernel"]["BLOCK=1 w4 #0000"] = {"sm_90": [1, 2, 0], "sm_80": [1, 2, 0]}
    file.write_text(json.dumps(table))
    run("--update-baseline")
    after = json.loads(file.read_text())
    assert after["kernel_of_others"] == table["kernel_of_others"]
    assert after["tests.unit.compile_kernels.copy_kernel"]["BLOCK=1 w4 #0000"] == {"sm_80": [1, 2, 0]}


def test_a_failing_verdict_is_status_1_and_says_what_and_where(run, own_registry):
    def launch(x):
        raise ValueError("no form fits")

    own_registry._implementations["copy", "bad"] = Implementation(contract="copy", name="bad", launch=launch)
    status, out, _ = run("--impl", "bad")
    assert status == 1
    assert "REFUSED copy bad: (launch) on sm_120: the launch raised ValueError: no form fits" in out


def test_nothing_to_compile_is_no_pass(run, own_registry):
    bare = replace(CONTRACT, name="bare", workloads=())
    own_registry.register(bare)
    launched = own_registry._implementations["copy", "test"]
    own_registry._implementations["bare", "test"] = replace(launched, contract="bare")
    wanted = "harness: nothing to compile: bare has no workloads or pinned cases\n"
    assert run() == (2, "", wanted)
    assert run("bare") == (2, "", wanted)
    status, out, error = run("copy", "--impl", "test")
    assert (status, "1 FITS" in out) == (0, True)

    declaring = replace(launched, contract="bare", compiles=Compiles(cases=("64",)))
    assert plan.without_cases([(bare, declaring)]) == []
    own_registry._implementations["copy", "test"] = replace(launched, launch=lambda x: x)
    status, out, error = run("copy")
    assert (status, out) == (2, "")
    assert error.endswith("harness: nothing to compile: no chosen implementation launches a kernel on sm_90, sm_120\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--target", "sm_91"], "no target 'sm_91'; did you mean 'sm_90'?"),
        (["--target", "sm_77"], "no target 'sm_77'; there are: sm_80, "),
        (["cop"], "no contract 'cop'; did you mean 'copy'?"),
        (["--baseline", "."], "triton-3."),
    ],
)
def test_what_cannot_run_is_one_line_and_status_2(run, tmp_path, arguments, line):
    for minor in (7, 8, 9):
        (tmp_path / f"triton-3.{minor}.json").write_text("[]")
    status, out, error = run(*arguments)
    assert (status, out) == (2, "")
    assert error.startswith("harness: ")
    assert line in error


def test_a_configuration_that_nobody_accepted_is_a_failing_diff(run, tmp_path):
    run("--update-baseline")
    file = baseline_in(tmp_path)
    file.write_text(file.read_text().replace("BLOCK=128", "BLOCK=256"))
    status, out, _ = run()
    assert status == 1
    assert "BLOCK=128 w4" in out
    assert "is not in the baseline; --update-baseline accepts it" in out
    assert "is in the baseline and launched no more" in out
    assert run("copy")[1].count("launched no more") == 0
    assert "2 configurations and grids are accepted that are new or gone" in run("--update-baseline")[1]
