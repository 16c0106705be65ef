"""``python -m harness``: verify, list, show, case, sanitize, mutate, targets, traffic and new."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.bench import arguments as benching
from harness.compiling import arguments as compiling
from harness.discover import SetupError, adapters, configured, load, search_path_kept
from harness.memcheck import arguments as memchecking
from harness.mutation import arguments as mutating
from harness.receipts import arguments as receipts
from harness.sanitize import arguments as sanitizing

PASSED, FAULTY, UNUSABLE = 0, 1, 2

EPILOG = "exit status: 0 all pass; 1 a fault, or a run that was untrusted, crashed or timed out; 2 nothing could run"


def entry() -> None:
    """Run the command line of this process and exit with its status."""
    # the default action of SIGTERM would leave child processes behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        try:
            status = main(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # whoever reads has enough; the interpreter would flush once more, and complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + signal.SIGPIPE
    sys.exit(status)


def main(arguments: Sequence[str]) -> int:
    """Run one command and return the exit status; a SetupError is one line on standard error and 2."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        with search_path_kept():
            return command(options)
    except SetupError as error:
        sys.stderr.write(f"harness: {error}\n")
        return UNUSABLE
    except KeyboardInterrupt:
        sys.stderr.write("harness: interrupted\n")
        return UNUSABLE


def _modules(options: argparse.Namespace) -> tuple[list[str], Path]:
    """The modules that ``options`` and the pytest configuration name, and the folder to find them in."""
    named, folder = configured(Path.cwd())
    return [*named, *options.module, *adapters(options.impl, options.adapter)], folder


def _load(options: argparse.Namespace) -> None:
    names, folder = _modules(options)
    load(names, folder=folder)


def _list(options: argparse.Namespace) -> int:
    _load(options)
    from harness import describe

    sys.stdout.write(describe.listing())
    return PASSED


def _show(options: argparse.Namespace) -> int:
    _load(options)
    from harness import describe, selection

    sys.stdout.write(describe.contract(selection.contract(options.contract)))
    return PASSED


def _case(options: argparse.Namespace) -> int:
    names, folder = _modules(options)
    load(names, folder=folder)
    from harness import replay
    from harness.traffic import record

    faults = replay.run(
        options.contract,
        options.case,
        impl=options.impl,
        target=options.target,
        record=record.read(folder),
        write=sys.stdout.write,
    )
    return FAULTY if faults else PASSED


def _new(options: argparse.Namespace) -> int:
    from harness import scaffold

    sys.stdout.writelines(f"{line}\n" for line in scaffold.write(options.name, Path.cwd()))
    return PASSED


def _verify(options: argparse.Namespace) -> int:
    from harness import verify

    names, folder = _modules(options)
    return verify.run(options, names, folder)


def _sanitize(options: argparse.Namespace) -> int:
    from harness.sanitize import runner

    return runner.run(options)


def _mutate(options: argparse.Namespace) -> int:
    from harness.mutation import command

    names, folder = _modules(options)
    return PASSED if command.run(options, names, folder) else FAULTY


def _targets(options: argparse.Namespace) -> int:
    from harness.compiling import command

    names, folder = _modules(options)
    return PASSED if command.run(options, names, folder) else FAULTY


def _traffic(options: argparse.Namespace) -> int:
    from harness.traffic import command

    names, folder = _modules(options)
    return PASSED if command.run(options, names, folder) else FAULTY


def _memcheck(options: argparse.Namespace) -> int:
    from harness.memcheck import command

    names, folder = _modules(options)
    return PASSED if command.run(options, names, folder) else FAULTY


def _receipt(options: argparse.Namespace) -> int:
    from harness.receipts import command

    return PASSED if command.run(options) else FAULTY


def _bench(options: argparse.Namespace) -> int:
    from harness.bench import command

    timed = options.action in ("run", "diff")
    names, folder = _modules(options) if timed else ([], Path.cwd())
    return command.main(options, names, folder)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"wanted at least 1, got {number}")
    return number


def _declare_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="let the virtual GPU be this one, such as sm_90: its numerics, and the launches that kernels choose for "
        "it (default: sm_120's numerics, the launches that kernels choose without a GPU)",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness", description="Find faults in GPU kernels without a GPU.", epilog=EPILOG
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    registering = argparse.ArgumentParser(add_help=False)
    registering.add_argument(
        "--module", action="append", default=[], metavar="M", help="also import M, which registers kernels or contracts"
    )
    registering.add_argument("--adapter", metavar="NAME", help="also load somebody else's kernels, such as sglang")
    registering.add_argument("--impl", metavar="NAME", help="only implementations called NAME or NAME-*")

    verify = commands.add_parser("verify", parents=[registering], epilog=EPILOG, help="search for faults and report")
    verify.add_argument("contracts", nargs="*", metavar="CONTRACT", help="default: all")
    amount = verify.add_mutually_exclusive_group()
    # text, because argparse does not take a number that is the default for one that was given
    amount.add_argument("--examples", type=_positive, default="50", help="cases a pass (default: %(default)s)")
    amount.add_argument(
        "--cases", type=_positive, metavar="N",
        help="draw N cases of each contract, spread over its implementations and as many children as --jobs says",
    )  # fmt: skip
    verify.add_argument("--seed", type=int, default=0, help="decides which cases are drawn (default: %(default)s)")
    verify.add_argument("--no-pinned", action="store_true", help="leave the contracts' pinned cases out")
    verify.add_argument("--known", type=Path, metavar="FILE", help="TOML file of known failures")
    verify.add_argument("--out", type=Path, metavar="DIR", help="write report.md, records.jsonl and junit.xml here")
    verify.add_argument(
        "--lane",
        choices=("virtual", "device"),
        default="virtual",
        help="run on the virtual GPU or on the one that is here (default: %(default)s)",
    )
    verify.add_argument(
        "--emulate", metavar="TARGET", help="with --lane device: let it stand in for this target, such as sm120"
    )
    _declare_target(verify)
    verify.add_argument("--jobs", type=_positive, default=1, help="child processes at a time (default: %(default)s)")
    verify.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="for one implementation (default: %(default)s)"
    )
    verify.set_defaults(command=_verify)

    listing = commands.add_parser("list", parents=[registering], help="contracts and who implements them")
    listing.set_defaults(command=_list)

    show = commands.add_parser("show", parents=[registering], help="what one contract promises")
    show.add_argument("contract", metavar="CONTRACT")
    show.set_defaults(command=_show)

    case = commands.add_parser("case", parents=[registering], epilog=EPILOG, help="run one printed case again")
    case.add_argument("contract", metavar="CONTRACT")
    case.add_argument("case", metavar="CASE", help="as printed, such as 'Case(num_rows=1)'")
    _declare_target(case)
    case.set_defaults(command=_case)

    sanitize = commands.add_parser("sanitize", help="run a suite or script written for a GPU on the virtual one")
    sanitizing.declare(sanitize)
    sanitize.set_defaults(command=_sanitize)

    mutate = commands.add_parser("mutate", parents=[registering], help="how many of the faults made by rule are found")
    mutating.declare(mutate)
    mutate.set_defaults(command=_mutate)

    targets = commands.add_parser(
        "targets", parents=[registering], epilog=EPILOG, help="compile every kernel for every target, without a GPU"
    )
    compiling.declare(targets)
    targets.set_defaults(command=_targets)

    traffic = commands.add_parser(
        "traffic", parents=[registering], epilog=EPILOG,
        help="what kernels load and store on their pinned cases, beside ci/baselines/traffic.json",
    )  # fmt: skip
    traffic.add_argument("contracts", nargs="*", metavar="CONTRACT", help="default: all")
    traffic.add_argument("--update", action="store_true", help="make what was found the record")
    traffic.set_defaults(command=_traffic)

    memcheck = commands.add_parser(
        "memcheck", parents=[registering], epilog=EPILOG, help="run every kernel on a GPU under compute-sanitizer"
    )
    memchecking.declare(memcheck)
    memcheck.set_defaults(command=_memcheck)

    receipt = commands.add_parser("receipt", help="whether a run on a device verified the sources here")
    receipts.declare(receipt)
    receipt.set_defaults(command=_receipt)

    bench = commands.add_parser("bench", help="time every kernel, and compare, keep and show the times")
    benching.declare(bench, registering)
    bench.set_defaults(command=_bench)

    new = commands.add_parser("new", help="write a small kernel that passes, to be edited")
    new.add_argument("name", metavar="NAME")
    new.set_defaults(command=_new)
    return parser
