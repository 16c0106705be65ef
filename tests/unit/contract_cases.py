"""Cases of a shipped contract, drawn the same way every time, and what its oracle makes of them."""

import functools
from types import SimpleNamespace

import torch
from hypothesis import HealthCheck, Phase, given, settings

from harness import registry
from harness.arguments import widened
from harness.poison import Poison

CPU = torch.device("cpu")
NAMES = ("merge_attn_states", "mxfp4_moe", "sparse_mla_decode")


def contract(name):
    """Return the shipped contract called ``name``."""
    registry.load(installed=False)
    return registry.contract(name)


def drawn(name, count):
    """Return the first ``count`` of 300 cases, without a random choice of ours."""
    return _drawn(name)[:count]


@functools.cache
def _drawn(name):
    cases = []

    @settings(
        max_examples=300,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(contract(name).cases())
    def collect(case):
        cases.append(case)

    collect()
    return tuple(cases)


def oracles(of, inputs):
    """Return what ``Tolerance.compare`` needs beside an actual output: low, high and magnitude, by output."""
    wide = widened(inputs)
    return SimpleNamespace(low=of.oracle(**inputs), high=of.oracle(**wide), magnitude=of.magnitude(**wide))


def complaints(of, actual, expected):
    """Return the messages of all outputs of ``actual`` that are out of tolerance."""
    found = [
        tolerance.compare(name, actual[name], expected.low[name], expected.high[name], expected.magnitude.get(name))
        for name, tolerance in of.tolerance.items()
    ]
    return [message for message in found if message]


def build(of, case, pattern=None):
    """Return the inputs of ``case`` and the poison regions in them."""
    poison = Poison() if pattern is None else Poison(pattern)
    return of.inputs(case, CPU, poison), poison.regions


def same(first, second):
    """Whether two sets of outputs agree in every value, NaN included."""
    return all(torch.equal(first[name].nan_to_num(7), second[name].nan_to_num(7)) for name in first) and all(
        torch.equal(first[name].isnan(), second[name].isnan()) for name in first
    )
