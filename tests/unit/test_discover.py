"""Where modules are named, and what a user reads when one does not load."""

import sys

import pytest

from harness import discover
from harness.discover import SetupError


@pytest.fixture(autouse=True)
def search_path():
    with discover.search_path_kept():
        yield


def test_a_folder_is_searched_until_its_scope_ends(tmp_path, monkeypatch):
    (tmp_path / "found_late.py").write_text("")
    before = sys.path[:]
    with discover.search_path_kept():
        discover.load(["found_late"], folder=tmp_path)
        assert sys.path == [*before, str(tmp_path)]
    assert sys.path == before
    monkeypatch.delitem(sys.modules, "found_late")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\nconformance_modules = acme.kernels more\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\nconformance_modules = ["acme.kernels", "more"]\n'),
        ("pyproject.toml", '[tool.pytest]\nconformance_modules = ["acme.kernels", "more"]\n'),
        ("pytest.toml", '[pytest]\nconformance_modules = ["acme.kernels", "more"]\n'),
        ("tox.ini", "[pytest]\nconformance_modules =\n    acme.kernels\n    more\n"),
        ("setup.cfg", "[tool:pytest]\nconformance_modules = acme.kernels more\n"),
    ],
)
def test_modules_come_from_any_pytest_configuration(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert discover.configured(tmp_path) == (["acme.kernels", "more"], tmp_path)


def test_a_configuration_further_up_counts(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nconformance_modules = acme\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "pyproject.toml").write_text('[project]\nname = "sub"\n')
    assert discover.configured(tmp_path / "sub") == (["acme"], tmp_path)


def test_the_nearest_configuration_decides_even_without_modules(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nconformance_modules = acme\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "pytest.ini").write_text("[pytest]\n")
    assert discover.configured(tmp_path / "sub") == ([], tmp_path / "sub")


def test_a_file_that_does_not_parse_is_named(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool\n")
    with pytest.raises(SetupError, match=r"pyproject\.toml does not parse: "):
        discover.configured(tmp_path)


def test_a_missing_module_is_named_on_one_line(tmp_path):
    with pytest.raises(SetupError, match=r"cannot load module 'no_such_kernels': ModuleNotFoundError: .*") as caught:
        discover.load(["no_such_kernels"], folder=tmp_path)
    assert "\n" not in str(caught.value)


def test_a_module_that_fails_is_named_with_the_line_that_failed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_kernels.py").write_text("x = 1\nraise RuntimeError('first\\nsecond')\n")
    with pytest.raises(SetupError, match=r"'broken_kernels': RuntimeError: first second \(.*broken_kernels\.py:2\)"):
        discover.load(["broken_kernels"], folder=tmp_path)


def test_an_implementation_of_an_unknown_contract_is_a_setup_error(tmp_path, own_registry):
    own_registry.implements("no_such_contract", name="acme")(print)
    with pytest.raises(SetupError, match="implementations of unknown contracts: no_such_contract"):
        discover.load([], folder=tmp_path)
