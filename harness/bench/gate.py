"""No time without a right result: a case is judged by the contract's own engine before it is timed."""

from __future__ import annotations

from typing import Any

import torch

from harness.contract import Contract, Implementation, Inputs
from harness.copies import copied, storage_bytes
from harness.lanes import Lane
from harness.outcome import ContractError, described
from harness.poison import Poison
from harness.trial import Trial

#: Oracles of smaller inputs run on the host: they go page by page, and each step costs a launch on a device.
_HOST_BYTES = 128 * 2**20


class Gate:
    """Judges every implementation of one case on ``inputs``; what the oracle says is asked once."""

    def __init__(self, contract: Contract[Any], case: Any, lane: Lane, inputs: Inputs) -> None:
        self._contract, self._case, self._lane, self._inputs = contract, case, lane, inputs
        self._asked: Trial | None = None
        #: Whether memory ran out: what could not be checked beside others may be checked alone.
        self.out_of_memory = False
        small = lane.device.type != "cpu" and storage_bytes(inputs) <= _HOST_BYTES
        self._for_oracles = copied(inputs, torch.device("cpu")) if small else inputs

    def refusal(self, implementation: Implementation) -> str | None:
        """Return why ``implementation`` must not be timed on this case, or None where it is right.

        ContextLost is let out: nothing can be timed after it.
        """
        trial = _Built(self._contract, implementation, self._case, self._lane, self._inputs, self._for_oracles)
        try:
            execution = trial.first_launch(0)
            if execution is not None:
                if self._asked is None:
                    trial.run_oracles()
                    self._asked = trial
                trial.low, trial.high, trial.magnitude = self._asked.low, self._asked.high, self._asked.magnitude
                trial.judge(execution)
        except ContractError as error:
            return str(error)
        except (MemoryError, RuntimeError) as error:
            self.out_of_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
            return f"it could not be checked: {described(error).splitlines()[0]}"
        if trial.result.violations:
            first = trial.result.violations[0]
            return f"{first.check}: {first.message}"
        if execution is None:
            return f"the lane cannot model {', '.join(sorted(trial.result.untrusted))}"
        return None


class _Built(Trial):
    """A trial on inputs that were built before, by whoever times them."""

    def __init__(
        self,
        contract: Contract[Any],
        implementation: Implementation,
        case: Any,
        lane: Lane,
        inputs: Inputs,
        for_oracles: Inputs,
    ) -> None:
        super().__init__(contract, implementation, case, lane)
        self._given, self._for_oracles = inputs, for_oracles

    def inputs(self, poison: Poison, *, oracle: bool = False) -> Inputs:
        """Return them again; that a launch leaves them alone is one of the checks."""
        return self._for_oracles if oracle else self._given
