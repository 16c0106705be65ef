"""The command line of ``python -m harness mutate``; importing it loads neither torch nor Triton."""

from __future__ import annotations

import argparse
from pathlib import Path

EPILOG = "exit status: 0 the kill rate is at least --at-least; 1 it is not; 2 nothing could run"


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options and what is mutated."""
    parser.epilog = EPILOG
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="contracts whose kernels change; default: all")
    parser.add_argument("--budget", type=float, metavar="S", help="begin no mutant after S seconds")
    parser.add_argument("--shard", type=_shard, default=(1, 1), metavar="I/N", help="only part I of N")
    parser.add_argument("--limit", type=int, metavar="N", help="only a sample of N mutants of each kernel")
    parser.add_argument("--operator", action="append", default=[], metavar="NAME", help="only mutants of this operator")
    parser.add_argument("--examples", type=int, default=40, help="cases beside the pinned ones (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="decides which cases are drawn (default: %(default)s)")
    parser.add_argument(
        "--deadline", type=float, default=60.0, metavar="S", help="seconds of a processor for one mutant"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="worker processes (default: %(default)s)")
    parser.add_argument("--at-least", type=float, default=0.0, metavar="RATE", help="kill rate below which to fail")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write results here, one JSON object a line")
    parser.add_argument(
        "--style", choices=("contract", "fixed"), default="contract",
        help="who judges: the contracts, or the usual tests of a few shapes with a fixed tolerance",
    )  # fmt: skip
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="FILE",
        help="also show the rates on the mutants that FILE, other results, has too",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR",
        help="write results.jsonl and table.txt here, and what an interrupted run goes on from",
    )  # fmt: skip
    parser.add_argument(
        "--earlier",
        type=Path,
        metavar="FILE",
        help="results of an earlier run: what killed a mutant then is asked first",
    )
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="only mutants that survived in FILE, earlier results"
    )
    parser.add_argument(
        "--merge", type=Path, nargs="+", metavar="FILE", help="run nothing, show these results together"
    )


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"wanted I/N with 1 <= I <= N, got {text!r}")
    return int(number), int(count)
