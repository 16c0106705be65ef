"""The virtual GPU: runs Triton kernels on the CPU, faithfully, with every memory access checked."""

from harness.vgpu.execution import Limits
from harness.vgpu.faults import (
    AssertionFailed,
    Deadlock,
    HangDetected,
    KernelFault,
    Location,
    Misaligned,
    OutOfBounds,
    Race,
    Suspect,
    UnsupportedOperation,
    UnwrittenRead,
    WriteToInput,
)
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
