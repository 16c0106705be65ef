"""Facts about devices: the targets that have names here, what this machine holds, and what a test asks for.

Nothing below imports torch or creates a CUDA context in the asking process.
"""

from harness.device.detect import detect
from harness.device.machine import Device, DriverFacts, Machine
from harness.device.markers import MARKERS, unmet
from harness.device.named import DEVICES, NamedDevice
from harness.device.targets import TARGETS, Target, target_of

__all__ = [
    "DEVICES",
    "MARKERS",
    "TARGETS",
    "Device",
    "DriverFacts",
    "Machine",
    "NamedDevice",
    "Target",
    "detect",
    "target_of",
    "unmet",
]
