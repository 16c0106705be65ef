"""Tracebacks that show the program and its kernels, not what runs them."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

_HERE = Path(__file__).parent
_HIDDEN = (str(_HERE), str(_HERE.parent / "vgpu"))


def shorten(error: BaseException) -> None:
    """Take the frames of the emulation, the virtual GPU and Triton's launch code out of the traceback of ``error``."""
    import triton

    hidden = (*_HIDDEN, str(Path(str(triton.__file__)).parent))
    kept = []
    trace = error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(hidden):
            kept.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = None
    for one in reversed(kept):
        made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    if made is not None:
        error.__traceback__ = made
