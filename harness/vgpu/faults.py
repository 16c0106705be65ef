"""What can go wrong inside a kernel: exceptions that say what, where, how far and what was allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A line of user source: the function it is in, its file and its line number (0 when unknown)."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({self.file.rsplit('/', 1)[-1]}:{self.line})"


NOWHERE = Location("<unknown>", "<unknown>", 0)


class KernelFault(Exception):
    """A kernel did something that a GPU would not survive, or would survive only by luck.

    ``kernel``: name of the launched kernel; ``file`` and ``line``: the innermost user line;
    ``argument``: name of the kernel argument concerned, or None; ``program``: (x, y, z) of the first bad
    program, or None; ``index``: index of the first bad element into the argument's view, one number per axis
    when the view allows it, else one element offset; ``extent``: shape of that view; ``lanes``: number of bad
    lanes in this operation.
    """

    def __init__(
        self,
        what: str,
        *,
        location: Location = NOWHERE,
        kernel: str = "",
        argument: str | None = None,
        program: tuple[int, int, int] | None = None,
        index: tuple[int, ...] | None = None,
        extent: tuple[int, ...] | None = None,
        lanes: int = 0,
        detail: str = "",
    ) -> None:
        self.what = what
        self.location = location
        self.kernel = kernel or location.function
        self.argument = argument
        self.program = program
        self.index = index
        self.extent = extent
        self.lanes = lanes
        self.detail = detail
        super().__init__(what)

    @property
    def file(self) -> str:
        """Path of the source file of the innermost user line."""
        return self.location.file

    @property
    def line(self) -> int:
        """Line number of the innermost user line."""
        return self.location.line

    def __str__(self) -> str:
        where = str(self.location)
        if self.kernel and self.kernel != self.location.function:
            where += f", called from {self.kernel}"
        about = []
        if self.argument is not None:
            about.append(f"argument {self.argument}")
        if self.program is not None:
            about.append(f"program {self.program}")
        text = f"{self.what} in {where}"
        if about:
            text += ": " + ", ".join(about)
        if self.index is not None:
            text += f": {describe_index(self.index, self.extent)}"
        if self.lanes:
            text += f"; {self.lanes} lane{'s' if self.lanes > 1 else ''}"
        if self.detail:
            text += f": {self.detail}"
        return text


def describe_index(index: Sequence[int], extent: Sequence[int] | None) -> str:
    """Return "element 1000 of 1000 (shape (1000,))", or "element (3, 20) of shape (8, 20)"."""
    if extent is None:
        return f"element {index[0] if len(index) == 1 else tuple(index)}"
    if len(index) == 1 and len(extent) == 1:
        return f"element {index[0]} of {extent[0]} (shape {tuple(extent)})"
    shown = index[0] if len(index) == 1 else tuple(index)
    return f"element {shown} of shape {tuple(extent)}"


class OutOfBounds(KernelFault):
    """A load, store or atomic touched bytes that are no element of the argument's view."""


class WriteToInput(KernelFault):
    """A store or atomic touched a tensor that the launch may not modify."""


class Misaligned(KernelFault):
    """An access whose address is not a multiple of its size."""


class UnwrittenRead(KernelFault):
    """A load of bytes that no kernel and no torch operation ever wrote."""


class HangDetected(KernelFault):
    """A loop that waits for something no program can bring about."""


class Deadlock(HangDetected):
    """Every resident program waits, and none of them can bring about what the others wait for.

    ``resident``, ``never_launched``, ``finished``: numbers of programs of the grid's ``total``.
    """

    resident = 0
    never_launched = 0
    finished = 0
    total = 0


class Race(KernelFault):
    """Two programs touch one element, at least one of them to change it, and nothing orders them.

    ``program`` and ``line`` are those of the access that was made second; ``other_program`` and ``other_location``
    those of the first.
    """

    other_program: tuple[int, int, int] = (0, 0, 0)
    other_location: Location = NOWHERE


class AssertionFailed(KernelFault):
    """A ``tl.device_assert`` or ``tl.assume`` that does not hold."""


class BrokenPromise(AssertionFailed):
    """A ``tl.multiple_of`` that does not hold: the compiler makes loads as wide as it says."""


class DivisionByZero(KernelFault):
    """An integer divided by a zero, or its remainder: PTX ISA, "div" and "rem", leave the result to the machine."""


class UnsupportedOperation(KernelFault):
    """An operation that the virtual GPU does not model; ``operation`` names it."""

    def __init__(self, operation: str, *, location: Location = NOWHERE, kernel: str = "", detail: str = "") -> None:
        self.operation = operation
        super().__init__(f"unsupported operation {operation}", location=location, kernel=kernel, detail=detail)


class NotCompilable(TypeError):
    """A kernel that Triton refuses to compile for the target; ``what`` it refuses, and ``location`` in the source.

    No fault: on hardware too it is an exception out of the launch.
    """

    def __init__(self, what: str, target: str, instead: str, location: Location, kernel: str) -> None:
        self.what = what
        self.location = location
        self.kernel = kernel
        super().__init__(f"Triton does not compile {what} for {target}, in {location}: {instead}")


@dataclass(frozen=True)
class Suspect:
    """A load of bytes that nobody wrote; the first program and element seen at this line."""

    kernel: str
    file: str
    line: int
    argument: str
    program: tuple[int, int, int]
    index: tuple[int, ...]
    extent: tuple[int, ...]

    def __str__(self) -> str:
        file = self.file.rsplit("/", 1)[-1]
        return (
            f"unwritten bytes read in {self.kernel} ({file}:{self.line}): argument {self.argument}, "
            f"program {self.program}: element {self.index} of shape {self.extent}"
        )
