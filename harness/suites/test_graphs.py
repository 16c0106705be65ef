"""Every registered implementation that says it is capturable keeps the CUDA-graph contract, on the GPU of a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.contract import Contract, Implementation

if TYPE_CHECKING:
    from harness.device.targets import Target

pytestmark = pytest.mark.conformance(capturable=True)


@pytest.mark.isolated(deadline=300.0)
def test_keeps_the_cuda_graph_contract(
    contract: Contract[Any], implementation: Implementation, gpu_target: Target, request: pytest.FixtureRequest
) -> None:
    from harness import known_file
    from harness.device.targets import TARGETS
    from harness.graphs import check_graphs

    able = implementation.requires.targets
    if able and gpu_target.marker not in able:
        pytest.skip(f"needs {' or '.join(TARGETS[marker].arch for marker in able)}, found {gpu_target.arch}")
    excused = known_file.excused_by(request.config, implementation, contract)
    found = check_graphs(contract, excused)
    if found:
        lines = [f"{violation.check}: {violation.message}\n    {violation.case}" for violation in found]
        pytest.fail("\n".join(lines), pytrace=False)
