"""A persistent matrix product on descriptors, made by the host or in the kernel, as Triton's ninth tutorial has it."""

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DEVICE = triton.runtime.driver.active.get_active_torch_device()
BLOCKS = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16}


@triton.jit
def tile_of(number, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    in_group = GROUP_M * tiles_n
    first = number // in_group * GROUP_M
    size = min(tiles_m - first, GROUP_M)
    return first + number % in_group % size, number % in_group // size


@triton.jit
def host_kernel(
    a_desc, b_desc, c_desc, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for number in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        m, n = tile_of(number, tiles_m, tiles_n, GROUP_M)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([m * BLOCK_M, k * BLOCK_K])
            b = b_desc.load([n * BLOCK_N, k * BLOCK_K])
            total = tl.dot(a, b.T, total)
        c_desc.store([m * BLOCK_M, n * BLOCK_N], total.to(tl.float16))


@triton.jit
def device_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N // 2])
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for number in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        m, n = tile_of(number, tiles_m, tiles_n, GROUP_M)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            total = tl.dot(a_desc.load([m * BLOCK_M, k * BLOCK_K]), b_desc.load([n * BLOCK_N, k * BLOCK_K]).T, total)
        left, right = tl.split(tl.permute(tl.reshape(total, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
        c_desc.store([m * BLOCK_M, n * BLOCK_N], left.to(tl.float16))
        c_desc.store([m * BLOCK_M, n * BLOCK_N + BLOCK_N // 2], right.to(tl.float16))


def by_host(a, b):
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty((M, N), device=DEVICE, dtype=torch.float16)
    block = BLOCKS
    descriptors = (
        TensorDescriptor.from_tensor(a, [block["BLOCK_M"], block["BLOCK_K"]]),
        TensorDescriptor.from_tensor(b, [block["BLOCK_N"], block["BLOCK_K"]]),
        TensorDescriptor.from_tensor(c, [block["BLOCK_M"], block["BLOCK_N"]]),
    )
    host_kernel[(3,)](*descriptors, M, N, K, **BLOCKS, GROUP_M=2)
    return c


def by_device(a, b):
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty((M, N), device=DEVICE, dtype=torch.float16)
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device=DEVICE, dtype=torch.int8))
    device_kernel[(3,)](a, b, c, M, N, K, **BLOCKS, GROUP_M=2)
    return c


@pytest.mark.parametrize("product", [by_host, by_device])
def test_against_torch(product):
    torch.manual_seed(0)
    a, b = torch.rand((72, 40), device=DEVICE).half(), torch.rand((56, 40), device=DEVICE).half()
    torch.testing.assert_close(product(a, b), a @ b.T, atol=1e-2, rtol=1e-3)
