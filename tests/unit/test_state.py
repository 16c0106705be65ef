"""The ledger sees what changes in a process, says it readably, and puts it back."""

import os
import random
import re
import signal
import subprocess
import sys
import warnings
from decimal import Decimal

import numpy as np
import numpy.random
import pytest
import torch
import triton
import triton.knobs

from harness.launch.constraints import constraints
from harness.launch.sm_budget import current_budget, launch_lease, physical_from, set_num_sms
from harness.state import (
    ABSENT,
    Snapshot,
    Unreadable,
    diff,
    rebase,
    register_state,
    restore,
    snapshot,
    states,
    unregister_state,
)
from tests.unit.budgets import Devices

NAME = "KERNEL_HARNESS_TEST_STATE"


@pytest.fixture(autouse=True)
def _untouched():
    before = snapshot()
    yield
    restore(before, consumables=True)


@pytest.fixture
def counter():
    """A registered state that a test can change."""
    value = {"count": 0}
    register_state("counter", lambda: value["count"], lambda wanted: value.update(count=wanted))
    yield value
    unregister_state("counter")


ENTERED = []


def enter(manager):
    # kept: a generator that nobody holds is left at once
    ENTERED.append(manager)
    manager.__enter__()


def knob():
    triton.knobs.compilation.always_compile = True


def hook():
    triton.knobs.runtime.launch_enter_hook.add(lambda metadata: None)


CHANGES = {
    "environment": lambda: os.environ.update({NAME: "1"}),
    "cwd": lambda: os.chdir("/"),
    "umask": lambda: os.umask(0o7),
    "sys.path": lambda: sys.path.append("nowhere"),
    "sys.argv": lambda: sys.argv.append("--nothing"),
    "sys.excepthook": lambda: setattr(sys, "excepthook", lambda *error: None),
    "recursion limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
    "signal handlers": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "warning filters": lambda: warnings.filterwarnings("ignore", "a test's own"),
    "python generator": random.random,
    "numpy errors": lambda: np.seterr(invalid="raise"),
    "numpy generator": lambda: np.random.rand(),
    "torch default dtype": lambda: torch.set_default_dtype(torch.float64),
    "torch default device": lambda: torch.set_default_device("meta"),
    "torch precision": lambda: torch.set_float32_matmul_precision("high"),
    "torch determinism": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "torch autograd": lambda: torch.set_grad_enabled(False),
    "torch threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "torch generator": lambda: torch.manual_seed(20),
    "triton knobs": knob,
    "triton allocator": lambda: triton.set_allocator(lambda size, alignment, stream: None),
    "triton driver": lambda: triton.runtime.driver.set_active(object()),
    "sm budgets": lambda: set_num_sms(4, device=0),
    "source of SM counts": lambda: enter(physical_from(Devices({0: 8}))),
    "launch constraints": lambda: enter(constraints(num_stages=2)),
}
#: Needs a GPU to change, or cannot be put back.
ELSEWHERE = {"torch current GPU", "launch leases"}


def test_every_built_in_state_is_changed_below():
    assert set(CHANGES) | ELSEWHERE == set(states())


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_and_put_back(name):
    before = snapshot()
    CHANGES[name]()
    seen = diff(before, snapshot(), consumables=True)
    assert name in {re.split(r"\[| from item", difference.what)[0] for difference in seen}
    assert restore(before, consumables=True) == ()
    assert diff(before, snapshot(), consumables=True) == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        lambda: setattr(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
        lambda: torch.autograd.set_detect_anomaly(True),
        lambda: torch.set_autocast_enabled("cpu", True),
        lambda: np.seterr(all="ignore"),
        lambda: torch.set_default_device("cpu") or torch.set_default_device("meta"),
        lambda: os.environ.pop("PATH"),
        lambda: os.environ.update(PATH=""),
        hook,
    ],
)
def test_each_part_of_a_state_is_seen_and_put_back(change):
    before = snapshot()
    change()
    assert diff(before, snapshot())
    assert restore(before) == ()
    assert diff(before, snapshot()) == ()


def test_a_held_lease_is_seen():
    with physical_from(Devices({0: 8})):
        before = snapshot()
        with launch_lease(kernel="mega_moe"):
            (difference,) = diff(before, snapshot())
    assert difference.what == "launch leases[0]"
    assert "mega_moe" in difference.after


def test_a_difference_says_what_it_was_and_what_it_is(monkeypatch):
    monkeypatch.delenv(NAME, raising=False)
    before = snapshot()
    os.environ[NAME] = "1"
    between = snapshot()
    os.environ[NAME] = "2"
    assert [str(item) for item in diff(before, between)] == [f"environment['{NAME}']: unset -> '1'"]
    assert [str(item) for item in diff(between, snapshot())] == [f"environment['{NAME}']: '1' -> '2'"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (("a", "b"), ("x", "a", "b"), "counter from item 0: () -> ('x',)"),
        (("a", "a"), ("a", "a", "a"), "counter from item 2: () -> ('a',)"),
        (("a", "b", "c"), ("a", "c"), "counter from item 1: ('b',) -> ()"),
        (("a", "b", "c"), ("a", "x", "c"), "counter from item 1: ('b',) -> ('x',)"),
        ((), ("a",), "counter from item 0: () -> ('a',)"),
    ],
)
def test_of_a_sequence_only_what_differs_is_shown(counter, old, new, said):
    counter["count"] = old
    before = snapshot()
    counter["count"] = new
    assert [str(item) for item in diff(before, snapshot())] == [said]


def test_a_long_value_is_cut_and_bytes_are_summarised(counter):
    before = snapshot()
    counter["count"] = "x" * 500
    (long,) = diff(before, snapshot())
    counter["count"] = b"x" * 500
    (summary,) = diff(before, snapshot())
    assert len(long.after) == 120
    assert summary.after.startswith("<500 bytes ")


def test_using_a_generator_is_no_difference():
    before = snapshot()
    random.random()
    torch.rand(1)
    assert diff(before, snapshot()) == ()
    used = {item.what.partition(" from")[0] for item in diff(before, snapshot(), consumables=True)}
    assert used == {"python generator", "torch generator"}


def test_generators_are_put_back_to_the_same_numbers():
    before = snapshot()
    drawn = [(random.random(), np.random.rand(), torch.rand(1).item()) for _ in range(2)]
    restore(before, consumables=True)
    again = [(random.random(), np.random.rand(), torch.rand(1).item()) for _ in range(2)]
    assert drawn == again


def test_a_registered_state_takes_part(counter):
    before = snapshot()
    counter["count"] = 3
    assert [str(item) for item in diff(before, snapshot())] == ["counter: 0 -> 3"]
    assert restore(before) == ()
    assert counter["count"] == 0


def test_an_ignored_state_is_neither_reported_nor_put_back(counter):
    before = snapshot()
    counter["count"] = 3
    assert diff(before, snapshot(), ignore=["counter"]) == ()
    restore(before, ignore=["counter"])
    assert counter["count"] == 3


def test_a_name_can_be_registered_once(counter):
    for name in ("counter", "environment"):
        with pytest.raises(ValueError, match=f"'{name}' is registered already"):
            register_state(name, lambda: 0, None)


def test_a_state_of_a_module_that_is_not_loaded_is_not_read():
    register_state("absent", lambda: Decimal("never read"), None, module="no.such.module")
    try:
        assert "absent" not in snapshot().values
    finally:
        unregister_state("absent")


def test_a_state_that_comes_to_exist_is_no_difference(counter):
    counter["count"] = ABSENT
    before = snapshot()
    counter["count"] = 1
    assert "counter" not in before.values
    assert diff(before, snapshot()) == ()


def test_a_reader_that_raises_is_shown_and_not_put_back():
    answers = iter([OSError("gone"), 5, 5])

    def read():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    register_state("flaky", read, lambda wanted: pytest.fail(f"put back {wanted}"))
    try:
        before = snapshot()
        (difference,) = diff(before, snapshot())
        assert str(difference) == "flaky: <unreadable: OSError: gone> -> 5"
        assert restore(before) == ()
    finally:
        unregister_state("flaky")


def test_what_cannot_be_put_back_is_named():
    value = [0]

    def refuse(wanted):
        raise OSError

    for name, put_back in (("read only", None), ("refuses", refuse), ("ignores", lambda wanted: None)):
        register_state(name, lambda: value[0], put_back)
    try:
        before = snapshot()
        value[0] = 1
        assert restore(before) == ("read only", "refuses", "ignores")
    finally:
        for name in ("read only", "refuses", "ignores"):
            unregister_state(name)


def test_the_old_precision_setting_may_be_unreadable():
    before = snapshot()
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert isinstance(snapshot().values["torch precision"]["float32_matmul"], Unreadable)
    assert restore(before) == ()


@pytest.mark.parametrize(
    ("base", "before", "after", "rebased"),
    [
        (1, 1, 2, 2),
        (7, 1, 1, 7),
        ({"a": 1, "b": 1}, {"a": 1}, {"a": 2}, {"a": 2, "b": 1}),
        ({"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": 1}, {"a": 1}),
        ({"b": 1}, {}, {"a": 1}, {"a": 1, "b": 1}),
        ({"a": 5}, {"a": 1}, {"a": 1, "c": 1}, {"a": 5, "c": 1}),
    ],
)
def test_a_change_is_carried_over_to_another_snapshot(base, before, after, rebased):
    moved = rebase(*(Snapshot({"state": value}) for value in (base, before, after)))
    assert moved.values["state"] == rebased


def test_a_snapshot_loads_no_library():
    code = (
        "import sys; from harness.state import snapshot; snapshot(); "
        "print({'torch', 'numpy', 'triton'} & {*sys.modules})"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert child.stdout.strip() == "set()"


def test_a_budget_is_put_back():
    with physical_from(Devices({0: 148})):
        set_num_sms(100)
        before = snapshot()
        set_num_sms(50)
        assert restore(before) == ()
        assert current_budget() == 100
