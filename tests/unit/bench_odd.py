"""What must hold of odd series: two speeds, lone outliers, nights that creep, one process, no time at all."""

import contextlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from harness.bench import accept, again, comparison, sampling, series, store
from harness.bench.verdicts import Evidence, Rules, Verdict, judge
from harness.discover import SetupError
from tests.unit.bench_documents import WORKLOADS, document, row, run
from tests.unit.bench_rules import alarms, changed
from tests.unit.bench_series import Noise, session

CHECKS = {}
RULES = Rules()
NIGHTS, WORKLOAD_COUNT = 300, 16


def check(function):
    CHECKS[function.__name__] = function
    return function


def two_speeds(rng, *, quads, share, slowdown=0.0):
    """Blocks of which that ``share`` is 16 % slower, each workload's by itself."""
    times = session(rng, Noise(), trials=NIGHTS, quads=quads, workloads=WORKLOAD_COUNT, slowdown=slowdown)
    return times + np.log1p(0.16) * (rng.random(times.shape) < share)


@check
def two_speeds_give_no_alarm_however_few_quads():
    rng = np.random.default_rng(21)
    for quads in (3, 4, 12):
        for share in (0.1, 0.3, 0.5):
            calm = judge(series.interleaved(two_speeds(rng, quads=quads, share=share)), RULES).verdicts
            assert alarms(calm) <= 0.01, (quads, share)
            slower = two_speeds(rng, quads=quads, share=share, slowdown=0.05)
            verdicts = judge(series.interleaved(slower), RULES).verdicts[:, 0]
            assert not (verdicts == Verdict.SAME).any(), (quads, share)
            assert (verdicts == Verdict.FASTER).mean() <= 0.01, (quads, share)


@check
def one_wild_block_is_no_change():
    rng = np.random.default_rng(22)
    times = session(rng, Noise(), trials=NIGHTS, quads=12, workloads=WORKLOAD_COUNT)
    wild = times.reshape(NIGHTS, 48, WORKLOAD_COUNT)
    wild[np.arange(NIGHTS), rng.integers(0, 48, NIGHTS)] += np.log(3)
    for evidence in (series.interleaved(times), series.interleaved_with_itself(times)):
        assert alarms(judge(evidence, RULES).verdicts) == 0


@check
def times_without_any_spread_are_judged():
    flat = np.zeros((12, 4, 2))
    head = np.array(series.orders(12))[:, :, None]
    with np.errstate(all="raise"):
        assert list(judge(series.interleaved(flat), RULES).verdicts) == [Verdict.SAME] * 2
        slower = judge(series.interleaved(flat + np.log1p(0.05) * head), RULES)
        blocks, history = np.zeros((10, 1)), np.zeros((8, 1))
        stored = judge(series.stored(blocks, blocks + np.log1p(0.05), history, RULES, since=7), RULES)
    assert [*slower.verdicts, *stored.verdicts] == [Verdict.SLOWER] * 3


def stored(nights, *, slowdown=0.0):
    """Judge the last of ``[trials, nights, blocks, workloads]`` beside the first and the nights between."""
    head = nights[:, -1].copy()
    head[..., 0] += np.log1p(slowdown)
    history = nights[:, :-1].mean(axis=2)
    return judge(series.stored(nights[:, 0], head, history, RULES, since=history.shape[1] - 1), RULES).verdicts


@check
def nights_that_creep_are_not_called_slower():
    rng = np.random.default_rng(23)
    calm = 0.003 * rng.standard_normal((NIGHTS, 22, 10, 8)) + 0.002 * rng.standard_normal((NIGHTS, 22, 1, 8))
    for step in (0.003, 0.005):
        assert alarms(stored(calm + step * np.arange(22)[:, None, None])) == 0
        walk = step * np.cumsum(rng.standard_normal((NIGHTS, 22, 1, 1)), axis=1)
        assert alarms(stored(calm + walk)) <= 0.01
    assert alarms(stored(calm)) <= 0.01
    slower = stored(calm, slowdown=0.05)[:, 0]
    assert (slower == Verdict.SLOWER).mean() >= 0.95
    assert not (slower == Verdict.SAME).any()


@check
def a_creeping_run_of_files_is_doubted():
    # half a per cent a night, of all workloads
    nights = [
        run(f"n{night}", night=night, slower={name: 0.005 * night for name, *_ in WORKLOADS}) for night in range(15)
    ]
    found = comparison.of_files(nights[0], nights[14], nights[:14])
    assert {row.verdict for row in found.rows} == {Verdict.CANNOT_TELL}
    assert {row.verdict for row in comparison.of_files(nights[0], nights[14], nights[:1]).rows} == {Verdict.CANNOT_TELL}


@check
def a_night_that_went_wrong_is_forgotten():
    wild = run("n0", night=0, slower={name: 2.0 for name, *_ in WORKLOADS})
    head = run("head", night=40, slower={"mxfp4_moe": 0.06})
    for count, verdict in ((20, Verdict.CANNOT_TELL), (comparison.RECENT, Verdict.SLOWER)):
        past = [wild, *(run(f"n{night}", night=night) for night in range(39 - count, 39))]
        found = comparison.of_files(run("base", night=39), head, past)
        assert {row.verdict for row in found.rows if row.name.startswith("mxfp4_moe")} == {verdict}


@check
def means_show_what_medians_hide():
    rare, often = ([1.16 if place % 20 < count else 1.0 for place in range(200)] for count in (2, 9))
    assert sampling.segmented(tuple(rare)) == sampling.segmented(tuple(often)) == [1.0] * 10
    ratio = np.mean(sampling.segmented_means(tuple(often))) / np.mean(sampling.segmented_means(tuple(rare)))
    assert ratio == pytest.approx(1.055, abs=0.01)
    # and one call that waited for something else shows in neither
    assert max(sampling.segmented_means((*[1.0] * 19, 50.0))) == 1.0
    assert sampling.clipped((3.0, 1.0, 2.0, 9.0)) == (3.0, 2.0, 2.0, 3.0)


@check
def a_mean_that_moved_is_not_the_same():
    quiet = Evidence(effect=np.zeros(2), error=np.full(2, 0.001), df=np.full(2, 11.0))
    means = replace(quiet, effect=np.array([0.055, 0.0]))
    assert list(judge(quiet, RULES).verdicts) == [Verdict.SAME] * 2
    assert list(judge(quiet, RULES, means).verdicts) == [Verdict.CANNOT_TELL, Verdict.SAME]
    nights = [run(f"n{night}", night=night) for night in range(15)]
    found = comparison.of_files(nights[13], _with_means(nights[14], 1.055), nights[:13])
    assert {row.verdict for row in found.rows} == {Verdict.CANNOT_TELL}
    assert any(note.startswith("the median is the same and the mean is not shown to be: merge") for note in found.notes)
    assert {row.verdict for row in comparison.of_files(nights[13], nights[14], nights[:13]).rows} == {Verdict.SAME}
    # in turns too
    files = [(which, _one(night)) for night, which in enumerate((0, 1, 1, 0, 1, 0, 0, 1) * 4)]
    assert {row.verdict for row in comparison.of_blocks(files, ("a", "b")).rows} == {Verdict.SAME}
    often = [(which, _one(night, 1.055 if which else 1.0)) for night, (which, _) in enumerate(files)]
    assert {row.verdict for row in comparison.of_blocks(often, ("a", "b")).rows} == {Verdict.CANNOT_TELL}


def _with_means(night, factor):
    for made in night.document["benchmarks"]:
        extra = made["extra_info"]
        extra["block_means"] = [seconds * factor for seconds in extra["blocks"]]
    return store.Run(path=night.path, document=night.document, entries=store.entries(night.document))


def _one(night, slow=1.0):
    """A block of 40 samples whose mean is ``slow`` times as much as usual, and whose median is not."""
    rng = np.random.default_rng(night)
    made = document(rows=[row(work, count=1, rng=rng) for work in WORKLOADS])
    for one in made["benchmarks"]:
        (median,) = one["extra_info"]["blocks"]
        one["stats"]["data"] = [median] * 22 + [median * (1 + (slow - 1) * 40 / 18)] * 18
    return made


@check
def a_run_of_one_process_may_be_off_by_what_processes_are():
    rng = np.random.default_rng(24)
    alarmed = {True: 0, False: 0}
    for _ in range(12):
        nights = []
        for night in range(1, 9):
            # of ten processes one or two are 10 % slower
            speeds = [1.1 ** (rng.random((len(WORKLOADS), 10)) < 0.15) * (1 + 0.001 * rng.standard_normal((6, 10)))]
            rows = [row(work, times=list(work[3] * speeds[0][place])) for place, work in enumerate(WORKLOADS)]
            nights.append(run(f"n{night}", night=night, rows=rows))
        lone = [row(work, times=list(work[3] * 1.1 * (1 + 0.001 * rng.standard_normal(10)))) for work in WORKLOADS]
        for alone in (True, False):
            for one in lone:
                one["extra_info"]["blocks_are"] = store.SEGMENTS if alone else store.PROCESSES
            base = run("base", night=0, rows=lone)
            found = comparison.of_files(base, nights[-1], nights[:-1])
            alarmed[alone] += bool(changed(np.array([row.verdict for row in found.rows])).any())
            assert any("of one process" in note for note in found.notes) == alone
    assert alarmed[True] == 0
    assert alarmed[False] > 0


@check
def a_run_of_one_process_without_history_may_be_off_by_a_quarter():
    rng = np.random.default_rng(25)
    for slow, wanted in ((0.82, Verdict.CANNOT_TELL), (1.22, Verdict.CANNOT_TELL), (1.6, Verdict.SLOWER)):
        rows = [row(work, times=list(work[3] * (1 + 0.001 * rng.standard_normal(10)))) for work in WORKLOADS]
        for one in rows:
            one["extra_info"]["blocks_are"] = store.SEGMENTS
        several = [row(work, times=list(slow * work[3] * (1 + 0.001 * rng.standard_normal(6)))) for work in WORKLOADS]
        found = comparison.of_files(run("base", night=0, rows=rows), run("head", night=1, rows=several))
        assert {row.verdict for row in found.rows} == {wanted}
        assert any("base is of one process, which may be off: 25% is allowed for" in note for note in found.notes)


@check
def a_run_of_one_process_is_not_accepted(folder):
    made = document()
    for one in made["benchmarks"]:
        one["extra_info"]["blocks_are"] = store.SEGMENTS
    store.write(folder / "lone.json", made)
    with pytest.raises(SetupError, match="of one process: take --blocks 10, or see --allow-lone"):
        accept.accept(folder / "lone.json", folder / "baselines")
    target, _ = accept.accept(folder / "lone.json", folder / "baselines", allow_lone=True)
    assert target.is_file()


@check
def a_run_of_too_few_processes_to_be_compared_with_is_not_accepted(folder):
    for blocks in (series.LEAST_BLOCKS - 1, series.LEAST_BLOCKS):
        store.write(folder / "few.json", document(rows=[row(work, times=[work[3]] * blocks) for work in WORKLOADS]))
        few = pytest.raises(SetupError, match=r"fewer than 6 blocks in .*take --blocks 10")
        with few if blocks < series.LEAST_BLOCKS else contextlib.nullcontext():
            accept.accept(folder / "few.json", folder / "baselines", allow_lone=True)
    assert (folder / "baselines").is_dir()


@check
def times_that_are_none_are_refused(folder):
    for name, spoil in (
        ("nan", lambda extra, stats: extra["blocks"].__setitem__(3, float("nan"))),
        ("0.0", lambda extra, stats: stats.__setitem__("median", 0.0)),
        ("inf", lambda extra, stats: extra.__setitem__("block_means", [float("inf")])),
        ("-1.0", lambda extra, stats: extra["blocks"].__setitem__(0, -1.0)),
    ):
        made = document(night=1)
        spoil(made["benchmarks"][2]["extra_info"], made["benchmarks"][2]["stats"])
        (folder / "spoilt.json").write_text(json.dumps(made))
        with pytest.raises(SetupError, match=rf"is no stored run: .*num_tokens=64-rot\] took {name} s"):
            store.read(folder / "spoilt.json")


@check
def a_build_that_was_not_compared_with_itself_is_noted():
    for quads in (3, 4):
        order = [which for quad in series.orders(quads) for which in quad]
        found = comparison.of_blocks([(which, _one(night)) for night, which in enumerate(order)], ("a", "b"))
        assert any("no build was compared with itself" in note for note in found.notes) == (quads == 3)


@check
def few_turns_do_not_undo_what_they_agree_with():
    found = comparison.of_files(run("base", night=13), run("head", night=14, slower={"mxfp4_moe": 0.3}))
    slower = [row.name for row in found.of(Verdict.SLOWER)]
    assert len(slower) == 2
    for low, name, verdict in (
        (0.1, slower[0], Verdict.SLOWER),
        (0.01, slower[0], Verdict.CANNOT_TELL),
        (-0.3, slower[0], Verdict.CANNOT_TELL),
        (math.nan, slower[0], Verdict.SLOWER),
        (0.1, found.of(Verdict.CANNOT_TELL)[0].name, Verdict.CANNOT_TELL),
    ):
        rows = tuple(replace(row, verdict=Verdict.CANNOT_TELL, low=low, high=1.8) for row in found.rows)
        settled = {row.name: row for row in again.settled(found, replace(found, rows=rows)).rows}
        assert settled[name].verdict is verdict, (low, name)
    # and where they say that there is nothing, they are believed
    same = again.settled(found, replace(found, rows=tuple(replace(row, verdict=Verdict.SAME) for row in found.rows)))
    assert same.exit_status == comparison.FINE


@check
def doubts_are_timed_again_and_the_rest_stays():
    base, head = run("base", night=13), run("head", night=14, slower={"mxfp4_moe": 0.04, "sparse_mla_decode": -0.05})
    found = comparison.of_files(base, head)
    assert {row.verdict for row in found.rows} == {Verdict.CANNOT_TELL}
    doubted = again.doubted(found)
    assert again.names(doubted) == (
        ["mxfp4_moe[auto-num_tokens=1]", "mxfp4_moe[auto-num_tokens=64]"],
        ["rot"],
    )
    slower = replace(found, rows=tuple(replace(row, verdict=Verdict.SLOWER, change=0.001) for row in found.rows))
    assert len(again.doubted(slower)) == len(WORKLOADS)
    # by turns one of the two is the same, and what nobody asked for changes nothing
    turns = [replace(row, verdict=Verdict.SAME, change=0.0) for row in doubted[:1]]
    turns += [replace(row, verdict=Verdict.SLOWER) for row in found.rows[1:]]
    settled = again.settled(found, replace(found, how="12 quads", rows=tuple(turns[:1] + turns[2:]), notes=("warm",)))
    by_name = {row.name: row.verdict for row in settled.rows}
    assert [by_name[row.name] for row in doubted] == [Verdict.SAME, Verdict.SLOWER]
    assert list(by_name.values()).count(Verdict.CANNOT_TELL) == len(WORKLOADS) - 2
    assert settled.exit_status == comparison.SLOWER
    assert settled.how.endswith("; 2 workloads again, 12 quads")
    assert "warm" in settled.notes
    refused = again.settled(found, replace(found, rows=(), refused=("dirty tree",)))
    assert refused.rows == found.rows
    assert refused.notes[-1] == "timing again in turns was refused: dirty tree"
