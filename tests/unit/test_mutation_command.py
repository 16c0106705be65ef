"""``python -m harness mutate`` as it is called: merging, exit statuses and refusals; nothing is mutated here."""

from pathlib import Path

import pytest

from harness import cli
from harness.mutation import results
from harness.mutation.results import Part, Result, Status, Whole


def result(key, status):
    return Result(
        key=key,
        kernel="merge",
        file="kernels/merge.py",
        line=3,
        operator="bound",
        function="kernel",
        before="a < b",
        after="a < b - 1",
        diff="--- f\n+++ f\n@@ -3 +3 @@\n-a < b\n+a < b - 1\n",
        status=status,
        lane="virtual GPU",
        nearest="merge-triton: Case(n=1)" if status is Status.SURVIVED else "",
    )


@pytest.fixture
def parts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    of = {"style": "contract", "shards": 2, "kernels": {"merge": Whole(mutants=3, digest="d")}}
    first, second = (Part(shard=shard, **of) for shard in (1, 2))
    results.write(tmp_path / "1.jsonl", [result("a", Status.KILLED), result("b", Status.SKIPPED)], [first])
    results.write(tmp_path / "2.jsonl", [result("b", Status.SURVIVED), result("c", Status.KILLED)], [second])
    return [str(tmp_path / name) for name in ("1.jsonl", "2.jsonl")]


def test_parts_are_merged_into_one_table_with_the_survivors(parts, capsys):
    assert cli.main(["mutate", "--merge", *parts]) == 0
    shown = capsys.readouterr().out
    assert "2 of 3 mutants killed (66.7%)" in shown
    assert (
        "SURVIVED merge bound b\n--- f\n+++ f\n@@ -3 +3 @@\n-a < b\n+a < b - 1\nchanges bits on merge-triton: Case(n=1)"
        in shown
    )


@pytest.mark.parametrize(("least", "status"), [("0.6", 0), ("0.7", 1)])
def test_a_rate_below_the_least_fails(parts, least, status):
    assert cli.main(["mutate", "--merge", *parts, "--at-least", least]) == status


def test_a_kernel_below_its_committed_rate_fails_and_is_named(parts, tmp_path, capsys):
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "kill_rate.toml").write_text("[rate]\nmerge = 0.9\n")
    assert cli.main(["mutate", "--merge", *parts]) == 1
    assert "merge: kill rate 66.7% is below the 90.0% of ci/kill_rate.toml" in capsys.readouterr().out


def test_a_campaign_without_one_of_its_parts_is_shown_and_refused(parts, capsys):
    assert cli.main(["mutate", "--merge", parts[1], "--at-least", "0.1"]) == 2
    shown = capsys.readouterr()
    assert "1 of 2 mutants killed (50.0%)" in shown.out
    assert "merge: no shard 1 of 2" in shown.err


def test_merged_results_can_be_written_again(parts, tmp_path):
    assert cli.main(["mutate", "--merge", *parts, "--json", str(tmp_path / "all.jsonl")]) == 0
    assert {found.key for found in results.read(tmp_path / "all.jsonl")} == {"a", "b", "c"}


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_an_impossible_shard_is_refused(shard, capsys):
    with pytest.raises(SystemExit):
        cli.main(["mutate", "--shard", shard])
    assert "wanted I/N with 1 <= I <= N" in capsys.readouterr().err


def test_a_campaign_that_ran_nothing_is_no_success(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    words = ["--module", "tests.unit.mutation_victim", "--budget", "1e-9", "--out", str(tmp_path / "out")]
    assert cli.main(["mutate", "mutation_victim", *words]) == 2
    shown = capsys.readouterr()
    assert "no mutant counts; " in shown.out
    assert "no mutant counts; " in shown.err
    ((part,), found) = results.read_parts(tmp_path / "out" / "results.jsonl")
    assert part.kernels["mutation_victim"].mutants == len(found)


def test_what_no_option_names_is_in_the_help(capsys):
    with pytest.raises(SystemExit):
        cli.main(["mutate", "--help"])
    shown = capsys.readouterr().out
    assert "ci/equivalents.toml" in shown
    assert "ci/kill_rate.toml" in shown


def test_an_unknown_kernel_or_operator_is_refused_by_name(capsys):
    assert cli.main(["mutate", "merge_attn_stats"]) == 2
    assert "did you mean 'merge_attn_states'" in capsys.readouterr().err
    assert cli.main(["mutate", "merge_attn_states", "--operator", "unheard"]) == 2
    assert "no operator 'unheard'" in capsys.readouterr().err
