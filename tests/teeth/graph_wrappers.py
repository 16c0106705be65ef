"""A small operation, and how launches of it that a CUDA graph can hold go about it.

``gather_double``: out[m] = 2 * x[ids[m]] for m < live[0] and ids[m] a row of x, else 0.  Each function here and in
``graph_faults`` returns a launch function with a state of its own.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from hypothesis import strategies as st

from harness.contract import Contract
from harness.strategies.spec import Spec
from harness.tolerance import Exact

WIDTH = 8


@dataclass(frozen=True, kw_only=True, repr=False)
class Case(Spec):
    """``padded`` rows more than ``ids`` says hold anything."""

    ids: tuple[int, ...]
    padded: int = 0
    num_rows: int = 5
    seed: int = 0


def inputs(case, device, poison):
    generator = torch.Generator().manual_seed(case.seed)
    x = torch.randint(1, 9, (case.num_rows, WIDTH), generator=generator).float()
    ids = torch.tensor([*case.ids, *[0] * case.padded], dtype=torch.int32)
    poison.fill_(ids[len(case.ids) :], "ids of padded rows")
    live = torch.tensor([len(case.ids)], dtype=torch.int32)
    return {"x": x.to(device), "ids": ids.to(device), "live": live.to(device)}


def oracle(x, ids, live):
    at = torch.arange(len(ids), device=ids.device)
    known = (ids >= 0) & (ids < len(x)) & (at < live)
    return {"out": torch.where(known[:, None], 2 * x[ids.where(known, 0).long()], 0.0)}


def replays(case):
    total = len(case.ids) + case.padded
    fewer = Case(ids=(1,) * (total - 2), padded=2, num_rows=case.num_rows, seed=7)
    others = Case(ids=tuple((row + 2) % case.num_rows for row in range(total)), num_rows=case.num_rows, seed=8)
    return (fewer, others)


SMALL, LARGE = Case(ids=(0, 3, -1, 4), padded=1), Case(ids=(4, 3, 2, 1, 0) * 600)

CONTRACT = Contract(
    name="gather_double",
    cases=lambda: st.just(SMALL),
    inputs=inputs,
    oracle=oracle,
    tolerance={"out": Exact()},
    pinned=(SMALL, LARGE),
    replays=replays,
)


@triton.jit
def gather_kernel(x_ptr, ids_ptr, live_ptr, out_ptr, rows, LOOKS: tl.constexpr, TAG: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    at = tl.load(ids_ptr + row)
    known = (at >= 0) & (at < rows)
    if LOOKS:
        known = known & (row < tl.load(live_ptr))
    column = tl.arange(0, WIDTH)
    value = tl.load(x_ptr + at * WIDTH + column, mask=known, other=0.0)
    tl.store(out_ptr + row * WIDTH + column, 2 * value)


@triton.jit
def add_kernel(in_ptr, out_ptr, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(out_ptr + at, tl.load(out_ptr + at) + tl.load(in_ptr + at))


@triton.autotune(
    [triton.Config({}, num_warps=1), triton.Config({}, num_warps=2)],
    key=["salt"],
    do_bench=lambda call, quantiles: triton.testing.do_bench(call, warmup=1, rep=1, quantiles=quantiles),
)
@triton.jit(do_not_specialize=["salt"])
def tuned_kernel(in_ptr, out_ptr, salt, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(out_ptr + at, tl.load(in_ptr + at))


def gather(x, ids, live, out, *, looks=True, tag=0):
    gather_kernel[(len(out),)](x, ids, live, out, len(x), LOOKS=looks, TAG=tag, WIDTH=WIDTH, num_warps=1)
    return out


def empty_out(x, ids):
    return torch.empty(len(ids), WIDTH, device=x.device)


def plain():
    def launch(x, ids, live):
        return gather(x, ids, live, empty_out(x, ids))

    return launch


def with_a_workspace_of_every_call():
    def launch(x, ids, live):
        workspace = gather(x, ids, live, empty_out(x, ids))
        out = torch.zeros_like(workspace)
        add_kernel[(len(out),)](workspace, out, WIDTH=WIDTH, num_warps=1)
        return out

    return launch


def with_a_workspace_of_each_size():
    held = {}

    def launch(x, ids, live):
        key = (x.device, len(ids))
        if key not in held:
            held[key] = empty_out(x, ids)
        return gather(x, ids, live, held[key]).clone()

    return launch


def on_a_stream_forked_and_joined():
    def launch(x, ids, live):
        here, side = torch.cuda.current_stream(), torch.cuda.Stream()
        out = empty_out(x, ids)
        side.wait_stream(here)
        with torch.cuda.stream(side):
            gather(x, ids, live, out)
        here.wait_stream(side)
        return out

    return launch


def with_masks_that_count_nothing():
    def launch(x, ids, live):
        at = torch.arange(len(ids), device=ids.device)
        lost = (ids < 0) | (ids >= len(x)) | (at >= live)
        out = 2 * x[ids.masked_fill(lost, 0).long()]
        out[lost] = 0.0
        return out

    return launch


def tuned_before():
    def launch(x, ids, live):
        first = gather(x, ids, live, empty_out(x, ids))
        out = torch.empty_like(first)
        tuned_kernel[(len(out),)](first, out, 0, WIDTH=WIDTH)
        return out

    return launch


#: Nothing is wrong with these.
SOUND = (
    plain,
    with_a_workspace_of_every_call,
    with_a_workspace_of_each_size,
    on_a_stream_forked_and_joined,
    with_masks_that_count_nothing,
    tuned_before,
)
