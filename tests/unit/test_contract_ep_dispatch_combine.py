"""The contract of expert parallelism against faults that upstream's tests let through."""

import pytest
import torch

from harness.compare import INTEGER_OF_SIZE
from tests.unit.contract_cases import build, complaints, contract, known, oracles, shows, with_changed, with_output

NAME = "ep_dispatch_combine"


def on_bits(change):
    """Apply ``change`` to the bits of a tensor: torch does not move every 8-bit float."""
    return lambda tensor: change(tensor.view(INTEGER_OF_SIZE[tensor.element_size()])).view(tensor.dtype)


def with_room(change):
    """Return the fault of reading the arguments as ``change`` makes them, whatever has no room cut off."""

    def fault(case, inputs, oracle):
        rows = case.world * case.max_tokens + 1
        spare = rows - case.capacity
        shape = (case.world, spare, case.out_size)
        wide = torch.cat((inputs["expert_out"], torch.zeros(shape, dtype=case.out_dtype)), 1) if spare > 0 else None
        more = {} if wide is None else {"capacity": rows, "expert_out": wide}
        found = oracle(**inputs | change(case, inputs) | more)
        return {
            name: tensor[:, : case.capacity] if name in ("recv", "recv_scale", "recv_src") else tensor
            for name, tensor in found.items()
        }

    return fault


def _negative_to_rank_0(case, inputs):
    return {"topk_ids": inputs["topk_ids"].clamp(min=0)}


def _wrapped(case, inputs):
    ids = inputs["topk_ids"]
    return {"topk_ids": torch.where(ids < 0, ids, ids % case.routing.num_experts)}


def _every_row_a_token(case, inputs):
    return {"num_tokens": torch.full_like(inputs["num_tokens"], case.max_tokens)}


def _rows_of(case):
    return [len(case.exchange.received(rank)) for rank in range(case.world)]


def _summed(case, inputs, oracle, add, ranks):
    found = oracle(**inputs)
    out = torch.zeros_like(found["out"], dtype=torch.float32)
    for dst in ranks:
        for row, (rank, token) in enumerate(case.exchange.received(dst)):
            out[rank, token] = add(out[rank, token], inputs["expert_out"][dst, row].float(), case.out_dtype)
    return found | {"out": out.to(case.out_dtype)}


def _sum_in_the_rows_dtype(case, inputs, oracle):
    return _summed(case, inputs, oracle, lambda a, b, dtype: (a + b).to(dtype).float(), range(case.world))


def _sum_from_the_last_rank(case, inputs, oracle):
    return _summed(case, inputs, oracle, lambda a, b, dtype: a + b, reversed(range(case.world)))


def _rows_by_token(case, inputs, oracle):
    found = oracle(**inputs)
    for dst in range(case.world):
        rows = case.exchange.received(dst)
        order = sorted(range(len(rows)), key=lambda row: rows[row][::-1])
        found["recv"].view(torch.uint8)[dst, : len(rows)] = found["recv"].view(torch.uint8)[dst, order]
    return found


FAULTS = {
    "negative ids to rank 0": with_room(_negative_to_rank_0),
    "ids past the last rank wrapped": with_room(_wrapped),
    "rows that are no tokens sent": with_room(_every_row_a_token),
    "first expert only": with_changed("topk_ids", change=lambda ids: ids[:, :, :1]),
    "rows by token, then rank": _rows_by_token,
    "row of the next token": with_changed("x", change=on_bits(lambda t: t.roll(1, 1))),
    "row of the next rank": with_changed("x", change=on_bits(lambda t: t.roll(1, 0))),
    "scales of the next token": with_changed("x_scale", change=on_bits(lambda t: t.roll(1, 1))),
    "scales not moved": with_output("recv_scale", lambda scale, inputs: torch.zeros_like(scale)),
    "last element of a row not moved": with_changed("x", change=on_bits(lambda t: t.roll(1, 2))),
    "spare rows left as they were": with_output("recv_src", lambda rows, inputs: rows.clamp(min=0)),
    "source without its rank": with_output(
        "recv_src", lambda rows, inputs: rows.where(rows < 0, rows % max(1, inputs["x"].shape[1]))
    ),
    "counts by source, then destination": with_output("recv_counts", lambda counts, inputs: counts.T.contiguous()),
    "counts off by one": with_output("recv_counts", lambda counts, inputs: counts + 1),
    "place of the row before": with_output("send_rows", lambda rows, inputs: rows.clamp(max=0)),
    "sum in the rows' dtype": _sum_in_the_rows_dtype,
    "sum from the last rank": _sum_from_the_last_rank,
    "all zero": with_output("out", lambda out, inputs: torch.zeros_like(out)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_shows_in_several_drawn_cases(fault):
    assert shows(NAME, FAULTS[fault])


@pytest.mark.parametrize("output", ["recv", "recv_scale", "recv_counts", "recv_src", "send_rows", "out"])
def test_one_bit_is_a_fault(output):
    of, case = contract(NAME), contract(NAME).pinned[3]
    expected = oracles(of, build(of, case)[0])
    spoiled = expected.low[output].clone()
    spoiled.view(torch.uint8).view(-1)[0] ^= 1
    assert len(complaints(of, expected.low | {output: spoiled}, expected)) == 1
    assert complaints(of, expected.low, expected) == []


def test_capacity_is_hit_exactly_and_exceeded_by_one():
    of = contract(NAME)
    assert sum(max(_rows_of(case)) == case.capacity for case, _, _ in known(NAME)) >= 20
    too_many = next(rejection for rejection in of.rejects() if rejection.label == "one row too many")
    with pytest.raises(ValueError, match=r"capacity: rank 1 receives 6 rows, there is room for 5"):
        of.oracle(**too_many.inputs())
