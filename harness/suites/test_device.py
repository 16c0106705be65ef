"""Every registered implementation keeps its contract on the GPU that is here: ``pytest -m sm120``.

How much runs is a matter of the Hypothesis profile: ``quick`` draws few cases and runs a workload for each way through
the launch functions, longer lists and pools past 2^31 bytes, ``ci`` draws more and runs every workload, ``nightly``
draws many and fills what may hold anything at real sizes too.  So is how long it may take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.contract import Contract, Implementation

if TYPE_CHECKING:
    from harness.device import Target

pytestmark = [pytest.mark.conformance, pytest.mark.cuda]


def _deadline(config: pytest.Config) -> float:
    from harness.hardware import suite

    return suite.deadline(config)


@pytest.mark.isolated(deadline=_deadline)
def test_keeps_its_contract_on_the_device(
    contract: Contract[Any], implementation: Implementation, gpu_target: Target, request: pytest.FixtureRequest
) -> None:
    from harness.hardware import suite

    _judge(suite.searched(contract, implementation, gpu_target, request.config), request.node)


@pytest.mark.isolated(deadline=_deadline)
def test_keeps_its_contract_at_real_sizes(
    contract: Contract[Any],
    implementation: Implementation,
    gpu_target: Target,
    workload: int,
    request: pytest.FixtureRequest,
) -> None:
    from harness.hardware import suite

    _judge(suite.at_real_size(contract, implementation, gpu_target, workload, request.config), request.node)


def _judge(judged: Any, item: pytest.Item) -> None:
    item.user_properties.extend(("passed over", reason) for reason in judged.passed_over)
    if judged.problem:
        pytest.fail(judged.problem, pytrace=False)
    if judged.lacking:
        pytest.skip(judged.lacking)
