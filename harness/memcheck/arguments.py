"""The options of ``python -m harness memcheck``; importing it loads neither torch nor Triton."""

from __future__ import annotations

import argparse

from harness.memcheck.tools import TOOLS


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options to ``parser``."""
    parser.add_argument("contracts", nargs="*", metavar="CONTRACT", help="default: all")
    parser.add_argument(
        "--tool", action="append", choices=TOOLS, default=[], help="only this one; may be repeated (default: all four)"
    )
    parser.add_argument("--pinned", type=int, default=3, metavar="N", help="pinned cases (default: %(default)s)")
    parser.add_argument("--drawn", type=int, default=2, metavar="N", help="drawn cases (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="decides which cases are drawn (default: %(default)s)")
    parser.add_argument("--case", action="append", default=[], metavar="CASE", help="only this one, as printed")
    parser.add_argument("--emulate", metavar="ARCH", help="with the configurations of this target, such as sm_120")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes at a time (default: one a CPU, at most 16)")
    parser.add_argument(
        "--deadline", type=float, default=120.0, metavar="SECONDS", help="for one process (default: %(default)s)"
    )
    parser.add_argument("--output", metavar="DIR", help="keep what each process printed here")
