"""Run one kernel over a gibibyte of tensors on the virtual GPU; print its peak memory beyond what was there before.

``python -m tests.benchmarks.memory NAME`` prints a multiple of the tensors' size.
"""

import sys

import torch
import triton
import triton.language as tl

from harness import poison
from harness.vgpu import VirtualGPU

ELEMENTS = 1 << 27
BLOCK = 1024
ROWS, COLS, TILE = 1 << 14, 1 << 13, 64
PERSISTENT = 132


@triton.jit
def scaled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, 2 * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@triton.jit
def transposed(x_ptr, out_ptr, rows, cols, TILE: tl.constexpr):
    across = cols // TILE
    for tile in range(tl.program_id(0), rows // TILE * across, tl.num_programs(0)):
        row = (tile // across) * TILE + tl.arange(0, TILE)
        col = (tile % across) * TILE + tl.arange(0, TILE)
        block = tl.load(x_ptr + row[:, None] * cols + col[None, :])
        tl.store(out_ptr + col[:, None] * rows + row[None, :], tl.trans(block))


def elementwise(x, out, n=ELEMENTS):
    scaled[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)


def persistent(x, out, rows=ROWS, cols=COLS):
    transposed[(PERSISTENT,)](x, out, rows, cols, TILE=TILE)


KERNELS = {"elementwise": elementwise, "persistent": persistent}


def status(field):
    """Return a field of this process's status, in bytes."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def main(name):
    launch = KERNELS[name]
    with VirtualGPU():
        launch(torch.ones(1 << 14), torch.empty(1 << 14), *((1 << 14,) if name == "elementwise" else (128, 128)))
    before = status("VmRSS")
    with VirtualGPU(fill=poison.NAN) as gpu:
        x, out = torch.ones(ELEMENTS), torch.empty(ELEMENTS)
        launch(x, out)
        peak = status("VmHWM")
        assert gpu.unwritten(out) is None
    sys.stdout.write(f"{(peak - before) / (x.nbytes + out.nbytes):.2f}\n")


if __name__ == "__main__":
    main(sys.argv[1])
