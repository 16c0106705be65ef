"""A contract and a kernel that are mutated by tests; registered when this is imported.

The second output is wrong on purpose: a check that fails on the original must kill nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from hypothesis import strategies as st

from harness.contract import Contract
from harness.registry import implements, register
from harness.tolerance import Exact


@dataclass(frozen=True, kw_only=True)
class Case:
    n: int


def inputs(case, device, poison):
    return {"x": torch.arange(1.0, 1.0 + case.n, device=device)}


def oracle(x):
    return {"out": x * 2, "side": x * 3}


register(
    Contract(
        name="mutation_victim",
        cases=lambda: st.builds(Case, n=st.integers(1, 40)),
        inputs=inputs,
        oracle=oracle,
        tolerance={"out": Exact(), "side": Exact()},
        pinned=(Case(n=3), Case(n=17)),
    )
)


_WIDE = tl.constexpr(64)


@triton.jit
def double(x_ptr, stride, out_ptr, side_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    if BLOCK >= _WIDE:
        place += 1
    x = tl.load(x_ptr + place * stride, mask=inside, other=0.0)
    tl.store(out_ptr + place, x * 2.0, mask=inside)
    tl.store(side_ptr + place, x * 4.0, mask=inside)


@implements("mutation_victim", name="triton")
def doubled(x):
    out, side = torch.empty_like(x), torch.empty_like(x)
    block = 4 * 4
    double[(triton.cdiv(len(x), block),)](x, x.stride(0), out, side, len(x), BLOCK=block)
    return {"out": out, "side": side}
