"""Hypothesis profiles by how long one can wait: quick while editing, ci for every change, nightly to search."""

from __future__ import annotations

#: Profile -> generated cases per contract and implementation.
EXAMPLES = {"quick": 20, "ci": 100, "nightly": 2000}
DEFAULT = "quick"


def register() -> None:
    """Make the profiles known to Hypothesis, which this imports; loads none of them."""
    from hypothesis import HealthCheck, settings

    for name, examples in EXAMPLES.items():
        settings.register_profile(
            name,
            # Not the loaded profile: Hypothesis loads one of its own where it sees a CI system.
            parent=settings.get_profile("default"),
            max_examples=examples,
            # A case may launch a kernel many times, and its first one compiles: time says nothing about a fault.
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            derandomize=name == "ci",
        )


def examples(profile: str | None) -> int:
    """Return the number of cases to generate under ``profile``, the one asked for on the command line or None.

    A profile that is not ours counts by its own ``max_examples``.
    """
    name = profile or DEFAULT
    if name in EXAMPLES:
        return EXAMPLES[name]
    from hypothesis import settings

    return settings.get_profile(name).max_examples
