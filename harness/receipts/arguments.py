"""The command line of ``python -m harness receipt``; importing it loads nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import profiles

EPILOG = (
    "exit status: 0 verified; 1 refused, with the reasons; 2 there is nothing to check. A receipt detects accident, "
    "not forgery."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options to ``parser``."""
    parser.epilog = EPILOG
    parser.add_argument("action", choices=["check"], help="say whether FILE verifies the sources here")
    parser.add_argument("file", type=Path, metavar="FILE", help="as pytest --receipt FILE wrote it")
    against = parser.add_mutually_exclusive_group()
    against.add_argument("--sources", type=Path, default=Path(), metavar="DIR", help="compare with the files of DIR")
    against.add_argument("--commit", metavar="C", help="compare with commit C, which must be the one that ran")
    parser.add_argument("--target", metavar="ARCH", help="it must have run on this one, such as sm_120")
    parser.add_argument(
        "--at-least", type=_positive, default=1, metavar="N", help="tests of a GPU that must have passed (default: 1)"
    )
    parser.add_argument(
        "--profile",
        choices=tuple(profiles.EXAMPLES),
        help="it must have run in this Hypothesis profile, or in one that draws more cases",
    )
    parser.add_argument(
        "--allow-partial", action="store_true", help="accept a run that left out some of the target's tests"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"wanted at least 1, got {number}")
    return number
