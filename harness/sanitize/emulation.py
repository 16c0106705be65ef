"""One emulated device for the whole process, and one checked session of it at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.launch.physical import physical_from
from harness.poison import NAN
from harness.sanitize import driver, errors, factories, surface
from harness.sanitize.autocast import Autocast
from harness.sanitize.facts import Facts, facts
from harness.sanitize.generators import Random
from harness.sanitize.mode import Emulation
from harness.sanitize.patches import Patches
from harness.sanitize.places import Places
from harness.sanitize.report import FaultLine, Tally
from harness.sanitize.tensors import Tensors
from harness.vgpu import KernelFault, Limits, UnsupportedOperation, VirtualGPU

#: The option of pytest's by which a run's settings reach xdist's workers, as JSON.
OPTION = "--sanitize-options"


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to run: target profile, autotune configuration by number, what counts as a fault, when a loop hangs.

    ``strict``: a load of unwritten memory is a fault.  ``allow_untrusted``: operations outside of the proven set do not
    fail the run.  ``races``: look for races between programs.  ``loop_seconds``: after this time in one loop of a
    kernel it is a hang.
    """

    target: str = "sm_120"
    strict: bool = False
    allow_untrusted: bool = False
    config: int = 0
    races: bool = False
    loop_seconds: float = 60.0


class Session:
    """A stretch of the program, a test usually, with a virtual GPU of its own."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.name = name
        self.faults: list[KernelFault] = []
        self._machine = machine
        options = machine.options
        self._gpu = VirtualGPU(
            profile=options.target,
            config=options.config,
            races=options.races,
            allocator=True,
            fill=NAN,
            unwritten_reads="fault" if options.strict else "record",
            limits=Limits(seconds=options.loop_seconds),
        )
        self._stack = contextlib.ExitStack()

    def open(self) -> None:
        """Begin to watch."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._gpu)
            stack.enter_context(driver.launches(self._machine.places, self.faults.append))
            # last, so that what the virtual GPU watches has the CPU for its device
            stack.enter_context(Emulation(self._machine.places, self._machine.random))
            self._stack = stack.pop_all()

    def close(self) -> Tally:
        """Stop, and return what happened."""
        self._stack.close()
        tally = Tally(untrusted=set(self._gpu.untrusted))
        for launch in self._gpu.launches:
            tally.launch(launch.kernel, launch.programs, launch.seconds, launch.configs)
        for suspect in self._gpu.suspects:
            tally.unwritten[str(suspect).removeprefix("unwritten bytes read in ")] = 1
        for fault in self.faults:
            if isinstance(fault, UnsupportedOperation):
                errors.USES[f"tl: {fault.operation}"] += 1
            else:
                tally.faults.append(FaultLine(self.name, fault.kernel, fault.file, fault.line, str(fault)))
        tally.unsupported = dict(errors.USES)
        errors.USES.clear()
        return tally


class Machine:
    """The emulated device; ``tally`` counts over all sessions that have ended."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.facts: Facts = facts(options.target)
        self.places = Places()
        self.random = Random()
        self.tally = Tally()
        self.session = Session(self, "before the first test")

    def renew(self, name: str) -> None:
        """End the session and begin one called ``name``."""
        self.tally.add(self.session.close())
        self.session = Session(self, name)
        self.session.open()

    def current_device(self) -> int:
        """Return 0, for ``harness.launch``."""
        return 0

    def context(self, device: int) -> str:
        """Return what limits the device: nothing but itself."""
        return self.options.target

    def count(self, device: int) -> int:
        """Return the device's SMs or CUs."""
        return self.facts.properties.multi_processor_count

    def _thread(self, original: Any) -> Any:
        machine = self

        def run(self: threading.Thread) -> None:
            # modes belong to a thread
            with Emulation(machine.places, machine.random):
                original(self)

        return run


@contextlib.contextmanager
def emulate(options: Options) -> Iterator[Machine]:
    """Emulate a GPU inside the block, in all threads; kernels run in this one.

    Raises ValueError for an unknown target, RuntimeError for a Triton that is not supported.
    """
    machine = Machine(options)
    patches = Patches()
    with contextlib.ExitStack() as stack:
        stack.callback(patches.restore)
        tensors = Tensors(machine.places)
        tensors.install(patches)
        factories.install(patches, machine.places, tensors)
        surface.install(patches, surface.Surface(machine.facts, machine.places, machine.random), machine.facts)
        Autocast(machine.places).install(patches)
        driver.install(patches, machine.facts)
        patches.set(threading.Thread, "run", machine._thread(threading.Thread.run))
        stack.enter_context(physical_from(machine))
        machine.session.open()
        try:
            yield machine
        finally:
            machine.tally.add(machine.session.close())
