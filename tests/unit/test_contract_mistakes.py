"""What is wrong with a contract is said of the contract, with its line, and never of an implementation."""

import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import strategies as st

from harness import cli, discover, isolate, registry
from harness.contract import Contract, Relation
from harness.lanes import VirtualLane
from harness.outcome import ContractError
from harness.report import jsonl, junit, markdown, table
from harness.report.records import FaultRecord, Record, Verdict
from harness.report.summary import Summary
from harness.run import check_case, check_rejections
from harness.search import search
from harness.tolerance import Exact
from tests.unit.pooling import CASE, CONTRACT, RIGHT, PlainLane, inputs, pooled


def mistake(contract, run=check_case):
    """Return the words of the ContractError that the right implementation meets."""
    arguments = (CASE,) if run is check_case else ()
    options = {"examples": 2} if run is search else {}
    with pytest.raises(ContractError) as caught:
        run(contract, RIGHT, *arguments, lane=PlainLane(), **options)
    text = str(caught.value)
    assert re.match(r"contract pooling \(tests/unit/(pooling|test_contract_mistakes)\.py:\d+\): ", text)
    assert caught.value.contract == "pooling"
    return text.partition("): ")[2]


def unseeded(case, device, poison):
    return {**inputs(case, device, poison), "scores": torch.rand(len(case.rows), len(case.rows[0]))}


def test_inputs_that_are_not_the_same_twice_blame_no_implementation():
    said = mistake(replace(CONTRACT, inputs=unseeded))
    assert said.startswith("inputs are not the same in two calls for Case(")
    assert "scores: 24 of 24 elements break 'the same inputs'; first at (0, 0): got " in said
    assert said.endswith("; draw them from a torch.Generator that the case seeds")


def test_an_argument_that_is_there_only_once_is_named():
    calls = []

    def now_and_then(case, device, poison):
        calls.append(None)
        return {**inputs(case, device, poison), "sink": torch.ones(len(case.rows)) if len(calls) == 1 else None}

    assert ": only one has sink; " in mistake(replace(CONTRACT, inputs=now_and_then))


def test_an_output_that_no_tolerance_is_for_is_a_mistake():
    contract = replace(CONTRACT, tolerance={"out": CONTRACT.tolerance["out"]})
    assert mistake(contract) == "the oracle returns ['lse'], which tolerance does not name: nothing would check them"


def test_an_output_that_the_oracle_lacks_is_a_mistake():
    contract = replace(CONTRACT, oracle=lambda **given: {"out": pooled(**given)["out"]})
    assert mistake(contract) == "the oracle lacks the outputs ['lse'] for the inputs"


def integers(**given):
    return {name: tensor.int() for name, tensor in pooled(**given).items()}


def test_a_budget_for_integers_is_a_mistake():
    said = mistake(replace(CONTRACT, oracle=integers))
    assert said == "out is torch.int32, and a Budget is for floating outputs: give it Exact()"


def test_a_shape_that_follows_the_dtype_is_a_mistake():
    def longer(**given):
        outputs = pooled(**given)
        return {**outputs, "lse": outputs["lse"].repeat(2 if given["cache"].dtype is torch.float64 else 1)}

    said = mistake(replace(CONTRACT, oracle=longer))
    assert said == "the oracle's lse has the shape (8,), but (16,) for float64 inputs"


def test_a_magnitude_that_does_not_broadcast_is_a_mistake():
    contract = replace(CONTRACT, magnitude=lambda **given: {"lse": torch.ones(3)})
    assert mistake(contract) == "magnitude of lse: (3,) does not broadcast to (8,)"
    unknown = replace(CONTRACT, magnitude=lambda **given: {"lsf": torch.ones(8)})
    assert mistake(unknown) == "magnitude returns lsf, which is no output"


def test_a_tolerance_that_raises_is_a_mistake():
    class Broken(Exact):
        def compare(self, *arguments):
            raise IndexError("row 9 of 8")

    contract = replace(CONTRACT, tolerance={"out": Broken(), "lse": Broken()})
    assert mistake(contract).startswith("the tolerance of out failed on Case(")


def test_cases_that_are_none_are_a_mistake():
    for cases in (st.nothing, lambda: st.just(CASE).filter(lambda case: False)):
        assert mistake(replace(CONTRACT, cases=cases), search).startswith("cases() gave no case in 8 draws: ")


def test_cases_that_cannot_be_drawn_are_a_mistake():
    said = mistake(replace(CONTRACT, cases=lambda: st.builds(type(CASE), size=st.integers())), search)
    assert said.startswith("drawing from cases() failed: TypeError: ")
    assert "'size'" in said


def test_features_that_raise_are_a_mistake():
    said = mistake(replace(CONTRACT, features=lambda case: frozenset({case.size})), search)
    assert said.startswith("features failed on Case(")


def test_a_relation_that_raises_is_a_mistake():
    broken = Relation(name="reversed", transform=lambda case, given: given["size"])
    said = mistake(replace(CONTRACT, relations=(broken,)))
    assert said.startswith("relation:reversed failed on Case(")


def test_illegal_calls_that_cannot_be_made_are_a_mistake():
    said = mistake(replace(CONTRACT, rejects=lambda: 1 / 0), check_rejections)
    assert said.startswith("rejects failed: ZeroDivisionError: division by zero (test_contract_mistakes.py:")


def test_a_contract_needs_an_output():
    with pytest.raises(ContractError, match="contract empty: tolerance names no output"):
        Contract(name="empty", cases=st.nothing, inputs=inputs, oracle=pooled, tolerance={})


def test_a_module_with_a_contract_that_cannot_be_made_is_one_line_with_its_place(tmp_path, monkeypatch, capsys):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "acme_empty.py").write_text(
        "from harness import Contract\n\nContract(name='acme', cases=None, inputs=None, oracle=None, tolerance={})\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["list", "--module", "acme_empty"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("harness: cannot load module 'acme_empty': ContractError: contract acme: tolerance names no")
    assert said.endswith("acme_empty.py:3)\n")


def test_the_line_of_a_registration_is_known(own_registry):
    own_registry.register(replace(CONTRACT, name="here"))
    assert registry.place(registry.contract("here")).startswith("tests/unit/test_contract_mistakes.py:")


def test_a_mistake_ends_a_child_without_a_verdict_on_its_implementation():
    job = isolate.Job(contract="mistaken", implementation="right", modules=("tests.unit.victims",), examples=2)
    (record,) = isolate.run([job])
    assert (record.check, record.verdict) == ("contract", Verdict.CONTRACT)
    assert record.note.startswith("contract mistaken (tests/unit/victims.py:")
    (fault,) = record.faults
    assert (fault.message, fault.case[:10]) == (record.note, "Case(rows=")


NOTE = "contract toy (toy.py:7): the oracle lacks the outputs ['lse']"


def broken(implementation):
    fault = FaultRecord(check="contract", case="Case()", message=NOTE)
    unit = {"contract": "toy", "implementation": implementation, "seconds": 1.0}
    return Record(check="contract", verdict=Verdict.CONTRACT, note=NOTE, faults=(fault,), **unit)


PASSED = Record(contract="add", implementation="a", check="raises", verdict=Verdict.PASS, examples=3)
ALONE = Summary(records=(broken("a"), broken("b")))
BESIDE = Summary(records=(PASSED, broken("a"), broken("b")))


def test_nothing_but_wrong_contracts_is_status_2():
    failed = replace(PASSED, verdict=Verdict.FAIL)
    assert [Summary(records=records).status for records in ((PASSED,), (failed,), ())] == [0, 1, 1]
    assert (ALONE.status, BESIDE.status) == (2, 1)


def test_a_wrong_contract_is_no_fault_in_the_headline():
    end = "contract toy is wrong, 2 implementations without a verdict (0 s)"
    assert ALONE.headline() == f"2 implementations, 0 checks: {end}"
    assert BESIDE.headline() == f"3 implementations, 1 check: {end}"


def test_every_report_says_once_what_is_wrong_with_a_contract():
    command = "python -m harness case toy 'Case()' --impl a"
    for text in (table.render(ALONE), markdown.render(ALONE)):
        assert text.count(NOTE) == text.count(command) == 1
    assert f"{NOTE}\n  {command}\n  no verdict on a, b\n" in table.render(ALONE)
    root = ElementTree.fromstring(junit.render(ALONE))
    assert [suite.get("errors") for suite in root] == ["0", "0", "1"]
    assert [skip.get("message") for skip in root.iter("skipped")] == ["no verdict: contract toy is wrong"] * 2
    (error,) = root.iter("error")
    assert (error.get("type"), error.get("message")) == ("CONTRACT", NOTE)
    assert jsonl.parse(jsonl.render(BESIDE).splitlines()) == BESIDE


def test_a_crash_says_its_text_once():
    fault = FaultRecord(check="process", case="Case()", message="killed by SIGSEGV; last phase 'search'\nframe 7")
    note = "killed by SIGSEGV; last phase 'search'"
    crash = replace(PASSED, check="process", verdict=Verdict.CRASH, note=note, faults=(fault,))
    for report in (table, markdown, junit):
        text = report.render(Summary(records=(crash,)))
        # a viewer that shows one line has it from an attribute
        assert text.count("killed by SIGSEGV") == (2 if report is junit else 1)
        assert "frame 7" in text


def test_the_check_of_memory_passes_nothing_where_every_launch_raised():
    def raises(**given):
        raise math.nan

    result = check_case(CONTRACT, replace(RIGHT, launch=raises), CASE, lane=PlainLane())
    assert result.checks_run == {"raises"}


def test_an_exit_in_a_launch_is_a_fault_with_its_line():
    def leaves(**given):
        raise SystemExit(3)

    (violation,) = check_case(CONTRACT, replace(RIGHT, launch=leaves), CASE, lane=VirtualLane()).violations
    assert violation.check == "raises"
    assert violation.message.startswith("SystemExit: 3 (test_contract_mistakes.py:")


def test_a_module_that_exits_is_no_pass():
    said = r"module 'acme_exits': SystemExit: 0 \(.*acme_exits.py:3\)"
    with tempfile.TemporaryDirectory() as folder, discover.search_path_kept():
        Path(folder, "acme_exits.py").write_text("import sys\n\nsys.exit(0)\n")
        with pytest.raises(discover.SetupError, match=said):
            discover.load(["acme_exits"], folder=Path(folder))
