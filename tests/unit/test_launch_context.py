"""The SMs of the current context, on drivers that are described instead of present."""

import pytest

from harness.device import DEVICES
from harness.launch import Resources, barrier_safe_grid, context_units
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
