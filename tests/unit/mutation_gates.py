"""What must hold of what ``mutate`` takes for an answer: see ``mutation_checks``, which these join."""

import argparse
import contextlib
import io
import os
from types import SimpleNamespace

import pytest

from harness.discover import SetupError
from harness.outcome import CaseResult, Violation
from tests.unit.mutation_behind import CHECKS, check
from tests.unit.mutation_checks import result, results_of

__all__ = ["CHECKS"]


def _options(api, *words):
    parser = argparse.ArgumentParser()
    api.arguments.declare(parser)
    parser.set_defaults(impl=None)
    return parser.parse_args([str(word) for word in words])


def _part(api, shard=1, shards=1, mutants=2, style="contract", kernels=("merge",), digest="d", red=()):
    wholes = {kernel: api.results.Whole(mutants=mutants, digest=digest) for kernel in kernels}
    return api.results.Part(style=style, shard=shard, shards=shards, kernels=wholes, red=red)


@check
def no_rate_is_no_full_rate(api, folder):
    assert api.table.rate([]) is None
    assert api.table.headline(results_of(api, SKIPPED=2)) == "no mutant counts; 2 skipped"
    for found in ([], results_of(api, SKIPPED=2), results_of(api, EQUIVALENT=1)):
        with pytest.raises(SetupError, match="no mutant"):
            api.command._is_enough(found, [_part(api)], _options(api), folder)


@check
def mutants_without_time_leave_the_least_rate_open(api, folder):
    def is_enough(found, *words):
        with contextlib.redirect_stdout(io.StringIO()):
            return api.command._is_enough(found, [_part(api)], _options(api, *words), folder)

    found = results_of(api, KILLED=3, SKIPPED=1)
    assert is_enough(found)
    with pytest.raises(SetupError, match="no time for 1 of 4 mutants"):
        is_enough(found, "--at-least", "0.9")
    assert not is_enough(results_of(api, KILLED=1, SURVIVED=1, SKIPPED=1), "--at-least", "0.9")
    refused = [result(api, "s", status="SKIPPED", reason="the tool does not take it")]
    assert api.parts.late([*found, *refused]) == found[-1:]
    assert is_enough([*results_of(api, KILLED=3), *refused], "--at-least", "0.9")


@check
def only_kernels_all_of_whose_mutants_ran_are_held_to_a_floor(api, folder):
    (folder / "ci").mkdir()
    (folder / "ci" / "kill_rate.toml").write_text("[rate]\nmerge = 0.9\n")
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        half = results_of(api, KILLED=1, SURVIVED=1)
        assert not api.command._is_enough(half, [_part(api)], _options(api), folder)
        assert api.command._is_enough(half, [_part(api, mutants=3)], _options(api), folder)
        assert "not held" not in told.getvalue()
        late = [*half, *results_of(api, SKIPPED=1)]
        assert api.command._is_enough(late, [_part(api, mutants=3)], _options(api), folder)
    assert "merge: not held to ci/kill_rate.toml: there was no time for 1 mutants" in told.getvalue()


@check
def a_campaign_is_whole_with_all_its_shards(api):
    first, second = (_part(api, shard, 2) for shard in (1, 2))
    assert api.parts.missing([first, second]) == []
    assert api.parts.missing([first, _part(api)]) == [], "the whole is there"
    assert api.parts.missing([first]) == ["merge: no shard 2 of 2"]
    assert api.parts.missing([_part(api, 2, 4)]) == ["merge: no shard 1 or 3 or 4 of 4"]
    more = _part(api, 2, 2, kernels=("merge", "other"))
    assert api.parts.missing([first, more]) == ["other: no shard 1 of 2"]


@check
def parts_of_other_sources_or_judges_do_not_fit(api):
    first = _part(api, 1, 2)
    for other in (_part(api, 2, 2, digest="e"), _part(api, 2, 2, mutants=3)):
        assert api.parts.missing([first, other]) == ["merge: the parts are of different sources"]
    assert api.parts.missing([first, _part(api, 2, 2, style="fixed")]) == ["judged by contract and by fixed"]


def _merge(api, folder, *words):
    """Return what is shown, and why it is refused or the answer."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        try:
            answer = api.command.run(_options(api, "--merge", *words), (), folder)
        except SetupError as error:
            answer = str(error)
    return told.getvalue(), answer


def _file(api, path, found, *parts):
    api.results.write(path, found, parts)
    return path


@check
def half_a_campaign_is_shown_and_refused(api, folder):
    files = [
        _file(api, folder / f"{shard}.jsonl", [result(api, f"k{shard}")], _part(api, shard, 2)) for shard in (1, 2)
    ]
    shown, answer = _merge(api, folder, files[0], "--at-least", "0.5")
    assert "1 of 1 mutants killed" in shown
    assert answer == "not one whole campaign: merge: no shard 2 of 2"
    shown, answer = _merge(api, folder, *files, "--at-least", "0.5", "--json", folder / "new" / "all.jsonl")
    assert "2 of 2 mutants killed" in shown
    assert answer is True
    assert _merge(api, folder, folder / "new" / "all.jsonl")[1] is True
    bare = _file(api, folder / "bare.jsonl", [result(api)])
    assert "bare.jsonl does not say which part it is of what" in _merge(api, folder, bare)[1]


@check
def places_are_made_before_anything_runs(api, folder):
    part = _file(api, folder / "all.jsonl", results_of(api, KILLED=2), _part(api))
    words = ("--out", folder / "a" / "b", "--json", folder / "c" / "d" / "e.jsonl")
    assert _merge(api, folder, part, *words)[1] is True
    assert (folder / "a" / "b" / "table.txt").is_file()
    assert api.results.read_parts(folder / "c" / "d" / "e.jsonl")[0] == [_part(api)]
    kept = api.campaign.run
    api.campaign.run = lambda *arguments: pytest.fail("hours were spent")
    try:
        for place in (
            ["--out", part / "x"],
            ["--json", part / "x" / "y"],
            ["--json", folder],
            ["--beside", folder / "no"],
        ):
            with pytest.raises(SetupError):
                api.command.run(_options(api, *place), (), folder)
    finally:
        api.campaign.run = kept


@check
def merging_shows_the_kernels_that_are_named_and_refuses_what_says_nothing(api, folder):
    found = [result(api, "a"), result(api, "b", kernel="other", status="SURVIVED")]
    part = _file(api, folder / "all.jsonl", found, _part(api, mutants=1, kernels=("merge", "other")))
    assert "2 mutants killed" in _merge(api, folder, part)[0]
    assert "1 of 1 mutants killed" in _merge(api, folder, part, "--json", folder / "o.jsonl", "merge")[0]
    assert list(api.results.read_parts(folder / "o.jsonl")[0][0].kernels) == ["merge"]
    assert "no kernel 'merg' in these files; there are: merge, other" in _merge(api, folder, part, "--", "merg")[1]
    refused = _merge(api, folder, part, "--limit", "3", "--seed", "1")[1]
    assert refused == "--merge runs nothing: --seed would have no effect"


@check
def numbers_that_make_no_sense_are_refused(api):
    with contextlib.redirect_stderr(io.StringIO()):
        for words in (
            ("--limit", "-3"), ("--limit", "0"), ("--jobs", "0"), ("--examples", "-1"), ("--at-least", "95"),
            ("--at-least", "-0.1"), ("--at-least", "nan"), ("--budget", "0"), ("--deadline", "inf"), ("--jobs", "1.5"),
        ):  # fmt: skip
            with pytest.raises(SystemExit):
                _options(api, *words)
    assert _options(api, "--examples", "0", "--at-least", "1", "--limit", "1").examples == 0


@check
def survivors_that_are_no_mutants_any_more_are_named(api):
    again = [result(api, "old", status="SURVIVED"), result(api, "new", status="SURVIVED", after="b")]
    again.append(result(api, "killed", after="c"))
    made = [SimpleNamespace(mark=again[1].mark)]
    assert api.campaign._unmatched("x.jsonl", again, made) == [
        "x.jsonl: no such mutant now: merge kernels/merge.py:3 bound old"
    ]


@check
def a_style_without_cases_for_a_contract_is_refused(api):
    own, shipped = ((SimpleNamespace(name=name), None) for name in ("mine", "merge_attn_states"))
    api.styles.check("contract", [own])
    api.styles.check("fixed", [shipped])
    for style in ("fixed", "gpucheck"):
        with pytest.raises(SetupError, match=f"--style {style} has no cases for mine; it has for: .*merge_attn_states"):
            api.styles.check(style, [shipped, own])


@check
def a_refusal_is_the_compilers_last_line(api):
    text = "at 4:8:\ndef kernel(x_ptr, n):\n    x = tl.load(n)\n        ^\nUnsupported ptr type\n\n"
    assert api.frontend.last_line(text) == "Unsupported ptr type"
    assert api.frontend.last_line("    x = tl.load(n)\n        ^") == "x = tl.load(n)"
    assert api.frontend.last_line("") == ""


def _worker(api, fails, cases=3, green=("state",)):
    """A worker of which the original passes everything but on the cases in ``fails``: there only ``green`` does."""
    contract = SimpleNamespace(pinned=tuple(range(2)))

    def unit(number, **fields):
        plain = {"case": number, "name": f"Case({number})", "deep": False, "target": None, "number": number}
        return SimpleNamespace(**{**plain, "contract": contract, "implementation": "merge-triton", **fields})

    units = [unit(number) for number in range(cases)]
    # of every process alive it takes a third of a second
    api.worker.gc = SimpleNamespace(collect=lambda: None)
    units += [unit(cases, case=0, target=SimpleNamespace(arch="sm_90")), unit(cases + 1, case=1, deep=True)]
    asked = []

    class Original:
        def result(self, contract, implementation, case, target):
            asked.append(case)
            if case not in fails:
                return CaseResult(checks_run={"oracle:out", "state"})
            return CaseResult(checks_run={"raises", *green}, violations=[Violation("raises", "no")])

        def run(self, units, trusted, progress):
            return "a kill" if units[0].case in fails else None

    return asked, api.worker.Worker(
        pairs=[], units=units, lane=None, deadline=9.0, silence=9.0, trusted=api.judge.Trusted(), oracles=None,
        order=api.plan.Order(), baseline=Original,
    )  # fmt: skip


@check
def pinned_cases_that_the_original_fails_are_told_before_any_mutant(api):
    asked, worker = _worker(api, fails={1, 2})
    api.original.ask_pinned(worker.units, worker.baseline, worker.ask_original)
    assert asked == [1], "2 is not pinned, and all about 0 is asked where a mutant fails there"
    assert worker.news() == [{"check": "raises", "case": "merge-triton: Case(1)", "message": "no"}]
    assert worker.news() == []
    assert not worker.trusted.counts(("merge-triton", "1"), "raises")


@check
def an_original_of_which_nothing_passes_judges_nothing(api):
    def judges(fails, **fields):
        worker = _worker(api, fails, **fields)[1]
        return api.original.judges(worker.units, worker.trusted, worker.ask_original)

    for fails, answer in ((set(), True), ({0, 1}, True), ({0, 1, 2}, False)):
        assert judges(fails) == answer, fails
    assert judges({0, 1, 2}, green=("oracle:out",))
    assert judges(set(), cases=0), "without cases nothing fails"


@check
def a_worker_that_judges_nothing_ends_the_campaign(api):
    told, red = [], {"check": "raises", "case": "Case()", "message": "no"}
    messages = iter([[{"kind": "ready", "judges": False, "red": [red]}]])
    reading, writing = os.pipe()
    os.write(writing, b"1")

    def start(queue, settings):
        return SimpleNamespace(
            pipe=reading, queue=queue, mutant=None, closed=False, end=lambda: None, give=lambda mutant: None,
            read=lambda: next(messages, None) or pytest.fail("it was asked for more"),
        )  # fmt: skip

    kept = api.pool._Worker
    try:
        api.pool._Worker = SimpleNamespace(start=start)
        work = [(SimpleNamespace(name="merge"), [SimpleNamespace(key="a")])]
        with pytest.raises(
            api.pool.WorkerError, match=r"merge: no check passes on the original.*raises on Case\(\): no"
        ):
            api.pool.run_all(
                work, SimpleNamespace(jobs=1), until=float("inf"), on_result=told.append, on_red=told.append
            )
    finally:
        api.pool._Worker = kept
        os.close(reading)
        os.close(writing)
    assert told == [api.results.Red(kernel="merge", **red)]


@check
def what_fails_on_the_original_is_shown_once_a_check(api, folder):
    red = [
        api.results.Red(kernel="merge", check="oracle:out", case=f"Case({number})", message="too far")
        for number in (1, 2)
    ]
    shown = api.table.render(results_of(api, KILLED=1), red)
    assert "FAILS ON THE ORIGINAL" in shown
    assert "\n  merge oracle:out: on 2 cases, first Case(1): too far\n" in shown
    assert "ORIGINAL" not in api.table.render(results_of(api, KILLED=1))
    parts = [_part(api, shard, 2, red=tuple(red[:shard])) for shard in (1, 2)]
    assert api.parts.red(parts) == red
    path = _file(api, folder / "all.jsonl", results_of(api, KILLED=1), *parts)
    assert api.results.read_parts(path) == (parts, results_of(api, KILLED=1))
    assert api.results.read(path) == results_of(api, KILLED=1)


@check
def what_fails_on_the_original_is_kept_with_the_results(api, folder):
    kept = api.cache.digest
    api.cache.digest = lambda target, settings: "0"
    try:
        target = SimpleNamespace(name="merge")
        red = api.results.Red(kernel="merge", check="oracle:out", case="Case()", message="too far")
        first = api.cache.Cache(folder, target, None)
        first.put_red(red)
        first.put_red(red)
        first.put(result(api, "a"))
        again = api.cache.Cache(folder, target, None)
        assert (again.red, again.get("a")) == ([red], result(api, "a"))
    finally:
        api.cache.digest = kept
