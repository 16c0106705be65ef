"""Correctness harness for GPU kernels: contracts in, verdicts out.

Importing this package loads neither torch nor Triton nor Hypothesis: pytest imports
``harness.plugin`` in every project that has the distribution installed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.contract import (
        Capturable,
        Compiles,
        Contract,
        Expected,
        Implementation,
        Interleavings,
        Relation,
        Requires,
    )
    from harness.known import Known
    from harness.poison import Poison
    from harness.registry import implements, register
    from harness.tolerance import Budget, Exact

_HOMES = {
    "Budget": "tolerance",
    "Capturable": "contract",
    "Compiles": "contract",
    "Contract": "contract",
    "Exact": "tolerance",
    "Expected": "contract",
    "Implementation": "contract",
    "Interleavings": "contract",
    "Known": "known",
    "Poison": "poison",
    "Relation": "contract",
    "Requires": "contract",
    "implements": "registry",
    "register": "registry",
}

__all__ = [
    "Budget",
    "Capturable",
    "Compiles",
    "Contract",
    "Exact",
    "Expected",
    "Implementation",
    "Interleavings",
    "Known",
    "Poison",
    "Relation",
    "Requires",
    "implements",
    "register",
]


def __getattr__(name: str) -> Any:
    """Resolve a public name on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"harness.{_HOMES[name]}"), name)
