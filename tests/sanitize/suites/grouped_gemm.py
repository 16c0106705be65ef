"""Products of different sizes in one launch, their addresses in tensors, as Triton's eighth tutorial has it."""

import pytest
import torch
import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()


def num_sms():
    return torch.cuda.get_device_properties("cuda").multi_processor_count


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "NUM_SM": 7}),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "NUM_SM": num_sms()}),
    ],
    key=["group_size"],
)
@triton.jit
def grouped_kernel(
    a_addresses, b_addresses, c_addresses, sizes, strides, group_size, NUM_SM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    first = 0
    for g in range(group_size):
        m = tl.load(sizes + 3 * g)
        n = tl.load(sizes + 3 * g + 1)
        k = tl.load(sizes + 3 * g + 2)
        across = tl.cdiv(n, BLOCK_N)
        count = tl.cdiv(m, BLOCK_M) * across
        while tile >= first and tile < first + count:
            lda = tl.load(strides + 3 * g)
            ldb = tl.load(strides + 3 * g + 1)
            ldc = tl.load(strides + 3 * g + 2)
            a_ptr = tl.load(a_addresses + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(b_addresses + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(c_addresses + g).to(tl.pointer_type(tl.float16))
            rows = (tile - first) // across * BLOCK_M + tl.arange(0, BLOCK_M)
            cols = (tile - first) % across * BLOCK_N + tl.arange(0, BLOCK_N)
            inner = tl.arange(0, BLOCK_K)
            total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for start in range(0, k, BLOCK_K):
                inside = start + inner < k
                a = tl.load(
                    a_ptr + rows[:, None] * lda + (start + inner)[None, :],
                    mask=(rows < m)[:, None] & inside[None, :],
                    other=0.0,
                )
                b = tl.load(
                    b_ptr + (start + inner)[:, None] * ldb + cols[None, :],
                    mask=inside[:, None] & (cols < n)[None, :],
                    other=0.0,
                )
                total = tl.dot(a, b, total)
            tl.store(
                c_ptr + rows[:, None] * ldc + cols[None, :],
                total.to(tl.float16),
                mask=(rows < m)[:, None] & (cols < n)[None, :],
            )
            tile += NUM_SM
        first += count


def grouped(pairs):
    outs = [torch.empty((a.shape[0], b.shape[1]), device=DEVICE, dtype=a.dtype) for a, b in pairs]
    addresses = [
        torch.tensor([t.data_ptr() for t in group], device=DEVICE)
        for group in ([a for a, _ in pairs], [b for _, b in pairs], outs)
    ]
    sizes = torch.tensor([[*a.shape, b.shape[1]] for a, b in pairs], dtype=torch.int32, device=DEVICE)[:, [0, 2, 1]]
    strides = [[a.stride(0), b.stride(0), c.stride(0)] for (a, b), c in zip(pairs, outs, strict=True)]
    strides = torch.tensor(strides, dtype=torch.int32, device=DEVICE)
    grouped_kernel[lambda meta: (meta["NUM_SM"],)](*addresses, sizes.contiguous(), strides, len(pairs))
    return outs


@pytest.mark.parametrize("shapes", [[(64, 32, 64)] * 2, [(40, 50, 33), (17, 96, 65), (1, 1, 1)]], ids=["whole", "odd"])
def test_against_torch(shapes):
    torch.manual_seed(0)
    pairs = [(torch.rand((m, k), device=DEVICE).half(), torch.rand((k, n), device=DEVICE).half()) for m, k, n in shapes]
    for out, (a, b) in zip(grouped(pairs), pairs, strict=True):
        torch.testing.assert_close(out, a @ b, atol=1e-2, rtol=1e-3)
