"""The whole way of somebody else's kernels: install a wheel, register a few lines, see one pass and one fail."""

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]

GOOD = """
import torch
from harness import implements
from reference.merge_attn_states import merge_attn_states


@implements("merge_attn_states", name="acme-good")
def merge_or_refuse(outs, lses):
    legal = isinstance(lses, torch.Tensor) and lses.dtype == torch.float32 and lses.shape == outs.shape[:2]
    legal = legal and lses.device == outs.device
    if not legal or outs.dim() != 3 or len(outs) == 0 or not outs.is_floating_point() or outs.itemsize > 4:
        raise ValueError("outs and lses: wanted floats [parts, rows, head_dim] and float32 [parts, rows]")
    return merge_attn_states(outs, lses)
"""


def snippet(language):
    """The block that README.md shows: what it promises is what is tested."""
    (text,) = re.findall(rf"```{language}\n(# (?:acme|pytest).*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return text


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this tree, built from a copy so that the build leaves nothing behind."""
    folder = tmp_path_factory.mktemp("wheel")
    names = ["harness", "reference", "pyproject.toml", "README.md", "LICENSE"]
    subprocess.run(["cp", "-r", *(str(ROOT / name) for name in names), str(folder)], check=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(folder)], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def project(wheel, tmp_path_factory):
    """A foreign project, and an environment that sees the installed wheel and not this tree."""
    folder = tmp_path_factory.mktemp("acme")
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    (folder / "acme_kernels.py").write_text(snippet("python") + GOOD)
    (folder / "pytest.ini").write_text(snippet("ini"))
    return folder, {**os.environ, "PYTHONPATH": str(site), "PYTEST_ADDOPTS": ""}


def run(project, *arguments):
    folder, environment = project
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def test_the_wheel_holds_the_harness_and_the_oracles_and_no_kernel(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"harness", "reference"}


def test_the_readme_registers_a_kernel_in_ten_lines():
    lines = [line for line in snippet("python").splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 10
    assert snippet("ini").count("\n") <= 3


@pytest.fixture(scope="module")
def verified(project):
    """One search over both implementations; reports lie in the folder ``out``."""
    return run(project, "harness", "verify", "--impl", "acme", "--examples", "5", "--out", "out")


def test_verify_passes_the_right_one_and_faults_the_wrong_one(project, verified):
    folder, _ = project
    assert verified.returncode == 1, verified.stderr
    records = [json.loads(line) for line in (folder / "out/records.jsonl").read_text().splitlines()[1:]]
    good = {record["verdict"] for record in records if record["implementation"] == "acme-good"}
    faulty = {record["check"] for record in records if record["implementation"] == "acme" and record["faults"]}
    assert good == {"PASS"}
    assert {"oracle:out", "poison:empty part"} <= faulty
    assert ElementTree.parse(folder / "out/junit.xml").getroot().find("testsuite/testcase/failure") is not None
    assert "$ python -m harness case merge_attn_states" in (folder / "out/report.md").read_text()


def test_a_printed_fault_replays(project, verified):
    command = next(line for line in verified.stdout.splitlines() if "harness case" in line and "Case(" in line)
    replayed = run(project, *shlex.split(command)[2:])
    assert replayed.returncode == 1
    assert replayed.stdout.startswith("FAIL merge_attn_states acme ")


def test_a_printed_illegal_call_replays(project, verified):
    command = next(line for line in verified.stdout.splitlines() if "harness case" in line and "Rejection(" in line)
    replayed = run(project, *shlex.split(command)[2:])
    assert replayed.returncode == 1
    assert replayed.stdout.startswith("FAIL merge_attn_states acme rejects:")
    assert replayed.stdout.count("FAIL") == 1


def test_the_suites_pass_the_right_one_and_fail_the_wrong_one(project):
    folder, _ = project
    (folder / "conftest.py").write_text(
        "from hypothesis import settings\nsettings.register_profile('few', max_examples=5)\n"
    )
    suite = ("-p", "harness.plugin", "--pyargs", "harness.suites.test_values", "--impl", "acme")
    result = run(project, "pytest", "-q", *suite, "--hypothesis-profile=few")
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout
    assert "1 failed, 1 passed" in result.stdout
    assert "test_keeps_its_contract[merge_attn_states-acme]" in result.stdout
    assert "python -m harness case merge_attn_states" in result.stdout


@pytest.fixture(scope="module")
def scaffold(project):
    """The arguments that verify a new kernel of the foreign project, and its source."""
    folder, _ = project
    assert run(project, "harness", "new", "row_scale").returncode == 0
    return ("harness", "verify", "row_scale", "--module", "row_scale", "--examples", "5"), folder / "row_scale.py"


@pytest.fixture(scope="module")
def broken(project, scaffold):
    """What verify says of the new kernel as it is, and with a fault in it, which stays."""
    arguments, source = scaffold
    right = run(project, *arguments)
    source.write_text(source.read_text().replace("mask = column < num_columns", "mask = column < num_columns + 1"))
    return right, run(project, *arguments)


def test_new_outside_the_tree_writes_a_kernel_that_passes_and_whose_break_is_found(broken):
    right, wrong = broken
    assert right.returncode == 0, right.stdout + right.stderr
    assert wrong.returncode == 1
    assert "FAIL row_scale triton memory" in wrong.stdout
    assert "row_scale.py" in wrong.stdout


@pytest.mark.usefixtures("broken")
def test_failures_in_a_known_file_turn_the_run_green(project, scaffold):
    (arguments, _), (folder, _) = scaffold, project
    known = '[[known]]\ncontract = "row_scale"\nimplementation = "triton"\nissue = "#7"\ncheck = "*"\n'
    (folder / "known.toml").write_text(known)
    result = run(project, *arguments, "--known", "known.toml")
    assert result.returncode == 0, result.stdout
    assert "KNOWN row_scale triton memory: known: #7" in result.stdout
