"""Programmatic dependent launch: a launch whose programs start while those of the one before it still run.

PTX ISA, griddepcontrol; CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from harness.device.targets import Target
from kernels._mxfp4_words import on_nvidia


@triton.jit
def wait_for_previous(OVERLAP: tl.constexpr):
    """What the launches before wrote may be read after this, and what they read may be written."""
    if OVERLAP and on_nvidia():
        tl.extra.cuda.gdc_wait()


@triton.jit
def let_next_start(OVERLAP: tl.constexpr):
    """The next launch may start, once every program of this one has said so or ended, if it waits for this one."""
    if OVERLAP and on_nvidia():
        tl.extra.cuda.gdc_launch_dependents()


def can_overlap(target: Target) -> bool:
    """Whether ``target`` has programmatic dependent launch: sm_90 and later."""
    return target.vendor != "rocm" and int(target.arch.removeprefix("sm_")) >= 90


def overlap_option(tensor: torch.Tensor, overlap: bool) -> dict[str, Any]:
    """Return the option of a launch that may start early: of the launch, not of the compilation, so only on a GPU."""
    return {"launch_pdl": True} if overlap and tensor.is_cuda else {}
