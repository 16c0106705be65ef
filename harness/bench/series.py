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
    an estimate from a dozen quads does.
    """
    signs = np.array(orders(times.shape[-3]), dtype=np.float64)[:, :, None] * 2 - 1
    return _mean((times * signs).sum(axis=-2) / 2)


def interleaved_with_itself(times: Array) -> Evidence:
    """Return the evidence of the same build against itself, ``[..., 2 * workloads]``: base first, then head.

    The two blocks of a build in a quad are compared, the earlier and the later one in turns, so that drift and
    position cancel over four quads; quads past the last four are left out.
    """
    usable = times.shape[-3] - times.shape[-3] % 4
    parts = []
    for build in (0, 1):
        differences = []
        for number, order in enumerate(orders(usable)):
            first, second = (place for place, which in enumerate(order) if which == build)
            sign = 1 if number % 4 < 2 else -1
            differences.append(sign * (times[..., number, first, :] - times[..., number, second, :]))
        parts.append(_mean(np.stack(differences, axis=-2) if differences else times[..., :0, 0, :]))
    return Evidence(
        **{name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in ("effect", "error", "df")}
    )


def with_itself(blocks: Array) -> Evidence:
    """Return the evidence of neighbouring blocks of one run against each other, ``[..., blocks, workloads]``."""
    pairs = blocks.shape[-2] // 2
    signs = np.array([1.0 if number % 2 == 0 else -1.0 for number in range(pairs)])[:, None]
    return _mean(signs * (blocks[..., 0 : 2 * pairs : 2, :] - blocks[..., 1 : 2 * pairs : 2, :]))


def stored(base: Array, head: Array, history: Array, rules: Rules) -> Evidence:
    """Return the evidence of two runs, ``[..., blocks, workloads]`` each, beside ``[..., runs, workloads]`` of history.

    Blocks of a run do not show how much runs differ, so the error comes from differences of runs that follow each
    other in ``history``, or, where there are fewer than ``LEAST_HISTORY``, the allowance ``rules.drift`` is doubted.
    """
    within, within_df = _between(base, head)
    effect = head.mean(axis=-2) - base.mean(axis=-2)
    runs = history.shape[-2]
    if runs < LEAST_HISTORY:
        return Evidence(effect=effect, error=within, df=within_df, doubt=float(np.log1p(rules.drift)))
    steps = np.diff(history, axis=-2)
    # two runs differ by twice the variance of one; so does each step
    between = np.sqrt((steps**2).mean(axis=-2))
    larger = between >= within
    df = _df_of_steps(runs)
    return Evidence(
        effect=effect, error=np.where(larger, between, within), df=np.where(larger, df, np.minimum(within_df, df))
    )


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
