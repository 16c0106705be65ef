"""``VirtualGPU``: a context in which every Triton launch runs on the CPU, checked."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves

from harness.launch.physical import Described, physical_from
from harness.vgpu.builder import Builder
from harness.vgpu.execution import Execution
from harness.vgpu.faults import Suspect
from harness.vgpu.interpreter import Interpreter
from harness.vgpu.launch import Arguments, Runner, add_place, check_warps, grid_of
from harness.vgpu.limits import Limits
from harness.vgpu.profiles import Profile
from harness.vgpu.profiles import profile as profile_named
from harness.vgpu.races import Races
from harness.vgpu.schedule import COMPUTE_UNITS, Schedule
from harness.vgpu.shadow import Pattern, Shadow, Unwritten, Watch
from harness.vgpu.traffic import Counter, Traffic
from harness.vgpu.triton_adapter import Adapter, adapter

#: Largest block seen, by kernel and the constants it was launched with: how many programs to run at once.
_BLOCKS: dict[tuple[Any, ...], int] = {}
#: Interpreters that no session uses, with what they know of kernels.
_IDLE: list[Interpreter] = []
#: Sessions that one interpreter serves: it keeps the kernels that it has seen.
_MOST_USES = 200


@dataclass(frozen=True)
class Launch:
    """One kernel launch: its name, grid, which of how many autotune configurations, programs, and wall time.

    ``given`` holds the numbers and words among the keyword arguments: constants and options.  ``traffic`` is what it
    moved, where that was counted.
    """

    kernel: str
    grid: tuple[int, int, int]
    config: int
    configs: int
    programs: int
    seconds: float
    given: Mapping[str, Any] = field(default_factory=dict)
    traffic: Traffic | None = None


class VirtualGPU:
    """Context manager that runs Triton kernels on CPU tensors, with every access checked.

    ``profile``: name of the target whose numeric rules apply.  ``config``: which pruned configuration of an
    autotuned kernel runs, modulo their number.  ``protect``: tensors, by name, that no kernel may write.
    ``fill``: what memory from ``torch.empty`` holds; None leaves it as it is.  ``unwritten_reads``: ``"record"``
    keeps loads of unwritten bytes in ``suspects``, ``"fault"`` raises UnwrittenRead.  ``batch=False`` runs one
    program at a time.  ``limits``: when a loop counts as a hang.

    ``schedule``: how programs that wait for each other, or touch memory atomically, are interleaved; without one they
    run in step as long as they can, and take turns by ``Schedule()`` when they wait for each other.  Code that asks
    how many SMs there are (``harness.launch.sm_budget``) is told of as many as it says.  ``races``: look
    for accesses of different programs to one element that nothing orders; two stores of the same value count only if
    it is ``"strict"``.  Kernels whose atomics order anything then run one program at a time, in turns.  ``on_launch``
    is called with the kernel, its arguments and its keyword arguments, options too, before each launch; what it raises
    comes out of the launch.  ``allocator``: whether a descriptor that a kernel makes needs ``triton.set_allocator``
    first, as it does on hardware, where it is kept in memory that the launch asks for.

    ``sample``: of each grid run only so many programs, the first and the last among them; 0 is all.  What they compute
    is not what the launch computes, but where they read and write is.  ``count``: count what each launch moves.
    ``native``: kernels that ask what compiles them hear that it is the target's own compiler, and take their forms with
    assembly; ``forms`` says whether one asked.

    Raises RuntimeError on entry if Triton is not of a supported version or another virtual GPU is active in this
    thread.  A fault is raised out of the launch as a KernelFault.
    """

    def __init__(
        self,
        *,
        profile: str = "sm_120",
        config: int = 0,
        protect: Mapping[str, Any] | None = None,
        fill: Pattern | None = None,
        unwritten_reads: Literal["record", "fault"] = "record",
        batch: bool = True,
        limits: Limits | None = None,
        schedule: Schedule | None = None,
        races: bool | Literal["strict"] = False,
        allocator: bool = False,
        on_launch: Callable[[Any, tuple[Any, ...], dict[str, Any]], object] | None = None,
        sample: int = 0,
        count: bool = False,
        native: bool = False,
    ) -> None:
        if unwritten_reads not in ("record", "fault"):
            raise ValueError(f"unwritten_reads={unwritten_reads!r}: 'record' or 'fault' is needed")
        if races not in (False, True, "strict"):
            raise ValueError(f"races={races!r}: False, True or 'strict' is needed")
        self.launches: list[Launch] = []
        self.configs = 1
        self.suspects: list[Suspect] = []
        self.untrusted: set[str] = set()
        self._profile = profile_named(profile)
        self._config = config
        self._protect = dict(protect or {})
        self._unwritten_reads = unwritten_reads
        self._batch = batch
        self._limits = limits or Limits()
        self._schedule = schedule
        self._races = races
        self._on_launch = on_launch
        self._allocator = allocator
        self._sample = sample
        self._count = count
        self._native = native
        self._shadow = Shadow(fill)
        self._stack = contextlib.ExitStack()
        self._chosen = (0, 1)
        self._tuned: set[int] = set()
        self._seen: set[tuple[str, str, int, str]] = set()

    def __enter__(self) -> VirtualGPU:
        """Install the interception of launches and the watch over torch's allocations."""
        self._adapter = adapter()
        self._interpreter = _interpreter(self._adapter, self._profile)
        self._builder = self._interpreter.builder
        self._builder.options = replace(self._builder.options, native=self._native, asked=[])
        self._builder.scratch = self._adapter.scratch if self._allocator else None
        self._arguments = Arguments(self._interpreter, self._shadow)
        for name, value in self._protect.items():
            for leaf in tree_leaves(value):
                if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu":
                    self._shadow.protect(name, leaf)
        with contextlib.ExitStack() as stack:
            stack.enter_context(physical_from(Described(self._units())))
            stack.enter_context(self._adapter.patched(self._run, self._tune))
            self._watch = stack.enter_context(Watch(self._shadow))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore Triton, whatever happened."""
        self._stack.__exit__(kind, error, trace)
        self._interpreter.rest()
        if self._interpreter.uses < _MOST_USES:
            _IDLE.append(self._interpreter)

    def unwritten(self, tensor: torch.Tensor) -> Unwritten | None:
        """Return which elements of ``tensor`` no kernel and no torch operation wrote, or None if there are none."""
        return self._shadow.unwritten(tensor)

    @property
    def forms(self) -> bool:
        """Whether a kernel asked what it is compiled by, and may have a form of its own for the target."""
        return bool(self._builder.options.asked)

    def _units(self) -> int:
        """Return how many compute units code that asks is told of: what the schedule says, else the target's own."""
        wanted = self._schedule or Schedule()
        return wanted.resident or wanted.sm_count or COMPUTE_UNITS[self._profile.name]

    def _tune(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an autotuned kernel with the one configuration that was asked for."""
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        try:
            configs = list(tuner.configs)
            if len(configs) > 1:
                configs = list(tuner.prune_configs(kwargs))
            number = self._config % len(configs)
            chosen = configs[number]
            clash = kwargs.keys() & chosen.kwargs.keys()
            if clash:
                raise ValueError(f"Conflicting meta-parameters: {', '.join(sorted(clash))}")
            self.configs = max(self.configs, len(configs))
            tuner.best_config = chosen
            everything = {**tuner.nargs, **kwargs, **chosen.all_kwargs()}
            if len(configs) > 1 and id(tuner) not in self._tuned:
                # the first call of a process tunes, and resets what tuning left behind
                self._tuned.add(id(tuner))
                tuner.pre_hook(everything, reset_only=True)
            if chosen.pre_hook is not None:
                chosen.pre_hook(everything)
            self._chosen = (number, len(configs))
            return tuner.fn.run(*args, **kwargs, **chosen.all_kwargs())
        finally:
            self._chosen = (0, 1)
            tuner.nargs = None

    def _run(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> None:
        begin = time.perf_counter()
        for hook in getattr(fn, "pre_run_hooks", ()):
            hook(*args, **kwargs)
        function = self._adapter.jit_function(fn)
        assert function is not None
        arguments = self._arguments.bind(fn, function, args, kwargs)
        warps = self._adapter.unwrap(kwargs.get("num_warps", 4))
        check_warps(warps, self._profile, self._adapter.out_of_resources)
        sizes = grid_of(grid, arguments, kwargs)
        if self._on_launch is not None:
            self._on_launch(fn, args, kwargs)
        execution = Execution(
            function.__name__,
            sizes,
            self._profile,
            limits=self._limits,
            library=self._adapter.library,
            unwritten_reads=self._unwritten_reads,
            resolve=self._shadow.at,
        )
        execution.untrusted = self.untrusted
        if self._races and sizes != (1, 1, 1):
            execution.races = Races(execution, strict=self._races == "strict")
        if self._count:
            execution.counter = Counter()
        self._builder.execution = execution
        programs = sizes[0] * sizes[1] * sizes[2]
        self._watch.paused = True
        try:
            self._execute(execution, fn, function, arguments, sizes)
        except Exception as error:
            add_place(error, execution, self._adapter.library)
            raise
        finally:
            self._watch.paused = False
            for key, suspect in execution.suspects.items():
                if key not in self._seen:
                    self._seen.add(key)
                    self.suspects.append(suspect)
            seconds = time.perf_counter() - begin
            given = {name: value for name, value in kwargs.items() if isinstance(value, int | float | str)}
            moved = None if execution.counter is None else execution.counter.total
            self.launches.append(Launch(function.__name__, sizes, *self._chosen, programs, seconds, given, moved))

    def _execute(
        self, execution: Execution, fn: Any, function: Any, arguments: dict[str, Any], sizes: tuple[int, int, int]
    ) -> None:
        values = self._arguments.values(fn, function, arguments)
        bound = self._interpreter.bind(function)
        constants = tuple(repr(value.value) for value in values.values() if isinstance(value, self._adapter.constexpr))
        key = (function.__code__, constants)
        runner = Runner(
            execution,
            lambda: bound(**values),
            batch=self._batch,
            schedule=self._schedule,
            target=self._profile.name,
            sample=self._sample,
        )
        runner.run(sizes, _BLOCKS.get(key, 0))
        _BLOCKS[key] = execution.largest_block


def _interpreter(known: Adapter, profile: Profile) -> Interpreter:
    """Return an interpreter that no other session uses, one that knows kernels already if there is any."""
    try:
        found = _IDLE.pop()
    except IndexError:
        found = None
    if found is None or found.builder.options.profile is not profile or found.adapter is not known:
        found = Interpreter(known, Builder(profile))
    found.uses += 1
    return found
