"""The capture lint: the host code of a launch, run on an emulated device, first as it is and then as if captured.

No kernel runs and none is compiled, so a lint takes milliseconds; what kernels do wrong in a graph is for a GPU to show
(``harness.graphs.suite``).  Not seen either: memory that is not torch's, compiled extensions, ``torch.compile``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.arguments import tensors
from harness.contract import Inputs
from harness.device.machine import Device
from harness.device.machine import Machine as Detected
from harness.device.targets import Vendor
from harness.graphs import generators
from harness.graphs.findings import Finding, Rule, raising_place, user_place
from harness.graphs.kernels import Kernels
from harness.graphs.rules import TO_HOST, broken, tensors_of
from harness.graphs.storages import Storages
from harness.graphs.streams import Captured
from harness.outcome import described
from harness.sanitize import errors, streams
from harness.sanitize.emulation import Machine, Options, emulate
from harness.sanitize.errors import Unsupported
from harness.sanitize.patches import Patches
from harness.sanitize.places import Place, is_below
from harness.sanitize.tensors import Tensors


@dataclass(frozen=True)
class Lint:
    """What one lint found.  ``unsupported`` names what the emulation lacks; with any, nothing found proves nothing."""

    findings: tuple[Finding, ...] = ()
    unsupported: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether the launch can be captured, as far as its host code goes."""
        return not self.findings and not self.unsupported


def capture_lint(
    launch: Callable[..., Any], inputs: Inputs, *, target: str = "sm_120", others: Iterable[Inputs] = ()
) -> Lint:
    """Return which lines of ``launch(**inputs)`` a CUDA graph cannot hold, each once for each rule that it breaks.

    ``inputs`` holds CPU tensors, which stand for the device's; ``launch`` runs on them once as a first call, in
    inference mode, and twice as if under capture, each time on a stream of its own.  Then it runs on each of
    ``others``, inputs of other sizes, which must not take away what the graph uses.  Nothing is computed by kernels:
    new memory holds NaN and integers of the highest value.

    Raises ValueError for an unknown ``target`` and for a tensor that is on a device already, RuntimeError for a Triton
    that the virtual GPU does not support.
    """
    others = list(others)
    for given in (inputs, *others):
        for name, tensor in tensors(given).items():
            if tensor.device.type != "cpu":
                raise ValueError(f"{name}: wanted a CPU tensor, which stands for the device's, got {tensor.device}")
    with emulate(Options(target=target)) as machine:
        run = _Run(machine, tensors(inputs))
        # what is not supported is counted, also where the launch caught the error
        with run.watching(), suppress(Unsupported):
            run.lint(launch, inputs, others)
        unsupported = tuple(sorted(errors.USES))
    return Lint(run.found(), unsupported)


class _Run:
    """One lint on one emulated device."""

    def __init__(self, machine: Machine, arguments: dict[str, torch.Tensor]) -> None:
        self._machine = machine
        self._storages = Storages(arguments)
        self._streams = Captured()
        self._found: dict[tuple[str, str], Finding] = {}
        self._quiet = 0
        for tensor in arguments.values():
            machine.places.mark(tensor, Place.DEVICE)

    def found(self) -> tuple[Finding, ...]:
        """Return the findings in the order in which they were met."""
        return tuple(self._found.values())

    def lint(self, launch: Callable[..., Any], inputs: Inputs, others: list[Inputs]) -> None:
        """Run ``launch`` on all inputs, on its own ones as if captured too."""
        try:
            with torch.inference_mode():
                launch(**inputs)
            # twice: graphs of one launch must not share what it returned
            for phase in ("capture", "second capture"):
                self._storages.phase = phase
                self._capture(launch, inputs)
            self._storages.phase = "others"
            for given in others:
                for tensor in tensors(given).values():
                    self._machine.places.mark(tensor, Place.DEVICE)
                launch(**given)
            for finding in self._storages.after_others():
                self._keep(finding)
        except Unsupported:
            raise
        except Exception as error:
            # a value that no kernel computed may lead anywhere once it was read
            if not self._found:
                phase = self._storages.phase
                during = "" if phase == "capture" else f"in the {phase} launch: "
                self._keep(Finding("raises", f"{during}{described(error)}", raising_place(error)))

    def _capture(self, launch: Callable[..., Any], inputs: Inputs) -> None:
        stream = streams.Stream()
        with streams.StreamContext(stream):
            self._streams.begin(stream)
            result = launch(**inputs)
            if self._streams.forked:
                self.add("stream", "a stream works for the capture, which does not wait for it before it ends")
        self._streams.end()
        for finding in self._storages.after_capture(result):
            self._keep(finding)

    def add(self, rule: Rule, message: str) -> None:
        """Record a rule broken at the line that runs, if it runs under capture."""
        if self._streams.capturing is not None and not self._quiet:
            self._keep(Finding(rule, message, user_place()))

    def _keep(self, finding: Finding) -> None:
        self._found.setdefault((finding.site, finding.message), finding)

    def on_device(self, tensor: torch.Tensor) -> bool:
        """Whether ``tensor`` stands for memory of the device."""
        return self._machine.places.of(tensor) is Place.DEVICE

    def on_host(self, tensor: torch.Tensor) -> bool:
        """Whether ``tensor`` is in memory of the host, and not one that torch made by itself on some device."""
        return self._machine.places.of(tensor) in (Place.HOST, Place.PINNED)

    def drawing(self, generator: Any) -> None:
        """Note that numbers are drawn from ``generator``, None for the default one."""
        if generators.is_unknown(generator, self._machine.random.generator):
            self.add("raises", "draws from a generator of the device that no graph knows, as the default one is")

    def touch(self, what: str, given: list[torch.Tensor]) -> None:
        """Note that ``what``, a kernel or an operation, works on ``given`` now."""
        self._storages.used(given)
        if given and self._is_outside():
            self.add("stream", f"{what} runs on a stream that does not wait for the captured one: no replay repeats it")

    def _is_outside(self) -> bool:
        return self._streams.capturing is not None and streams.current_stream() not in self._streams.inside

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at everything that happens inside the block."""
        patches = Patches()
        with ExitStack() as stack:
            stack.callback(patches.restore)
            Kernels(self._launched, self._worked).install(patches)
            self._streams.install(patches)
            self._watch_memory(patches)
            self._watch_copies(patches)
            self._watch_waits(patches)
            generators.watch(patches, lambda message: self.add("raises", message))
            self._answer_questions(patches)
            stack.enter_context(_Operations(self))
            yield

    def _launched(self, kernel: str, given: list[torch.Tensor]) -> None:
        self.touch(f"kernel {kernel}", given)

    def _worked(self, rule: Any, kernel: str) -> None:
        done = "compiled" if rule == "compiles" else "tuned"
        self.add(rule, f"kernel {kernel} is {done} during capture: the first call launched it with other arguments")

    def _watch_memory(self, patches: Patches) -> None:
        places = self._machine.places
        mark = places.mark

        def marked(tensor: torch.Tensor, place: Place) -> None:
            mark(tensor, place)
            if place is Place.DEVICE:
                self._storages.made(tensor)
                if self._is_outside():
                    self.add("stream", "allocates on a stream outside of the capture: not from the pool of the graph")

        patches.set(places, "mark", marked)

    def _watch_copies(self, patches: Patches) -> None:
        places = self._machine.places
        copy = Tensors.copy

        def copied(ours: Tensors, tensor: torch.Tensor, place: Place, dtype: Any, layout: Any) -> torch.Tensor:
            source = places.of(tensor)
            if place is Place.HOST and source is Place.DEVICE:
                self.add("waits", TO_HOST)
            elif place is Place.DEVICE and source is Place.PINNED:
                self.add("copies", "copies pinned memory of the host: a replay reads what is there then")
            elif place is Place.DEVICE:
                self.add("copies", "copies pageable memory of the host to the device")
            return copy(ours, tensor, place, dtype, layout)

        def from_data(original: Callable[..., Any]) -> Callable[..., Any]:
            def make(data: Any, *args: Any, **kwargs: Any) -> Any:
                made = original(data, *args, **kwargs)
                if not isinstance(data, torch.Tensor) and self.on_device(made):
                    self.add("copies", "makes a tensor of the device from the host's data: a copy from pageable memory")
                return made

            return make

        patches.set(Tensors, "copy", copied)
        for name in ("tensor", "as_tensor", "asarray"):
            patches.set(torch, name, from_data(getattr(torch, name)))

    def _watch_waits(self, patches: Patches) -> None:
        def noting(original: Callable[..., Any], name: str) -> Callable[..., Any]:
            def method(*args: Any, **kwargs: Any) -> Any:
                self.add("waits", f"{name}: the host waits for the device")
                return original(*args, **kwargs)

            return method

        for owner, names in (
            (torch.cuda, ("synchronize",)),
            (torch.accelerator, ("synchronize",)),
            (streams.Stream, ("synchronize", "query")),
            (streams.Event, ("synchronize", "query", "elapsed_time")),
        ):
            for name in names:
                patches.set(owner, name, noting(getattr(owner, name), f"{owner.__name__}.{name}()"))
        tolist = torch.Tensor.tolist

        def listed(tensor: torch.Tensor) -> Any:
            if self.on_device(tensor):
                self.add("waits", "tolist() copies a tensor of the device: the host waits for the device")
            return tolist(tensor)

        patches.set(torch.Tensor, "tolist", listed)

    def _answer_questions(self, patches: Patches) -> None:
        def capturing() -> bool:
            return streams.current_stream() in self._streams.inside

        graphs = importlib.import_module("torch.cuda.graphs")
        patches.set(torch.cuda, "is_current_stream_capturing", capturing)
        # what code asks that bound torch's function before the emulation began
        patches.set(graphs, "_cuda_isCurrentStreamCapturing", capturing)
        facts = self._machine.facts
        units = self._machine.count(0)
        vendor: Vendor = "rocm" if facts.hip else "cuda"
        found = Detected(devices=(Device(index=0, vendor=vendor, arch=self._machine.options.target, units=units),))
        patches.set(importlib.import_module("harness.device.detect"), "_detect", lambda environment: found)
        functional = importlib.import_module("torch.nn.functional")
        one_hot = functional.one_hot

        def without_looking(tensor: torch.Tensor, num_classes: int = -1) -> Any:
            # only the CPU's form checks the values of a tensor whose number of classes is given
            self._quiet += num_classes >= 0
            try:
                return one_hot(tensor, num_classes)
            finally:
                self._quiet -= num_classes >= 0

        patches.set(functional, "one_hot", without_looking)


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Looks at every torch operation, then lets the emulation run it."""

    def __init__(self, run: _Run) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._run = run

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # the wrapper that the base class would put around us imports all of torch._dynamo, seconds of it
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not is_below():
            run = self._run
            if complaint := broken(func, args, kwargs, run.on_device, run.on_host):
                run.add(*complaint)
            run.drawing(kwargs.get("generator"))
            if not func.is_view:
                given = tensors_of((*args, *kwargs.values()))
                run.touch(func._schema.name, [tensor for tensor in given if run.on_device(tensor)])
        return func(*args, **kwargs)
