"""Known failures in a file: read strictly, matched by features."""

import pytest

from harness import known_file
from harness.contract import Contract, Implementation
from harness.discover import SetupError
from harness.tolerance import Exact
from tests.unit import known_checks

CONTRACT = Contract(name="toy", cases=None, inputs=None, oracle=dict, tolerance={"out": Exact()}, features=frozenset)
MINE = Implementation(contract="toy", name="acme", launch=dict)

FULL = """
[[known]]
contract = "toy"
implementation = "acme"
check = "oracle:out"
features = ["float16", "empty"]
issue = "#41"
kind = "quarantine"
"""


def entries(tmp_path, text):
    (tmp_path / "known.toml").write_text(text)
    return known_file.read(tmp_path / "known.toml")


def test_an_entry_matches_cases_with_all_its_features(tmp_path):
    (known,) = known_file.excused(MINE, CONTRACT, entries(tmp_path, FULL)).known
    assert (known.check, known.issue, known.kind) == ("oracle:out", "#41", "quarantine")
    assert known.match({"float16", "empty", "wide"})
    assert not known.match({"float16"})


def test_only_the_named_implementation_is_excused(tmp_path):
    found = entries(tmp_path, FULL + '[[known]]\ncontract = "toy"\nissue = "#42"\n')
    other = Implementation(contract="toy", name="other", launch=dict)
    assert [known.issue for known in known_file.excused(MINE, CONTRACT, found).known] == ["#41", "#42"]
    assert [known.issue for known in known_file.excused(other, CONTRACT, found).known] == ["#42"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[known]", "does not parse"),
        ("x = 1", "wanted \\[\\[known\\]\\] tables and nothing else"),
        ("known = [1]", "wanted \\[\\[known\\]\\] tables and nothing else"),
        ('[[known]]\ncontract = "toy"\n', "entry 1: issue is missing"),
        ('[[known]]\ncontract = "toy"\nissue = " "\n', "issue: wanted a text"),
        ('[[known]]\ncontract = "toy"\nissue = "#1"\ncheque = "x"\n', "no key 'cheque'"),
        ('[[known]]\ncontract = "toy"\nissue = "#1"\nkind = "ignored"\n', "kind: wanted 'tolerated' or 'quarantine'"),
        ('[[known]]\ncontract = "toy"\nissue = "#1"\nfeatures = "fp16"\n', "features: wanted a list of texts"),
    ],
)
def test_a_wrong_file_says_what_is_wrong_where(tmp_path, text, message):
    with pytest.raises(SetupError, match=message):
        entries(tmp_path, text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SetupError, match=r"nowhere\.toml: No such file"):
        known_file.read(tmp_path / "nowhere.toml")


def test_graphs_are_checked_with_what_the_file_excuses():
    known_checks.graphs_are_checked_with_what_the_file_excuses()


def test_tools_are_told_what_the_file_excuses(tmp_path):
    known_checks.tools_are_told_what_the_file_excuses(tmp_path)
