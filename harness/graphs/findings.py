"""One line of host code that a CUDA graph cannot hold, and how that line is found."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch

#: What is wrong: the host waits, a copy between host and device, a shape that depends on data, a kernel compiled or
#: tuned during capture, memory that outlives the launch, an output that launches share, a buffer that a later launch
#: replaces, an input that is not read again, work on a stream outside of the capture, an exception.
Rule = Literal[
    "waits", "copies", "shape", "compiles", "tunes", "keeps", "shares", "replaces", "unread", "stream", "raises"
]


@dataclass(frozen=True)
class Place:
    """A line of the user's code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line} in {self.function}"


@dataclass(frozen=True)
class Finding:
    """``rule`` broken at ``place``, None where no line is to blame."""

    rule: Rule
    message: str
    place: Place | None

    @property
    def site(self) -> str:
        """What is the same for every case that meets this finding."""
        return f"{self.rule} at {self.place}"

    def __str__(self) -> str:
        return self.message if self.place is None else f"{self.place}: {self.message}"


def _package(module: Any) -> str:
    return str(Path(str(module.__file__)).parent) + "/"


def _foreign() -> tuple[str, ...]:
    # not all of site-packages: that is where other people's kernels are installed
    import triton

    standard = sysconfig.get_path("stdlib")
    libraries = [f"{standard}/{name}.py" for name in ("contextlib", "functools", "threading")]
    own = str(Path(__file__).parents[1]) + "/"
    return (own, _package(torch), _package(triton), "<", *libraries)


_FOREIGN = _foreign()


def user_place() -> Place | None:
    """Return the innermost line on the stack that belongs to neither the harness nor torch nor Triton."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_FOREIGN):
            return Place(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


def innermost(places: Sequence[Place]) -> Place | None:
    """Return the first of ``places`` that is the user's, None if there is none."""
    return next((place for place in places if not place.file.startswith(_FOREIGN)), None)


def raising_place(error: BaseException) -> Place | None:
    """Return the user's innermost line in the traceback of ``error``, else the innermost of all."""
    frames = [
        Place(frame.filename, frame.lineno or 0, frame.name) for frame in traceback.extract_tb(error.__traceback__)
    ]
    return innermost(frames[::-1]) or (frames[-1] if frames else None)
