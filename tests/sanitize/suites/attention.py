"""Flash attention, forward, as Triton's sixth tutorial has it: online softmax, causal or not, tensor descriptors."""

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def _inner(
    acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale, offs_m, offs_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGE: tl.constexpr, N_CTX: tl.constexpr,
):  # fmt: skip
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        lo = tl.multiple_of(lo, BLOCK_M)
    else:
        lo, hi = 0, N_CTX
    for start_n in tl.range(lo, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = desc_k.load([offset_y + start_n, 0]).T
        qk = tl.dot(q, k)
        if STAGE == 2:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = desc_v.load([offset_y + start_n, 0])
        acc = tl.dot(p.to(tl.float16), v, acc)
        m_i = m_ij
    return acc, l_i, m_i


@triton.jit
def _forward(
    sm_scale, M, Z, H, desc_q, desc_k, desc_v, desc_o, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGE: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    offset_y = off_hz * N_CTX
    qo_offset_y = offset_y + start_m * BLOCK_M
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    q = desc_q.load([qo_offset_y, 0])
    if STAGE & 1:
        acc, l_i, m_i = _inner(
            acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale, offs_m, offs_n,
            BLOCK_M, BLOCK_N, 4 - STAGE, N_CTX,
        )  # fmt: skip
    if STAGE & 2:
        acc, l_i, m_i = _inner(
            acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale, offs_m, offs_n,
            BLOCK_M, BLOCK_N, 2, N_CTX,
        )  # fmt: skip
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(M + off_hz * N_CTX + offs_m, m_i)
    desc_o.store([qo_offset_y, 0], acc.to(tl.float16))


def attention(q, k, v, causal, sm_scale):
    batch, heads, n_ctx, head_dim = q.shape
    o = torch.empty_like(q)
    M = torch.empty((batch, heads, n_ctx), device=q.device, dtype=torch.float32)
    rows = batch * heads * n_ctx
    BLOCK_M, BLOCK_N = 32, 16

    def descriptor(x, block):
        return TensorDescriptor(x, shape=[rows, head_dim], strides=[head_dim, 1], block_shape=[block, head_dim])

    def alloc_fn(size, align, _):
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(alloc_fn)
    _forward[(triton.cdiv(n_ctx, BLOCK_M), batch * heads)](
        sm_scale, M, batch, heads,
        descriptor(q, BLOCK_M), descriptor(k, BLOCK_N), descriptor(v, BLOCK_N), descriptor(o, BLOCK_M), n_ctx,
        HEAD_DIM=head_dim, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, STAGE=3 if causal else 1,
    )  # fmt: skip
    return o


@pytest.mark.parametrize("causal", [True, False])
def test_against_torch(causal):
    torch.manual_seed(20)
    q, k, v = (
        torch.empty((1, 2, 64, 32), dtype=torch.float16, device=DEVICE).normal_(mean=0.0, std=0.5) for _ in range(3)
    )
    p = torch.matmul(q, k.transpose(2, 3)) * 0.5
    if causal:
        p[:, :, torch.tril(torch.ones((64, 64), device=DEVICE)) == 0] = float("-inf")
    expected = torch.matmul(torch.softmax(p.float(), dim=-1).half(), v)
    torch.testing.assert_close(attention(q, k, v, causal, 0.5), expected, atol=1e-2, rtol=0)
