"""One public bug report as a fault of ours: what it is planted in, the check that must kill it, the case that shows it.

``number`` is the report's in the collection of public reports, ``link`` the thread, ``says`` the bug in a few words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Outputs = dict[str, Any]
Inputs = dict[str, Any]
#: What stands in the place of a launch: it gets the sound launch, which returns outputs by name, and its arguments.
Around = Callable[[Callable[..., Outputs], Inputs], Outputs]


@dataclass(frozen=True)
class Source:
    """In ``file`` (a path or pattern from the root of the repository), every ``old`` becomes ``new``: at least one.

    ``also`` are further pairs, of which each must be there too.  Files are those of ``kernels`` and the grid barrier,
    which kernels are planted with.
    """

    file: str
    old: str
    new: str
    also: tuple[tuple[str, str], ...] = ()

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Everything that changes: what stands there, and what stands there instead."""
        return ((self.old, self.new), *self.also)


@dataclass(frozen=True)
class Bug:
    """A fault in how ``implementation`` of ``contract`` computes: ``case`` fails ``check`` with it, and only with it.

    ``case`` is None for a ``rejects:`` check, which has none.
    """

    number: str
    link: str
    says: str
    contract: str
    implementation: str
    fault: Around | Source = field(repr=False)
    check: str
    case: Any = None

    def __str__(self) -> str:
        return f"{self.number}-{self.contract}"


@dataclass(frozen=True)
class Policy:
    """A fault in what decides: the function ``right``, which asserts right values, fails with it, and only with it.

    ``fault`` is a context manager that lets module code run with the fault.
    """

    number: str
    link: str
    says: str
    fault: Callable[[], Any] = field(repr=False)
    right: Callable[[], None] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.number}-{self.right.__name__}"

    @property
    def check(self) -> str:
        """The check by name, as ``Bug`` has one."""
        return self.right.__name__


def given(**changes: Callable[[Inputs], Any]) -> Around:
    """Return the fault of arguments that are taken to be what ``changes`` make of all of them."""

    def fault(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
        return launch(**inputs | {name: change(inputs) for name, change in changes.items()})

    return fault


def result(**changes: Callable[[Mapping[str, Any], Inputs], Any]) -> Around:
    """Return the fault of outputs that are what ``changes`` make of the right ones and the arguments."""

    def fault(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
        right = launch(**inputs)
        return right | {name: change(right, inputs) for name, change in changes.items()}

    return fault


def refusing(wrong: Callable[[Inputs], bool], error: Exception) -> Around:
    """Return the fault of raising ``error`` for legal arguments."""

    def fault(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
        if wrong(inputs):
            raise error
        return launch(**inputs)

    return fault
