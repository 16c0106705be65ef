"""The command line of ``python -m harness sanitize``; importing it loads neither torch nor Triton."""

from __future__ import annotations

import argparse

EPILOG = (
    "exit status: the suite's or script's own; 1 if a kernel faulted or, without --allow-untrusted, if an operation "
    "was used that may compute something else than the hardware; 2 if nothing could run"
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options and what is to be run."""
    parser.epilog = EPILOG
    parser.usage = "%(prog)s [options] (pytest ARGS... | SCRIPT.py ARGS... | --surface)"
    parser.add_argument("--target", default="sm_120", metavar="NAME", help="the emulated GPU (default: %(default)s)")
    parser.add_argument("--strict", action="store_true", help="a load of memory that nobody wrote is a fault")
    parser.add_argument("--races", action="store_true", help="look for races between the programs of a launch")
    parser.add_argument("--allow-untrusted", action="store_true", help="untrusted operations do not fail the run")
    parser.add_argument(
        "--config", type=int, default=0, metavar="N", help="which configuration of autotuned kernels runs (default: 0)"
    )
    parser.add_argument(
        "--loop-seconds", type=float, default=60.0, metavar="S", help="a loop is a hang after S s (default: 60)"
    )
    parser.add_argument("--surface", action="store_true", help="list what is emulated")
    parser.add_argument("what", nargs=argparse.REMAINDER, metavar="pytest ARGS | SCRIPT ARGS")
