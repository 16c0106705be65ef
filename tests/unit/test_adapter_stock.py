"""PyTorch's own operators under our contracts: right on the pinned cases, and in no registry that did not ask."""

import importlib
import sys

import pytest

from harness import registry
from harness.bench import gates
from harness.contract import Implementation
from harness.lanes import VirtualLane


@pytest.fixture
def stock(own_registry):
    sys.modules.pop("harness.adapters.stock", None)
    yield importlib.import_module("harness.adapters.stock")
    sys.modules.pop("harness.adapters.stock", None)


def test_it_registers_what_pytorch_has_operators_for(stock, own_registry):
    assert sorted(own_registry._implementations) == [
        ("merge_attn_states", "stock-logsumexp"),
        ("moe_scatter", "stock-grouped-mm"),
    ]


def test_legal_cases_come_out_right(stock, own_registry, monkeypatch):
    launches = {"merge_attn_states": stock.merge_attn_states, "moe_scatter": stock.moe_scatter}
    monkeypatch.undo()
    registry.load(installed=False)
    for name, launch in launches.items():
        owner = registry.contract(name)
        one = Implementation(contract=name, name="stock", launch=launch)
        cases = [case for case in owner.pinned if "far" not in repr(case)]
        found = gates.share([(owner, [one], case, repr(case)) for case in cases], VirtualLane(), 0, 1).found
        assert {reason for reason in found.values() if reason} == set()
        assert len(found) == len(cases) > 3
