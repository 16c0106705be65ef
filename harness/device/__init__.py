"""Facts about devices: the targets that have names here, what this machine holds, and what a test asks for.

Nothing below imports torch or creates a CUDA context in the asking process.
"""

from harness.device.detect import Device, Machine, detect
from harness.device.markers import MARKERS, unmet
from harness.device.targets import TARGETS, Target

__all__ = ["MARKERS", "TARGETS", "Device", "Machine", "Target", "detect", "unmet"]
