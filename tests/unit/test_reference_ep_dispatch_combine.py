"""The oracle of expert parallelism on exchanges small enough to work out by hand, and against a list of rows."""

import pytest
import torch

from reference.ep_dispatch_combine import ep_dispatch_combine
from tests.unit.contract_cases import build, contract, drawn


def exchanged(ids, *, num_tokens=None, capacity=4, experts_per_rank=2, expert_out=None, **changes):
    """Exchange rows ``[rank, token]`` of bf16 by ``ids[rank][token]``."""
    topk_ids = torch.tensor(ids)
    world, max_tokens, _ = topk_ids.shape
    rank, token = torch.arange(world)[:, None].expand(world, max_tokens), torch.arange(max_tokens).expand(world, -1)
    arguments = {
        "x": torch.stack((rank, token), dim=2).to(torch.bfloat16),
        "x_scale": None,
        "num_tokens": torch.tensor(num_tokens or [max_tokens] * world),
        "topk_ids": topk_ids,
        "expert_out": torch.zeros(world, capacity, 1) if expert_out is None else expert_out,
        "experts_per_rank": experts_per_rank,
        "capacity": capacity,
        "dispatch_dtype": "bf16",
    }
    return ep_dispatch_combine(**arguments | changes)


def test_rows_arrive_once_a_rank_by_source_then_token():
    found = exchanged([[[0, 3], [2, 3]], [[1, 0], [3, 0]]])
    assert found["recv"][0].tolist() == [[0, 0], [1, 0], [1, 1], [0, 0]]
    assert found["recv"][1].tolist() == [[0, 0], [0, 1], [1, 1], [0, 0]]
    assert found["recv_src"].tolist() == [[0, 2, 3, -1], [0, 1, 3, -1]]
    assert found["recv_counts"].tolist() == [[1, 2], [2, 1]]
    assert found["send_rows"].tolist() == [[[0, 0], [-1, 1]], [[1, -1], [2, 2]]]


@pytest.mark.parametrize("nowhere", [-1, -2, 4, 2**31 - 1, -(2**31), 2**32])
def test_an_id_of_no_rank_is_dropped(nowhere):
    found = exchanged([[[nowhere, 2]], [[nowhere, nowhere]]])
    assert found["recv_counts"].tolist() == [[0, 0], [1, 0]]
    assert found["recv_src"].tolist() == [[-1] * 4, [0, -1, -1, -1]]


def test_rows_past_num_tokens_are_no_tokens():
    ids = [[[0], [0]], [[0], [0]]]
    assert exchanged(ids, num_tokens=[1, 0])["recv_src"].tolist() == [[0, -1, -1, -1], [-1] * 4]
    assert exchanged(ids, num_tokens=[-1, 9])["recv_src"].tolist() == [[2, 3, -1, -1], [-1] * 4]


def test_one_row_more_than_there_is_room_names_the_rank():
    ids = [[[2], [2]], [[3], [0]]]
    assert exchanged(ids, capacity=3)["recv_counts"].sum() == 4
    with pytest.raises(ValueError, match="capacity: rank 1 receives 3 rows, there is room for 2"):
        exchanged(ids, capacity=2)


def test_rows_are_added_in_float32_in_rank_order_and_cast_once():
    ids = [[[0, 2, 4]], [[1, 1, 1]], [[9, 9, 9]]]
    rows = torch.zeros(3, 1, 3)
    rows[:, 0] = torch.tensor([[2.0**24, 256, -0.0], [1, 1, -0.0], [-(2.0**24), 1, -0.0]])
    out = exchanged(ids, capacity=2, expert_out=rows.repeat(1, 2, 1))["out"]
    assert out[0, 0].tolist() == [0.0, 258.0, 0.0]
    assert not out[0, 0, 2].signbit()
    narrow = exchanged(ids, capacity=2, expert_out=rows.bfloat16().repeat(1, 2, 1))["out"]
    # 256 + 1 is 256 in bfloat16
    assert narrow[0, 0, 1].item() == 258
    assert narrow.dtype == torch.bfloat16


def test_a_token_sent_nowhere_gets_zeros_and_spare_rows_are_not_read():
    rows = torch.full((2, 4, 3), torch.nan)
    rows[0, 0] = 7
    out = exchanged([[[0], [-1]], [[5], [5]]], expert_out=rows)["out"]
    assert out.tolist() == [[[7] * 3, [0] * 3], [[0] * 3, [0] * 3]]


def test_a_nan_row_reaches_its_token_alone():
    rows = torch.ones(2, 4, 1)
    rows[1, 0] = torch.nan
    out = exchanged([[[0, 2], [0, 0]], [[1, 3], [0, 0]]], expert_out=rows)["out"]
    assert out.isnan().tolist() == [[[True], [False]], [[False], [False]]]
    assert out[1, 0].item() == 2


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.uint8])
def test_every_code_and_every_scale_keeps_its_bits(dtype):
    codes = torch.arange(256, dtype=torch.uint8).expand(1, 2, 256)
    scale = torch.tensor([[[0x7F800001], [0x00000001]]], dtype=torch.int32).view(torch.float32)
    given = {"x": codes.view(dtype), "x_scale": scale, "dispatch_dtype": "fp8"}
    found = exchanged([[[-1], [1]]], capacity=2, **given)
    assert found["recv"].dtype == dtype
    assert found["recv"].view(torch.uint8)[0, 0].equal(codes[0, 0])
    assert found["recv_scale"].view(torch.int32).tolist() == [[[1], [0]]]
    assert not found["recv"].view(torch.uint8)[0, 1].any()


def test_float64_results_are_not_rounded():
    rows = torch.tensor([[[1.0]], [[2.0**-40]]], dtype=torch.float64)
    assert exchanged([[[0, 2]], [[9, 9]]], capacity=1, expert_out=rows)["out"][0, 0, 0].item() == 1 + 2.0**-40


def test_it_is_what_a_list_of_rows_says():
    compared = 0
    for case in drawn("ep_dispatch_combine", 40):
        given, _ = build(contract("ep_dispatch_combine"), case)
        found = ep_dispatch_combine(**given)
        sums = torch.zeros(case.world, case.max_tokens, case.out_size)
        for dst in range(case.world):
            rows = [
                (rank, token)
                for rank in range(case.world)
                for token in range(min(case.live[rank], case.max_tokens))
                if dst in [expert // case.experts_per_rank for expert in given["topk_ids"][rank, token].tolist()]
            ]
            assert found["recv_src"][dst].tolist()[: len(rows)] == [s * case.max_tokens + t for s, t in rows]
            assert found["recv_counts"][dst].tolist() == [[s for s, _ in rows].count(r) for r in range(case.world)]
            for row, (rank, token) in enumerate(rows):
                assert found["send_rows"][rank, token, dst] == row
                assert found["recv"][dst, row].view(torch.uint8).equal(given["x"][rank, token].view(torch.uint8))
                sums[rank, token] += given["expert_out"][dst, row].float()
                compared += 1
        torch.testing.assert_close(found["out"], sums.to(case.out_dtype), rtol=0, atol=0, equal_nan=True)
    assert compared > 100
