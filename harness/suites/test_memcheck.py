"""Every registered implementation under NVIDIA's compute-sanitizer: no access out of bounds, no race, no hang at a
barrier, no read of memory that nobody wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.contract import Contract, Implementation
from harness.report import table

if TYPE_CHECKING:
    from harness.device.targets import Target

pytestmark = [pytest.mark.conformance, pytest.mark.isolated(deadline=200.0)]


def test_the_tools_find_nothing(
    request: pytest.FixtureRequest, contract: Contract[Any], implementation: Implementation, gpu_target: Target
) -> None:
    from harness import discover, known_file
    from harness.hardware import selection
    from harness.memcheck import command, lane

    emulated = gpu_target.arch if selection.is_emulated(request.node) else ""
    if missing := command.lacks(implementation, emulated):
        pytest.skip(missing)
    config = request.config
    job = lane.Job(
        contract=contract.name,
        implementation=implementation.name,
        modules=(*config.getini("conformance_modules"), *discover.adapters(config.getoption("impl"))),
        folder=str(config.rootpath),
        device=selection.device_index(request.node) or 0,
        emulated=emulated,
        known=str(known.resolve()) if (known := config.getoption("known")) else "",
    )
    excused = known_file.excused_by(config, implementation, contract)
    results = lane.run([job], excused=command.excused([(contract, excused)]))
    if all(result.judgement.idle for result in results):
        pytest.skip(results[0].judgement.note)
    summary = command.ToolSummary(records=tuple(result.record() for result in results))
    if not summary.good:
        pytest.fail(table.render(summary), pytrace=False)
