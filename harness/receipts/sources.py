"""Digests of source files, of a folder or of a commit: the same bytes give the same digests, with git or without."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

#: What a run on a device depends on here; in another project, what its ini option ``receipt_sources`` names.  All of
#: ``tests``, recordings too: the tests of a device share programs, planted faults and expectations with the others.
DEFAULT = ("kernels", "reference", "harness", "tests", "conftest.py", "pyproject.toml")
#: Made from sources, on the machine that runs them; so is what is hidden, the caches of linters and editors.
_MADE = ("__pycache__", ".pyc", ".pyo")
#: Hexadecimal digits of SHA-256 that are kept for a file: 128 bits, against accidents.
_DIGITS = 32
_GIT_SECONDS = 60.0


def of_folder(folder: Path, paths: Sequence[str] = DEFAULT) -> dict[str, str]:
    """Return digest by path, relative to ``folder``, of every file that is one of ``paths`` or below one.

    A path that is not there contributes nothing.
    """
    found = {}
    for name in paths:
        root = folder / name
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.is_file() and not _is_made(path.relative_to(folder).as_posix()):
                found[path.relative_to(folder).as_posix()] = _digest(path.read_bytes())
    return dict(sorted(found.items()))


def of_commit(folder: Path, commit: str, paths: Sequence[str] = DEFAULT) -> dict[str, str]:
    """Return what ``of_folder`` gives for a clean checkout of ``commit``; raises LookupError if git cannot say."""
    try:
        listed = [
            name
            for name in _git(folder, "ls-tree", "-z", "--name-only", commit, "--", *paths).decode().split("\0")
            if name
        ]
        archive = _git(folder, "archive", "--format=tar", commit, "--", *listed) if listed else b""
    except (OSError, subprocess.SubprocessError) as error:
        raise LookupError(f"git does not give the files of commit {commit} in {folder}: {_said(error)}") from error
    return dict(sorted(_archived(archive))) if archive else {}


def _archived(archive: bytes) -> Iterator[tuple[str, str]]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None and not _is_made(member.name):
                yield member.name, _digest(content.read())


def total(digests: Mapping[str, str]) -> str:
    """Return one digest of all paths and digests."""
    return _digest("".join(f"{path}\0{digest}\n" for path, digest in sorted(digests.items())).encode())


def differences(recorded: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """Return one line for each file that is changed, missing or new ``here``, in the order of their paths."""
    lines = []
    for path in sorted(recorded.keys() | here.keys()):
        if path not in here:
            lines.append(f"{path}: not here")
        elif path not in recorded:
            lines.append(f"{path}: not there when it ran")
        elif recorded[path] != here[path]:
            lines.append(f"{path}: other content")
    return lines


def _is_made(path: str) -> bool:
    return any(part.endswith(_MADE) or part.startswith(".") for part in path.split("/"))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _git(folder: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True, timeout=_GIT_SECONDS)
    return done.stdout


def _said(error: Exception) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else b""
    return " ".join((said or str(error).encode()).decode(errors="replace").split())
