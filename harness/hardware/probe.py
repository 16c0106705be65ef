"""Whether this process can still use its GPU, and what kind of end an exception is; torch is asked only if loaded."""

from __future__ import annotations

import sys

# torch.OutOfMemoryError, whose name is older than the class that torch.cuda has for it, and CUDA's own words for it
_OUT_OF_MEMORY = "OutOfMemoryError"
_CUDA_OUT_OF_MEMORY = "CUDA error: out of memory"


def sticky_error() -> str | None:
    """Wait for the GPU and return its error if the context is lost, the first line of it; None if all is well.

    Errors that one call reports and the next does not are not sticky: the second call tells.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    try:
        torch.cuda.synchronize()
    except Exception:
        try:
            torch.cuda.synchronize()
        except Exception as error:
            return first_line(error)
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` says that memory ran out, the device's or the host's."""
    if isinstance(error, MemoryError):
        return True
    return any(kind.__name__ == _OUT_OF_MEMORY for kind in type(error).__mro__) or _CUDA_OUT_OF_MEMORY in str(error)


def first_line(error: BaseException) -> str:
    """Return type and first line of ``error``: CUDA's errors go on with advice."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def give_back_memory() -> None:
    """Let the caching allocator give free memory back, after a test that ran out of it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
