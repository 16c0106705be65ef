"""What a run for a target is a part of: all that ``pytest -m TARGET`` collects when nothing else is asked of it.

Tests can go missing from a run in many ways (``-k``, ``--deselect``, ``--lf``, paths, ``--contract``, ``--ignore``,
another ini file), so no option is judged: another process collects without any, while the tests run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.hardware.worker import START_SECONDS
from harness.isolate import kill, tail
from harness.receipts.record import Selection

#: Pytest's exit status: collected, or nothing to collect.
_DONE = (0, 5)
#: Node ids that are kept of those that are missing.
_KEPT = 20


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to collect: ``markers`` of targets, below ``paths`` of ``folder``, with these pytest ``options``.

    Without paths that is what the project's ini file says.
    """

    folder: Path
    markers: tuple[str, ...]
    paths: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class Whole:
    """The process that collects, from now on until it is asked for an answer."""

    def __init__(self, wanted: Wanted) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="harness-whole-")
        self._answer = Path(self._place.name) / "collected.json"
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - this object owns it, and answer() closes it
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        # what the environment adds to every run's options is no part of the project
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.receipts._whole", str(self._answer), *_arguments(wanted)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            cwd=wanted.folder,
            env={**environment, "PYTHONPATH": path},
            start_new_session=True,
        )

    def answer(self) -> tuple[dict[str, str], str]:
        """Return the target of each test that is about one, by node id, and why that is not known, or nothing."""
        late = False
        try:
            status = self._process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            late = True
            kill(self._process)
            status = self._process.wait()
        with self._place, self._output:
            if status in _DONE and self._answer.is_file():
                return dict(json.loads(self._answer.read_text())), ""
            if late:
                return {}, f"not collected after {START_SECONDS:g} s"
            said = tail(self._output).strip().splitlines()
            return {}, f"collecting ended with status {status}: {said[-1] if said else 'it said nothing'}"


def _arguments(wanted: Wanted) -> list[str]:
    plugins = ["-p", "harness.plugin", "-p", "no:cacheprovider"]
    return [*plugins, "-q", "-m", " or ".join(wanted.markers), *wanted.options, *wanted.paths]


def selections(collected: dict[str, str], targets: Iterable[str], ran: Sequence[str]) -> tuple[Selection, ...]:
    """Return for each of ``targets`` how many tests ``collected`` has, and which of those are not among ``ran``."""
    there = frozenset(ran)
    found = []
    for arch in targets:
        whole = [id for id, about in collected.items() if about == arch]
        missing = [id for id in whole if id not in there]
        found.append(Selection(target=arch, whole=len(whole), missing=len(missing), some=tuple(missing[:_KEPT])))
    return tuple(found)
