"""The ``bench`` command: run, diff, history, accept and page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness import selection
from harness.bench import accept, blocks, comparison, gates, history, markdown, store
from harness.bench.defaults import ACCEPTED, BASELINES, BLOCK_SECONDS, QUADS
from harness.bench.measure import Measured, Refused
from harness.bench.peers import ratios
from harness.bench.run import Wanted, run, share
from harness.bench.sampling import Effort
from harness.bench.verdicts import Rules
from harness.discover import SetupError, load


def main(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> int:
    """Do what ``options`` ask and return the exit status; raises SetupError for what cannot be done here."""
    actions = {"run": _run, "diff": _diff}
    if options.action in actions:
        return actions[options.action](options, modules, folder)
    if options.action == "accept":
        return _accept(options, folder)
    return {"history": _history, "page": _page}[options.action](options)


def _run(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> int:
    if options.deadline is not None and options.blocks == options.jobs == 1:
        raise SetupError("--deadline: wanted --blocks or --jobs of 2 or more with it, which are processes it can end")
    load(modules, folder=folder)
    if options.share is not None:
        return _check(options)
    if options.blocks > 1:
        build = blocks.Build(name=str(folder), tree=folder)
        made = []
        for number in range(options.blocks):
            _say(f"block {number + 1} of {options.blocks}")
            first = ["--jobs", str(options.jobs)]
            flags = [*passed_on(options), *(["--unchecked"] if number else first)]
            made.append(_block(build, flags, _deadline(options)))
        document = store.merged(made, data=options.save_data)
    else:
        pairs = selection.pairs(options.contract, options.impl)
        wanted = wanted_of(options)
        if options.jobs > 1 and wanted.checked:
            _say(f"checking results in {options.jobs} processes")
            found = gates.shared(passed_on(options), folder, jobs=options.jobs, deadline=_deadline(options))
            wanted = replace(wanted, gates=found)
        document = run(pairs, wanted, tree=folder, commit=options.commit, data=options.save_data, on_done=_report)
    if options.out is not None:
        store.write(options.out, document)
    sys.stdout.write(summary(document))
    if store.wrong(document):
        return comparison.SLOWER
    return comparison.FINE if document["benchmarks"] else comparison.UNUSABLE


def _check(options: argparse.Namespace) -> int:
    """Check a share of the workloads for another process, which reads ``--out``."""
    found = share(selection.pairs(options.contract, options.impl), wanted_of(options), *options.share)
    gates.write(options.out, found)
    return comparison.FINE


def _deadline(options: argparse.Namespace) -> float:
    return BLOCK_SECONDS if options.deadline is None else float(options.deadline)


def _block(build: blocks.Build, flags: Sequence[str], deadline: float) -> store.Document:
    try:
        return blocks.one_block(build, flags, deadline=deadline)
    except blocks.BlockFailed as error:
        raise SetupError(str(error)) from error


def wanted_of(options: argparse.Namespace) -> Wanted:
    """Return what to time; ``--seconds`` and ``--width`` change the effort that the lane has by default."""
    wanted = Wanted(
        lane=options.lane,
        timings=tuple(options.timing) or Wanted().timings,
        match=options.match,
        checked=not options.unchecked,
    )
    if options.seconds is None and options.width is None:
        return wanted
    effort: Effort = effort_of(wanted)
    changes = {name: value for name in ("seconds", "width") if (value := getattr(options, name)) is not None}
    return replace(wanted, effort=replace(effort, **changes))


def effort_of(wanted: Wanted) -> Effort:
    """Return the effort of the lane that ``wanted`` means."""
    import torch

    from harness.bench.run import VIRTUAL_EFFORT

    on_device = wanted.lane == "cuda" or (wanted.lane == "auto" and torch.cuda.is_available())
    return Effort() if on_device else VIRTUAL_EFFORT


def passed_on(options: argparse.Namespace) -> list[str]:
    """Return the options of this run that its child processes need."""
    flags = ["--lane", options.lane, "--match", options.match]
    for name in ("contract", "timing", "module"):
        flags += [part for value in getattr(options, name) for part in (f"--{name}", value)]
    for name in ("seconds", "width", "impl", "adapter", "commit"):
        value = getattr(options, name, None)
        flags += [] if value is None else [f"--{name}", str(value)]
    return flags


def _diff(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> int:
    try:
        rules = Rules(margin=options.margin, alpha=options.alpha, drift=options.drift)
    except ValueError as error:
        raise SetupError(str(error)) from error
    files = [name == ACCEPTED or Path(name).is_file() for name in (options.base, options.head)]
    if all(files):
        base, head = _stored(options, folder)
        found = comparison.of_files(base, head, history.runs(options.history), rules, allow_dirty=options.allow_dirty)
    elif any(files):
        raise SetupError(f"{options.base} and {options.head} are a stored run and a source tree: name two of a kind")
    else:
        found = _by_turns(options, folder, rules)
    text = markdown.render(found)
    sys.stdout.write(text)
    if options.markdown is not None:
        options.markdown.write_text(text)
    if options.json is not None:
        from harness.bench import page

        page.write_comparison(options.json, found)
    return found.exit_status


def _stored(options: argparse.Namespace, folder: Path) -> list[store.Run]:
    """Return base and head, those of their benchmarks that are chosen; options that time something are refused."""
    idle = [name for name in ("quads", "seconds", "width", "deadline") if getattr(options, name) is not None]
    idle += [] if options.lane == "auto" else ["lane"]
    if idle:
        raise SetupError(f"{', '.join(f'--{name}' for name in idle)}: for source trees, and these are stored runs")
    head = store.compared(store.read(Path(options.head)), folder)
    base = _accepted(head) if options.base == ACCEPTED else store.compared(store.read(Path(options.base)), folder)
    for name in options.contract:
        if not any(key[0] == name for run in (base, head) for key in run.entries):
            raise SetupError(f"neither {base.path} nor {head.path} holds a benchmark of {name}")
    return [
        store.narrowed(run, contracts=options.contract, impl=options.impl, match=options.match, timings=options.timing)
        for run in (base, head)
    ]


def _accepted(head: store.Run) -> store.Run:
    """Read the baseline of the device that ``head`` was made on."""
    device = str(head.device.get("name", ""))
    file = accept.path_in(Path(BASELINES), device)
    if not file.is_file():
        made_by = f"python -m harness bench accept {head.path}"
        raise SetupError(f"{file}: no baseline of {device or 'an unknown device'} was accepted; {made_by} makes one")
    return store.read(file)


def _by_turns(options: argparse.Namespace, folder: Path, rules: Rules) -> comparison.Comparison:
    names = options.base, options.head
    with blocks.checked_out(names[0], folder) as base, blocks.checked_out(names[1], folder) as head:
        try:
            taken = blocks.interleaved(
                base,
                head,
                passed_on(options),
                quads=options.quads or QUADS,
                deadline=_deadline(options),
                on_block=lambda done, total, build: _say(f"block {done + 1} of {total}: {build.name}"),
            )
        except blocks.BlockFailed as error:
            return comparison.Comparison(
                base=names[0], head=names[1], device="?", how="by turns", rules=rules, refused=(str(error),)
            )
    return comparison.of_blocks(taken, names, rules, allow_dirty=options.allow_dirty)


def _history(options: argparse.Namespace) -> int:
    found = history.runs(options.paths)
    if not found:
        raise SetupError(f"no stored run in {', '.join(map(str, options.paths))}")
    sys.stdout.write(history.render(found))
    return comparison.FINE


def _accept(options: argparse.Namespace, folder: Path) -> int:
    _, said = accept.accept(
        options.file,
        options.baselines,
        repository=folder,
        allow_dirty=options.allow_dirty,
        allow_missing=options.allow_missing,
    )
    sys.stdout.write(f"{said}\n")
    return comparison.FINE


def _page(options: argparse.Namespace) -> int:
    # it reads the compile lane's tables, which takes longer to import than a block takes
    from harness.bench import page

    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page.of_files(options))
    sys.stdout.write(f"{options.out}\n")
    return comparison.FINE


def summary(document: store.Document) -> str:
    """Return what a run found, a line a benchmark, how many times as long peers take, and what was refused."""
    beside = ratios(store.entries(document))
    rows = [("benchmark", "L2", "median", "±", "floor", "fraction", "peers take" if beside else "")]
    for row in document["benchmarks"]:
        extra, median = row["extra_info"], row["stats"]["median"]
        floor = extra.get("floor")
        rows.append(
            (
                row["name"],
                extra["l2"],
                markdown.duration(median),
                f"{(extra['median_high'] - extra['median_low']) / 2 / median:.1%}",
                "" if floor is None else markdown.duration(floor),
                "" if floor is None else f"{floor / median:.2f}",
                beside.get(row["name"], ""),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"REFUSED {item['name']}: {item['reason']}" for item in document["harness"]["refused"]]
    return "\n".join([*lines, ""])


def _report(done: Measured | Refused) -> None:
    said = done.reason if isinstance(done, Refused) else markdown.duration(done.sampled.median)
    _say(f"{done.name}: {said}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
