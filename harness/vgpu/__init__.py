"""The virtual GPU: runs Triton kernels on the CPU, faithfully, with every memory access checked."""

from harness.vgpu.execution import Limits, Suspect
from harness.vgpu.faults import (
    AssertionFailed,
    HangDetected,
    KernelFault,
    Location,
    Misaligned,
    OutOfBounds,
    UnsupportedOperation,
    UnwrittenRead,
    WriteToInput,
)
from harness.vgpu.session import Launch, VirtualGPU
from harness.vgpu.shadow import Unwritten

__all__ = [
    "AssertionFailed",
    "HangDetected",
    "KernelFault",
    "Launch",
    "Limits",
    "Location",
    "Misaligned",
    "OutOfBounds",
    "Suspect",
    "UnsupportedOperation",
    "Unwritten",
    "UnwrittenRead",
    "VirtualGPU",
    "WriteToInput",
]
