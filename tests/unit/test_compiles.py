"""Triton itself is asked whether it compiles what the virtual GPU ran, once a specialisation and without a GPU."""

import inspect
import tempfile
from dataclasses import dataclass
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch

from harness.compiling.acceptance import Acceptance
from harness.contract import Compiles, Contract, Expected, Implementation, Requires
from harness.device.targets import target_of
from harness.lanes import VirtualLane
from harness.run import acceptance, check_case
from harness.search import search
from harness.tolerance import Exact
from tests.unit import refused_kernels
from tests.unit.refused_kernels import REFUSED, accepted, break_in_a_loop

SM_120 = target_of("sm_120")


@dataclass(frozen=True)
class Case:
    n: int


CONTRACT = Contract(
    name="copied",
    cases=lambda: st.builds(Case, n=st.integers(3, 9)),
    inputs=lambda case, device, poison: {"x": torch.arange(case.n, dtype=torch.float32, device=device)},
    oracle=lambda x: {"out": x.clone()},
    tolerance={"out": Exact()},
)


def copied(x):
    out = torch.empty_like(x)
    accepted[(1,)](x, out, len(x), STEP=1)
    return out


def broken(x):
    """Right on the virtual GPU, which ends loops early."""
    out = torch.empty_like(x)
    break_in_a_loop[(1,)](x, torch.empty(1), 9 + len(x))
    out.copy_(x)
    return out


def implementation(launch, **options):
    return Implementation(contract="copied", name="mine", launch=launch, **options)


def checked(launch, **options):
    with tempfile.TemporaryDirectory() as folder:
        asks = Acceptance(SM_120, folder=Path(folder))
        return check_case(CONTRACT, implementation(launch, **options), Case(5), asks=asks)


def marked(kernel):
    """``FILE:LINE in FUNCTION`` of the marked line of a kernel."""
    lines, first = inspect.getsourcelines(kernel.fn)
    (place,) = [number for number, line in enumerate(lines) if "# here" in line]
    return f"{Path(refused_kernels.__file__).name}:{first + place} in {kernel.__name__}"


def asked(kernel, folder, target=SM_120, **given):
    asks = Acceptance(target, folder=folder)
    asks.note(kernel, (torch.zeros(64), torch.zeros(64), 7), given)
    return asks.refusals()


def told(kernel):
    """Ask about a refused kernel and check what is said."""
    reason, place = REFUSED[kernel]
    with tempfile.TemporaryDirectory() as folder:
        (refusal,) = asked(kernel, Path(folder))
    assert reason in refusal.message
    assert f"does not compile {kernel.__name__} for sm_120" in refusal.message
    assert refusal.message.endswith(f"({marked(place)})")
    assert refusal.site.endswith(f"at {marked(place)}")


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda kernel: kernel.__name__)
def test_what_triton_refuses_is_told_with_its_reason_and_line(kernel):
    told(kernel)


def test_a_refused_kernel_fails_where_every_value_is_right():
    result = checked(broken)
    assert {violation.check for violation in result.violations} == {"compiles"}
    assert result.violations[0].site == f"UnsupportedLanguageConstruct at {marked(break_in_a_loop)}"


def test_a_search_reports_a_refused_kernel_once():
    report = search(CONTRACT, implementation(broken), examples=3)
    assert [(fault.check, fault.features) for fault in report.faults] == [("compiles", frozenset())]


def test_an_accepted_kernel_passes():
    result = checked(copied)
    assert result.violations == []
    assert "compiles" in result.checks_run


def test_a_launch_of_nothing_passes_no_check():
    assert "compiles" not in checked(lambda x: x.clone()).checks_run


def test_a_launch_without_a_virtual_gpu_or_for_another_check_is_not_asked_about():
    subject = implementation(broken)
    assert "compiles" not in check_case(CONTRACT, subject, Case(5), only="repeat").checks_run
    assert "compiles" in check_case(CONTRACT, subject, Case(5), only="compiles").checks_run
    execution = VirtualLane().run(broken, {"x": torch.zeros(3)})
    assert execution.refusals is None


def test_an_accepted_specialisation_is_kept_on_disk_and_a_refused_one_is_not(tmp_path, monkeypatch):
    assert asked(accepted, tmp_path, STEP=2) == []
    assert asked(break_in_a_loop, tmp_path) != []
    questions = []
    monkeypatch.setattr("harness.compiling.acceptance.ask", lambda found: questions.append(found.kernel))
    asked(accepted, tmp_path, STEP=2)
    asked(accepted, tmp_path, STEP=4)
    asked(accepted, tmp_path, target_of("sm_90"), STEP=2)
    asked(break_in_a_loop, tmp_path)
    assert questions == ["accepted", "accepted", "break_in_a_loop"]


def test_of_one_kernel_so_many_are_asked_about_and_only_what_brings_something_new():
    questions = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.compiling.acceptance.ask", lambda found: questions.append(dict(found.constants)))
        asks = Acceptance(SM_120, most=4, folder=Path(folder))
        for n, step, warps in ((7, 2, 4), (9, 2, 8), (1, 2, 4), (7, 4, 4), (1, 4, 4), (7, 8, 4), (7, 16, 4)):
            # a tensor that is not aligned is no other kernel to the front end
            asks.note(accepted, (torch.zeros(64)[n % 2 :], torch.zeros(64), n), {"STEP": step, "num_warps": warps})
            asks.refusals()
    assert questions == [{"STEP": 2}, {"n": 1, "STEP": 2}, {"STEP": 4}, {"STEP": 8}]


def test_a_refusal_is_told_at_every_launch_and_asked_for_once(tmp_path, monkeypatch):
    asks = Acceptance(SM_120, folder=tmp_path)
    arguments = (torch.zeros(64), torch.zeros(64), 7)
    asks.note(break_in_a_loop, arguments, {})
    first = asks.refusals()
    monkeypatch.setattr("harness.compiling.acceptance.ask", None)
    asks.note(break_in_a_loop, arguments, {})
    assert asks.refusals() == first != []
    assert asks.refusals() is None


def test_a_declared_refusal_is_no_fault_and_another_is():
    def declared(says, target="sm120"):
        expected = Expected(verdict="REFUSED", targets=(target,), says=says, because="a test")
        return checked(broken, compiles=Compiles(expected=(expected,))).violations

    assert declared("AST node type: Break") == []
    assert declared("AST node type: Lambda") != []
    assert declared("AST node type: Break", "sm90") != []


def test_the_target_asked_for_is_one_that_the_implementation_is_for():
    assert acceptance(implementation(copied), "sm_90").target.arch == "sm_90"
    only = implementation(copied, requires=Requires(targets=("sm100", "sm103")))
    assert acceptance(only, "sm_103").target.arch == "sm_103"
    assert acceptance(only, "sm_90").target.arch == "sm_100"


def test_options_that_triton_does_not_take_come_out_of_the_launch(tmp_path):
    with pytest.raises(AssertionError, match="num_warps must be a power of 2"):
        asked(accepted, tmp_path, STEP=2, num_warps=3)
