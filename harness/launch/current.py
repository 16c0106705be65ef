"""Which target a kernel that chooses its form by target should choose for, asked at the launch and never at import."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.device.targets import Target, target_of

if TYPE_CHECKING:
    import torch

_pretended: contextvars.ContextVar[Target | None] = contextvars.ContextVar("pretended_target", default=None)


@contextmanager
def pretending(target: Target | str) -> Iterator[Target]:
    """Let ``current_target`` answer ``target`` in this thread or task, whatever device there is.

    The compile lane launches inside such a scope, once for each target.  Raises ValueError for an unknown name.
    """
    chosen = target_of(target) if isinstance(target, str) else target
    token = _pretended.set(chosen)
    try:
        yield chosen
    finally:
        _pretended.reset(token)


def current_target(device: torch.device, default: Target | str | None = None) -> Target:
    """Return the target to choose for when tensors are on ``device``.

    That is the one of the innermost ``pretending``; else that of the GPU ``device``; else, for tensors on a CPU,
    ``default``.  Raises ValueError for a GPU that has no name here, and for a CPU without a default.
    """
    pretended = _pretended.get()
    if pretended is not None:
        return pretended
    if device.type == "cuda":
        import torch

        properties = torch.cuda.get_device_properties(device)
        if torch.version.hip:
            # "gfx942:sramecc+:xnack-": the features after the colon are no part of the architecture
            return target_of(properties.gcnArchName.partition(":")[0])
        return target_of(f"sm_{properties.major}{properties.minor}")
    if default is None:
        raise ValueError(f"device: wanted a GPU, or a target set by pretending(...), got {device}")
    return target_of(default) if isinstance(default, str) else default
