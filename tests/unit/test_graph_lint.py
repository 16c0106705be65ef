"""What the capture lint allows and forbids, what ``verify`` makes of it, and what graphs are replayed with."""

import importlib
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch

from harness import registry
from harness.contract import Capturable, Implementation
from harness.graphs import capture_lint, graph_cases
from harness.graphs.capture import CaptureFault, _nothing_compiled
from harness.graphs.cases import unlike
from harness.graphs.findings import Place
from harness.graphs.memory import Trace
from harness.known import Known
from harness.outcome import ContractError
from harness.poison import NAN, QUIET, Poison
from harness.report.records import Verdict
from harness.search import search
from tests.teeth.graph_wrappers import CONTRACT, SMALL, plain, tuned_kernel
from tests.unit.contract_cases import NAMES

CPU = torch.device("cpu")
PROMISE = Capturable()
SMALL_ONLY = replace(CONTRACT, pinned=(SMALL,))


def lint(launch, **options):
    return capture_lint(launch, CONTRACT.inputs(SMALL, CPU, Poison()), **options)


def rules(launch, **options):
    found = lint(launch, **options)
    assert found.unsupported == ()
    return [finding.rule for finding in found.findings]


def after(look):
    rest = plain()

    def launch(x, ids, live):
        look(x, ids, live)
        return rest(x, ids, live)

    return launch


LEGAL = {
    "a tensor of the host read there": lambda x, ids, live: torch.tensor([3, 4]).sum().item(),
    "a number as a scalar operand": lambda x, ids, live: x * torch.tensor(2.0),
    "a number assigned by a mask": lambda x, ids, live: (2 * x).__setitem__(x > 3, 0.0),
    "one_hot of a known width": lambda x, ids, live: torch.nn.functional.one_hot(ids.clamp(min=0).long(), 8),
    "repeat_interleave of a known size": lambda x, ids, live: torch.repeat_interleave(live, live, output_size=4),
    "a look at where it runs": lambda x, ids, live: torch.cuda.get_device_properties(x.device).multi_processor_count,
    "integer indices of the device": lambda x, ids, live: x[ids.clamp(min=0).long()],
}
FORBIDDEN = {
    "pinned memory copied": (lambda x, ids, live: torch.zeros(3).pin_memory().to(x.device), "copies"),
    "a tensor of the host copied": (lambda x, ids, live: torch.zeros(3).to(x.device), "copies"),
    "copy_ to the host": (lambda x, ids, live: torch.zeros(1, dtype=torch.int32).copy_(live), "waits"),
    "one_hot of an unknown width": (lambda x, ids, live: torch.nn.functional.one_hot(ids.clamp(min=0).long()), "waits"),
    "numpy": (lambda x, ids, live: live.numpy(force=True), "waits"),
    "a stream asked": (lambda x, ids, live: torch.cuda.current_stream().query(), "waits"),
    "masked_select": (lambda x, ids, live: ids.masked_select(ids > 0), "shape"),
    "a factorisation checked": (lambda x, ids, live: torch.linalg.cholesky(torch.eye(2, device=x.device)), "waits"),
}


@pytest.mark.parametrize("what", LEGAL)
def test_what_a_capture_allows_is_no_finding(what):
    assert rules(after(LEGAL[what])) == []


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_a_capture_forbids_is_a_finding(what):
    look, rule = FORBIDDEN[what]
    assert rule in rules(after(look))


def test_the_first_call_may_do_what_it_likes():
    calls = []

    def first_time(x, ids, live):
        if not calls:
            calls.append(live.item())

    # the length is read by the kernel too, so nothing goes unread
    assert rules(after(first_time)) == []


def test_a_launch_that_raises_is_a_finding_at_its_line():
    def launch(x, ids, live):
        raise ValueError("x: wanted another")

    (finding,) = lint(launch).findings
    assert (finding.rule, finding.place.function) == ("raises", "launch")
    assert "in the warm-up launch: ValueError: x: wanted another" in finding.message


def test_tensors_inside_of_a_dataclass_are_outputs():
    @dataclass
    class Result:
        out: torch.Tensor

    last = []

    def launch(x, ids, live):
        last[:] = [Result(plain()(x, ids, live))]
        return last[0]

    assert rules(launch) == []


def test_torch_is_itself_again_after_a_lint():
    before = torch.tensor, torch.Tensor.tolist, torch.cuda.is_current_stream_capturing, torch.cuda.synchronize
    lint(after(lambda x, ids, live: live.item()))
    after_it = torch.tensor, torch.Tensor.tolist, torch.cuda.is_current_stream_capturing, torch.cuda.synchronize
    assert before == after_it


def test_what_the_emulation_lacks_is_named_and_nothing_is_clean():
    found = lint(after(lambda x, ids, live: torch.cuda.memory_stats()))
    assert found.unsupported == ("torch.cuda.memory_stats",)
    assert not found.clean


def test_a_tensor_that_is_on_a_device_is_refused():
    given = CONTRACT.inputs(SMALL, CPU, Poison())
    with pytest.raises(ValueError, match=r"live: wanted a CPU tensor.*meta"):
        capture_lint(plain(), given | {"live": given["live"].to("meta")})


def test_compiling_and_tuning_are_stopped_and_allowed_again():
    runtime = importlib.import_module("triton.knobs").runtime
    before = runtime.jit_cache_hook, type(tuned_kernel)._bench
    with _nothing_compiled():
        with pytest.raises(CaptureFault, match="add_kernel is compiled during capture"):
            runtime.jit_cache_hook(fn=SimpleNamespace(name="add_kernel"), key="", already_compiled=False)
        with pytest.raises(CaptureFault, match="tuned_kernel is tuned during capture"):
            tuned_kernel._bench(config=tuned_kernel.configs[0])
    assert (runtime.jit_cache_hook, type(tuned_kernel)._bench) == before


def test_what_lies_outside_of_a_graphs_pool_or_stays_in_it_is_told_by_line():
    place = Place("/elsewhere/ops.py", 7, "launch")
    pool, output = (3, 0), torch.zeros(2)
    start = output.untyped_storage().data_ptr()
    trace = Trace(
        allocations=[(16, 512, place, (0, 0)), (32, 64, None, pool), (start, 8, place, pool)],
        live=[(16, 512, (0, 0)), (32, 64, pool), (start, 8, pool), (64, 24, pool)],
    )
    (outside,) = trace.outside(pool)
    assert outside.startswith("allocates 512 bytes outside of the graph's pool (ops.py:7 in launch)")
    # an output stays, and so does what an earlier graph in the pool left there
    (kept,) = trace.kept(pool, [output])
    assert kept.startswith("keeps 64 bytes that lie in the pool of the graph:")


def records(look, *, known=(), capturable=PROMISE):
    implementation = Implementation(
        contract=CONTRACT.name, name="looking", launch=after(look), known=known, capturable=capturable
    )
    report = search(SMALL_ONLY, implementation, examples=1)
    return {record.check: record for record in report.records()}


def test_a_search_fails_on_the_check_capturable():
    record = records(lambda x, ids, live: live.item())["capturable"]
    assert (record.verdict, record.examples) == (Verdict.FAIL, 1)
    (fault,) = record.faults
    assert fault.case == repr(SMALL)
    assert "test_graph_lint.py" in fault.message


def test_a_search_says_nothing_about_an_implementation_that_promises_nothing():
    assert "capturable" not in records(lambda x, ids, live: live.item(), capturable=None)


def test_what_cannot_be_linted_is_untrusted_and_takes_nothing_else_along():
    def only_on_a_gpu(x, ids, live):
        if x.is_cuda:
            torch.cuda.memory_stats()

    found = records(only_on_a_gpu)
    assert found["capturable"].verdict is Verdict.UNTRUSTED
    assert "torch.cuda.memory_stats" in found["capturable"].note
    assert found["oracle:out"].verdict is Verdict.PASS


def test_a_known_finding_is_tolerated_until_it_is_gone():
    known = (Known(match=lambda case: True, issue="#5", check="capturable"),)
    assert records(lambda x, ids, live: live.item(), known=known)["capturable"].verdict is Verdict.KNOWN
    assert records(lambda x, ids, live: None, known=known)["capturable"].verdict is Verdict.STALE


def test_a_declared_case_that_does_not_parse_is_the_contracts_error():
    broken = Implementation(contract="x", name="y", launch=plain(), capturable=Capturable(cases=("Case(nonsense=1)",)))
    with pytest.raises(ContractError, match="capturable cases of x-y"):
        graph_cases(CONTRACT, broken)


@pytest.fixture(scope="module")
def shipped():
    registry.load(["kernels"], installed=False)
    return [one for one in registry.implementations() if one.contract in NAMES or one.contract == "mega_moe"]


def test_every_shipped_implementation_promises_to_be_capturable(shipped):
    assert [str(one) for one in shipped if one.capturable is None] == []


def test_replays_of_shipped_contracts_differ_in_content_alone(shipped):
    first = {one.contract: one for one in shipped}
    for name, implementation in first.items():
        of = registry.contract(name)
        case = graph_cases(of, implementation)[0]
        given = of.inputs(case, CPU, Poison(QUIET))
        others = of.replays(case)
        assert others, name
        for other in others:
            assert unlike(given, of.inputs(other, CPU, Poison(NAN))) is None, (name, other)
