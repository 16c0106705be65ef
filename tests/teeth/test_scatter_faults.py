"""Every fault planted in how ``moe_scatter`` chooses and launches its forms is killed by the check that names it."""

import sys
from contextvars import copy_context

import pytest

from harness import registry
from harness.vgpu import KernelFault
from tests.teeth.planting import implementation_with
from tests.teeth.scatter_faults import FAULTS, FORM_FAULTS
from tests.unit import scatter_checks


@pytest.fixture(scope="module", autouse=True)
def contracts():
    """Load them once, before anything is registered anew."""
    registry.load(installed=False)


@pytest.mark.parametrize("fault", FORM_FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with (
        implementation_with(fault, tmp_path) as implementation,
        # a refusal that does not come is reported by pytest.raises as a failure of its own
        pytest.raises((AssertionError, pytest.fail.Exception, KernelFault)),
    ):
        # in a context of its own, because one of them leaves constraints behind
        copy_context().run(scatter_checks.CHECKS[fault.check], sys.modules[implementation.launch.__module__])


def test_every_check_kills_some_fault():
    assert {fault.check for fault in FORM_FAULTS} == set(scatter_checks.CHECKS)


def test_no_two_planted_faults_are_the_same():
    faults = (*FAULTS, *FORM_FAULTS)
    assert len({(fault.file, fault.old, fault.new, fault.implementation) for fault in faults}) == len(faults)
