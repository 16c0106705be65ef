"""The device lane: contracts' cases on the GPU that is here, through the same checks as on the virtual GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.arguments import tensors
from harness.compare import bits
from harness.contract import Contract, Inputs
from harness.device import Target, detect
from harness.hardware import placing, probe
from harness.hardware.emulation import CannotEmulate, emulating, lacking
from harness.hardware.launches import watching
from harness.hardware.memory import Filled, digests
from harness.hardware.room import SETS, needed, room_for
from harness.lanes import ContextLost, Execution, NoRoom, Unwritten
from harness.launch.current import current_target
from harness.outcome import described
from harness.poison import QUIET, Pattern

_CPU = torch.device("cpu")
#: Two contents of new memory, as bytes: an element that shows both was not written.
_FIRST, _SECOND = 0x00, 0x5A


class InputChanged(RuntimeError):
    """A launch wrote to an argument that is too large to be copied and compared."""


@dataclass(frozen=True)
class Missed:
    """How much of a tensor was never written."""

    count: int
    total: int
    first_index: tuple[int, ...]


@dataclass(frozen=True)
class DeviceLane:
    """The GPU ``device``; with ``emulated``, launched for that target instead of its own.

    New memory holds what it is told to; arguments are compared by the trial or, large ones, by a digest here.  An
    element is unwritten if it holds, after launches into two contents, either content.  ``oracle_device`` is where
    oracles run: a case that is small is done first on a CPU.  ``refused`` gathers why forms could not be emulated.
    """

    device: torch.device
    emulated: Target | None = None
    oracle_device: torch.device = _CPU
    refused: set[str] = field(default_factory=set, compare=False, repr=False)
    passed_over: set[str] = field(default_factory=set, compare=False, repr=False)

    @contextmanager
    def room(self, contract: Contract[Any], case: Any) -> Iterator[None]:
        """Wait until the device has memory for ``case``; raises NoRoom, which ``passed_over`` notes, or Busy."""
        try:
            with room_for(SETS * needed(contract, case), self.device):
                yield
        except NoRoom as error:
            self.passed_over.add(str(error))
            raise

    def run(self, launch: Callable[..., Any], inputs: Inputs, *, config: int = 0, fill: Pattern = QUIET) -> Execution:
        """Call ``launch(**inputs)`` and wait for it.

        Raises MemoryError where the device's memory runs out and ContextLost after a fault that ends the context:
        both end a search.
        """
        before = digests(inputs)
        result, error, kernels, configs, chosen = self._launch(launch, inputs, config, fill)
        changed = [path for path, digest in digests(inputs).items() if digest != before[path]] if before else []
        if changed and error is None:
            error = InputChanged(f"{changed[0]}: the launch wrote to it or to the storage around it")
        if isinstance(error, CannotEmulate):
            self.refused.add(str(error))
        return Execution(
            result=result,
            error=error,
            fault=isinstance(error, InputChanged),
            unsupported=str(error) if isinstance(error, CannotEmulate) else None,
            kernels=kernels,
            configs=configs,
            config=chosen,
            unwritten=_Unwritten(self, launch, inputs, config, result),
        )

    def _launch(
        self, launch: Callable[..., Any], inputs: Inputs, config: int, fill: Pattern | int
    ) -> tuple[Any, Exception | SystemExit | None, int, int, str]:
        result, error = None, None
        scope = nullcontext() if self.emulated is None else emulating(self.emulated)
        with torch.cuda.device(self.device), watching(config=config) as seen, scope, Filled(self.device, fill):
            try:
                result = launch(**inputs)
                torch.cuda.synchronize()
            # sys.exit in a launch would end the search without a word
            except (Exception, SystemExit) as raised:
                error = raised
        if isinstance(error, Exception):
            if probe.is_out_of_memory(error):
                torch.cuda.empty_cache()
                raise MemoryError(probe.first_line(error)) from error
            if probe.sticky_error() is not None:
                raise ContextLost(f"{described(error)}; the GPU context is lost") from error
        return result, error, seen.kernels, seen.configs, seen.config


def device_lane(target: Target | None = None) -> DeviceLane:
    """Return the lane for ``target``, by default that of the current GPU.

    That is the current GPU if it is such a target, else the first one here that is, else one that stands in for it.
    Raises CannotEmulate where none can.
    """
    current = torch.device("cuda", torch.cuda.current_device())
    if target is None or _is(current, target):
        return DeviceLane(current)
    machine = detect()
    if device := placing.device_of(target, machine):
        return DeviceLane(torch.device("cuda", device.index))
    spare = placing.stand_in(target, machine)
    if spare is None:
        raise CannotEmulate(f"needs {target.arch} or a GPU that can stand in for it, found {machine}")
    if short := lacking(spare.target, target):
        raise CannotEmulate(f"needs {target.arch}: {spare.arch}, which is here, has no {', '.join(short)}")
    return DeviceLane(torch.device("cuda", spare.index), target)


def _is(device: torch.device, target: Target) -> bool:
    try:
        return current_target(device) == target
    except ValueError:
        # one that has no name here
        return False


class _Unwritten:
    """Finds what a launch does not write, by launching again into two contents, once and only when asked."""

    def __init__(self, lane: DeviceLane, launch: Callable[..., Any], inputs: Inputs, config: int, result: Any) -> None:
        self._lane = lane
        self._launch = launch
        self._inputs = inputs
        self._config = config
        self._paths = {id(tensor): path for path, tensor in _outputs(result).items()}
        self._again: tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]] | None = None

    def __call__(self, tensor: torch.Tensor) -> Unwritten | None:
        path = self._paths.get(id(tensor))
        if path is None:
            return None
        if self._again is None:
            self._again = self._outputs_with(_FIRST), self._outputs_with(_SECOND)
        first, second = (outputs.get(path) for outputs in self._again)
        if first is None or second is None or first.shape != second.shape:
            # a launch that does not repeat itself is another check's
            return None
        missed = (_as_bytes(first) == _FIRST) & (_as_bytes(second) == _SECOND)
        # every byte of an element
        elements = missed.view(*first.shape, first.element_size()).all(-1)
        count = int(elements.sum())
        if not count:
            return None
        place = tuple(int(index) for index in elements.nonzero()[0])
        return Missed(count, first.numel(), place)

    def _outputs_with(self, content: int) -> dict[str, torch.Tensor]:
        result, error, *_ = self._lane._launch(self._launch, self._inputs, self._config, content)
        return {} if error is not None else _outputs(result)


def _outputs(result: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of a launch's result by where they stand in it."""
    return tensors(dict(result) if isinstance(result, Mapping) else {"": result})


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return bits(tensor).reshape(-1).view(torch.uint8)
