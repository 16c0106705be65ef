"""What contracts say of what stands around the launches of their kernels."""

from __future__ import annotations

from harness.contract import Policy


def around_barriers() -> tuple[Policy, ...]:
    """What stands around a launch with a grid barrier."""
    # loads the virtual GPU, which no contract needs
    from harness.policies import BARRIERS

    return BARRIERS
