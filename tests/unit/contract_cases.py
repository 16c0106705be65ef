"""Cases of a shipped contract, drawn the same way every time, and what its oracle makes of them."""

import functools
from types import SimpleNamespace

import torch
from hypothesis import HealthCheck, Phase, given, settings

from harness import registry
from harness.arguments import widened
from harness.compare import differing
from harness.poison import Poison

CPU = torch.device("cpu")
NAMES = (
    "ep_dispatch_combine",
    "merge_attn_states",
    "moe_scatter",
    "mxfp4_moe",
    "paged_mqa_logits",
    "sparse_mla_decode",
)


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
    magnitude = {} if of.magnitude is None else of.magnitude(**wide)
    return SimpleNamespace(low=of.oracle(**inputs), high=of.oracle(**wide), magnitude=magnitude)


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
    return all(not differing(tensor, second[name]).any() for name, tensor in first.items())


#: Where a planted fault is looked for, and in how many cases it has to show, so that a short search finds it.
CASES, LEAST = 200, 3


@functools.cache
def known(name):
    """Return (case, inputs, oracles) of the first CASES cases; nothing may write to them."""
    of = contract(name)
    built = [(case, build(of, case)[0]) for case in drawn(name, CASES)]
    return tuple((case, inputs, oracles(of, inputs)) for case, inputs in built)


def shows(name, fault):
    """Whether ``fault(case, inputs, oracle)``, which returns outputs, is out of tolerance in LEAST of the cases."""
    of = contract(name)
    count = 0
    for case, inputs, expected in known(name):
        actual = fault(case, inputs, of.oracle)
        count += bool(complaints(of, actual, expected))
        if count == LEAST:
            return True
    return False


def complaints_about_rounded(name, case, factor):
    """Return what is said of ``factor`` times the exact outputs, each rounded once."""
    of = contract(name)
    inputs, _ = build(of, case)
    expected = oracles(of, inputs)
    rounded = {output: (exact * factor).to(expected.low[output].dtype) for output, exact in expected.high.items()}
    return complaints(of, rounded, expected)


def with_changed(*names, change):
    """Return the fault of reading the arguments ``names`` as ``change`` makes them; None stays None."""

    def fault(case, inputs, oracle):
        given = {name: inputs[name] for name in names if inputs[name] is not None}
        return oracle(**inputs | {name: change(value) for name, value in given.items()})

    return fault


def without(*names, value=None):
    """Return the fault of ``value`` in the place of the arguments ``names``."""
    return lambda case, inputs, oracle: oracle(**inputs | dict.fromkeys(names, value))


def with_output(name, change):
    """Return the fault of the output ``name`` being what ``change(right, inputs)`` makes of it."""

    def fault(case, inputs, oracle):
        outputs = oracle(**inputs)
        return outputs | {name: change(outputs[name], inputs)}

    return fault
