"""A launch that leaves process-global state changed is a fault of its own, and spoils no other check."""

import os
from dataclasses import replace

import pytest
import torch

from harness.lanes import VirtualLane
from harness.run import check_case
from tests.unit.pooling import CASE, CONTRACT, RIGHT, pooled

NAME = "HARNESS_LEAKED"


def leaks(change):
    """Return the messages of a right launch that does ``change`` too; checks that nothing else fails."""

    def launch(**inputs):
        outputs = pooled(**inputs)
        change()
        return outputs

    result = check_case(CONTRACT, replace(RIGHT, launch=launch), CASE, lane=VirtualLane())
    assert {violation.check for violation in result.violations} <= {"state"}
    assert "state" in result.checks_run
    return [violation.message for violation in result.violations]


def test_a_variable_of_the_environment_is_named_and_taken_back():
    assert leaks(lambda: os.environ.update({NAME: "1"})) == [f"the launch leaves environment['{NAME}']: unset -> '1'"]
    assert NAME not in os.environ


def test_a_default_dtype_is_no_fault_of_shape():
    said = "the launch leaves torch default dtype: torch.float32 -> torch.float64"
    assert leaks(lambda: torch.set_default_dtype(torch.float64)) == [said]
    assert torch.get_default_dtype() is torch.float32


def test_all_that_one_launch_changes_is_one_fault():
    def change():
        os.environ[NAME] = "1"
        torch.set_grad_enabled(False)

    said = f"environment['{NAME}']: unset -> '1'; torch autograd['grad']: True -> False"
    assert leaks(change) == [f"the launch leaves {said}"]


CHANGES = {
    "default device": (lambda: torch.set_default_device("meta"), "torch default device: device(type='cpu') ->"),
    "grad": (lambda: torch.set_grad_enabled(False), "torch autograd['grad']: True -> False"),
    "TF32": (lambda: torch.set_float32_matmul_precision("high"), "torch precision['float32_matmul']: 'highest' ->"),
    "determinism": (
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        "torch determinism['cudnn.benchmark']: False -> True",
    ),
    "folder": (lambda: os.chdir("tests"), "cwd: "),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_state_is_named_and_put_back(name):
    change, said = CHANGES[name]
    assert said in leaks(change)[0]
    assert leaks(lambda: None) == []


def test_a_seed_is_a_change_and_a_number_drawn_is_none():
    assert leaks(lambda: torch.rand(3)) == []
    seed, state = torch.initial_seed(), torch.get_rng_state()
    assert leaks(lambda: torch.manual_seed(seed ^ 1)) == [
        f"the launch leaves torch generator: seed {seed} -> {seed ^ 1}"
    ]
    assert torch.equal(torch.get_rng_state(), state)
