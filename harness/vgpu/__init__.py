"""The virtual GPU: runs Triton kernels on the CPU, faithfully, with every memory access checked."""

from harness.vgpu.faults import (
    AssertionFailed,
    Deadlock,
    HangDetected,
    KernelFault,
    Location,
    Misaligned,
    NotCompilable,
    OutOfBounds,
    Race,
    Suspect,
    UnsupportedOperation,
    UnwrittenRead,
    WriteToInput,
)
from harness.vgpu.limits import Limits
from harness.vgpu.schedule import Schedule
from harness.vgpu.session import Launch, VirtualGPU
from harness.vgpu.shadow import Unwritten

__all__ = [
    "AssertionFailed",
    "Deadlock",
    "HangDetected",
    "KernelFault",
    "Launch",
    "Limits",
    "Location",
    "Misaligned",
    "NotCompilable",
    "OutOfBounds",
    "Race",
    "Schedule",
    "Suspect",
    "UnsupportedOperation",
    "Unwritten",
    "UnwrittenRead",
    "VirtualGPU",
    "WriteToInput",
]
