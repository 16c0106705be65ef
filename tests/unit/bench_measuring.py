"""What must hold of measuring: work counted, results checked first, copies at other addresses, floors."""

import itertools
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch

from harness import copies, registry
from harness.bench import gates, rates, store, timings
from harness.bench.gate import Gate
from harness.bench.measure import Bench, Measured, Refused
from harness.bench.run import Wanted, run, timed_cases, workloads
from harness.bench.sampling import Effort
from harness.contract import Implementation, Requires, Work
from harness.lanes import VirtualLane
from harness.poison import Poison
from reference.merge_attn_states import merge_attn_states as oracle

CHECKS = {}
CPU = torch.device("cpu")
QUICK = Effort(least=3, fewest=3, most=3, seconds=0.0)


def check(function):
    CHECKS[function.__name__] = function
    return function


def contract(name):
    registry.load(installed=False)
    return registry.contract(name)


def work(name, case, **changes):
    owner = contract(name)
    return owner.work(case, owner.inputs(case, CPU, Poison()) | changes)


def implementation(launch, name="planted", **fields):
    return Implementation(contract="merge_attn_states", name=name, launch=launch, **fields)


def right(outs, lses):
    return oracle(outs, lses)


def wrong(outs, lses):
    return {name: tensor * 1.01 for name, tensor in oracle(outs, lses).items()}


def writes(outs, lses):
    found = oracle(outs, lses)
    outs.zero_()
    return found


@check
def routed_experts_count_once_and_invalid_slots_not_at_all():
    case = contract("mxfp4_moe").pinned[0]
    shape = {"hidden_size": 64, "intermediate_size": 32}
    case = replace(
        case, routing=replace(case.routing, num_tokens=3, num_experts=4, rows=((0, 2), (2, -1), (4, 0))), **shape
    )
    # slots 0 2 | 2 | 0 are valid, experts 0 and 2
    weights = 64 * 64 // 2 + 64 * 2 + 64 * 32 // 2 + 64 * 1
    small = 2 * (3 * 64 * 2) + 3 * 2 * 4 + 3 * 2 * 4
    assert work("mxfp4_moe", case) == Work(flops=4 * 6 * 64 * 32, bytes=2 * weights + small)
    mega = contract("mega_moe").pinned[0]
    mega = replace(mega, routing=case.routing, **shape)
    assert work("mega_moe", mega) == work("mxfp4_moe", case)
    scatter = contract("moe_scatter").pinned[0]
    scatter = replace(scatter, routing=case.routing, hidden_size=64, output_size=16)
    moved = 2 * 16 * 64 * 2 + 3 * 64 * 2 + 6 * 4 + 6 * 16 * 2
    assert work("moe_scatter", scatter) == Work(flops=4 * 2 * 64 * 16, bytes=moved)


@check
def tokens_of_attention_count_once_and_lanes_each_time():
    case = contract("sparse_mla_decode").pinned[0]
    indices = torch.tensor([[[0, 0, -1, 0]]], dtype=torch.int32)
    length = torch.tensor([2], dtype=torch.int32)
    found = work("sparse_mla_decode", case, indices=indices)
    assert found.flops == 3 * 2 * (512 + 512)
    assert found.bytes == 584 + 16 + 1024 + 1024 + 4
    cut = work("sparse_mla_decode", case, indices=indices, topk_length=length)
    assert cut.flops == 2 * 2 * (512 + 512)


@check
def logits_count_keys_that_are_there():
    case = next(case for case in contract("paged_mqa_logits").pinned if case.table.seq_lens == (65, 0))
    # 65 tokens and none, on pages 1 and 0; logits for 200 positions each
    found = work("paged_mqa_logits", case)
    assert found.flops == 65 * 64 * 2 * 128
    small = 2 * 64 * 128 + 2 * 64 * 4 + 2 * 4 + 2 * 2 * 4
    assert found.bytes == 65 * 132 + small + 2 * 200 * 4
    none = torch.full((2, 2), -1, dtype=torch.int32)
    assert work("paged_mqa_logits", case, page_table=none).flops == 0


@check
def empty_parts_are_not_read():
    case = contract("merge_attn_states").pinned[1]
    # two parts of three rows, three of the six empty, three columns of bf16
    assert work("merge_attn_states", case) == Work(flops=2 * 3 * 3, bytes=3 * 6 + 6 * 4 + 3 * (6 + 4))


@check
def rows_of_an_exchange_count_where_they_go():
    case = contract("ep_dispatch_combine").pinned[0]
    # one rank sends its one row of 4100 bf16 to itself, where two have room; 2050 columns come back
    received, back = 2 * (8200 + 4) + 4 + 4, 2050 * 2 + 2050 * 2
    assert work("ep_dispatch_combine", case) == Work(flops=2050, bytes=8200 + received + back + 4 + 4)


@check
def every_contract_counts_its_work():
    registry.load(installed=False)
    assert [owner.name for owner in registry.contracts() if owner.workloads and owner.work is None] == []


@check
def every_case_that_the_virtual_gpu_times_has_its_work():
    registry.load(installed=False)
    for owner in registry.contracts():
        for case in timed_cases(owner, on_device=False) if owner.work else ():
            try:
                found = owner.work(case, owner.inputs(case, CPU, Poison()))
            except ArithmeticError as error:
                pytest.fail(f"{owner.name} {case}: {error!r}")
            assert min(found.flops, found.bytes) >= 0, (owner.name, case)


@check
def what_a_contract_or_a_launch_raises_costs_no_other_benchmark():
    def odd(outs, lses):
        raise LookupError("no table for this")

    owner, both = contract("merge_attn_states"), [implementation(odd, "odd"), implementation(right, "right")]
    uncounted = replace(owner, work=lambda case, inputs: 1 // 0)
    bench = Bench(lane=VirtualLane(), effort=QUICK, checked=False)
    try:
        found = [list(bench.measure(one, both, one.pinned[3], "x")) for one in (uncounted, owner)]
    except (ArithmeticError, LookupError) as error:
        pytest.fail(f"the run ends with {error!r}")
    assert [one.reason.partition(" (")[0] for one in found[0]] == [
        "no inputs: ZeroDivisionError: integer division or modulo by zero"
    ] * 2
    assert found[1][0].reason.startswith("timing it failed: LookupError: no table for this")
    assert isinstance(found[1][1], Measured)


@check
def the_first_call_of_a_process_is_not_timed():
    owner, clock = contract("merge_attn_states"), [0.0]

    def compiles(outs, lses):
        clock[0] += 1.0 if clock[0] else 50.0
        return oracle(outs, lses)

    bench = Bench(lane=VirtualLane(), effort=QUICK, checked=False)
    with mock.patch.object(timings.time, "process_time", side_effect=lambda: clock[0]):
        (found,) = bench.measure(owner, [implementation(compiles)], owner.pinned[3], "x")
    assert found.sampled.samples == (1.0, 1.0, 1.0)


@check
def what_was_timed_before_an_interrupt_is_kept():
    owner, seen = contract("merge_attn_states"), []

    def interrupted(done):
        seen.append(done.name)
        if len(seen) == 2:
            raise KeyboardInterrupt

    wanted = Wanted(lane="vgpu", effort=QUICK, checked=False)
    pairs = [(owner, implementation(right, name)) for name in ("a", "b", "c", "d")]
    try:
        found = run(pairs, wanted, tree=Path(), on_done=interrupted)
    except KeyboardInterrupt:
        pytest.fail("two benchmarks are lost")
    assert [row["name"] for row in found["benchmarks"]] == seen
    gone = found["harness"]["refused"]
    assert [item["name"][18:21] for item in gone] == ["c-e", "d-e"]
    assert {item["reason"] for item in gone} == {"interrupted; nothing was timed after it"}


@check
def a_floor_is_the_larger_of_moving_and_computing():
    measured = rates.Rates(copy=4e12, matmul=8e14)
    assert measured.floor(Work(flops=8 * 10**8, bytes=8 * 10**6)) == 2e-6
    assert measured.bound(Work(flops=8 * 10**8, bytes=8 * 10**6)) == "memory"
    assert measured.floor(Work(flops=8 * 10**9, bytes=8 * 10**6)) == 1e-5
    assert measured.bound(Work(flops=8 * 10**9, bytes=8 * 10**6)) == "compute"


@check
def copies_are_the_same_at_other_addresses():
    whole = torch.arange(40, dtype=torch.int32)
    given = {"a": whole[4:].view(6, 6)[:, ::2], "b": whole[1:3], "c": (whole[:2], 7), "n": None}
    twin = copies.copied(given)
    assert torch.equal(twin["a"], given["a"])
    assert twin["a"].stride() == given["a"].stride()
    assert twin["a"].storage_offset() == 4
    assert twin["a"].untyped_storage().data_ptr() != whole.untyped_storage().data_ptr()
    # what shares memory still does
    assert twin["b"].untyped_storage().data_ptr() == twin["a"].untyped_storage().data_ptr()
    assert torch.equal(twin["c"][0], whole[:2])
    assert (twin["c"][1], twin["n"]) == (7, None)
    assert copies.storage_bytes(given) == 160
    assert torch.equal(copies.copied(given, torch.device("cpu"))["a"], given["a"])


@check
def a_wrong_result_is_not_timed():
    owner = contract("merge_attn_states")
    found = list(Bench(lane=VirtualLane(), effort=QUICK).measure(
        owner, [implementation(right, "right"), implementation(wrong, "wrong"), implementation(writes, "writes")],
        owner.pinned[3], "x",
    ))  # fmt: skip
    assert [type(one) for one in found] == [Measured, Refused, Refused]
    assert found[1].name == "merge_attn_states[wrong-x]"
    assert found[1].reason.startswith("oracle:out: ")
    assert found[2].reason.startswith("inputs: ")


@check
def what_other_processes_found_decides():
    owner = contract("merge_attn_states")
    both = [implementation(right, "right"), implementation(wrong, "wrong"), implementation(right, "unsaid")]
    workload = (owner, both[:2], owner.pinned[3], "x")
    found = gates.share([workload, workload], VirtualLane(), 1, 2).found
    assert list(found) == ["merge_attn_states[right-x]", "merge_attn_states[wrong-x]"]
    assert found["merge_attn_states[right-x]"] is None
    checked = gates.Checked(found=found, otherwise="its check took longer than 3 s")
    bench = Bench(lane=VirtualLane(), effort=QUICK, gates=checked)
    done = list(bench.measure(owner, both, owner.pinned[3], "x"))
    assert [type(one) for one in done] == [Measured, Refused, Refused]
    assert done[1].reason.startswith("oracle:out: ")
    assert done[2].reason == "its check took longer than 3 s"


@check
def a_time_of_nothing_is_no_time():
    owner = contract("merge_attn_states")
    for odd in (0.0, float("nan")):
        with mock.patch.object(timings.time, "process_time", side_effect=itertools.repeat(odd)):
            (found,) = Bench(lane=VirtualLane(), effort=QUICK).measure(
                owner, [implementation(right)], owner.pinned[3], "x"
            )
        assert isinstance(found, Refused)
        assert f"vgpu took {odd} s" in found.reason


@check
def what_an_adapter_brings_is_a_peer():
    owner = contract("merge_attn_states")

    def theirs(outs, lses):
        return right(outs, lses)

    def broken(outs, lses):
        return wrong(outs, lses)

    theirs.__module__ = broken.__module__ = "harness.adapters.somebody"
    some = [implementation(theirs, "theirs"), implementation(broken, "broken"), implementation(right)]
    found = list(Bench(lane=VirtualLane(), effort=QUICK).measure(owner, some, owner.pinned[3], "x"))
    assert [type(one) for one in found] == [Measured, Refused, Measured]
    assert [found[0].extra.get("peer"), found[1].peer, found[2].extra.get("peer")] == [True, True, None]
    assert found[1].row()["peer"]


@check
def an_exception_is_a_refusal():
    owner = contract("merge_attn_states")
    inputs = owner.inputs(owner.pinned[0], CPU, Poison())

    def raises(outs, lses):
        raise ValueError("no such thing")

    gate = Gate(owner, owner.pinned[0], VirtualLane(), inputs)
    assert "no such thing" in gate.refusal(implementation(raises))
    assert gate.refusal(implementation(right)) is None


@check
def a_benchmark_says_how_it_was_made():
    owner = contract("merge_attn_states")
    bench = Bench(lane=VirtualLane(), effort=QUICK, reading=lambda: {"sm_mhz": 1980})
    (found,) = bench.measure(owner, [implementation(right)], owner.pinned[3], "x")
    document = {"benchmarks": [found.row(data=True)]}
    (entry,) = store.entries(document).values()
    assert entry.name == "merge_attn_states[planted-x-vgpu]"
    assert entry.flops > 0
    assert len(entry.blocks) == 3
    assert found.extra["before"] == found.extra["after"] == {"sm_mhz": 1980}
    assert (found.extra["timing"], found.extra["l2"], found.extra["lane"]) == ("vgpu", "none", "vgpu")
    assert document["benchmarks"][0]["stats"]["median"] == entry.median


@check
def the_virtual_gpu_is_timed_by_its_own_cpu_seconds():
    seconds = timings.virtual(right, {"outs": torch.ones(1, 1, 1), "lses": torch.ones(1, 1)}, VirtualLane()).take(2)
    assert len(seconds) == 2
    assert all(0 < value < 60 for value in seconds)


@check
def what_needs_other_hardware_is_left_out_on_a_device_only():
    owner = contract("merge_attn_states")
    pairs = [
        (owner, implementation(right)),
        (owner, implementation(right, "far", requires=Requires(targets=("sm100",)))),
    ]
    on_device = list(workloads(pairs, on_device=True))
    assert [case for _, _, case, _ in on_device] == list(owner.workloads)
    assert {one.name for _, chosen, _, _ in on_device for one in chosen} == {"planted"}
    virtual = list(workloads(pairs, Wanted(match="[far-"), on_device=False))
    assert {one.name for _, chosen, _, _ in virtual for one in chosen} == {"far"}
    assert len(virtual) == len(timed_cases(owner, on_device=False)) < len(owner.pinned)
