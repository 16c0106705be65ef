"""What `new` writes, where, and what it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness import scaffold
from harness.discover import SetupError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path):
    for part in ("kernels", "reference", "harness/contracts"):
        (tmp_path / part).mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    return tmp_path


def written(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))


def test_in_the_tree_it_writes_three_files_of_one_name(tree):
    lines = scaffold.write("row_scale", tree)
    assert written(tree) == ["harness/contracts/row_scale.py", "kernels/row_scale.py", "reference/row_scale.py"]
    assert lines[-1] == "edit them, and check as you go: python -m harness verify row_scale"


def test_elsewhere_it_writes_one_module_and_says_how_to_register_it(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nconformance_modules = acme\n")
    lines = scaffold.write("row_scale", tmp_path)
    assert written(tmp_path) == ["row_scale.py"]
    assert "conformance_modules = acme row_scale" in lines[1]


def test_what_it_writes_is_clean_by_the_rules_of_this_tree(tree):
    scaffold.write("row_scale", tree)
    # the scaffold's harness folder holds nothing but the new contract, so imports are sorted as the real tree has them
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length=120", "--select=E,F,W,UP,B,SIM", "."]
    assert subprocess.run(command, cwd=tree, capture_output=True, text=True).stdout == "All checks passed!\n"


@pytest.mark.parametrize("name", ["", "2fast", "row-scale", "Row", "_row", "class", "a/b"])
def test_a_name_that_no_module_can_have_is_refused(tmp_path, name):
    with pytest.raises(SetupError, match="cannot name a kernel"):
        scaffold.write(name, tmp_path)


def test_an_existing_contract_is_not_shadowed(tmp_path):
    with pytest.raises(SetupError, match=r"@implements\('mxfp4_moe', name=\.\.\.\)"):
        scaffold.write("mxfp4_moe", tmp_path)


def test_nothing_is_overwritten(tree):
    (tree / "reference" / "row_scale.py").write_text("mine")
    with pytest.raises(SetupError, match=r"reference/row_scale\.py is there already"):
        scaffold.write("row_scale", tree)
    assert written(tree) == ["reference/row_scale.py"]
