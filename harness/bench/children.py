"""Child processes that leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def ended(command: Sequence[str], folder: Path, environment: Mapping[str, str], deadline: float) -> tuple[int, str]:
    """Run ``command`` in ``folder`` and return its exit status and what it wrote on stderr.

    Nothing that it started outlives the call.  Raises subprocess.TimeoutExpired after ``deadline`` seconds.
    """
    # a file and no pipe: what holds a pipe open would be waited for
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            # a group of its own: what the child starts dies with it
            start_new_session=True,
        )
        try:
            status = child.wait(deadline)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        said.seek(0)
        return status, said.read().decode(errors="replace")
