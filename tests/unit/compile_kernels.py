"""Small kernels for the compile lane, and how they are launched."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.launch.current import current_target

_SCALE = tl.constexpr(2)


@triton.jit
def _scaled(x):
    return x * _SCALE


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = 2 x, n elements, BLOCK a program."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, _scaled(tl.load(x_ptr + index, mask=index < n)), mask=index < n)


@triton.jit
def fill_kernel(out_ptr):
    """out = 2: another caller of ``_scaled``."""
    tl.store(out_ptr, _scaled(1.0))


@triton.jit
def strided_kernel(x_ptr, out_ptr, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Copy a [ROWS, COLUMNS] tile whose rows are ``stride`` apart: how wide a load may be depends on the stride."""
    place = tl.arange(0, ROWS)[:, None] * stride + tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + place, tl.load(x_ptr + place))


@triton.jit
def scatter_kernel(x_ptr, out_ptr, index_ptr, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Write rows of a tile to the rows of ``out`` that ``index`` names, by tile scatter."""
    x = tl.make_tensor_descriptor(x_ptr, shape=[BLOCK_M, columns], strides=[columns, 1], block_shape=[BLOCK_M, BLOCK_N])
    out = tl.make_tensor_descriptor(out_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[1, BLOCK_N])
    out.scatter(x.load([0, 0]), tl.load(index_ptr + tl.arange(0, BLOCK_M)), 0)


@triton.jit
def wide_kernel(x_ptr, y_ptr, out_ptr, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """A product that keeps ``num_stages`` tiles of both operands in shared memory."""
    row, column, depth = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :], tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(x_ptr + row * K + k + depth[None, :])
        y = tl.load(y_ptr + column * K + k + depth[:, None])
        acc = tl.dot(x, y, acc)
    tl.store(out_ptr + row * BLOCK + column, acc)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64}, num_warps=1),
        triton.Config({"BLOCK": 128}, num_warps=2),
        triton.Config({"BLOCK": 4096}, num_warps=4),
    ],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, named, **kwargs: configs[:2]},
)
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """``copy_kernel`` with three configurations, of which two survive."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, tl.load(x_ptr + index, mask=index < n), mask=index < n)


@triton.jit
def described_kernel(x, out_ptr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Copy a tile that a descriptor made on the host loads."""
    place = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    tl.store(out_ptr + place, x.load([0, 0]))


def copy(x, block=128):
    """Launch ``copy_kernel``."""
    out = torch.empty_like(x)
    copy_kernel[triton.cdiv(x.numel(), block),](x, out, x.numel(), BLOCK=block, num_warps=4)
    return out


def strided(x):
    """Launch ``strided_kernel`` on x [64, 64], rows apart by its stride."""
    out = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype)
    strided_kernel[1,](x, out, x.stride(0), ROWS=64, COLUMNS=64)
    return out


def scatter(x, index):
    """Launch ``scatter_kernel`` on x [32, 64]."""
    out = torch.zeros_like(x)
    scatter_kernel[1,](x, out, index, *x.shape, BLOCK_M=32, BLOCK_N=64)
    return out


def wide(x, y, stages=5):
    """Launch ``wide_kernel`` on x and y [128, K]; five stages need 131,072 bytes of shared memory on sm_120."""
    out = torch.empty(128, 128, dtype=torch.float32)
    wide_kernel[1,](x, y, out, x.shape[1], BLOCK=128, BLOCK_K=64, num_warps=8, num_stages=stages)
    return out


def tuned(x):
    """Launch ``tuned_kernel``."""
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


def described(x):
    """Launch ``described_kernel`` on x [32, 64]."""
    out = torch.empty_like(x)
    described_kernel[1,](TensorDescriptor.from_tensor(x, [32, 64]), out, BLOCK_M=32, BLOCK_N=64)
    return out


def by_target(x):
    """``copy`` with a block that depends on the target."""
    return copy(x, 256 if current_target(x.device).arch == "sm_90" else 128)


def fill(x):
    """Launch ``fill_kernel``."""
    fill_kernel[(1,)](x)


def forget_hashes():
    """Let Triton hash the kernels that share ``_scaled`` as if in a new process."""
    for function in (copy_kernel, fill_kernel, _scaled):
        function.hash, function.used_global_vals = None, {}


@triton.jit
def _refusing(x, ROWS: tl.constexpr):
    tl.static_assert(ROWS == 16, "16 rows are wanted")
    return x


@triton.jit
def refused_kernel(out_ptr, ROWS: tl.constexpr):
    """What Triton does not take stands in a function that it inlines."""
    tl.store(out_ptr, _refusing(1.0, ROWS))


def refused(x):
    """Launch ``refused_kernel`` with a constant that it does not take."""
    refused_kernel[(1,)](x, ROWS=8)
