"""Kernels with a planted fault for each tool, one without, and one whose fault is a library's: one tiny contract."""

import time
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from hypothesis import strategies as st

from harness.contract import Contract
from harness.known import Known
from harness.registry import implements, register
from harness.tolerance import Exact

#: Threads of a block, one element each.
BLOCK = 128


@dataclass(frozen=True)
class Case:
    """``length`` elements of int32."""

    length: int


def inputs(case, device, poison):
    return {"x": torch.arange(case.length, dtype=torch.int32, device=device)}


register(
    Contract(
        name="planted",
        cases=lambda: st.builds(Case, st.integers(1, BLOCK)),
        inputs=inputs,
        oracle=lambda x: {"out": x},
        tolerance={"out": Exact()},
        pinned=(Case(BLOCK), Case(100)),
    )
)


@triton.jit
def copy_kernel(x_ptr, out_ptr, length, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < length)
    tl.store(out_ptr + places + SHIFT, x, mask=places < length)


#: Swaps the halves of a block through shared memory of its own, which Triton's barriers know nothing of.
EXCHANGE = """{
    .shared .align 4 .b8 exchanged[512];
    .reg .u32 base, place;
    mov.u32 base, exchanged;
    shl.b32 place, $2, 2;
    add.u32 place, place, base;
    st.shared.b32 [place], $1;
    BARRIER
    xor.b32 place, $2, 64;
    shl.b32 place, place, 2;
    add.u32 place, place, base;
    ld.shared.b32 $0, [place];
}"""


@triton.jit
def exchange_kernel(x_ptr, out_ptr, length, CODE: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < length, other=0)
    swapped = tl.inline_asm_elementwise(CODE, "=r,r,r", [x, places], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out_ptr + places, swapped, mask=places < length)


@triton.jit
def half_a_barrier_kernel(x_ptr, out_ptr, length, BLOCK: tl.constexpr):
    """Let half of each warp wait for the block."""
    places = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < length, other=0)
    same = tl.inline_asm_elementwise(
        """{
        .reg .pred few;
        .reg .u32 lane;
        mov.u32 lane, %laneid;
        setp.lt.u32 few, lane, 16;
        @few bra WAIT_${:uid};
        mov.b32 $0, $1;
        bra DONE_${:uid};
        WAIT_${:uid}:
        bar.sync 0;
        mov.b32 $0, $1;
        DONE_${:uid}:
        }""",
        "=r,r",
        [x],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(out_ptr + places, same, mask=places < length)


def _copied(x, shift=0, source=None):
    out = torch.zeros_like(x)
    copy_kernel[(1,)](x if source is None else source, out, len(x), SHIFT=shift, BLOCK=BLOCK)
    return out


def _exchanged(x, barrier):
    out = torch.zeros_like(x)
    exchange_kernel[(1,)](x, out, len(x), CODE=EXCHANGE.replace("BARRIER", barrier), BLOCK=BLOCK)
    return out


@implements("planted", name="clean")
def clean(x):
    return _copied(x)


@implements("planted", name="with-barrier")
def with_barrier(x):
    return _exchanged(x, "bar.sync 0;")


@implements("planted", name="out-of-bounds")
def out_of_bounds(x):
    return _copied(x, shift=1)


@implements("planted", name="race")
def race(x):
    return _exchanged(x, "")


@implements("planted", name="unwritten")
def unwritten(x):
    return _copied(x, source=torch.empty_like(x))


@implements("planted", name="half-a-barrier")
def half_a_barrier(x):
    out = torch.zeros_like(x)
    half_a_barrier_kernel[(1,)](x, out, len(x), BLOCK=BLOCK)
    return out


@implements("planted", name="library")
def library(x):
    """Let a kernel of PyTorch read memory that nobody wrote, to no effect."""
    return _copied(x) + torch.empty_like(x) * 0


@implements(
    "planted", name="known", known=(Known(match=lambda case: case.length < BLOCK, issue="#41", check="memcheck"),)
)
def known(x):
    return _copied(x, shift=int(len(x) < BLOCK))


@implements("planted", name="hang")
def hang(x):
    time.sleep(600)
    return x
