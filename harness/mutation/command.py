"""The ``mutate`` command: mutants of the chosen kernels, or earlier results, as a table and as an exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.discover import SetupError
from harness.mutation import argued, arguments, campaign, floors, parts, peers, results, styles, table
from harness.mutation.results import Part, Result
from harness.report import places

#: Where survivors are argued about, below the folder of the pytest configuration.
ARGUED = Path(arguments.ARGUED)
#: What ``--out`` gets: results for ``--merge``, and the table with the survivors.
RESULTS, TABLE = "results.jsonl", "table.txt"
#: Kill rates that a whole campaign must not fall below.
FLOORS = Path(arguments.FLOORS)


def run(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> bool:
    """Judge the mutants that ``options`` choose, or merge files; returns whether no rate is below what is wanted.

    Raises SetupError before anything runs for an unknown kernel, operator or file and for a place that cannot be
    written to; and at the end, after all that was found is shown, where that is too little to say so.
    """
    if options.sample or options.renew:
        return _sample(options, modules, folder)
    argued_about = argued.read(folder / ARGUED)
    others = {_judge_of(path): results.read(path) for path in options.beside or ()}
    _make_places(options)
    unclear: list[str] = []
    if options.merge:
        shown, found, unclear = _merged(options)
        notes: list[str] = []
    else:
        made = campaign.run(options, modules, folder)
        shown, found, notes = [made.part], made.results, made.notes
    found = argued.explained(found, argued_about)
    text = table.render(found, parts.red(shown), parts.mutants(shown))
    if options.json is not None:
        results.write(options.json, found, shown)
    if options.out is not None:
        results.write(options.out / RESULTS, found, shown)
        (options.out / TABLE).write_text(text)
    sys.stdout.write(text)
    style = shown[0].style if shown else options.style
    if others:
        sys.stdout.write(peers.render({style: found, **others}))
    for argument in argued.stale(found, argued_about):
        notes.append(f"{ARGUED}: killed, so no equivalent: {argument.before!r} -> {argument.after!r}")
    sys.stdout.writelines(f"{note}\n" for note in notes)
    sys.stdout.flush()
    if unclear:
        raise SetupError(f"not one whole campaign: {'; '.join(unclear)}")
    return _is_enough(found, shown if style == styles.CONTRACT else [], options, folder)


def _sample(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> bool:
    """Try the sample again or draw it anew; raises SetupError for an option that would have no effect."""
    from harness.mutation import rerun

    option, taken = ("--renew", ("jobs", "limit", "operator")) if options.renew else ("--sample", ("jobs",))
    if given := list(arguments.without_effect(options, taken)):
        raise SetupError(f"{option} has its own way to judge: {', '.join(given)} would have no effect")
    return rerun.run(options, modules, folder)


def _judge_of(path: Path) -> str:
    """What ``--beside`` calls a file: of what ``--out`` wrote the folder is the name."""
    return path.parent.name if path.name == RESULTS else path.stem


def _make_places(options: argparse.Namespace) -> None:
    """Make the folders that results are written to, before hours are spent on those.

    Raises SetupError naming the option.
    """
    for option, folder in (("--out", options.out), ("--json", options.json and options.json.parent)):
        if folder is not None:
            places.writable(option, folder)
    if options.json is not None and options.json.is_dir():
        raise SetupError(f"--json: {options.json} is a folder, wanted a file")


def _merged(options: argparse.Namespace) -> tuple[list[Part], list[Result], list[str]]:
    """Return of which parts the files are, their results, and why they are not one whole campaign."""
    if given := list(arguments.without_effect(options, ("limit", "operator"))):
        raise SetupError(f"--merge runs nothing: {', '.join(given)} would have no effect")
    read = [(path, *results.read_parts(path)) for path in options.merge]
    shown = [part for _, of, _ in read for part in of]
    found = results.merged(found for _, _, found in read)
    unclear = [f"{path} does not say which part it is of what" for path, of, _ in read if not of]
    if options.kernels:
        there = {result.kernel for result in found}.union(*(part.kernels for part in shown))
        for kernel in options.kernels:
            if kernel not in there:
                known = ", ".join(sorted(there)) or "none"
                raise SetupError(f"no kernel {kernel!r} in these files; there are: {known}")
        found = [result for result in found if result.kernel in options.kernels]
        shown = list(_only(shown, options.kernels))
    return shown, found, unclear + parts.samples(shown, options.limit, options.operator) + parts.missing(shown)


def _only(shown: Sequence[Part], kernels: Sequence[str]) -> Iterator[Part]:
    for part in shown:
        own = {kernel: of for kernel, of in part.kernels.items() if kernel in kernels}
        if own:
            yield replace(part, kernels=own, red=tuple(red for red in part.red if red.kernel in own))


def _is_enough(found: Sequence[Result], shown: Sequence[Part], options: argparse.Namespace, folder: Path) -> bool:
    """Whether no rate is below its floor or ``--at-least``; says which is.

    Raises SetupError where nothing counts, and where mutants for which there was no time might make the difference.
    """
    rate, left = table.rate(found), parts.late(found)
    if rate is None:
        raise SetupError(table.headline(found) if found else "no mutant was chosen")
    whole = parts.complete(found, shown)
    lost = floors.below([result for result in found if result.kernel in whole], folder / FLOORS)
    for kernel, own, floor in lost:
        sys.stdout.write(f"{kernel}: kill rate {own:.1%} is below the {floor:.1%} of {FLOORS}\n")
    for kernel in floors.names(folder / FLOORS):
        if late := [result for result in left if result.kernel == kernel]:
            sys.stdout.write(f"{kernel}: not held to {FLOORS}: there was no time for {len(late)} mutants\n")
    if options.at_least is None:
        return not lost
    if rate < options.at_least:
        sys.stdout.write(f"kill rate {rate:.1%} is below the {options.at_least:.1%} of --at-least\n")
        return False
    if left and not lost:
        raise SetupError(f"--at-least: there was no time for {len(left)} of {len(found)} mutants")
    return not lost
