"""``python -m harness receipt check FILE``."""

from __future__ import annotations

import argparse
import sys

from harness import selection
from harness.discover import SetupError
from harness.receipts import check, record, revision, sources


def run(options: argparse.Namespace) -> bool:
    """Print the verdict or the reasons against it; raises SetupError where there is nothing to check."""
    try:
        receipt = record.read(options.file)
    except OSError as error:
        raise SetupError(f"receipt: {options.file}: {error.strerror}") from error
    except record.Unreadable as error:
        sys.stdout.write(f"refused: {error}\n")
        return False
    arch = selection.targets([options.target])[0].arch if options.target else ""
    folder, commit, where = options.sources, "", f"in {options.sources}"
    if options.commit:
        try:
            commit = revision.full(folder, options.commit)
            here = sources.of_commit(folder, commit, receipt.paths)
        except LookupError as error:
            raise SetupError(f"receipt: {error}") from error
        where = f"at {options.commit}"
    else:
        here = sources.of_folder(folder, receipt.paths)
    against = check.reasons(
        receipt,
        here,
        where=where,
        commit=commit,
        arch=arch,
        at_least=options.at_least,
        partial=options.allow_partial,
        profile=options.profile or "",
    )
    if against:
        sys.stdout.writelines(f"refused: {reason}\n" for reason in against)
        return False
    sys.stdout.write(f"{check.verdict(receipt, arch)}\n")
    return True
