"""The arrows of the import graph (DESIGN.md), kept true."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STANDARD = {"__future__", "collections", "contextlib", "dataclasses", "enum", "functools", "logging", "math", "typing"}

#: Folder -> what its modules may import, besides STANDARD.
ALLOWED = {
    "reference": {"torch", "reference"},
    "kernels": {"torch", "triton", "kernels", "harness"},
    "harness/contracts": {"torch", "hypothesis", "harness", "reference"},
}
#: Folder -> what nothing in it may import.
FORBIDDEN = {
    "kernels": {"harness.contracts", "harness.vgpu", "harness.strategies", "harness.suites", "reference"},
    "harness/contracts": {"harness.vgpu", "harness.run", "harness.search", "harness.suites"},
    "harness/vgpu": {"harness.contract", "harness.contracts", "harness.registry", "harness.run", "reference"},
    "harness/suites": {"harness.contracts", "reference"},
    "harness/device": {"torch", "triton"},
    "harness/hardware": {"harness.vgpu", "harness.contracts", "harness.suites", "reference"},
    "harness": {"kernels", "tests"},
    "reference": {"kernels", "harness", "tests", "triton"},
}


def imports_of(path):
    """Every module name that the file imports, wherever in the file, ``from a import b`` as ``a.b``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def below(name, packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


def modules(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def names(folder):
    return {path.stem for path in (ROOT / folder).glob("[!_]*.py")}


@pytest.mark.parametrize("folder", ALLOWED)
def test_folder_imports_only_what_it_may(folder):
    strangers = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(folder)
        for name in imports_of(path)
        if not below(name, ALLOWED[folder] | STANDARD)
    ]
    assert modules(folder)
    assert strangers == []


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_folder_never_imports_what_stands_above_it(folder):
    upward = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(folder)
        for name in imports_of(path)
        if below(name, FORBIDDEN[folder])
    ]
    assert modules(folder)
    assert upward == []


def test_nothing_imports_tests():
    paths = [path for folder in ("harness", "kernels", "reference", "ci") for path in modules(folder)]
    assert [path for path in paths if any(below(name, {"tests"}) for name in imports_of(path))] == []


def test_every_kernel_has_its_oracle_and_its_contract():
    assert names("kernels")
    assert names("kernels") == names("reference") == names("harness/contracts")


def test_an_oracle_is_the_function_named_as_its_module():
    for name in names("reference"):
        tree = ast.parse((ROOT / "reference" / f"{name}.py").read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
