"""A product of sm_90 whose left operand is made in registers, which assemblers before CUDA 13.3 get wrong."""

import torch
import triton
import triton.language as tl


@triton.jit
def grown_kernel(x_ptr, y_ptr, out_ptr, K, WAIT: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """out [BLOCK, BLOCK] float32 = x [BLOCK, K] int8, made bfloat16 on the way, times y [K, BLOCK] bfloat16.

    WAIT: whether a step begins when the multiplies of the step before have ended.
    """
    row, column, depth = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :], tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK_K):
        if WAIT:
            tl.inline_asm_elementwise(
                "wgmma.wait_group.sync.aligned 0;\nmov.b32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
            )
        x = tl.load(x_ptr + row * K + k + depth[None, :])
        y = tl.load(y_ptr + column + (k + depth[:, None]) * BLOCK)
        acc = tl.dot(x.to(tl.bfloat16), y, acc)
    tl.store(out_ptr + row * BLOCK + column, acc)


def grown(x, y, wait):
    """Launch ``grown_kernel`` on x [128, K] and y [K, 128]."""
    out = torch.empty(128, 128, dtype=torch.float32)
    grown_kernel[1,](x, y, out, x.shape[1], WAIT=wait, BLOCK=128, BLOCK_K=128, num_warps=4, num_stages=3)
    return out
