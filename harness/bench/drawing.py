"""Inputs of a workload, drawn where they will be used."""

from __future__ import annotations

from typing import Any

import torch

from harness.contract import Contract, Inputs
from harness.hardware.drawing import drawn_on
from harness.poison import Poison


def drawn(contract: Contract[Any], case: Any, device: torch.device) -> tuple[Inputs, str]:
    """Return the launch arguments of ``case`` on ``device``, and the type of the device that drew them.

    A contract whose ``inputs`` cannot run there draws on the CPU.
    """
    if device.type != "cpu":
        try:
            with drawn_on(device):
                return contract.inputs(case, device, Poison()), device.type
        except (RuntimeError, TypeError, ValueError):
            torch.cuda.empty_cache()
    return contract.inputs(case, device, Poison()), "cpu"
