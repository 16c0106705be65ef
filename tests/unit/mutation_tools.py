"""What must hold of other tools as judges; a check is called with the modules of ``harness.mutation`` to judge.

The tools are fakes: what is looked at is what the adapters make of a tool's words and results.
"""

import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import pytest
import torch

from harness.discover import SetupError
from harness.outcome import CaseResult, Violation, described
from tests.unit.mutation_checks import result

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


CONTRACT = SimpleNamespace(
    name="merge_attn_states",
    outputs=("out", "lse"),
    inputs=lambda case, device, poison: {"x": torch.arange(4.0)},
    oracle=lambda x: {"out": x * 2, "lse": x + 1},
)


@contextmanager
def fake(**modules):
    """Put modules in place, ``__`` standing for a dot, each with the names of a dict."""
    named = {name.replace("__", "."): content for name, content in modules.items()}
    made = {name: ModuleType(name) for name in named}
    before = {name: sys.modules.get(name) for name in made}
    for name, content in named.items():
        vars(made[name]).update(content)
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def judged(api, kind, launch):
    """What a kind of judging finds of ``launch``; the tool runs in this process."""
    api.tools.apart = lambda call, seconds: _here(api, call)
    lane = SimpleNamespace(device=torch.device("cpu"))
    judging = kind(lane, api.judge.Oracles(), lambda implementation: implementation)
    return judging, judging.result(CONTRACT, SimpleNamespace(launch=launch), "a case")


def _here(api, call):
    try:
        return api.apart.Outcome(value=call())
    except Exception as error:
        return api.apart.Outcome(problem=described(error))


def in_ttsem(api, launch, before=lambda: None):
    """What is found where ttsem is a tool that calls ``before`` when a session begins."""

    @contextmanager
    def session(races):
        assert races == "raise"
        before()
        yield

    with fake(ttsem__sanitize={"session": session}):
        return judged(api, api.tools.Ttsem, launch)[1]


def right(x):
    return {"out": x * 2, "lse": x + 1}


@check
def a_right_result_without_a_report_is_no_kill(api):
    found = in_ttsem(api, right)
    assert not found.violations
    assert found.checks_run == {"ttsem", "close:out", "close:lse"}


@check
def every_output_is_compared(api):
    assert [v.check for v in in_ttsem(api, lambda x: {"out": x * 2, "lse": x + 2}).violations] == ["close:lse"]


@check
def what_a_tool_reports_is_a_kill_in_its_words(api):
    def report():
        raise RuntimeError("writes 24 elements past the end of out_ptr")

    found = in_ttsem(api, right, report).violations
    assert [v.check for v in found] == ["ttsem"]
    assert "writes 24 elements past the end of out_ptr" in found[0].message


@check
def what_a_tool_does_not_model_is_no_kill(api):
    class Unjudged(Exception):
        pass

    def stop():
        raise Unjudged("tt.elementwise_inline_asm: the semantics does not model PTX")

    found = in_ttsem(api, right, stop)
    trusted = api.judge.Trusted()
    trusted.add(("merge-triton", "a case"), in_ttsem(api, right))
    assert found.violations, "words for a table"
    assert not any(trusted.counts(("merge-triton", "a case"), violation.check) for violation in found.violations)
    assert not found.checks_run


@check
def the_sanitizer_has_no_results_to_compare_and_the_tracer_has(api):
    clients = {"Sanitizer": lambda abort_on_error: "sanitizer", "Tracer": lambda: "tracer"}
    used = []

    @contextmanager
    def wrapped(implementation, client):
        used.append(client)
        yield {f"kernel in {client}"}

    api.tools._wrapped = wrapped
    with fake(triton_viz__clients=clients):
        judging, found = judged(api, api.tools.TritonViz, lambda x: {"out": x * 3, "lse": x + 1})
    assert used == ["sanitizer", "tracer"]
    assert [v.check for v in found.violations] == ["close:out"]
    assert judging.kernels == {"kernel in sanitizer", "kernel in tracer"}


@check
def gpucheck_compares_by_its_own_tolerances_and_by_ours(api):
    seen = []

    def assert_close(got, wanted, *, nan_equal, baseline_2x):
        seen.append((nan_equal, baseline_2x))
        if not baseline_2x:
            raise AssertionError("not close!\na long report")

    outputs = right(torch.arange(4.0))
    with fake(gpucheck={"assert_close": assert_close}):
        found = list(api.tools.Gpucheck(None, None, None).differences(CONTRACT, outputs, outputs))
    assert seen == [(True, False), (True, True)] * 2
    assert found[:3] == [("gpucheck:out", "not close!"), ("gpucheck-2x:out", ""), ("close:out", "")]


@check
def a_style_names_the_package_that_is_missing(api):
    api.styles.TOOLS = {"gpucheck": "a-package-that-nobody-has"}
    with pytest.raises(SetupError, match=r"^--style gpucheck needs a-package-that-nobody-has, found none$"):
        api.styles.version("gpucheck")
    assert api.styles.version("fixed") == ""


def reach(api, results):
    """What can be judged where unit ``n`` gives ``results[n]`` on the original; the module behind each is its name."""
    units = [api.plan.Unit(None, name, "case", False, number + 10) for number, name in enumerate(results)]
    api.reach.files = list
    judging = SimpleNamespace(result=lambda contract, implementation, case: results[implementation], kernels={"m.k"})
    return api.reach.Reach.of(judging, units)


@check
def only_cases_that_pass_on_the_original_judge(api):
    fails = CaseResult(checks_run={"ttsem"}, violations=[Violation("ttsem", "does not model PTX")])
    found = reach(api, {"words": fails, "plain": CaseResult(checks_run={"ttsem", "close:out"})})
    assert [(unit.implementation, unit.number) for unit in found.units] == [("plain", 0)]
    assert found.refusal("words") == "does not model PTX"
    assert found.refusal("plain") == ""
    assert found.kernels == {"m.k"}


@check
def a_module_that_one_implementation_runs_is_judged(api):
    fails = CaseResult(checks_run={"ttsem"}, violations=[Violation("ttsem", "hangs")])
    api.reach.files = lambda implementations: ["shared"]
    units = [api.plan.Unit(None, name, "case", False, 0) for name in ("fails", "passes")]
    results = {"fails": fails, "passes": CaseResult(checks_run={"ttsem"})}
    judging = SimpleNamespace(result=lambda contract, implementation, case: results[implementation])
    found = api.reach.Reach.of(judging, units)
    assert found.refusal("shared") == ""
    assert found.kernels is None


@check
def a_judge_that_says_why_it_abstains_has_its_rate_on_fewer(api):
    judged = {
        "contract": {"a": "KILLED", "b": "KILLED", "c": "KILLED", "d": "KILLED"},
        "ttsem": {"a": "KILLED", "b": "SURVIVED", "c": "SKIPPED", "d": "SKIPPED"},
    }
    reasons = {"c": "does not model PTX", "d": ""}
    found = {
        who: [result(api, key, status=status, reason=reasons.get(key, "")) for key, status in of.items()]
        for who, of in judged.items()
    }
    table, _, said = api.peers.render(found).partition("ttsem cannot")
    assert [line.split() for line in table.splitlines()] == [
        ["kernel", "mutants", "contract", "ttsem"],
        ["merge", "3", "100.0%", "50.0%", "of", "2"],
        ["all", "3", "100.0%", "50.0%", "of", "2"],
    ], "time was up for d, which says nothing"
    assert said == " judge 1 of 3 of merge: does not model PTX\n"


@check
def a_judge_that_judges_nothing_of_a_kernel_has_no_rate(api):
    found = {
        "contract": [result(api, "a")],
        "ttsem": [result(api, "a", status="SKIPPED", reason="hangs")],
    }
    assert api.peers.render(found).splitlines()[1].split() == ["merge", "1", "100.0%", "-"]
