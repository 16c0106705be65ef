"""What checking one case yields: violations, and which checks ran at all."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path

_HARNESS = str(Path(__file__).parent)


class ContractError(Exception):
    """A contract failed where only an implementation may: its inputs, its oracle, a relation, its tolerance.

    ``contract`` is its name and ``case`` the case it failed on, as text; each is empty where none is known.
    """

    def __init__(self, message: str, *, contract: str = "", case: str = "") -> None:
        super().__init__(message)
        self.contract = contract
        self.case = case


@dataclass(frozen=True)
class Violation:
    """One check failing on one case, under one autotune configuration.

    ``site`` names the cause where the check knows it, the same for every case that meets it: the line an exception
    came from, or the poisoned region.  Empty otherwise.
    ``case`` is set only where no Case object exists.
    """

    check: str
    message: str
    config: int = 0
    site: str = ""
    case: str = ""


@dataclass
class CaseResult:
    """Everything found on one case.

    ``configs`` is the number of autotune configurations there are; ``checks_run`` the ids of the checks that came to
    a verdict; ``untrusted`` the operations that are outside what the lane is proven to model.  ``no_room`` says why the
    case did not run at all, where the lane has no room for it.
    """

    violations: list[Violation] = field(default_factory=list)
    configs: int = 1
    checks_run: set[str] = field(default_factory=set)
    untrusted: set[str] = field(default_factory=set)
    no_room: str = ""

    def of(self, check: str) -> list[Violation]:
        """Return the violations of one check."""
        return [violation for violation in self.violations if violation.check == check]


def described(error: BaseException) -> str:
    """Return type, message and the innermost frame that is neither the harness nor an installed package."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    where = _place(error)
    return f"{text} ({where})" if where else text


def site(error: BaseException) -> str:
    """Return what identifies the place that raised ``error``: its type, and the user's line or the kernel's."""
    kernel_file = getattr(error, "file", "")
    where = f"{kernel_file}:{getattr(error, 'line', 0)}" if kernel_file else _place(error)
    argument = getattr(error, "argument", None)
    return f"{type(error).__name__} at {where}" + (f", argument {argument}" if argument else "")


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _foreign(frame.filename)]
    if not frames:
        return ""
    frame = (own or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"


def _foreign(filename: str) -> bool:
    return filename.startswith(("<", _HARNESS)) or "site-packages" in filename
