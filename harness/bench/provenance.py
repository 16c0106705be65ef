"""Whether a run that was made where there was no git is from the commit that it was told: its sources say."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from harness.receipts import sources

#: What times depend on.
PATHS = ("kernels", "reference", "harness")
#: The commit of a run that is from none.
UNVERSIONED = "unversioned"
#: Names of ``commit_info``: digests that were not compared with the commit yet; one of all, once they were.
RECORDED, COMPARED = "sources", "sources_digest"


def digests(tree: Path) -> dict[str, str]:
    """Return digest by path of the sources in ``tree`` that times depend on."""
    return sources.of_folder(tree, PATHS)


def compared(document: dict[str, Any], repository: Path, commit: str | None = None) -> dict[str, Any]:
    """Return ``document`` with its recorded sources compared with those of its commit in ``repository``, or ``commit``.

    It comes back as it is where it records none, or where git does not know the commit; else it is clean or dirty, and
    ``differences`` of ``commit_info`` says by what.  Raises LookupError for a ``commit`` that git does not know, or
    where no sources are recorded.
    """
    info = document["commit_info"]
    recorded = info.get(RECORDED)
    if commit is not None:
        if not recorded:
            raise LookupError("it recorded no sources, which a commit could be compared with")
        info = {**info, "id": _resolved(repository, commit)}
    if not recorded:
        return document
    try:
        committed = sources.of_commit(repository, str(info["id"]), PATHS)
    except LookupError:
        return document
    found = sources.differences(recorded, committed)
    rest = {name: value for name, value in info.items() if name != RECORDED}
    changes = {"dirty": bool(found), COMPARED: sources.total(recorded), **({"differences": found} if found else {})}
    return {**document, "commit_info": {**rest, **changes}}


def _resolved(repository: Path, revision: str) -> str:
    """Return the commit that ``revision`` names in ``repository``; raises LookupError where git does not know it."""
    command = ["git", "-C", str(repository), "rev-parse", "--verify", f"{revision}^{{commit}}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LookupError(f"git in {repository} knows no commit {revision}")
    return done.stdout.strip()
