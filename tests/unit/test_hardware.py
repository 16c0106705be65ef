"""Isolation, targets, emulation and the device lane, without a device."""

from types import SimpleNamespace

import pytest

from harness import registry
from harness.hardware import (
    _worker,
    crew,
    emulation,
    isolation,
    lane,
    launches,
    marks,
    memory,
    placing,
    pool,
    probe,
    room,
    selection,
    sizes,
    suite,
    worker,
    workloads,
)
from tests.unit import device_lane_checks, device_suite_checks, hardware_checks, placing_checks, worker_checks
from tests.unit.contract_cases import NAMES


@pytest.fixture
def api(monkeypatch):
    # a check puts its own worker there
    monkeypatch.setattr(pool, "Worker", worker.Worker)
    return SimpleNamespace(
        _worker=_worker, crew=crew, emulation=emulation, isolation=isolation, lane=lane, launches=launches, marks=marks,
        memory=memory, placing=placing, pool=pool, probe=probe, room=room, selection=selection, sizes=sizes,
        suite=suite, worker=worker, workloads=workloads,
    )  # fmt: skip


def test_real_sizes_begin_with_the_workloads_and_reach_past_them():
    registry.load(installed=False)
    for contract in (registry.contract(name) for name in NAMES):
        found = sizes.real_sizes(contract)
        assert found[: len(contract.workloads)] == contract.workloads
    attention = sizes.real_sizes(registry.contract("sparse_mla_decode"))
    assert max(case.num_heads for case in attention) == 128
    assert max(case.main.lists.topk for case in attention) == 2048
    assert max(case.main.cache.num_pages * case.main.cache.page_bytes for case in attention) > 2**31
    logits = sizes.real_sizes(registry.contract("paged_mqa_logits"))
    assert max(len(case.table.page_order) * 64 * 132 for case in logits) > 2**31


@pytest.mark.parametrize("name", hardware_checks.CHECKS)
def test_hardware(name, api):
    hardware_checks.CHECKS[name](api)


@pytest.mark.parametrize("name", placing_checks.CHECKS)
def test_placing(name, api):
    placing_checks.CHECKS[name](api)


@pytest.mark.parametrize("name", worker_checks.CHECKS)
def test_worker(name, api):
    worker_checks.CHECKS[name](api)


@pytest.mark.parametrize("name", device_lane_checks.CHECKS)
def test_device_lane(name, api):
    device_lane_checks.CHECKS[name](api)


@pytest.mark.parametrize("name", device_suite_checks.CHECKS)
def test_device_suite(name, api):
    device_suite_checks.CHECKS[name](api)
