"""Every check id is raised by the fault that it names, and by nothing a right implementation does."""

import math
from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl

from harness.arguments import VIEW_BYTES, Snapshot, tensors, widened
from harness.contract import Relation
from harness.lanes import VirtualLane
from harness.outcome import ContractError
from harness.run import check_case, check_rejections
from tests.unit.pooling import CASE, CONTRACT, REJECTING, RIGHT, PlainLane, changed, implementation, pooled

REVERSED = Relation(
    name="reversed",
    transform=lambda case, inputs: {
        key: value.flip(0) if key in ("indices", "scores") else value for key, value in inputs.items()
    },
    expect=lambda case, outputs: {key: value.flip(0) for key, value in outputs.items()},
)
RELATED = replace(CONTRACT, relations=(REVERSED,))


def check(subject, contract=CONTRACT, lane=None, case=CASE, **options):
    return check_case(contract, subject, case, lane=lane or PlainLane(), **options)


def checks_broken(*arguments, **options):
    return {violation.check for violation in check(*arguments, **options).violations}


def scaled_out(factor):
    return changed(lambda outputs: {**outputs, "out": outputs["out"] * factor})


def writes_input(**inputs):
    outputs = pooled(**inputs)
    inputs["scores"][0, 0] += 1
    return outputs


def writes_padding(**inputs):
    inputs["cache"].as_strided((1,), (1,), inputs["cache"].shape[1]).fill_(1)
    return pooled(**inputs)


def adds_invalid_scores(**inputs):
    outputs = pooled(**inputs)
    return {**outputs, "lse": outputs["lse"] + 0 * inputs["scores"].sum(dim=1)}


def reads_unused_slots(**inputs):
    outputs = pooled(**inputs)
    return {**outputs, "out": outputs["out"] + 0 * inputs["cache"].sum(dim=0)}


def needs_two_regions(**inputs):
    outputs = pooled(**inputs)
    both = inputs["cache"][3].isnan().any() and inputs["scores"].isnan().any()
    return {**outputs, "lse": outputs["lse"] + float(both)}


def raises(**inputs):
    raise IndexError("slot 7 of 4")


def counts_launches():
    launches = []

    def launch(**inputs):
        launches.append(None)
        outputs = pooled(**inputs)
        return {**outputs, "lse": outputs["lse"] * (1 + 2e-7 * (len(launches) % 2))}

    return launch


def row_depends_on_its_place(**inputs):
    outputs = pooled(**inputs)
    return {**outputs, "lse": outputs["lse"] + torch.arange(len(outputs["lse"])) * 1e-8}


FAULTS = {
    "out scaled": (scaled_out(1.1), {"oracle:out"}),
    "out zero": (scaled_out(0), {"oracle:out"}),
    "lse shifted": (changed(lambda outputs: {**outputs, "lse": outputs["lse"] + 1e-4}), {"oracle:lse"}),
    "output missing": (changed(lambda outputs: {"out": outputs["out"]}), {"shape"}),
    "output too many": (changed(lambda outputs: (*outputs.values(), 1)), {"shape"}),
    "wrong dtype": (changed(lambda outputs: {**outputs, "out": outputs["out"].float()}), {"shape"}),
    "wrong shape": (changed(lambda outputs: {**outputs, "lse": outputs["lse"][:, None]}), {"shape"}),
    "nothing returned": (changed(lambda outputs: None), {"shape"}),
    "raises": (implementation(raises), {"raises"}),
    "input written": (implementation(writes_input), {"inputs"}),
    "padding written": (implementation(writes_padding), {"inputs"}),
    "invalid scores read": (implementation(adds_invalid_scores), {"poison:scores of invalid slots"}),
    "unused slots read": (implementation(reads_unused_slots), {"poison:unused slots"}),
    "two regions together": (implementation(needs_two_regions), {"poison:several"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_caught_by_the_check_that_names_it(name):
    subject, expected = FAULTS[name]
    assert checks_broken(subject) == expected


def test_right_implementation_breaks_nothing_and_every_check_runs():
    result = check(RIGHT, RELATED)
    assert result.violations == []
    assert result.checks_run == {
        "memory", "raises", "inputs", "shape", "written", "oracle:out", "oracle:lse", "unwritten", "repeat",
        "relation:reversed", "poison:unused slots", "poison:row padding", "poison:scores of invalid slots",
    }  # fmt: skip


@pytest.mark.parametrize("form", [dict, lambda outputs: tuple(outputs.values()), lambda outputs: [*outputs.values()]])
def test_outputs_may_come_by_name_or_in_order(form):
    assert check(changed(form)).violations == []


def test_one_output_may_come_alone():
    alone = replace(
        CONTRACT,
        tolerance={"out": CONTRACT.tolerance["out"]},
        oracle=lambda **inputs: {"out": pooled(**inputs)["out"]},
        magnitude=None,
    )
    assert check(changed(lambda outputs: outputs["out"]), alone).violations == []


def test_second_run_that_differs_in_one_bit_is_not_repeatable():
    found = checks_broken(implementation(counts_launches()))
    assert "repeat" in found
    assert "repeat" not in checks_broken(implementation(counts_launches()), replace(CONTRACT, deterministic=False))


def test_relation_is_checked_bit_for_bit():
    assert checks_broken(implementation(row_depends_on_its_place), RELATED) == {"relation:reversed"}


def test_relation_may_say_nothing():
    silent = replace(CONTRACT, relations=(replace(REVERSED, transform=lambda case, inputs: None),))
    assert "relation:reversed" not in check(RIGHT, silent).checks_run


def test_exception_names_type_message_and_line():
    (violation,) = check(implementation(raises)).violations
    assert violation.message.startswith("IndexError: slot 7 of 4 (test_run.py:")
    assert violation.message.endswith("in raises)")


def test_nothing_runs_after_a_launch_that_failed():
    assert check(implementation(raises)).checks_run == {"raises"}


def test_all_violations_of_a_case_are_collected():
    def several(**inputs):
        outputs = writes_input(**inputs)
        return {"out": outputs["out"] * 2, "lse": outputs["lse"][:, None]}

    assert checks_broken(implementation(several)) == {"inputs", "oracle:out", "shape"}


def test_output_never_written_is_found_on_the_virtual_gpu():
    def partly(**inputs):
        outputs = pooled(**inputs)
        out = torch.empty_like(outputs["out"])
        out[:-1] = outputs["out"][:-1]
        return {**outputs, "out": out}

    (violation,) = check(implementation(partly), lane=VirtualLane(), only="written").of("written")
    assert violation.message == "out: 16 of 128 elements never written; first at (7, 0)"


@triton.jit
def _copy_kernel(source_ptr, target_ptr, readable, writable, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(target_ptr + lanes, tl.load(source_ptr + lanes, mask=lanes < readable, other=0), mask=lanes < writable)


def copies_lse(excess, into_input=False):
    """Return an implementation that copies lse by a kernel, reading ``excess`` elements too many."""

    def launch(**inputs):
        outputs = pooled(**inputs)
        rows = len(outputs["lse"])
        target = inputs["scores"] if into_input else torch.empty(rows)
        _copy_kernel[(1,)](outputs["lse"], target, rows + excess, rows, BLOCK=16)
        return {**outputs, "lse": outputs["lse"] if into_input else target}

    return implementation(launch)


@pytest.mark.parametrize(
    ("subject", "said"),
    [(copies_lse(1), "out of bounds load in _copy_kernel (test_run.py:"), (copies_lse(0, into_input=True), "scores")],
)
def test_kernel_fault_is_a_memory_violation_with_its_place(subject, said):
    (violation,) = check(subject, lane=VirtualLane()).violations
    assert violation.check == "memory"
    assert said in violation.message
    assert violation.site.endswith(("argument source_ptr", "argument target_ptr"))


def test_right_kernel_passes_on_the_virtual_gpu():
    result = check(copies_lse(0), RELATED, VirtualLane())
    assert (result.violations, result.untrusted) == ([], set())


def test_memory_nobody_wrote_must_not_reach_an_output():
    def uses_scratch(**inputs):
        scratch = torch.empty(8)
        outputs = pooled(**inputs)
        return {**outputs, "lse": outputs["lse"] + scratch[0]}

    assert "unwritten" in checks_broken(implementation(uses_scratch), lane=VirtualLane())


def test_right_implementation_passes_on_the_virtual_gpu():
    assert check(RIGHT, RELATED, VirtualLane()).violations == []


def test_every_configuration_is_judged_and_named():
    lane = PlainLane(configs=3)

    def wrong_in_the_third(**inputs):
        outputs = pooled(**inputs)
        return {**outputs, "out": outputs["out"] * (1 + (lane.current_config == 2))}

    (violation,) = check(implementation(wrong_in_the_third), lane=lane).violations
    assert (violation.check, violation.config) == ("oracle:out", 2)
    assert violation.message.startswith("[configuration 2 of 3] out: ")


@pytest.mark.parametrize(("every", "fixed", "configs"), [(True, None, {0, 1, 2, 3}), (False, 2, {0, 2})])
def test_configurations_can_be_all_or_one(every, fixed, configs):
    seen = set()
    lane = PlainLane(configs=4)
    subject = implementation(lambda **inputs: seen.add(lane.current_config) or pooled(**inputs))
    check(subject, lane=lane, every_config=every, config=fixed)
    assert seen == configs


def test_one_other_configuration_follows_from_the_case():
    seen = []
    lane = PlainLane(configs=9)
    subject = implementation(lambda **inputs: seen.append(lane.current_config) or pooled(**inputs))
    for _ in range(2):
        check(subject, lane=lane, every_config=False, only="oracle:out")
    assert len(set(seen)) == 2
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


@pytest.mark.parametrize(("only", "launches"), [("oracle:out", 1), ("repeat", 2), ("poison:unused slots", 3)])
def test_one_check_costs_only_the_launches_it_needs(only, launches):
    lane = PlainLane()
    check(RIGHT, RELATED, lane, only=only)
    assert lane.launches == launches


def test_operation_outside_the_proven_set_is_not_a_violation():
    result = check(RIGHT, lane=PlainLane(untrusted=frozenset({"tl.histogram"})))
    assert (result.violations, result.untrusted) == ([], {"tl.histogram"})


def test_oracle_that_raises_is_the_contracts_fault():
    with pytest.raises(ContractError, match=r"^contract pooling \(.*pooling.py:\d+\): the oracle failed on Case"):
        check(RIGHT, replace(CONTRACT, oracle=raises))


def test_oracle_that_writes_an_input_is_the_contracts_fault():
    with pytest.raises(ContractError, match="the oracle writes to its inputs: scores"):
        check(RIGHT, replace(CONTRACT, oracle=writes_input))


def test_memory_error_is_let_out():
    def exhausted(**inputs):
        raise MemoryError

    with pytest.raises(MemoryError):
        check(implementation(exhausted))


REFUSALS = {
    "names it": (ValueError("indices: wanted rank 2, got 3"), None),
    "another type": (IndexError("indices"), "raised IndexError: indices"),
    "names nothing": (TypeError("bad reindices"), "the message does not name it"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_illegal_call_must_be_refused_by_name(name):
    error, said = REFUSALS[name]

    def launch(**inputs):
        raise error

    violations = check_rejections(REJECTING, implementation(launch), lane=PlainLane()).violations
    assert (said is None) == (violations == [])
    assert all(violation.check == "rejects:indices rank" and said in violation.message for violation in violations)


def test_illegal_call_must_not_pass_silently_or_after_a_launch():
    (silent,) = check_rejections(REJECTING, implementation(lambda **inputs: None), lane=PlainLane()).violations
    assert silent.message.startswith("accepted silently")

    def late(**inputs):
        raise ValueError("indices")

    (launched,) = check_rejections(REJECTING, implementation(late), lane=PlainLane(kernels=1)).violations
    assert launched.message.startswith("launched 1 kernels, then raised ValueError: indices")


def test_snapshot_sees_one_changed_bit_of_a_nan():
    x = torch.tensor([math.nan])
    before = Snapshot.take({"x": x})
    x.view(torch.int32)[0] += 1
    assert before.changes()[0].startswith("x: 1 of 1 elements break 'inputs untouched'")


def test_snapshot_leaves_a_huge_storage_uncommitted():
    # 2**40 bytes of address space, none of which exist
    view = torch.empty(2**40, dtype=torch.uint8, device="meta").as_strided((2, 8), (2**39, 1))
    assert view.untyped_storage().nbytes() > VIEW_BYTES
    snapshot = Snapshot.take({"cache": view})
    assert (list(snapshot.views), list(snapshot.storages)) == (["cache"], [])


def test_arguments_are_found_and_widened_inside_containers():
    inputs = {"parts": [torch.zeros(1, dtype=torch.bfloat16)], "more": {"x": torch.zeros(1).to(torch.float8_e4m3fn)}}
    assert list(tensors(inputs)) == ["parts[0]", "more['x']"]
    wide = widened(inputs)
    assert (wide["parts"][0].dtype, wide["more"]["x"].dtype) == (torch.float64, torch.float8_e4m3fn)
