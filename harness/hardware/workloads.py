"""Real sizes on a device: each workload of a contract judged once, its arguments made once, the oracle on the GPU."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from harness.contract import Contract, Implementation, Inputs
from harness.hardware.drawing import drawn_on
from harness.hardware.lane import DeviceLane
from harness.hardware.room import needed, room_for
from harness.outcome import CaseResult, ContractError
from harness.poison import NAN, QUIET, Poison
from harness.trial import Trial


@dataclass
class _WorkloadTrial(Trial):
    """A trial that makes quiet arguments once: a launch that changes them is found before anything else is.

    Those of a workload are drawn on the device: gigabytes of several at a time are more than a host's memory holds.
    """

    _once: Inputs | None = field(default=None)
    _drawn: bool = field(default=True)

    def inputs(self, poison: Poison, *, oracle: bool = False) -> Inputs:
        if poison.pattern is not QUIET:
            return self._made(poison)
        if self._once is None:
            self._once = self._made(poison)
        return self._once

    def _made(self, poison: Poison) -> Inputs:
        if self._drawn and self.case in self.contract.workloads:
            try:
                with drawn_on(self.lane.device):
                    return super().inputs(poison)
            except ContractError:
                # a contract whose inputs cannot be made there: all of its arguments are a CPU's
                self._drawn = False
        return super().inputs(poison)


def check_workload(
    contract: Contract[Any], implementation: Implementation, case: Any, lane: DeviceLane, *, content: bool = False
) -> CaseResult:
    """Return every violation of ``case`` at its real size, with the oracle on the GPU.

    The oracle's float64 products there differ from a CPU's in the order of sums only, which its budget is blind to.
    Checked are arguments, values in every autotune configuration, what is unwritten, and that a second run gives the
    same bits; with ``content`` also that what may hold anything may.  Raises NoRoom where the device is too small.
    """
    there = replace(lane, oracle_device=lane.device)
    # a second set for content, outputs and what judging them takes
    wanted = needed(contract, case, wide=True) + 2 * needed(contract, case)
    with room_for(wanted, lane.device):
        return _run(_WorkloadTrial(contract, implementation, case, there), content)


def _run(trial: Trial, content: bool) -> CaseResult:
    first = trial.first_launch(0)
    if first is None or trial.result.violations:
        return trial.result
    trial.run_oracles()
    outputs = trial.judge(first)
    for other in trial.other_configs(first, fixed=False, every=True):
        trial.judge_config(other)
    if outputs is not None:
        trial.check_memory(outputs, NAN)
        if trial.contract.deterministic:
            trial.check_repeat(outputs)
        if content:
            trial.check_content(outputs, NAN)
    return trial.result
