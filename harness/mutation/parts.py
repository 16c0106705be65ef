"""Which part of a campaign some results are, and what is missing for all of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from harness.mutation.results import Part, Red, Result, Status, Whole
from harness.mutation.source import Mutant


def whole(made: Iterable[Mutant]) -> Whole:
    """Return what stands for all mutants of a kernel."""
    keys = sorted(mutant.key for mutant in made)
    return Whole(mutants=len(keys), digest=hashlib.sha256("".join(keys).encode()).hexdigest()[:16])


def missing(parts: Sequence[Part]) -> list[str]:
    """Return why ``parts`` are not one whole campaign, a line each: shards that are not there, parts that do not fit.

    A campaign is the same mutants of a kernel in all its shards, and one judge.
    """
    judges = sorted({part.style for part in parts})
    found = [f"judged by {' and by '.join(judges)}"] if len(judges) > 1 else []
    by_words: dict[str, list[str]] = {}
    kernels = list(dict.fromkeys(kernel for part in parts for kernel in part.kernels))
    for kernel in kernels:
        if words := _missing([part for part in parts if kernel in part.kernels], kernel):
            by_words.setdefault(words, []).append(kernel)
    return found + [f"{', '.join(of)}: {words}" for words, of in by_words.items()]


def _missing(parts: Sequence[Part], kernel: str) -> str:
    if len({part.kernels[kernel] for part in parts}) > 1:
        return "the parts are of different sources"
    there: dict[int, set[int]] = {}
    for part in parts:
        there.setdefault(part.shards, set()).add(part.shard)
    shards, have = min(there.items(), key=lambda item: item[0] - len(item[1]))
    left = [str(number) for number in range(1, shards + 1) if number not in have]
    return f"no shard {' or '.join(left)} of {shards}" if left else ""


def mutants(parts: Iterable[Part]) -> int:
    """Return how many mutants the kernels of ``parts`` have, tried or not."""
    found: dict[str, int] = {}
    for part in parts:
        for kernel, of in part.kernels.items():
            found[kernel] = max(of.mutants, found.get(kernel, 0))
    return sum(found.values())


def samples(parts: Iterable[Part], limit: int | None, operators: Sequence[str]) -> list[str]:
    """Return a line for each choice that left out mutants of some of ``parts`` and that is not asked for."""
    given = Part(style="", shard=1, shards=1, kernels={}, limit=limit, operators=tuple(operators)).chosen
    chosen = dict.fromkeys(part.chosen for part in parts)
    return [
        f"a sample ({words}), which has to be asked for again beside --merge"
        if words
        else f"not the sample that is asked for ({given})"
        for words in chosen
        if words != given
    ]


def complete(results: Sequence[Result], parts: Iterable[Part]) -> set[str]:
    """Return the kernels all of whose mutants came to an end: less says little about a rate."""
    ran = [result.kernel for result in results if result.status is not Status.SKIPPED]
    return {kernel for part in parts for kernel, of in part.kernels.items() if ran.count(kernel) == of.mutants}


def late(results: Iterable[Result]) -> list[Result]:
    """Return the results of mutants for which there was no time; what a tool refuses is another matter."""
    return [result for result in results if result.status is Status.SKIPPED and not result.reason]


def red(parts: Iterable[Part]) -> list[Red]:
    """Return what fails on the originals, once."""
    return list(dict.fromkeys(one for part in parts for one in part.red))
