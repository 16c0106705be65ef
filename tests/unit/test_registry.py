"""Names are unique, decorators are free, and what cannot be found is named."""

import pytest

from harness import registry
from harness.known import Known
from tests.unit.pooling import CONTRACT


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_contracts", {})
    monkeypatch.setattr(registry, "_implementations", {})


def test_contract_is_found_by_name_and_registered_once():
    assert registry.register(CONTRACT) is CONTRACT
    assert registry.contract("pooling") is CONTRACT
    with pytest.raises(ValueError, match="'pooling' is already registered"):
        registry.register(CONTRACT)


def test_unknown_contract_is_answered_with_the_known_ones():
    registry.register(CONTRACT)
    with pytest.raises(KeyError, match="no contract 'poling'; there are: pooling"):
        registry.contract("poling")


def test_decorated_function_is_returned_unchanged():
    registry.register(CONTRACT)

    def launch():
        return None

    known = (Known(match=bool, issue="#1"),)
    assert registry.implements("pooling", name="mine", known=known)(launch) is launch
    (found,) = registry.implementations("pooling")
    assert (found.launch, found.known, str(found)) == (launch, known, "pooling-mine")


def test_second_implementation_of_one_name_is_refused():
    registry.implements("pooling", name="mine")(print)
    with pytest.raises(ValueError, match="'mine' of 'pooling' is already registered"):
        registry.implements("pooling", name="mine")(print)


def test_implementation_of_a_contract_that_is_not_there_is_reported():
    registry.implements("poling", name="mine")(print)
    with pytest.raises(ValueError, match="unknown contracts: poling"):
        registry.implementations()


def test_missing_module_is_named():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry.load(("no_such_module",), installed=False)


def test_submodules_are_imported_except_private_ones(tmp_path, monkeypatch):
    package = tmp_path / "some_kernels"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("from harness.registry import implements\nimplements('x', name='one')(print)\n")
    (package / "_private.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry.load(("some_kernels",), installed=False)
    assert ("x", "one") in registry._implementations
