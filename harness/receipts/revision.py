"""Which commit a folder is at and whether it was edited since, with git, without git, and without a repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: Says the commit where the sources came without their repository; GitHub Actions sets the second.
VARIABLES = ("HARNESS_COMMIT", "GITHUB_SHA")
UNKNOWN = "unknown"
_GIT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Revision:
    """``commit`` is 40 hexadecimal digits, or ``"unknown"``.

    ``dirty`` are the paths that differ from it, empty if none do, and None where that cannot be known without git.
    """

    commit: str
    dirty: tuple[str, ...] | None


def of(folder: Path, sources: Sequence[str]) -> Revision:
    """Return the revision of ``folder``; a file that git does not know is dirt only below one of ``sources``."""
    try:
        commit = _git(folder, "rev-parse", "HEAD").strip()
        # -z: names as they are, each entry "XY PATH" (and one more name after a renamed file's)
        entries = _git(folder, "status", "--porcelain=1", "--untracked-files=all", "--no-renames", "-z").split("\0")
    except (OSError, subprocess.SubprocessError):
        return Revision(commit=_read(folder) or _told(), dirty=None)
    dirty = [entry[3:] for entry in entries if entry and (entry[:2] != "??" or _below(entry[3:], sources))]
    return Revision(commit=commit, dirty=tuple(sorted(dirty)))


def full(folder: Path, commit: str) -> str:
    """Return the 40 digits of ``commit``, a name that git knows; raises LookupError if it does not."""
    try:
        return _git(folder, "rev-parse", "--verify", f"{commit}^{{commit}}").strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise LookupError(f"git knows no commit {commit!r} in {folder}") from error


def _below(path: str, sources: Sequence[str]) -> bool:
    return any(path == source or path.startswith(f"{source}/") for source in sources)


def _told() -> str:
    return next((value for name in VARIABLES if (value := os.environ.get(name, ""))), UNKNOWN)


def _read(folder: Path) -> str:
    """Read the commit out of ``.git`` where there is no git to ask; empty if it is not to be found there."""
    git = folder / ".git"
    try:
        if git.is_file():
            # a worktree or submodule: "gitdir: PATH"
            git = (folder / git.read_text().partition("gitdir:")[2].strip()).resolve()
        head = (git / "HEAD").read_text().strip()
        reference = head.removeprefix("ref: ")
        if reference == head:
            return head
        common = git / "commondir"
        home = (git / common.read_text().strip()).resolve() if common.is_file() else git
        if (home / reference).is_file():
            return (home / reference).read_text().strip()
        for line in (home / "packed-refs").read_text().splitlines():
            commit, _, name = line.partition(" ")
            if name == reference:
                return commit
    except OSError:
        pass
    return ""


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, check=True, timeout=_GIT_SECONDS, text=True
    )
    return done.stdout
