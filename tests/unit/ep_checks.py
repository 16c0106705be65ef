"""What ``ep_dispatch_combine`` must do beside its contract, as checks of its module: the real one, or one with a fault.

Every check takes ``api``, the module ``kernels.ep_dispatch_combine`` or a copy of it, and ``launch``, the module
``_ep_launch`` that it uses.
"""

import logging
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from harness.device import DEVICES
from harness.launch import DoesNotFit, Resources, resident_blocks
from harness.launch.physical import NoDevice
from harness.strategies.topologies import Topology
from harness.vgpu import Schedule, VirtualGPU

CPU = torch.device("cpu")
#: 192 CUs, of which a DPX partition has 96.
WHOLE = DEVICES["MI400"]


def exchange(world, tokens, *, capacity=None, hidden=32, dtype="fp4", top_k=2, offset=0):
    """Arguments of a dispatch in which token t of every rank goes to ranks t and t + 1."""
    first = torch.arange(tokens)[None, :, None] + torch.arange(top_k)
    ids = (first + offset).expand(world, tokens, top_k) % world
    width = hidden // 2 if dtype == "fp4" else hidden
    x = torch.arange(world * tokens * width).reshape(world, tokens, width)
    scaled = dtype == "fp4"
    return {
        "x": (x % 251).to(torch.uint8) if scaled else x.to(torch.bfloat16),
        "x_scale": (x[:, :, : hidden // 32] % 241).to(torch.uint8) if scaled else None,
        "num_tokens": torch.full((world,), tokens, dtype=torch.int32),
        "topk_ids": ids.to(torch.int32),
        "experts_per_rank": 1,
        "capacity": capacity or world * tokens,
        "dispatch_dtype": dtype,
    }


def there_and_back(api, arguments, place, **wish):
    """Dispatch, and combine rows of ones; return both results."""
    sent = api.ep_dispatch(**arguments, place=place, **wish)
    rows = torch.ones(*sent.recv.shape[:2], 4)
    return sent, api.ep_combine(rows, sent, place=place, **wish)


def both_directions_are_clamped_by_default(api, launch):
    # a block of 16 waves fills a CU, and two of the 18 are held by another stream
    place = launch.Place(where=DEVICES["MI308X"], num_units=18)
    with VirtualGPU(schedule=Schedule(resident=16)):
        sent, summed = there_and_back(api, exchange(2, 2, dtype="bf16", hidden=2, capacity=10), place)
    assert (sent.launch.block_num, summed.launch.block_num) == (16, 16)
    assert summed.out.eq(2).all()


def a_block_that_no_unit_holds_is_refused(api, launch):
    place = launch.Place(where=WHOLE)
    too_much = Resources(num_warps=16, registers=128, shared_dynamic=327_681)
    wished = launch.wish(launch.DispatchDtype.BF16, launch.EpKernelType.INTRA_NODE, 64)
    with pytest.raises(DoesNotFit, match="327681 bytes of LDS"):
        launch.plan("ep_dispatch", wished, 1000, too_much, place, 190)
    two_each = replace(launch.CEILING, registers=32, shared_dynamic=0)
    blocks = resident_blocks(two_each, WHOLE.target.limits).blocks_per_sm
    assert blocks >= 2
    asked = replace(wished, block_num=10_000, auto=False)
    assert launch.plan("ep_dispatch", asked, 1000, two_each, place, 94).block_num == 94 * blocks


def every_device_is_asked_for_itself(api, launch):
    machine = Topology(parts=(("MI400", None), ("MI400", "DPX"), ("MI308X", None))).machine()
    with replaced(launch, detect=lambda: machine):
        places = [launch.place_of(torch.device("cuda", index)) for index in range(3)]
        with pytest.raises(NoDevice, match="device 3"):
            launch.place_of(torch.device("cuda", 3))
    assert [(place.index, place.where.units) for place in places] == [(0, 192), (1, 96), (2, 80)]


def partitions_of_one_device_are_not_mixed_up(api, launch):
    each = resident_blocks(launch.CEILING, WHOLE.target.limits).blocks_per_sm
    bounds = []
    for units in (192, 96, None):
        with VirtualGPU():
            sent = api.ep_dispatch(**exchange(1, 1, dtype="bf16"), place=launch.Place(where=WHOLE, num_units=units))
        bounds.append(sent.launch.bound)
    assert bounds == [190 * each, 94 * each, 190 * each]


def defaults_are_those_of_the_row_type(api, launch):
    found = {}
    for dtype in launch.DispatchDtype:
        for tokens in (1, 127, 128, 4096):
            wished = launch.wish(dtype, launch.EpKernelType.INTRA_NODE, tokens)
            assert wished.auto
            found[dtype.value, tokens] = (wished.block_num, wished.warp_num_per_block)
    few_fp4 = {("fp4", 1): (225, 5), ("fp4", 127): (225, 5), ("fp4", 128): (256, 16), ("fp4", 4096): (256, 16)}
    assert found == {key: (80, 16) for key in found} | few_fp4
    for asked, given in ((1, 1), (2, 2), (3, 2), (5, 4), (15, 8), (16, 16)):
        wished = launch.wish(launch.DispatchDtype.BF16, launch.EpKernelType.INTRA_NODE, 1, 7, asked)
        assert (wished.block_num, launch.warps_of(wished), wished.auto) == (7, given, False)


def only_one_enum_decides_intranode(api, launch):
    arguments = exchange(1, 1)
    with VirtualGPU() as gpu:
        for other in (launch.EpKernelType.INTER_NODE, "intra_node", None, 0):
            with pytest.raises(ValueError, match="kernel_type"):
                api.ep_dispatch(**arguments, kernel_type=other)
        assert not gpu.launches


def the_launch_is_returned_and_logged(api, launch):
    place = launch.Place(where=DEVICES["MI308X"])
    launch.plan.cache_clear()
    with records_of(launch.logger) as logged, VirtualGPU(schedule=Schedule(resident=80)):
        sent, summed = there_and_back(api, exchange(1, 2, dtype="bf16", hidden=2, top_k=1, capacity=6), place)
    for result, kernel in ((sent, "ep_dispatch"), (summed, "ep_combine")):
        shape = result.launch
        assert (shape.kernel, shape.block_num, shape.warp_num_per_block, shape.bound) == (kernel, 6, 16, 78)
        assert shape.reason.startswith("80 x 16 by default, 6 rows, wanted 6, at most 78 resident: 78 units of gfx942")
        assert f"{kernel}: 6 blocks x 16 warps: {shape.reason}" in logged
    assert len(logged) == 2


def no_row_is_used_before_it_is_there(api, launch):
    place = launch.Place(where=DEVICES["MI308X"], num_units=6)
    for seed, yield_at in ((1, "atomics"), (2, "memory")):
        schedule = Schedule(seed=seed, resident=4, yield_at=yield_at)
        with VirtualGPU(schedule=schedule, races=True, unwritten_reads="fault"):
            sent, summed = there_and_back(api, exchange(2, 2, hidden=32, capacity=5), place, warp_num_per_block=16)
        assert sent.recv_counts.eq(2).all()
        assert summed.out.eq(2).all()


def many_tiles_are_placed_in_order(api, launch):
    """Nine tiles of two tokens, whose counts are added up two at a time."""
    arguments = exchange(3, 5, dtype="bf16", hidden=2, top_k=1)
    with replaced(api, _BLOCK_T=2, _CHUNK=2), VirtualGPU():
        sent = api.ep_dispatch(**arguments)
    owner = arguments["topk_ids"].flatten()
    rows = [(owner == rank).nonzero().flatten().tolist() for rank in range(3)]
    assert [row[: len(source)] for row, source in zip(sent.recv_src.tolist(), rows, strict=True)] == rows
    assert sent.recv_counts.tolist() == [[2, 2, 2], [2, 2, 2], [1, 1, 1]]


def an_overflow_in_a_graph_is_loud(api, launch):
    """Two rows too many for rank 0, none for rank 1; what is captured is not counted on the host."""
    arguments = exchange(2, 3, dtype="bf16", hidden=2, top_k=1)
    arguments["topk_ids"] = torch.tensor([[[0], [0], [1]], [[0], [0], [0]]], dtype=torch.int32)
    arguments["capacity"] = 3
    with (
        VirtualGPU() as gpu,
        pytest.raises(api.CapacityError, match=r"capacity: rank 0 receives 5 rows.* hold 3") as caught,
    ):
        api.ep_dispatch(**arguments)
    assert not gpu.launches
    assert (caught.value.rank, caught.value.needed, caught.value.capacity) == (0, 5, 3)
    with replaced(api, _capturing=lambda device: True), VirtualGPU():
        sent, summed = there_and_back(api, arguments, None)
    assert sent.recv_counts.tolist() == [[2, 3], [1, 0]]
    assert sent.recv_src.tolist() == [[0, 1, 3], [2, -1, -1]]
    lost = torch.tensor([[False, False, False], [False, True, True]])
    assert summed.out.isnan().all(2).equal(lost)
    assert summed.out[~lost].eq(1).all()
    with pytest.raises(api.CapacityError, match="rank 0 receives 5 rows"):
        sent.check()


CHECKS = {
    check.__name__: check
    for check in (
        both_directions_are_clamped_by_default,
        a_block_that_no_unit_holds_is_refused,
        every_device_is_asked_for_itself,
        partitions_of_one_device_are_not_mixed_up,
        defaults_are_those_of_the_row_type,
        only_one_enum_decides_intranode,
        the_launch_is_returned_and_logged,
        no_row_is_used_before_it_is_there,
        many_tiles_are_placed_in_order,
        an_overflow_in_a_graph_is_loud,
    )
}


@contextmanager
def replaced(module, **values):
    """Give names of a module other values for a while."""
    before = SimpleNamespace(**{name: getattr(module, name) for name in values})
    vars(module).update(values)
    try:
        yield
    finally:
        vars(module).update(vars(before))


@contextmanager
def records_of(logger):
    """Collect the messages of a logger at level INFO."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
