"""What must hold for CUDA graphs without a device: checks that take the modules to check, for teeth too."""

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch

from harness.contract import Contract, Relation
from harness.known import Known
from harness.outcome import ContractError, Violation
from harness.tolerance import Exact
from tests.unit import capture_probes
from tests.unit.capture_probes import inputs, launch_of


def rules(api, kind, *names):
    """The rules that the lint finds broken in probes."""
    probes = getattr(capture_probes, kind)
    found = {name: api.lint.capture_lint(launch_of(probes[name]), inputs("cpu")) for name in names}
    return {name: {finding.rule for finding in lint.findings} for name, lint in found.items()}


def breaks(api, rule, *names):
    assert rules(api, "BREAKS", *names) == {name: {rule} for name in names}


def sound(api, *names):
    assert rules(api, "SOUND", *names) == {name: set() for name in names}


def comparisons_of_values_wait(api):
    breaks(api, "waits", "allclose", "equal", "cov", "corrcoef")
    sound(api, "equal shapes only", "equal to itself", "isclose")


def numbers_of_the_device_are_read_where_the_host_needs_them(api):
    breaks(
        api, "waits", "masked_fill with a number of the device", "index_fill with a number of the device",
        "linspace between numbers of the device", "normal of deviations",
    )  # fmt: skip
    sound(api, "masked_fill with the host's number", "linspace", "randn")


def arguments_decide_whether_the_host_looks(api):
    breaks(api, "waits", "histc", "isin of many", "searchsorted with a sorter", "segment_reduce")
    sound(api, "histc of a range", "isin of few", "searchsorted", "segment_reduce unchecked")


def decompositions_need_the_host(api):
    breaks(api, "waits", "svd", "eigh", "pinv", "matrix_exp", "inv")
    assert rules(api, "SPOILS", "eigvals") == {"eigvals": {"waits"}}
    sound(api, "qr", "cholesky_ex")


def a_graph_keeps_its_seed_and_knows_one_generator(api):
    breaks(api, "raises", "a generator of its own", "a new generator", "another seed", "a random seed")
    sound(api, "the seed that it has", "a generator of the host", "a seed that is read", "randn", "multinomial")


def what_torch_makes_inside_of_an_operation_is_where_the_rest_is(api):
    sound(api, "pad_sequence", "vander")
    assert rules(api, "LATER", *capture_probes.LATER) == {
        "pinned memory read": {"copies"}, "pinned memory written": {"waits"},
        "a copy to the host not waited for": {"waits"},
    }  # fmt: skip


def graphs_are_checked_on_the_device_that_is_named(api):
    now, ran = [0], []

    @contextmanager
    def device(where):
        before, now[0] = now[0], where.index
        yield
        now[0] = before

    class Check:
        found = ()

        def __init__(self, contract, launch, case, where):
            ran.append((where.index, now[0]))

        def run(self, others):
            ran.append(now[0])

    implementation = SimpleNamespace(launch=None, known=())
    with (
        patch.multiple(api.suite, _Check=Check, graph_cases=lambda *of: ["a"], other_size=lambda *of: ()),
        patch.multiple(torch.cuda, device=device, current_device=lambda: 0),
    ):
        api.suite.check_graphs(None, implementation, torch.device("cuda", 1))
        api.suite.check_graphs(None, implementation)
    assert ran == [(1, 1), 1, (0, 0), 0]
    assert now == [0]


@dataclass(frozen=True)
class Sized:
    n: int


@dataclass(frozen=True)
class Seeded(Sized):
    seed: int = 0


def inputs_of(case, device, poison):
    return {"x": torch.full((case.n,), float(getattr(case, "seed", 0)), device=device)}


def a_graph_is_replayed_with_something_else(api):
    of = Contract(
        name="a", cases=lambda: None, inputs=inputs_of, oracle=lambda x: {"out": x}, tolerance={"out": Exact()}
    )
    doubled = Relation(name="doubled", transform=lambda case, inputs: {"x": inputs["x"] * 2})
    longer = Relation(name="longer", transform=lambda case, inputs: {"x": inputs["x"].repeat(2)})
    none = Relation(name="none", transform=lambda case, inputs: None)

    def labels(contract, case):
        return [again.label for again in api.cases.replays(contract, case, torch.device("cpu"))]

    assert labels(of, Seeded(3)) == ["seed 1"]
    assert labels(replace(of, relations=(longer, doubled)), Sized(3)) == ["the relation 'doubled'"]
    assert labels(replace(of, replays=lambda case: (Sized(case.n),)), Sized(3)) == ["the inputs of Sized(n=3)"]
    for contract in (of, replace(of, relations=(longer, none)), replace(of, replays=lambda case: ())):
        with pytest.raises(ContractError, match=r"a: nothing to replay a graph of Sized\(n=3\) with"):
            labels(contract, Sized(3))


def known_failures_are_left_out_and_what_is_in_quarantine_does_not_run(api):
    ran = []

    class Check:
        def __init__(self, contract, launch, case, where):
            ran.append(case)
            self.found = [Violation(check, "wrong") for check in ("graph:replay", "graph:pool")]

        def run(self, others):
            ran.append(others)

    def checked(*known):
        ran.clear()
        implementation = SimpleNamespace(launch=None, known=known)
        with (
            patch.multiple(api.suite, _Check=Check, graph_cases=lambda *of: ("a", "b")),
            patch.multiple(torch.cuda, device=lambda where: nullcontext(), current_device=lambda: 0),
        ):
            return [violation.check for violation in api.suite.check_graphs(None, implementation)]

    def known(case, **options):
        return Known(match=lambda one: one == case, issue="#5", **options)

    assert checked() == ["graph:replay", "graph:pool"] * 2
    assert checked(known("a", check="graph:pool")) == ["graph:replay", "graph:replay", "graph:pool"]
    assert ran == ["a", ("b",), "b", ("a",)]
    assert checked(known("b", kind="quarantine")) == ["graph:replay", "graph:pool"]
    # nor between capture and replay of another one
    assert ran == ["a", ()]


CHECKS = {
    check.__name__: check
    for check in (
        comparisons_of_values_wait,
        numbers_of_the_device_are_read_where_the_host_needs_them,
        arguments_decide_whether_the_host_looks,
        decompositions_need_the_host,
        a_graph_keeps_its_seed_and_knows_one_generator,
        what_torch_makes_inside_of_an_operation_is_where_the_rest_is,
        graphs_are_checked_on_the_device_that_is_named,
        a_graph_is_replayed_with_something_else,
        known_failures_are_left_out_and_what_is_in_quarantine_does_not_run,
    )
}
