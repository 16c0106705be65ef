"""A hang, an illegal address and an exhausted memory among thirty tests cost three of them."""

import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.device import planted_project

pytestmark = [pytest.mark.cuda, pytest.mark.isolated(deadline=170)]

ROOT = Path(__file__).parents[2]
DEADLINE_S = 150


@pytest.mark.parametrize("workers", [1, 4])
def test_three_planted_faults_cost_three_tests(tmp_path, workers, child_environment):
    shutil.copy(planted_project.__file__, tmp_path / "test_planted.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\nconformance_modules = kernels\n")
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "harness.plugin", "-p", "no:cacheprovider", "-p", "no:xdist",
            "--gpu-workers", str(workers), "--junitxml", "junit.xml", "test_planted.py",
        ],
        cwd=tmp_path,
        env={**child_environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout[-4000:] + done.stderr[-2000:]
    cases = {case.get("name"): case for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")}
    failed = {name: case for name, case in cases.items() if case.find("failure") is not None}
    verdicts = {name: case.find(".//property[@name='verdict']").get("value") for name, case in failed.items()}
    assert verdicts == planted_project.PLANTED
    assert len(cases) == 30
    assert all(case.find("error") is None for case in cases.values())
