"""What decides how a kernel is launched: how many blocks are resident, and which grid a barrier may span.

Nothing here imports torch or Triton or touches a device when it is imported, but for ``grid_barrier``, which is device
code and imported by its own name.
"""

from harness.launch.context import context_units
from harness.launch.grids import DoesNotFit, SafeGrid, barrier_safe_grid
from harness.launch.residency import Residency, Resources, resident_blocks

__all__ = [
    "DoesNotFit",
    "Residency",
    "Resources",
    "SafeGrid",
    "barrier_safe_grid",
    "context_units",
    "resident_blocks",
]
