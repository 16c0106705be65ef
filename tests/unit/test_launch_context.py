"""The SMs of the current context, on drivers that are described instead of present."""

import ctypes

import pytest

from harness.device import DEVICES
from harness.launch import Resources, barrier_safe_grid, context_units
from harness.launch.clusters import active_clusters
from tests.unit.fake_driver import build


def test_a_green_context_says_its_own_count(tmp_path):
    units = context_units(library=build(tmp_path, context_units=40))
    assert units == 40
    grid = barrier_safe_grid(264, Resources(num_warps=32, registers=32), DEVICES["H200"], num_sms=units)
    assert grid.grid == 80


@pytest.mark.parametrize("driver", [{"context_units": None}, {"context_units": 96, "initialised": False}])
def test_without_a_context_there_is_no_count(tmp_path, driver):
    assert context_units(library=build(tmp_path, **driver)) is None


def test_without_a_driver_there_is_no_count(tmp_path):
    assert context_units(library=str(tmp_path / "libcuda.so.1")) is None


def test_a_driver_that_refuses_to_answer_is_an_error(tmp_path):
    library = build(tmp_path, context_units=96, resource_status=801)
    with pytest.raises(RuntimeError, match="cuCtxGetDevResource returned 801"):
        context_units(library=library)


@pytest.mark.parametrize(("shared", "allowed"), [(0, 49_152), (49_152, 49_152), (100_000, 100_000)])
def test_the_driver_is_asked_for_clusters_of_this_shape(tmp_path, shared, allowed):
    library = build(tmp_path, context_units=132)
    block = Resources(num_warps=8, registers=32, shared_dynamic=shared)
    # a handle, the size of a cluster and the threads of a block, as the driver saw them
    assert active_clusters(7, 4, block, library=library) == 7_040_256
    # what launches may have is never made less
    assert ctypes.CDLL(library).allowed_shared() == allowed


def test_clusters_that_the_driver_does_not_count_are_not_known(tmp_path):
    block = Resources(num_warps=8, registers=32)
    assert active_clusters(7, 4, block, library=str(tmp_path / "libcuda.so.1")) is None
    with pytest.raises(RuntimeError, match="cuOccupancyMaxActiveClusters returned 912"):
        active_clusters(7, 4, block, library=build(tmp_path, cluster_status=912))
