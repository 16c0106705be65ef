"""The command line of ``python -m harness mutate``; importing it loads neither torch nor Triton."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from harness.mutation import styles

#: Below the folder of the pytest configuration: survivors that are argued about, rates not to fall below, and a sample.
ARGUED, FLOORS, SAMPLE = "ci/equivalents.toml", "ci/kill_rate.toml", "ci/mutants.jsonl"
EPILOG = (
    f"{ARGUED}, beside the pytest configuration, argues about survivors that nothing can tell from the original: "
    f"they are shown with the reason, and still count. {FLOORS} holds kernels to rates once reached, wherever all of "
    "their mutants ran and the contracts judged. "
    "exit status: 0 no rate is below those nor below --at-least; 1 one is; 2 nothing could run, nothing counts, or a "
    "part is missing without which nobody can say"
)
#: What says how mutants are made and judged, with the defaults: of no effect where none is.
_RUNNING: dict[str, object] = {
    "budget": None, "shard": (1, 1), "limit": None, "operator": [], "examples": 40, "seed": 0, "deadline": 60.0,
    "jobs": 1, "style": styles.CONTRACT, "earlier": None, "again": None, "impl": None, "in_order": False,
}  # fmt: skip


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options and what is mutated."""
    parser.epilog = EPILOG
    parser.add_argument(
        "kernels", nargs="*", metavar="KERNEL",
        help="contracts whose kernels change, or with --merge the rows to show; default: all",
    )  # fmt: skip
    parser.add_argument("--budget", type=_seconds, metavar="S", help="begin no mutant after S seconds")
    parser.add_argument("--shard", type=_shard, default=(1, 1), metavar="I/N", help="only part I of N")
    parser.add_argument("--limit", type=_whole(1), metavar="N", help="only a sample of N mutants of each kernel")
    parser.add_argument("--operator", action="append", default=[], metavar="NAME", help="only mutants of this operator")
    parser.add_argument(
        "--examples", type=_whole(0), default=40, help="cases beside the pinned ones (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="decides which cases are drawn (default: %(default)s)")
    parser.add_argument(
        "--deadline", type=_seconds, default=60.0, metavar="S", help="seconds of a processor for one mutant"
    )
    parser.add_argument(
        "--jobs", type=_whole(1), default=1, metavar="N", help="worker processes (default: %(default)s)"
    )
    parser.add_argument(
        "--at-least", type=_rate, metavar="RATE", help="kill rate of all together below which to fail, such as 0.95"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write results here, one JSON object a line")
    parser.add_argument(
        "--style", choices=styles.NAMES, default=styles.CONTRACT,
        help="who judges: the contracts, the usual tests of a few shapes with a fixed tolerance, or another tool",
    )  # fmt: skip
    parser.add_argument(
        "--beside",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="also show the rates on the mutants that each FILE, other results, has too",
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
        "--in-order",
        action="store_true",
        help="every mutant meets the cases in the order of the plan, whatever killed others: how long it takes to the "
        "first failing case",
    )
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="only mutants that survived in FILE, earlier results"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--sample", action="store_true",
        help=f"only the mutants of {SAMPLE}, by what killed them: fails where one survives or is out of date",
    )  # fmt: skip
    instead.add_argument(
        "--renew", action="store_true",
        help=f"draw {SAMPLE} anew where it is out of date, from --limit mutants of each kernel (default: 40)",
    )  # fmt: skip
    instead.add_argument(
        "--merge",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="run nothing, show these results together: of every shard of a campaign; of a sample, with its --limit "
        "and --operator",
    )


def without_effect(options: argparse.Namespace, taken: Collection[str] = ()) -> Iterator[str]:
    """Yield the options about running that were given, but for the ``taken`` ones."""
    for name, default in _RUNNING.items():
        if name not in taken and getattr(options, name) != default:
            yield f"--{name.replace('_', '-')}"


def _whole(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.removeprefix("-").isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"wanted a whole number of at least {least}, got {text!r}")
        return int(text)

    return number


def _seconds(text: str) -> float:
    seconds = _number(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"wanted seconds, more than 0, got {text!r}")
    return seconds


def _rate(text: str) -> float:
    rate = _number(text)
    if not 0 <= rate <= 1:
        raise argparse.ArgumentTypeError(f"wanted a rate of 0 to 1, such as 0.95, got {text!r}")
    return rate


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"wanted I/N with 1 <= I <= N, got {text!r}")
    return int(number), int(count)
