"""Merge attention outputs over disjoint parts of the keys by their log-sum-exp."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from harness import Capturable, implements
from kernels._validate import require_dtype, require_rank, require_same_device, require_shape

# From sweeps on an H200: small tiles, whose programs are many, hide best how long a read takes.
#: Bytes of one program's tile of one part.
TILE_BYTES = 2048
MAX_BLOCK_D = 256
#: Rows of a tile, whose lses of 16 parts spill where there are more.
MAX_BLOCK_R = 16


@triton.jit
def _merge_kernel(
    outs_ptr, outs_part_stride, outs_row_stride, outs_dim_stride, lses_ptr, lses_part_stride, lses_row_stride,
    out_ptr, lse_ptr, num_parts, num_rows, head_dim,
    BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """One tile of rows and dimensions, all parts; grid ``(cdiv(num_rows, BLOCK_R), cdiv(head_dim, BLOCK_D))``.

    PARTS, a power of two, is at least ``num_parts``: without a loop no read waits for another one.
    """
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    dim = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    in_rows = row < num_rows
    in_tile = in_rows[:, None] & (dim < head_dim)[None, :]
    lses_row = lses_ptr + row * lses_row_stride
    outs_row = outs_ptr + (row * outs_row_stride)[:, None] + (dim.to(tl.int64) * outs_dim_stride)[None, :]

    top = tl.full([BLOCK_R], float("-inf"), tl.float32)
    part_lse_ptr = lses_row
    for part in tl.static_range(PARTS):
        there = in_rows & (part < num_parts)
        top = tl.maximum(top, tl.load(part_lse_ptr, mask=there, other=float("-inf")))
        part_lse_ptr += lses_part_stride
    # Subtracting an infinite maximum would turn rows without any part, and lse = +inf, into inf - inf.
    top = tl.where(tl.abs(top) == float("inf"), 0.0, top)
    total = tl.zeros([BLOCK_R], tl.float32)
    part_lse_ptr = lses_row
    for part in tl.static_range(PARTS):
        there = in_rows & (part < num_parts)
        total += tl.exp(tl.load(part_lse_ptr, mask=there, other=float("-inf")) - top)
        part_lse_ptr += lses_part_stride

    acc = tl.zeros([BLOCK_R, BLOCK_D], tl.float32)
    part_lse_ptr = lses_row
    for part in tl.static_range(PARTS):
        there = part < num_parts
        part_lse = tl.load(part_lse_ptr, mask=in_rows & there, other=float("-inf"))
        # Read without waiting for the lse.  A part without keys may hold NaN, and 0 * NaN is NaN.
        part_out = tl.load(outs_row, mask=in_tile & there, other=0.0).to(tl.float32)
        part_out = tl.where((part_lse != float("-inf"))[:, None], part_out, 0.0)
        share = tl.where(total == 0.0, 0.0, tl.exp(part_lse - top) / total)
        acc += share[:, None] * part_out
        part_lse_ptr += lses_part_stride
        outs_row += outs_part_stride
    tl.store(out_ptr + row[:, None] * head_dim + dim[None, :], acc.to(out_ptr.dtype.element_ty), mask=in_tile)
    if tl.program_id(1) == 0:
        tl.store(lse_ptr + row, top + tl.log(total), mask=in_rows)


# One block of columns, and two.
_GRAPHS = Capturable(
    cases=(
        "Case(num_parts=2, empty=((0, 1), (0,), (), (1,)), head_dim=64)",
        "Case(num_parts=5, empty=((), (4,), (0, 1, 2)), head_dim=513, dtype=torch.float32)",
        "Case(num_parts=2, empty=((0, 1), (0,), (), (1,), ()), head_dim=512)",
    )
)


@implements("merge_attn_states", name="triton", capturable=_GRAPHS)
def merge_attn_states(outs: torch.Tensor, lses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge any number of partial attention states.

    ``outs`` [N, num_rows, head_dim] bf16, fp16 or float32; ``lses`` [N, num_rows] float32, natural logarithm; any
    strides. A part whose lse is -inf contributes nothing, whatever its output holds. Computed in float32.

    Returns ``out`` [num_rows, head_dim] of the dtype of ``outs``, rounded once, and ``lse`` [num_rows] float32; a row
    without any part is (0, -inf). An lse of NaN makes its row NaN; an lse of +inf gives out NaN and lse +inf.

    Raises TypeError or ValueError naming the argument before any launch.
    """
    require_dtype("outs", outs, torch.bfloat16, torch.float16, torch.float32)
    require_rank("outs", outs, 3, "[N, num_rows, head_dim]")
    num_parts, num_rows, head_dim = outs.shape
    if num_parts == 0:
        raise ValueError(f"outs: wanted at least one part, got shape {list(outs.shape)}")
    require_dtype("lses", lses, torch.float32)
    require_shape("lses", lses, (num_parts, num_rows), "[N, num_rows]")
    require_same_device({"outs": outs, "lses": lses})

    out = torch.empty((num_rows, head_dim), dtype=outs.dtype, device=outs.device)
    lse = torch.empty((num_rows,), dtype=torch.float32, device=outs.device)
    block_d = min(triton.next_power_of_2(max(head_dim, 16)), MAX_BLOCK_D)
    block_r = min(max(TILE_BYTES // outs.element_size() // block_d, 1), MAX_BLOCK_R)
    if num_rows > 0:
        # Triton launches on the current device, which need not be the tensors'.
        with torch.cuda.device_of(outs):
            _merge_kernel[(triton.cdiv(num_rows, block_r), max(triton.cdiv(head_dim, block_d), 1))](
                outs,
                *outs.stride(),
                lses,
                *lses.stride(),
                out,
                lse,
                num_parts,
                num_rows,
                head_dim,
                BLOCK_R=block_r,
                BLOCK_D=block_d,
                PARTS=triton.next_power_of_2(num_parts),
                num_warps=4,
            )
    return out, lse
