"""The text of a new kernel, its oracle and its contract: small, correct, and meant to be edited.

``NAME`` is the operation's name. ``ORACLE`` is the oracle's, which differs only where all parts share one module.
"""

KERNEL_IMPORTS = """\
import torch
import triton
import triton.language as tl

from harness import implements
"""

KERNEL = '''\
BLOCK = 128


@triton.jit
def _NAME_kernel(x_ptr, factor_ptr, out_ptr, x_stride, out_stride, num_columns, BLOCK: tl.constexpr):
    # int64: row * stride passes 2**31 in large batches
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = column < num_columns
    x = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0.0).to(tl.float32)
    factor = tl.load(factor_ptr + row)
    tl.store(out_ptr + row * out_stride + column, (x * factor).to(out_ptr.dtype.element_ty), mask=mask)


@implements("NAME", name="triton")
def NAME(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Return ``[num_rows, num_columns]`` in the dtype of ``x``: each row of ``x`` times its ``factor [num_rows]``.

    Raises ValueError or TypeError naming the argument, before any launch.
    """
    if x.dim() != 2:
        raise ValueError(f"x: wanted [num_rows, num_columns], got shape {tuple(x.shape)}")
    if x.dtype not in (torch.float32, torch.bfloat16):
        raise TypeError(f"x: wanted torch.float32 or torch.bfloat16, got {x.dtype}")
    if x.stride(1) != 1:
        raise ValueError(f"x: wanted stride 1 along a row, got {x.stride(1)}")
    if factor.shape != x.shape[:1] or factor.stride(0) != 1:
        raise ValueError(f"factor: wanted contiguous [{x.shape[0]}], got shape {tuple(factor.shape)}")
    if factor.dtype != torch.float32:
        raise TypeError(f"factor: wanted torch.float32, got {factor.dtype}")
    num_rows, num_columns = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (num_rows, triton.cdiv(num_columns, BLOCK))
    _NAME_kernel[grid](x, factor, out, x.stride(0), out.stride(0), num_columns, BLOCK=BLOCK)
    return out
'''

ORACLE = '''\
def ORACLE(x: torch.Tensor, factor: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return ``{"out": [num_rows, num_columns]}`` in the dtype of ``x``, rounded once."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return {"out": (x.to(wide) * factor.to(wide)[:, None]).to(x.dtype)}
'''

CONTRACT_IMPORTS = """\
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from harness.contract import Contract, Inputs, Outputs, Rejection, Relation
from harness.poison import Poison
from harness.registry import register
from harness.strategies.layouts import Layout, layouts, materialise
from harness.strategies.sizes import sizes
from harness.strategies.spec import Spec
from harness.tolerance import Budget
"""

CONTRACT = '''\
@dataclass(frozen=True, kw_only=True, repr=False)
class Case(Spec):
    """One legal call; ``seed`` draws values only."""

    num_rows: int
    num_columns: int
    dtype: torch.dtype = torch.float32
    layout: Layout = Layout()
    seed: int = 0


def cases() -> st.SearchStrategy[Case]:
    """All that the operation promises to take."""
    return st.builds(
        Case,
        num_rows=st.integers(1, 4),
        num_columns=sizes(tile=128, max_size=300),
        dtype=st.sampled_from([torch.float32, torch.bfloat16]),
        layout=layouts(rank=2, allow=["contiguous", "padded_rows", "offset"]),
        seed=st.integers(0, 3),
    )


def inputs(case: Case, device: torch.device, poison: Poison) -> Inputs:
    """Return ``x`` and ``factor``; what lies between rows of ``x`` may hold anything."""
    generator = torch.Generator().manual_seed(case.seed)
    x = torch.randn(case.num_rows, case.num_columns, generator=generator).to(device, case.dtype)
    factor = torch.randn(case.num_rows, generator=generator).to(device)
    return {"x": materialise(x, case.layout, poison, "gaps of x"), "factor": factor}


def features(case: Case) -> frozenset[str]:
    """Name what is special about a case."""
    found = {
        "bfloat16": case.dtype == torch.bfloat16,
        case.layout.kind: case.layout.kind != "contiguous",
        "several rows": case.num_rows > 1,
        "several blocks": case.num_columns > 128,
    }
    return frozenset(name for name, present in found.items() if present)


def _reverse(case: Case, inputs: Inputs) -> Inputs | None:
    return {name: tensor.flip(0) for name, tensor in inputs.items()} if case.num_rows > 1 else None


def _reversed(case: Case, outputs: Outputs) -> Outputs:
    return {name: tensor.flip(0) for name, tensor in outputs.items()}


def _rejects() -> tuple[Rejection, ...]:
    case = Case(num_rows=2, num_columns=4)

    def legal() -> Inputs:
        return inputs(case, torch.device("cpu"), Poison())

    return (
        Rejection(label="rank", argument="x", inputs=lambda: {**legal(), "x": torch.zeros(4)}),
        Rejection(label="dtype", argument="x", inputs=lambda: {**legal(), "x": legal()["x"].double()}),
        Rejection(label="columns apart", argument="x", inputs=lambda: {**legal(), "x": torch.zeros(4, 2).T}),
        Rejection(label="factor per column", argument="factor", inputs=lambda: {**legal(), "factor": torch.ones(4)}),
        Rejection(label="factor dtype", argument="factor", inputs=lambda: {**legal(), "factor": torch.ones(2).half()}),
        Rejection(label="factor apart", argument="factor", inputs=lambda: {**legal(), "factor": torch.ones(4)[::2]}),
    )


register(
    Contract(
        name="NAME",
        cases=cases,
        inputs=inputs,
        oracle=ORACLE,
        tolerance={"out": Budget()},
        features=features,
        relations=(Relation(name="rows reversed", transform=_reverse, expect=_reversed),),
        rejects=_rejects,
        pinned=(
            Case(num_rows=1, num_columns=1),
            Case(num_rows=3, num_columns=129, dtype=torch.bfloat16, layout=Layout(kind="padded_rows", amount=8)),
            # the last row lies 2**31 elements past the first
            Case(num_rows=3, num_columns=4, layout=Layout(kind="far", amount=2)),
        ),
    )
)
'''
