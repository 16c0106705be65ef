"""The options of ``python -m harness targets``."""

from __future__ import annotations

import argparse
from pathlib import Path

JOBS = 2
DEADLINE = 120.0
BASELINES = Path("ci/baselines")


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options to ``parser``."""
    parser.add_argument(
        "contracts", nargs="*", metavar="KERNEL", help="contracts whose kernels to compile (default: all)"
    )
    parser.add_argument(
        "--target", action="append", default=[], metavar="ARCH", help="only this one, such as sm_120; may be repeated"
    )
    parser.add_argument("--jobs", type=_positive, default=JOBS, help="compilations at a time (default: %(default)s)")
    parser.add_argument(
        "--deadline", type=float, default=DEADLINE, metavar="SECONDS", help="for one compilation (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result and verdict here")
    parser.add_argument(
        "--baseline",
        type=Path,
        default=BASELINES,
        metavar="DIR",
        help="folder of baselines, a file for each Triton version (default: %(default)s)",
    )
    parser.add_argument(
        "--update-baseline", action="store_true", help="make what was found the baseline; what is worse is listed"
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="where results are kept (default: the user's cache)")
    parser.add_argument(
        "--no-sharing", action="store_true", help="lower for every target, also where another's PTX is the same"
    )
    parser.add_argument("--no-cache", action="store_true", help="compile everything and keep nothing")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"wanted at least 1, got {number}")
    return number
