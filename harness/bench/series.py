"""What series of times say: the effect between two builds, its error, and whether a series agrees with itself.

Times are logarithms of medians, one a *block*: a child process that timed every workload.  Inside a block samples
share clocks and memory, so that a block counts once, however many samples it has.
"""

from __future__ import annotations

import numpy as np

from harness.bench.numbers import Array
from harness.bench.verdicts import Evidence, Rules

#: Runs of history from which the differences between runs are believed.
LEAST_HISTORY = 5
#: Quads from which a build can be compared with itself: what the order does to a block cancels over so many.
LEAST_QUADS = 4
#: Blocks of a run from which its agreement with itself can be tested.
LEAST_BLOCKS = 6
#: Where the blocks of base (0) and head (1) stand in quads that follow each other.  A steady drift cancels inside
#: each; that the first block after a pause is slower cancels between the two.
ORDERS = ((0, 1, 1, 0), (1, 0, 0, 1))


def orders(quads: int) -> list[tuple[int, int, int, int]]:
    """Return the order of builds in each of ``quads``."""
    return [ORDERS[number % 2] for number in range(quads)]


def interleaved(times: Array) -> Evidence:
    """Return the evidence of ``[..., quads, 4, workloads]`` log times taken in ``orders``.

    One difference a quad, its variance estimated for each workload alone: workloads differ in noise by far more than
    an estimate from a dozen quads does.  Times that jump between two values give a few quads equal differences by
    chance, so that the error is never less than what the two blocks of a build in a quad differ by.
    """
    quads = times.shape[-3]
    signs = np.array(orders(quads), dtype=np.float64)[:, :, None] * 2 - 1
    found = _mean((times * signs).sum(axis=-2) / 2)
    inside = _differences(times, 0) ** 2 + _differences(times, 1) ** 2
    # the two squares of a quad hold a block's variance four times, the effect of a quad once
    least = np.sqrt(inside.mean(axis=-2) / 4 / quads)
    return Evidence(effect=found.effect, error=np.maximum(found.error, least), df=found.df)


def interleaved_with_itself(times: Array) -> Evidence:
    """Return the evidence of the same build against itself, ``[..., 2 * workloads]``: base first, then head.

    The two blocks of a build in a quad are compared, the earlier and the later one in turns, so that drift and
    position cancel over four quads; quads past the last four are left out.
    """
    usable = times.shape[-3] - times.shape[-3] % LEAST_QUADS
    signs = np.array([1.0 if number % 4 < 2 else -1.0 for number in range(usable)])[:, None]
    parts = [_mean(signs * _differences(times[..., :usable, :, :], build)) for build in (0, 1)]
    return Evidence(
        **{name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in ("effect", "error", "df")}
    )


def _differences(times: Array, build: int) -> Array:
    """Return ``[..., quads, workloads]``: the earlier block of ``build`` in each quad less the later one."""
    taken = [
        times[..., number, order.index(build), :] - times[..., number, 3 - order[::-1].index(build), :]
        for number, order in enumerate(orders(times.shape[-3]))
    ]
    return np.stack(taken, axis=-2) if taken else times[..., 0, :]


def with_itself(blocks: Array) -> Evidence:
    """Return the evidence of neighbouring blocks of one run against each other, ``[..., blocks, workloads]``."""
    pairs = blocks.shape[-2] // 2
    signs = np.array([1.0 if number % 2 == 0 else -1.0 for number in range(pairs)])[:, None]
    return _mean(signs * (blocks[..., 0 : 2 * pairs : 2, :] - blocks[..., 1 : 2 * pairs : 2, :]))


def stored(base: Array, head: Array, history: Array, rules: Rules, *, since: int = 0) -> Evidence:
    """Return the evidence of two runs, ``[..., blocks, workloads]`` each, beside ``[..., runs, workloads]`` of history.

    Blocks of a run do not show how much runs differ, so the error comes from differences of runs that follow each
    other in ``history``, or, where there are fewer than ``LEAST_HISTORY``, the allowance ``rules.drift`` is doubted.
    The last ``since`` runs of ``history`` came after ``base``: where they went a long way in small steps, so may have
    ``head``.
    """
    within, within_df = _between(base, head)
    effect = head.mean(axis=-2) - base.mean(axis=-2)
    runs = history.shape[-2]
    if runs < LEAST_HISTORY:
        return Evidence(effect=effect, error=within, df=within_df, doubt=float(np.log1p(rules.drift)))
    steps = np.diff(history, axis=-2)
    # two runs differ by twice the variance of one; so does each step
    between, df = np.sqrt((steps**2).mean(axis=-2)), np.full(effect.shape, _df_of_steps(runs))
    if since >= LEAST_HISTORY:
        way = np.sqrt(2) * history[..., runs - since :, :].std(axis=-2, ddof=1)
        between, df = np.maximum(between, way), np.where(way > between, since - 1.0, df)
    larger = between >= within
    return Evidence(
        effect=effect, error=np.where(larger, between, within), df=np.where(larger, df, np.minimum(within_df, df))
    )


def strayed(blocks: Array) -> Array:
    """Return the furthest that a process of ``[..., blocks, workloads]`` was from the median of all of them."""
    furthest: Array = np.abs(blocks - np.median(blocks, axis=-2, keepdims=True)).max(axis=-2)
    return furthest


def _mean(values: Array) -> Evidence:
    """Return the evidence of independent ``[..., count, workloads]`` differences."""
    count = values.shape[-2]
    if count < 2:
        nothing = np.full((*values.shape[:-2], values.shape[-1]), np.nan)
        return Evidence(effect=values.sum(axis=-2), error=nothing, df=nothing)
    error = values.std(axis=-2, ddof=1) / np.sqrt(count)
    return Evidence(effect=values.mean(axis=-2), error=error, df=np.full_like(error, count - 1.0))


def _between(base: Array, head: Array) -> tuple[Array, Array]:
    """Return Welch's standard error and degrees of freedom of the difference of two runs' means.

    From steps between neighbours, which a run that warms up does not enlarge.
    """
    parts = []
    for run in (base, head):
        count = run.shape[-2]
        parts.append(((np.diff(run, axis=-2) ** 2).mean(axis=-2) / 2 / count, _df_of_steps(count)))
    total = parts[0][0] + parts[1][0]
    with np.errstate(invalid="ignore", divide="ignore"):
        df = total**2 / sum(variance**2 / free for variance, free in parts)
    return np.sqrt(total), np.where(total > 0, df, min(free for _, free in parts))


def _df_of_steps(count: int) -> float:
    """Return the degrees of freedom of a variance from the ``count - 1`` steps of independent values."""
    return 2 * (count - 1) ** 2 / (3 * count - 4)
