"""The ``bench`` command: run, show, diff, history, accept and page."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness import selection
from harness.bench import accept, again, blocks, comparison, gates, history, machine, markdown, notes, peer_table, store
from harness.bench.defaults import ACCEPTED, BASELINES, BLOCK_SECONDS, QUADS, TIMINGS
from harness.bench.measure import Measured, Refused
from harness.bench.peers import ratios
from harness.bench.run import VIRTUAL_EFFORT, Wanted, run, share
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
    return {"history": _history, "page": _page, "show": _show}[options.action](options)


def _run(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> int:
    if options.deadline is not None and options.blocks == options.jobs == 1:
        raise SetupError("--deadline: wanted --blocks or --jobs of 2 or more with it, which are processes it can end")
    if options.within is not None and options.blocks == 1:
        raise SetupError("--within: wanted --blocks of 2 or more with it, which it leaves out")
    load(modules, folder=folder)
    if options.share is not None:
        return _check(options)
    if options.blocks > 1:
        document = _blocks(options, folder)
    else:
        pairs = selection.pairs(options.contract, options.impl)
        wanted = wanted_of(options)
        if options.jobs > 1 and wanted.checked:
            _say(f"checking results in {options.jobs} processes")
            found = gates.shared(passed_on(options), folder, jobs=options.jobs, deadline=_deadline(options))
            wanted = replace(wanted, gates=found)
        document = run(pairs, wanted, tree=folder, commit=options.commit, data=options.save_data, on_done=_report)
    if not (document["benchmarks"] or document["harness"]["refused"] or options.unchecked):
        why = f"of those chosen none has {options.match!r} in its name" if options.match else "none was chosen"
        raise SetupError(f"nothing to time: wanted workloads for this lane, {why}")
    if options.out is not None:
        store.write(options.out, document)
    sys.stdout.write(summary(document))
    if store.wrong(document):
        return comparison.SLOWER
    return comparison.FINE if document["benchmarks"] else comparison.UNUSABLE


def _check(options: argparse.Namespace) -> int:
    """Check a share of the workloads for another process, which reads ``--out``."""
    number, count = options.share
    share(selection.pairs(options.contract, options.impl), wanted_of(options), number, count, options.out)
    return comparison.FINE


def _deadline(options: argparse.Namespace) -> float:
    return BLOCK_SECONDS if options.deadline is None else float(options.deadline)


def _blocks(options: argparse.Namespace, folder: Path) -> store.Document:
    """Return the run of ``--blocks`` processes, or as many as end in time; one that fails is among what was refused."""
    made, failed = blocks.repeated(
        blocks.Build(name=str(folder), tree=folder),
        passed_on(options),
        count=options.blocks,
        jobs=options.jobs,
        deadline=_deadline(options),
        within=_within(options),
        say=_say,
    )
    document = store.merged(made, data=options.save_data)
    document["harness"]["refused"] += failed
    return document


def _within(options: argparse.Namespace) -> float:
    """Return the seconds that all blocks may take."""
    return math.inf if options.within is None else float(options.within)


def wanted_of(options: argparse.Namespace) -> Wanted:
    """Return what to time; ``--seconds`` and ``--width`` change the effort that the lane has by default."""
    wanted = Wanted(
        lane=options.lane,
        timings=tuple(options.timing) or Wanted().timings,
        match=options.match,
        checked=not options.unchecked,
        names=frozenset(options.name),
        without=frozenset(options.without),
    )
    if options.seconds is None and options.width is None:
        return wanted
    effort = Effort() if on_device(wanted.lane) else VIRTUAL_EFFORT
    changes = {name: value for name in ("seconds", "width") if (value := getattr(options, name)) is not None}
    return replace(wanted, effort=replace(effort, **changes))


def on_device(lane: str) -> bool:
    """Return whether ``--lane`` means the GPU that is here."""
    import torch

    return lane == "cuda" or (lane == "auto" and torch.cuda.is_available())


def passed_on(options: argparse.Namespace) -> list[str]:
    """Return the options of this run that its child processes need."""
    flags = ["--lane", options.lane, "--match", options.match]
    for name in ("contract", "timing", "module", "name"):
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
    head_is_file = Path(options.head).is_file()
    base_is_file = head_is_file if options.base == ACCEPTED else Path(options.base).is_file()
    if base_is_file != head_is_file:
        raise SetupError(f"{options.base} and {options.head} are a stored run and a source tree: name two of a kind")
    if options.again is not None:
        if head_is_file:
            raise SetupError("--again: for source trees, and these are stored runs")
        found = _again(options, folder, rules)
    elif head_is_file:
        base, head = _stored(options, folder)
        found = comparison.of_files(base, head, history.runs(options.history), rules, allow_dirty=options.allow_dirty)
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
    idle = [name for name in ("quads", "within", "seconds", "width", "deadline") if getattr(options, name) is not None]
    idle += [] if options.lane == "auto" else ["lane"]
    if idle:
        raise SetupError(f"{', '.join(f'--{name}' for name in idle)}: for source trees, and these are stored runs")
    head = store.compared(store.read(Path(options.head)), folder)
    device = str(head.device.get("name", ""))
    base = (
        _accepted(device, head.path)
        if options.base == ACCEPTED
        else store.compared(store.read(Path(options.base)), folder)
    )
    for name in options.contract:
        if not any(key[0] == name for run in (base, head) for key in run.entries):
            raise SetupError(f"neither {base.path} nor {head.path} holds a benchmark of {name}")
    return [
        store.narrowed(run, contracts=options.contract, impl=options.impl, match=options.match, timings=options.timing)
        for run in (base, head)
    ]


def _accepted(device: str, path: str) -> store.Run:
    """Read the baseline of ``device``; ``path`` is a run that would make one."""
    file = accept.path_in(Path(BASELINES), device)
    if not file.is_file():
        made_by = f"python -m harness bench accept {path}"
        raise SetupError(f"{file}: no baseline of {device or 'an unknown device'} was accepted; {made_by} makes one")
    return store.read(file)


def _again(options: argparse.Namespace, folder: Path, rules: Rules) -> comparison.Comparison:
    """Return the comparison in ``--again`` with what is slower there, or may be, timed again in turns."""
    from harness.bench import page

    try:
        first = page.read_comparison(options.again)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{options.again} is no comparison: {type(error).__name__}: {error}") from error
    doubted = again.doubted(first)
    if not doubted:
        return first
    options.name, timings = again.names(doubted)
    options.timing = options.timing or [timing for timing in timings if timing in TIMINGS]
    return again.settled(first, _by_turns(options, folder, rules))


def _by_turns(options: argparse.Namespace, folder: Path, rules: Rules) -> comparison.Comparison:
    names = options.base, options.head
    if options.base == ACCEPTED:
        device = machine.device_info("cuda" if on_device(options.lane) else "vgpu")["name"]
        names = str(_accepted(device, "FILE").commit["id"]), options.head
    quads = options.quads or QUADS
    within = _within(options)
    with blocks.checked_out(names[0], folder) as base, blocks.checked_out(names[1], folder) as head:
        try:
            taken = blocks.interleaved(
                base,
                head,
                passed_on(options),
                quads=quads,
                deadline=_deadline(options),
                within=within,
                on_block=lambda done, total, build: _say(f"block {done + 1} of {total}: {build.name}"),
            )
        except blocks.BlockFailed as error:
            return comparison.Comparison(
                base=names[0], head=names[1], device="?", how="by turns", rules=rules, refused=(str(error),)
            )
    found = comparison.of_blocks(taken, names, rules, allow_dirty=options.allow_dirty)
    return replace(found, notes=(*found.notes, *notes.out_of_time(len(taken) // 4, quads, within)))


def _history(options: argparse.Namespace) -> int:
    found = history.runs(options.paths)
    if not found:
        raise SetupError(f"no stored run in {', '.join(map(str, options.paths))}")
    sys.stdout.write(history.render(found))
    return comparison.FINE


def _show(options: argparse.Namespace) -> int:
    found = store.read(options.file)
    sys.stdout.write(peer_table.render(found) if options.peers else summary(found.document))
    return comparison.FINE


def _accept(options: argparse.Namespace, folder: Path) -> int:
    _, said = accept.accept(
        options.file,
        options.baselines,
        repository=folder,
        allow_dirty=options.allow_dirty,
        allow_missing=options.allow_missing,
        allow_lone=options.allow_lone,
        commit=options.commit,
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
    entries = store.entries(document)
    beside = ratios(entries)
    rows = [("benchmark", "L2", "median", "±", "floor", "fraction", "peers take" if beside else "")]
    for entry in entries.values():
        rows.append(
            (
                entry.name,
                entry.l2,
                markdown.duration(entry.median),
                f"{(entry.high - entry.low) / 2 / entry.median:.1%}",
                "" if entry.floor is None else markdown.duration(entry.floor),
                "" if entry.floor is None else f"{entry.floor / entry.median:.2f}",
                beside.get(entry.name, ""),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"REFUSED {item['name']}: {item['reason']}" for item in document.get("harness", {}).get("refused", ())]
    return "\n".join([*lines, ""])


def _report(done: Measured | Refused) -> None:
    said = done.reason if isinstance(done, Refused) else markdown.duration(done.sampled.median)
    _say(f"{done.name}: {said}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
