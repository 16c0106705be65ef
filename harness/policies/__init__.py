"""What must hold of what stands around a launch with a grid barrier, whatever the kernel.

Contracts whose kernels have grid barriers name these as their policies, so that `verify` asks them and `mutate` judges
mutants of ``harness.launch`` by them.  What is asked about is looked up in its module at each call, where a mutant
stands.
"""

from harness.contract import Policy
from harness.policies import barrier, budgets, compiled, grids, host

__all__ = ["BARRIERS"]

#: Grids that are resident as a whole, budgets that end with their scope, the barrier, and its launch on a device.
BARRIERS = tuple(
    Policy(name=right.__name__.replace("_", " "), right=right)
    for right in (*grids.RIGHT, *budgets.RIGHT, *host.RIGHT, *barrier.RIGHT, *compiled.RIGHT)
)
