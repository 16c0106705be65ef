"""Blocks: child processes that each time everything once, of one build or of two in turns."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.bench import children, machine, store
from harness.bench.series import orders
from harness.discover import SetupError

#: The harness that times: the one that runs, for every build, so that only kernels differ.
RUNNER = Path(harness.__file__).parents[1]
#: Exit statuses of a block that says last why it failed: of the command line, and of Python.
_SAID = (1, 2)


class BlockFailed(Exception):
    """A child process did not deliver its block; the message says which and what it said."""


class BlockLate(BlockFailed):
    """A child process was ended because it took too long."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """A source tree whose kernels are timed, and the name that the user gave it."""

    name: str
    tree: Path


@contextlib.contextmanager
def checked_out(name: str, repository: Path) -> Iterator[Build]:
    """Yield the build called ``name``: a folder as it is, or a revision of ``repository`` in a worktree of its own.

    The worktree is removed afterwards.  Raises SetupError for what is neither.
    """
    if Path(name).is_dir():
        yield Build(name=name, tree=Path(name).resolve())
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(repository)]
        done = subprocess.run([*git, "worktree", "add", "--detach", str(tree), name], capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["git said nothing"]
            raise SetupError(f"{name!r} is neither a file, a folder nor a revision: {lines[-1]}")
        try:
            yield Build(name=name, tree=tree)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], capture_output=True)


def one_block(build: Build, options: Sequence[str], *, deadline: float) -> store.Document:
    """Time everything once in a child process and return its document with all samples.

    ``options`` are those of ``bench run``.  Raises BlockFailed where the child fails or takes longer than ``deadline``
    seconds.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = Path(folder) / "block.json"
        # -P and PYTHONPATH: harness, contracts and oracles are the runner's, whatever the build's folder holds
        path = os.pathsep.join([str(_linked(Path(folder))), str(build.tree)])
        command = [sys.executable, "-P", "-m", "harness", "bench", "run", *options, "--save-data", "--out", str(out)]
        try:
            status, said = children.ended(command, build.tree, {**os.environ, "PYTHONPATH": path}, deadline)
        except subprocess.TimeoutExpired:
            raise BlockLate(f"a block of {build.name} took longer than {deadline:g} s") from None
        if not out.is_file():
            last = next(reversed(said.strip().splitlines()), "nothing")
            # what ends a process without a word leaves the line of the benchmark before
            how = "failed" if status in _SAID else f"ended with exit status {status} and said last"
            raise BlockFailed(f"a block of {build.name} {how}: {last}")
        content: store.Document = json.loads(out.read_text())
        return {**content, "commit_info": machine.commit_info(build.tree, content["commit_info"]["id"])}


def _linked(folder: Path) -> Path:
    """Return a folder that holds the runner's packages and not its kernels."""
    links = folder / "runner"
    links.mkdir()
    for package in ("harness", "reference"):
        (links / package).symlink_to(RUNNER / package)
    return links


def repeated(
    build: Build,
    options: Sequence[str],
    *,
    count: int,
    jobs: int,
    deadline: float,
    within: float = math.inf,
    say: Callable[[str], None] = lambda text: None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[store.Document], list[dict[str, str]]]:
    """Return the documents of up to ``count`` blocks of one build, and what failed as rows of ``refused``.

    Results are checked in the first, by ``jobs`` processes; what is refused there is left out later.  After ``within``
    seconds there are no more: a block that would not end in time is not begun, one that does not is dropped.  One that
    fails is the last; raises SetupError where that is the first.
    """
    made: list[store.Document] = []
    until, took = clock() + within, 0.0
    for number in range(count):
        began = clock()
        left = until - began
        # the first one, which also checked, does not say how long others take
        if number and left <= took:
            break
        name = f"block {number + 1} of {count}"
        say(name)
        more = later(made[0]) if made else ["--jobs", str(jobs)]
        try:
            made.append(one_block(build, [*options, *more], deadline=_given(deadline, left)))
        except BlockFailed as error:
            if not made:
                raise SetupError(str(error)) from error
            if isinstance(error, BlockLate) and left < deadline:
                break
            return made, [{"name": name, "reason": str(error)}]
        took = clock() - began if number else 0.0
    if len(made) < count:
        say(f"{len(made)} of {count} blocks ended within {within:g} s")
    return made, []


def interleaved(
    base: Build,
    head: Build,
    options: Sequence[str],
    *,
    quads: int,
    deadline: float,
    within: float = math.inf,
    on_block: Callable[[int, int, Build], None] = lambda done, total, build: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[tuple[int, store.Document]]:
    """Return (0 for base or 1 for head, document) of ``4 * quads`` blocks in ``series.orders``.

    Results are checked in each build's first block; what is refused there is what is missing, and later ones leave it
    out.  After ``within`` seconds there are no more: a quad that would not end in time is not begun, one that does not
    is dropped.  Raises BlockFailed where a block fails, and where no quad ended in time.
    """
    sequence = [which for order in orders(quads) for which in order]
    found: list[tuple[int, store.Document]] = []
    until, took = clock() + within, 0.0
    for number, which in enumerate(sequence):
        began = clock()
        left = until - began
        # the slower of the last two blocks, which checked nothing, stands for those to come
        if number and number % 4 == 0 and left < 4 * took:
            break
        build = (base, head)[which]
        on_block(number, len(sequence), build)
        earlier = next((document for build_before, document in found if build_before == which), None)
        more = [] if earlier is None else later(earlier)
        try:
            found.append((which, one_block(build, [*options, *more], deadline=_given(deadline, left))))
        except BlockLate:
            if deadline <= left:
                raise
            break
        took = max(took if number % 4 == 3 else 0.0, clock() - began)
    whole = found[: len(found) - len(found) % 4]
    if not whole:
        raise BlockFailed(f"no quad of blocks ended within {within:g} s")
    return whole


def _given(deadline: float, left: float) -> float:
    """Return the seconds of a block that may take ``deadline``, where ``left`` are left of the time of all."""
    return max(0.0, min(deadline, left))


def later(first: store.Document) -> list[str]:
    """Return the options of the blocks after ``first``, which checked the results.

    They leave out what it refused: a kernel that hangs or ends its process in a check does so when it is timed.
    """
    refused = [item["name"] for item in first.get("harness", {}).get("refused", ())]
    return ["--unchecked", *(word for name in refused for word in ("--without", name))]
