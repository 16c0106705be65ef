"""``python -m harness bench`` on stored runs, and what a night does with it."""

import json
import lzma
import os
import subprocess
from pathlib import Path

import pytest

from harness import cli
from harness.bench import accept, command, store
from tests.unit.bench_documents import document

ROOT = Path(__file__).parents[2]
#: Notes how it was called, writes what --out names, and ends as the variable with its action's name says.
FAKE = """#!/usr/bin/env bash
shift 2
echo "$*" >> "$CALLS"
words=("$@")
[[ "$1 $2" == "bench run" && -n ${LOST:-} ]] && exit 2
for place in "${!words[@]}"; do
    if [[ ${words[place]} == --out ]]; then
        mkdir -p "$(dirname "${words[place + 1]}")" && echo '{}' > "${words[place + 1]}"
    fi
    [[ ${words[place]} == --json && -n ${JSON:-} ]] && echo '{}' > "${words[place + 1]}"
done
[[ $* == *" --again "* && -n ${KEPT:-} ]] && echo "$(ls "$NIGHTLY_HISTORY" | wc -l) kept" >> "$CALLS"
[[ $* == *" --again "* ]] && exit "${AGAIN:-0}"
[[ $1 == verify ]] && exit "${VERIFY:-0}"
case $2 in diff) exit "${DIFF:-0}" ;; run) exit "${RUN:-0}" ;; esac
"""


@pytest.fixture
def nights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for night in range(8):
        store.write(tmp_path / "past" / f"{night}.json", document(night=night))
    store.write(tmp_path / "good.json", document(night=9))
    store.write(tmp_path / "slow.json", document(night=9, slower={"mxfp4_moe": 0.08}))
    return tmp_path


def bench(*words):
    return cli.main(["bench", *words])


def test_a_night_is_accepted_compared_and_shown(nights, capsys):
    assert bench("diff", "accepted", "good.json") == cli.UNUSABLE
    said = "no baseline of NVIDIA H200 was accepted; python -m harness bench accept good.json makes one"
    assert said in capsys.readouterr().err
    assert bench("accept", "past/7.json") == cli.PASSED
    assert bench("diff", "accepted", "good.json", "--history", "past") == cli.PASSED
    capsys.readouterr()
    files = ("--markdown", "c.md", "--json", "c.json")
    assert bench("diff", "accepted", "slow.json", "--history", "past", *files) == cli.FAULTY
    said = capsys.readouterr().out
    assert "**2 slower, 4 same**" in said
    assert (nights / "c.md").read_text() == said
    assert bench("history", "past", "slow.json") == cli.PASSED
    assert "+8." in capsys.readouterr().out
    assert bench("page", "slow.json", "--comparison", "c.json", "--history", "past", "--out", "o/p.html") == cli.PASSED
    assert "2 slower" in (nights / "o" / "p.html").read_text()


def test_stored_runs_are_compared_where_they_are_chosen(nights, capsys):
    words = ("diff", "past/7.json", "slow.json", "--history", "past")
    assert bench(*words, "--contract", "merge_attn_states", "--impl", "triton", "--timing", "rot") == cli.PASSED
    assert "**1 same**" in capsys.readouterr().out
    assert bench(*words, "--match", "auto-num_tokens=64") == cli.FAULTY
    assert "**1 slower**" in capsys.readouterr().out


def test_a_smaller_run_is_accepted_on_purpose_only(nights, capsys):
    small = document(night=9)
    store.write(nights / "small.json", small | {"benchmarks": small["benchmarks"][:2]})
    assert bench("accept", "good.json") == cli.PASSED
    assert bench("accept", "small.json") == cli.UNUSABLE
    assert "4 workloads of the base are missing" in capsys.readouterr().err
    assert bench("accept", "small.json", "--allow-missing") == cli.PASSED


def test_what_cannot_be_compared_is_one_line_and_2(nights, capsys):
    for words, said in (
        (("diff", "good.json", "."), "name two of a kind"),
        (("diff", "good.json", "good.json", "--margin", "3"), "margin: wanted a share"),
        (("diff", "past/7.json", "good.json", "--quads", "12"), "--quads: for source trees"),
        (("diff", "past/7.json", "good.json", "--width", "1", "--lane", "cuda"), "--width, --lane: for source"),
        (("diff", "past/7.json", "good.json", "--seconds", "1", "--deadline", "1"), "--seconds, --deadline: for"),
        (("diff", "past/7.json", "good.json", "--contract", "mxfp"), "a benchmark of mxfp"),
        (("diff", "past/7.json", "good.json", "--timing", "dob"), "holds no benchmark that --contract"),
        (("history", "past/0.txt"), "No such file"),
        (("page", "good.json", "--comparison", "good.json", "--out", "p.html"), "a part of the page does not read"),
    ):
        assert bench(*words) == cli.UNUSABLE
        error = capsys.readouterr().err
        assert said in error
        assert len(error.splitlines()) == 1


@pytest.fixture(params=["recorded", *sorted((ROOT / "ci" / "baselines").glob("[!t]*.json"))], ids=str)
def baseline(request, tmp_path):
    """An accepted baseline, or, always, what one would be: a recorded run under the name that ``accept`` gives it."""
    if request.param != "recorded":
        return request.param
    file = tmp_path / "nvidia-h200.json"
    store.write(file, json.loads(lzma.decompress((ROOT / "tests/unit/recordings/bench_run_h200.json.xz").read_bytes())))
    return file


def test_an_accepted_baseline_is_of_the_device_it_is_named_for(baseline, tmp_path):
    file = baseline
    accepted = store.read(file)
    assert accept.path_in(file.parent, str(accepted.device["name"])) == file
    assert {key[0] for key in accepted.entries} <= {path.stem for path in (ROOT / "kernels").glob("[!_]*.py")}
    store.write(tmp_path / "again.json", accepted.document)
    assert (tmp_path / "again.json").read_text() == file.read_text()


def test_a_stored_run_is_shown_as_it_was_printed(nights, capsys):
    assert bench("show", "good.json") == cli.PASSED
    assert capsys.readouterr().out == command.summary(document(night=9))


def test_a_run_says_what_it_found_and_what_it_refused():
    made = document(refused=[{"name": "moe_scatter[auto-x]", "reason": "oracle:out: 3 of 8"}])
    lines = command.summary(made).splitlines()
    assert len(lines) == 1 + 6 + 1
    assert lines[-1] == "REFUSED moe_scatter[auto-x]: oracle:out: 3 of 8"
    assert "0.58" in lines[1]


def test_a_run_of_nothing_says_so(nights, capsys, monkeypatch):
    monkeypatch.setattr(command, "load", lambda modules, folder: None)
    monkeypatch.setattr(command.selection, "pairs", lambda contracts, impl: [])
    for words, said in (((), "none was chosen"), (("--match", "head=3"), "none has 'head=3' in its")):
        assert bench("run", "--lane", "vgpu", "--out", "none.json", *words) == cli.UNUSABLE
        error = capsys.readouterr().err
        assert "nothing to time: wanted workloads for this lane" in error
        assert said in error
    assert not (nights / "none.json").exists()


@pytest.mark.parametrize(
    "words", [("--seconds", "0"), ("--width", "-1"), ("--seconds", "nan"), ("--deadline", "inf")], ids="".join
)
def test_an_effort_that_is_none_is_refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        bench("run", "--blocks", "2", *words)
    assert ended.value.code == cli.UNUSABLE
    assert f"argument {words[0]}: wanted more than 0, got {words[1]}" in capsys.readouterr().err


def test_children_get_the_options_that_choose_what_is_timed():
    parsed = cli._parser().parse_args(
        [
            "bench",
            "run",
            "--contract",
            "mega_moe",
            "--match",
            "=1",
            "--timing",
            "rot",
            "--seconds",
            "0.1",
            "--impl",
            "a",
        ]
    )
    flags = command.passed_on(parsed)
    again = cli._parser().parse_args(["bench", "run", *flags])
    for name in ("contract", "match", "timing", "seconds", "impl", "lane", "width"):
        assert getattr(again, name) == getattr(parsed, name)


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ({}, 0),
        ({"STATION": "1"}, 1),
        ({"VERIFY": "1"}, 1),
        ({"DIFF": "1"}, 1),
        ({"DIFF": "2"}, 2),
        ({"RUN": "2", "VERIFY": "1"}, 1),
    ],
)
def test_a_night_ends_as_the_worst_of_its_steps(tmp_path, ends, status):
    calls, done = _night(tmp_path, **ends)
    assert done.returncode == status
    assert [line.split()[0] + " " + line.split()[1] for line in calls] == [
        "verify --lane", "bench run", "bench diff", "bench page",
    ]  # fmt: skip
    assert calls[1].startswith("bench run --lane cuda --blocks 10 --jobs 8 --out")
    assert calls[2].startswith("bench diff accepted out/nightly/run.json --history")
    assert "--receipt out/nightly/workstation/receipt.json" in calls[3]
    assert "--records out/nightly/verify/records.jsonl" not in calls[3], "there is none"
    assert len(list((tmp_path / "history").iterdir())) == 1


def test_a_night_with_a_base_is_timed_in_turns(tmp_path):
    calls, _ = _night(tmp_path, NIGHTLY_BASE="v1.0")
    assert calls[2].startswith("bench diff v1.0 . --lane cuda --quads 12 --within 14400")


@pytest.mark.parametrize(("diff", "again", "status"), [(1, 0, 0), (1, 1, 1), (1, 2, 1), (0, 1, 1), (0, 2, 2)])
def test_what_is_slower_than_the_baseline_is_timed_again_with_its_commit(tmp_path, diff, again, status):
    calls, done = _night(tmp_path, JSON="1", DIFF=str(diff), AGAIN=str(again))
    words = "bench diff accepted . --again out/nightly/comparison.json --lane cuda --quads 12 --within 1800"
    assert calls[4].startswith(words)
    assert done.returncode == status


def test_what_a_night_found_is_on_a_page_and_in_its_history_before_turns_begin(tmp_path):
    calls, _ = _night(tmp_path, JSON="1", DIFF="1", NIGHTLY_SECONDS="60", KEPT="1")
    assert calls[3].startswith("bench page")
    assert "--comparison out/nightly/comparison.json" in calls[3]
    assert "--within 60" in calls[4]
    assert calls[5] == "1 kept"
    assert calls[6].startswith("bench page")


def test_a_night_that_timed_nothing_compares_nothing(tmp_path):
    calls, done = _night(tmp_path, LOST="1")
    assert [line.split()[:2] for line in calls] == [["verify", "--lane"], ["bench", "run"]]
    assert "comparison: nothing was timed" in done.stderr.decode()
    assert done.returncode == 2


def _night(folder, **variables):
    (folder / "ci").mkdir()
    (folder / "ci" / "nightly").write_text((ROOT / "ci" / "nightly").read_text())
    station = folder / "ci" / "workstation"
    station.write_text(
        '#!/bin/sh\nmkdir -p out/workstation\ntouch out/workstation/receipt.json\nexit "${STATION:-0}"\n'
    )
    station.chmod(0o755)
    (folder / "python").write_text(FAKE)
    (folder / "python").chmod(0o755)
    own = {"PYTHON": str(folder / "python"), "CALLS": str(folder / "calls"), "NIGHTLY_HISTORY": str(folder / "history")}
    environment = {"PATH": os.environ["PATH"], **own, **variables}
    done = subprocess.run(["bash", str(folder / "ci" / "nightly")], env=environment, capture_output=True, timeout=60)
    return (folder / "calls").read_text().splitlines(), done
