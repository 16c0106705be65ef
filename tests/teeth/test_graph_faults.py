"""The capture lint finds every planted fault of host code, at its line, and nothing in launches that are sound."""

from pathlib import Path

import pytest
import torch

from harness.contract import Capturable, Implementation
from harness.graphs import capture_lint
from harness.graphs.cases import graph_cases
from harness.graphs.check import check_capturable
from harness.poison import Poison
from tests.teeth.graph_faults import FAULTS
from tests.teeth.graph_wrappers import CONTRACT, LARGE, SMALL, SOUND
from tests.teeth.planting import Planted, implementation_with
from tests.unit.contract_cases import contract

CPU = torch.device("cpu")
SOURCE = Path(__file__).parent

#: What reaches for the host's knowledge where a kernel of ours does without.
IN_KERNELS = (
    Planted(
        name="grid by the longest sequence",
        file="paged_mqa_logits",
        old="    columns = triton.cdiv(max_seq_len, PAGE_SIZE)\n",
        new="    columns = triton.cdiv(min(max_seq_len, int(seq_lens.max())), PAGE_SIZE)\n",
        check="capturable",
        contract="paged_mqa_logits",
        implementation="triton",
    ),
    Planted(
        name="as many tiles as are used",
        file="_moe_routing",
        old="torch.arange(most_tiles(num_slots, num_experts, block_t), dtype",
        new="torch.arange(int(tile_stops[-1]), dtype",
        check="capturable",
        contract="moe_scatter",
        implementation="auto",
    ),
    Planted(
        name="rows counted in every call",
        file="ep_dispatch_combine",
        old=" and not _capturing(x.device)",
        new="",
        check="capturable",
        contract="ep_dispatch_combine",
        implementation="triton",
    ),
)


def linted(launch):
    small, large = (CONTRACT.inputs(case, CPU, Poison()) for case in (SMALL, LARGE))
    return capture_lint(launch, small, others=[large])


@pytest.mark.parametrize("planted", FAULTS, ids=str)
def test_the_lint_names_the_rule_and_the_line(planted):
    lint = linted(planted.make())
    assert lint.unsupported == ()
    assert {finding.rule for finding in lint.findings} == ({planted.rule} if planted.rule else set())
    if planted.line:
        places = [finding.place for finding in lint.findings]
        assert any(planted.line in Path(at.file).read_text().splitlines()[at.line - 1] for at in places)


@pytest.mark.parametrize("make", SOUND, ids=lambda make: make.__name__)
def test_the_lint_is_silent_on_a_sound_launch(make):
    assert linted(make()).clean


def test_the_check_of_verify_reports_what_the_lint_finds():
    planted = FAULTS[0]
    implementation = Implementation(
        contract=CONTRACT.name, name="planted", launch=planted.make(), capturable=Capturable()
    )
    result = check_capturable(CONTRACT, implementation, SMALL)
    (violation,) = result.violations
    assert result.checks_run == {"capturable"}
    assert "graph_faults.py" in violation.message
    assert "host waits" in violation.message


@pytest.mark.parametrize("planted", IN_KERNELS, ids=str)
def test_the_named_check_kills(planted, tmp_path):
    of = contract(planted.contract)
    with implementation_with(planted, tmp_path) as implementation:
        cases = graph_cases(of, implementation)
        results = [check_capturable(of, implementation, case) for case in cases]
    found = [violation for result in results for violation in result.violations]
    assert found
    assert all(violation.check == planted.check and "host waits" in violation.message for violation in found)


def test_enough_different_faults_are_planted():
    assert len({str(planted) for planted in FAULTS}) == len(FAULTS) >= 16
    assert {planted.rule for planted in FAULTS} > {"waits", "shape", "copies", "keeps", "replaces", "shares", "unread"}
