"""The usual tests of fixed shapes, as a judge: every operation has some, they are legal cases, and originals pass."""

import pytest

from harness import cases, cli, registry
from harness.lanes import VirtualLane
from harness.mutation import command, fixed, results, styles
from harness.mutation.judge import Oracles
from tests.unit.contract_cases import contract

NAMES = ("ep_dispatch_combine", "merge_attn_states", "mega_moe", "moe_scatter", "mxfp4_moe", "paged_mqa_logits",
         "sparse_mla_decode")  # fmt: skip


def test_every_shipped_contract_has_shapes_and_a_tolerance():
    registry.load(installed=False)
    # other tests of this process register contracts of their own
    shipped = {one.name for one in registry.contracts() if one.inputs.__module__.startswith("harness.contracts.")}
    assert set(NAMES) == set(fixed.SHAPES) == set(fixed.TOLERANCES) == shipped


@pytest.mark.parametrize("name", NAMES)
def test_the_original_passes(name):
    registry.load(("kernels",), installed=False)
    of = contract(name)
    judging = fixed.FixedJudging(VirtualLane(), Oracles(), lambda implementation: implementation)
    for text in fixed.SHAPES[name]:
        result = judging.result(of, registry.implementations(name)[0], cases.parse(of, text))
        assert not result.violations
        assert fixed.CHECK in result.checks_run


def test_a_wrong_result_and_an_exception_are_found():
    of = contract("merge_attn_states")
    sound = registry.implementations("merge_attn_states")[0]
    case = cases.parse(of, fixed.SHAPES[of.name][0])

    class Wrong:
        def __init__(self, launch):
            self.launch = launch

    def doubled(**inputs):
        out, lse = sound.launch(**inputs)
        return out * 2, lse

    def failing(**inputs):
        raise ZeroDivisionError

    judging = fixed.FixedJudging(VirtualLane(), Oracles(), lambda implementation: implementation)
    assert [v.check for v in judging.result(of, Wrong(doubled), case).violations] == [fixed.CHECK]
    assert [v.check for v in judging.result(of, Wrong(failing), case).violations] == ["raises"]


@pytest.fixture
def nothing(tmp_path):
    """Arguments that show a file of no results, which is no whole campaign: the command does not succeed."""
    results.write(tmp_path / "fixed.jsonl", [])
    return ["mutate", "--merge", str(tmp_path / "fixed.jsonl")]


def test_out_has_results_and_the_table(nothing, tmp_path, capsys):
    cli.main([*nothing, "--out", str(tmp_path / "out")])
    assert results.read(tmp_path / "out" / command.RESULTS) == []
    assert (tmp_path / "out" / command.TABLE).read_text() == capsys.readouterr().out


def test_other_results_are_shown_beside(nothing, tmp_path, capsys):
    (tmp_path / "ttsem").mkdir()
    results.write(tmp_path / "ttsem" / command.RESULTS, [])
    others = [str(tmp_path / "fixed.jsonl"), str(tmp_path / "ttsem" / command.RESULTS)]
    cli.main([*nothing, "--beside", *others])
    assert "contract  fixed  ttsem" in capsys.readouterr().out


def test_a_tool_that_is_not_there_is_said_before_anything_runs(capsys, monkeypatch):
    monkeypatch.setitem(styles.TOOLS, "ttsem", "a-package-that-nobody-has")
    assert cli.main(["mutate", "merge_attn_states", "--style", "ttsem"]) == 2
    assert "--style ttsem needs a-package-that-nobody-has, found none" in capsys.readouterr().err
