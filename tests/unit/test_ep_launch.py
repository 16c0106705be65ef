"""Launches of expert parallelism: the checks of ``ep_checks``, every topology, and what a clamp by count does."""

import subprocess
import tempfile
from dataclasses import replace

import pytest
import torch
import triton
from hypothesis import assume, given, settings
from triton.compiler import ASTSource

from harness.compiling import amdgcn, ptxas
from harness.compiling.recording import gpu_target
from harness.device import DEVICES, target_of
from harness.launch import SafeGrid, resident_blocks
from harness.strategies.launches import launches
from harness.vgpu import Deadlock, Schedule, VirtualGPU
from kernels import _ep_launch, ep_dispatch_combine
from kernels._ep_kernels import ep_dispatch_kernel
from kernels._ep_launch import (
    CEILING,
    DEFAULT_WISH,
    DispatchDtype,
    EpKernelType,
    Place,
    Wish,
    options_of,
    plan,
    warps_of,
    wish,
)
from tests.unit.ep_checks import CHECKS, exchange, replaced, there_and_back

#: Product, partition, and its SMs or CUs: those that contracts name.
TOPOLOGIES = (
    ("MI400", "SPX", 192), ("MI400", "DPX", 96), ("MI355X", None, 256), ("MI300X", None, 304), ("MI308X", None, 80),
    ("H20", None, 78), ("RTX A6000", None, 84), ("H200", None, 132), ("B200", None, 148), ("GB200", None, 152),
    ("GB300", None, 160), ("RTX 5090", None, 170), ("RTX PRO 6000", None, 188),
)  # fmt: skip
MANY = Wish(block_num=100_000, warp_num_per_block=16, auto=False)


@pytest.mark.parametrize("name", CHECKS)
def test_it_holds_that(name):
    CHECKS[name](ep_dispatch_combine, _ep_launch)


@pytest.mark.parametrize("kernel", ["ep_dispatch", "ep_combine"])
@pytest.mark.parametrize(("product", "partition", "units"), TOPOLOGIES)
def test_every_default_is_resident_on_every_topology(product, partition, units, kernel):
    device = DEVICES[product]
    assert device.units_of(partition) == units
    place, free = Place(where=device, num_units=units), units - 2
    wishes = [wish(dtype, EpKernelType.INTRA_NODE, tokens) for dtype in DispatchDtype for tokens in (127, 128)]
    for wished in (*wishes, MANY):
        resources = replace(CEILING, num_warps=warps_of(wished))
        resident = free * resident_blocks(resources, device.target.limits).blocks_per_sm
        shape = plan(kernel, wished, 100_000, resources, place, free)
        assert shape.block_num == min(wished.block_num, resident)
        assert shape.warp_num_per_block in (4, 16)
        assert f"at most {resident} resident: {free} units of {device.arch}" in shape.reason


@settings(max_examples=200, deadline=None)
@given(launches(clusters=False))
def test_no_plan_is_wider_than_what_is_resident(drawn):
    left = drawn.num_sms - drawn.reserved
    assume(left > 0 and drawn.blocks_per_sm > 0)
    place = Place(where=target_of(drawn.arch), num_units=drawn.num_sms)
    asked = Wish(block_num=drawn.wanted, warp_num_per_block=drawn.num_warps, auto=False)
    for rows in (1, 10**6):
        shape = plan("ep_combine", asked, rows, drawn.resources, place, left)
        assert shape.block_num == min(drawn.wanted, left * drawn.blocks_per_sm)
    assert plan("ep_combine", replace(asked, auto=True), 1, drawn.resources, place, left).block_num == 1


def clamped_by_count(wanted, resources, where, *, num_sms):
    """The clamp that upstream shipped: every unit of the device counts, whoever holds it, and one block fits each."""
    return SafeGrid(
        grid=min(wanted, 98), bound=98, reason="", num_sms=98, residency=resident_blocks(resources, where.limits)
    )


def test_a_clamp_by_the_number_of_units_deadlocks_in_both_directions_where_two_are_held():
    place = Place(where=target_of("gfx942"), num_units=98)
    arguments = exchange(1, 1, dtype="bf16", hidden=2, top_k=1)
    with VirtualGPU(schedule=Schedule(resident=96)):
        sent, summed = there_and_back(ep_dispatch_combine, arguments, place, block_num=256)
        assert (sent.launch.block_num, summed.launch.block_num) == (96, 96)
        for again in (
            lambda: ep_dispatch_combine.ep_dispatch(**arguments, place=place, block_num=256),
            lambda: ep_dispatch_combine.ep_combine(torch.ones(1, 1, 1), sent, place=place, block_num=256),
        ):
            plan.cache_clear()
            with replaced(_ep_launch, barrier_safe_grid=clamped_by_count), pytest.raises(Deadlock) as caught:
                again()
            assert (caught.value.resident, caught.value.never_launched) == (96, 2)
    plan.cache_clear()


CONSTANTS = {"WORLD": 8, "RANKS": 8, "TOPK": 8, "BLOCK_T": 32, "CHUNK": 64, "BLOCK_X": 2048, "BLOCK_S": 64}


def compiled(kernel, target):
    """Registers a thread, SGPRs, bytes spilled and of shared memory: 8 ranks, long rows with scales, 16 warps."""
    names = kernel.arg_names
    constants = {name: CONSTANTS[name] for name in names if name in CONSTANTS}
    signature = {name: "*i32" if name.endswith("_ptr") else "i32" for name in names}
    signature |= dict.fromkeys(constants, "constexpr")
    whole = ("_ptr", "_stride", "_words")
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in names if name.endswith(whole)}
    source = ASTSource(kernel, signature, {(names.index(name),): value for name, value in constants.items()}, aligned)
    options = options_of(DEFAULT_WISH, Place(where=target))
    found = triton.compile(source, target=gpu_target(target), options=options)
    if target.vendor == "rocm":
        info = amdgcn.parse(found.asm["amdgcn"])
        return info.vgprs, info.sgprs, info.spill_bytes, found.metadata.shared
    with tempfile.NamedTemporaryFile(suffix=".ptx", mode="w") as file:
        file.write(found.asm["ptx"])
        file.flush()
        assembler = triton.knobs.nvidia.ptxas_blackwell.path
        command = [assembler, "-v", f"--gpu-name={target.arch}a", file.name, "-o", "/dev/null"]
        log = subprocess.run(command, capture_output=True, text=True, check=True)
    info = ptxas.parse(log.stderr)
    return info.registers, 0, info.spill_stores + info.spill_loads, found.metadata.shared


@pytest.mark.parametrize("arch", ["sm_120", "gfx1250"])
def test_the_ceiling_is_one_and_nothing_spills(arch):
    registers, sgprs, spilled, shared = compiled(ep_dispatch_kernel, target_of(arch))
    assert registers <= CEILING.registers
    assert sgprs <= CEILING.sgprs
    assert shared <= CEILING.shared_dynamic
    assert spilled == 0
