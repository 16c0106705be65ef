"""The options of ``python -m harness bench``."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from harness.bench.defaults import ALPHA, BASELINES, BLOCK_SECONDS, DRIFT, MARGIN, QUADS, TIMINGS

EPILOG = "exit status: 0 nothing is slower; 1 something is, or a result is wrong; 2 refused, or nothing could run"


def declare(parser: argparse.ArgumentParser, registering: argparse.ArgumentParser) -> None:
    """Add the commands to ``parser``; ``registering`` declares what names implementations."""
    actions = parser.add_subparsers(title="commands", required=True, metavar="ACTION", dest="action")

    run = actions.add_parser("run", parents=[registering], epilog=EPILOG, help="time workloads and store the run")
    _timing(run)
    run.add_argument("--out", type=Path, metavar="FILE", help="write the run here, as pytest-benchmark would")
    run.add_argument(
        "--blocks", type=_positive, default=1, help="processes that time everything (default: %(default)s)"
    )
    run.add_argument(
        "--within",
        type=_amount,
        metavar="S",
        help="at most so long for all of them: those that do not end in time are left out (default: no limit)",
    )
    run.add_argument(
        "--jobs",
        type=_positive,
        default=1,
        help="processes that check results, all before anything is timed (default: %(default)s)",
    )
    run.add_argument("--save-data", action="store_true", help="keep every sample")
    run.add_argument("--commit", metavar="ID", help="what the tree was made from, where it is no repository")
    run.add_argument("--unchecked", action="store_true", help=argparse.SUPPRESS)
    run.add_argument("--name", action="append", default=[], help=argparse.SUPPRESS)
    run.add_argument("--without", action="append", default=[], help=argparse.SUPPRESS)
    run.add_argument("--share", type=_share, help=argparse.SUPPRESS)

    diff = actions.add_parser(
        "diff", parents=[registering], epilog=EPILOG, help="compare two stored runs, or two source trees by turns"
    )
    diff.add_argument(
        "base",
        metavar="BASE",
        help="a stored run; or a folder or revision, which is timed now; or 'accepted', the baseline of the device "
        "beside a stored HEAD, its commit beside a source tree",
    )
    diff.add_argument("head", metavar="HEAD", help="the same kind of thing as BASE")
    _timing(diff)
    diff.add_argument(
        "--again",
        type=Path,
        metavar="FILE",
        help="time in turns what the comparison in FILE, of --json, calls slower, or may be; the rest stays",
    )
    diff.set_defaults(name=[])
    diff.add_argument("--quads", type=_positive, help=f"A B B A or B A A B, a process each (default: {QUADS})")
    diff.add_argument(
        "--within",
        type=_amount,
        metavar="S",
        help="at most so long for all turns: quads that do not end in time are left out (default: no limit)",
    )
    diff.add_argument(
        "--history", type=Path, action="append", default=[], metavar="PATH", help="earlier runs: files or folders"
    )
    diff.add_argument("--margin", type=float, default=MARGIN, help="changes up to this share count as none")
    diff.add_argument("--alpha", type=float, default=ALPHA, help="wrong claims of a whole comparison")
    diff.add_argument("--drift", type=float, default=DRIFT, help="between two runs, where no history says")
    diff.add_argument("--allow-dirty", action="store_true", help="compare runs of uncommitted sources too")
    diff.add_argument("--markdown", type=Path, metavar="FILE", help="also write the comparison here")
    diff.add_argument("--json", type=Path, metavar="FILE", help="also write it here, for the page")

    show = actions.add_parser("show", help="a stored run as 'run' prints it: times, floors, how long peers take")
    show.add_argument("file", type=Path, metavar="FILE")
    show.add_argument(
        "--peers", action="store_true", help="as a Markdown table: a line for ours and each peer, all timings in a cell"
    )

    history = actions.add_parser("history", help="medians of stored runs over time")
    history.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="stored runs: files or folders")

    accept = actions.add_parser("accept", help="make a stored run the baseline of its device")
    accept.add_argument("file", type=Path, metavar="FILE")
    accept.add_argument("--baselines", type=Path, default=Path(BASELINES), metavar="DIR")
    accept.add_argument(
        "--commit", metavar="REV", help="what a run from outside of a repository is of, if its sources show it"
    )
    accept.add_argument("--allow-dirty", action="store_true", help="also a run of uncommitted sources")
    accept.add_argument(
        "--allow-missing", action="store_true", help="also a run that lacks benchmarks of the baseline before it"
    )
    accept.add_argument("--allow-lone", action="store_true", help="also a run of a single process")

    page = actions.add_parser("page", help="one HTML page: what changed, history, roofline, resources, verification")
    page.add_argument("head", type=Path, metavar="HEAD", help="the stored run that the page is about")
    page.add_argument("--out", type=Path, required=True, metavar="FILE")
    page.add_argument("--comparison", type=Path, metavar="FILE", help="what bench diff --json wrote")
    page.add_argument("--history", type=Path, action="append", default=[], metavar="PATH")
    page.add_argument("--resources", type=Path, metavar="FILE", help="a baseline of the targets lane")
    page.add_argument(
        "--records", type=Path, action="append", default=[], metavar="FILE", help="verify's records.jsonl"
    )
    page.add_argument(
        "--receipt", type=Path, metavar="FILE", help="of the tests on the device, as ci/workstation writes it"
    )


def _timing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--contract", action="append", default=[], metavar="NAME", help="only this contract's")
    parser.add_argument("--match", default="", metavar="TEXT", help="only workloads whose name contains TEXT")
    parser.add_argument(
        "--lane", choices=("auto", "cuda", "vgpu"), default="auto", help="default: a GPU if there is one"
    )
    parser.add_argument(
        "--timing", action="append", choices=TIMINGS, default=[], help="only this way of timing (default: all)"
    )
    parser.add_argument("--seconds", type=_amount, metavar="S", help="at most so long for one benchmark")
    parser.add_argument("--width", type=_amount, metavar="X", help="stop at a median known to this share")
    parser.add_argument(
        "--deadline",
        type=_amount,
        metavar="S",
        help=f"for one process, where there are several (default: {BLOCK_SECONDS:g})",
    )


def _share(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    return int(number), int(count)


def _amount(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"wanted more than 0, got {text}")
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"wanted at least 1, got {number}")
    return number
