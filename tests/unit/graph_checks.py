"""What must hold for CUDA graphs without a device: checks that take the modules to check, for teeth too."""

from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import torch

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

    implementation = SimpleNamespace(launch=None)
    with (
        patch.multiple(api.suite, _Check=Check, graph_cases=lambda *of: ["a"], other_size=lambda *of: ()),
        patch.multiple(torch.cuda, device=device, current_device=lambda: 0),
    ):
        api.suite.check_graphs(None, implementation, torch.device("cuda", 1))
        api.suite.check_graphs(None, implementation)
    assert ran == [(1, 1), 1, (0, 0), 0]
    assert now == [0]


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
    )
}
