"""One kernel launch: arguments to values, programs in batches, and what happens when they diverge or hang."""

from __future__ import annotations

import inspect
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from harness.vgpu.elements import INT32, SCALARS, Pointer
from harness.vgpu.execution import Execution, locate
from harness.vgpu.faults import KernelFault
from harness.vgpu.interpreter import Interpreter
from harness.vgpu.profiles import Profile
from harness.vgpu.programs import Divergence, Grid, Programs, boxes
from harness.vgpu.schedule import Schedule
from harness.vgpu.scheduler import Scheduler
from harness.vgpu.shadow import Shadow
from harness.vgpu.storage import Region, view_of
from harness.vgpu.triton_names import LAUNCH_OPTIONS
from harness.vgpu.turns import Activity, Crowd, Interleave, Overflow
from harness.vgpu.values import LEAD, Value, scalar

#: Programs of a first batch, which shows how large the kernel's blocks are.
_FIRST_BATCH = 32
#: Elements that one operation of a batch may have: 16 MiB of offsets.
_LANES = 1 << 21
#: Threads of a block.
_MOST_THREADS = 1024
#: Types of an integer argument, the first that holds it.
_RANGES = (("int32", -(2**31), 2**31), ("int64", -(2**63), 2**63), ("uint64", 0, 2**64))


_DECLARED: WeakKeyDictionary[FunctionType, tuple[inspect.Signature, dict[str, Any]]] = WeakKeyDictionary()


class Arguments:
    """Turns the arguments of a launch into values of the language."""

    def __init__(self, interpreter: Interpreter, shadow: Shadow) -> None:
        self._interpreter = interpreter
        self._adapter = interpreter.adapter
        self._shadow = shadow

    def bind(self, fn: Any, function: FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return every parameter's argument, defaults filled in; raises TypeError or KeyError as Triton does."""
        signature, _ = self._declared(function)
        own = {name: value for name, value in kwargs.items() if name in signature.parameters}
        for name in kwargs:
            if name not in own and name not in LAUNCH_OPTIONS:
                raise KeyError(f"Keyword argument {name} was specified but unrecognised")
        try:
            bound = signature.bind(*args, **own)
        except TypeError as error:
            raise TypeError(f"{function.__name__}(): {error}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def _declared(self, function: FunctionType) -> tuple[inspect.Signature, dict[str, Any]]:
        """Return the signature of a kernel, and what the annotation of each parameter demands."""
        found = _DECLARED.get(function)
        if found is None:
            signature = inspect.signature(function)
            types = {n: self._adapter.annotated_type(p.annotation) for n, p in signature.parameters.items()}
            found = _DECLARED[function] = (signature, types)
        return found

    def values(self, fn: Any, function: FunctionType, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the kernel's parameters as tensors and compile-time constants."""
        converted = {}
        _, types = self._declared(function)
        for number, (name, argument) in enumerate(arguments.items()):
            wanted = types[name]
            if wanted == "constexpr":
                converted[name] = self._interpreter.constant(self._adapter.unwrap(argument))
            else:
                fixed = wanted is None and self._adapter.specialises(fn, number, name)
                converted[name] = self._convert(name, argument, wanted, fixed)
        return converted

    def _convert(self, name: str, argument: Any, wanted: Any, fixed: bool) -> Any:
        adapter, interpreter = self._adapter, self._interpreter
        if isinstance(argument, adapter.constexpr):
            return argument
        if isinstance(argument, np.generic):
            argument = argument.item()
        if argument is None or isinstance(argument, (str, adapter.dtype, adapter.callable)):
            return interpreter.constant(argument)
        if isinstance(argument, adapter.wrapper):
            element = argument.dtype if isinstance(argument.dtype, adapter.dtype) else None
            return self._pointer(name, argument.base, element or adapter.pointer_dtype(argument.dtype))
        if isinstance(argument, torch.Tensor):
            element = wanted.element_ty if wanted is not None and wanted.is_ptr() else None
            return self._pointer(name, argument, element or adapter.pointer_dtype(argument.dtype))
        if isinstance(argument, (bool, int, float)):
            return self._number(name, argument, wanted, fixed)
        if isinstance(argument, adapter.descriptor):
            return self._descriptor(name, argument)
        if isinstance(argument, (tuple, list)):
            members = [self._convert(f"{name}[{i}]", member, None, fixed) for i, member in enumerate(argument)]
            fields = getattr(argument, "_fields", None)
            return interpreter.constant(type(argument)(*members) if fields else tuple(members))
        if adapter.jit_function(argument) is not None:
            return interpreter.constant(argument)
        raise TypeError(f"argument {name}: a kernel cannot take {type(argument).__name__}")

    def _number(self, name: str, argument: bool | float, wanted: Any, fixed: bool) -> Any:
        adapter = self._adapter
        if isinstance(argument, bool):
            chosen = "int1"
        elif isinstance(argument, float):
            chosen = "fp32"
        else:
            if argument == 1 and fixed:
                return self._interpreter.constant(1)
            fitting = (name for name, low, high in _RANGES if low <= argument < high)
            chosen = next(fitting, "")
            if not chosen:
                raise OverflowError(f"argument {name}: {argument} does not fit into 64 bits")
        kind = wanted if wanted is not None and not wanted.is_ptr() else adapter.dtypes[chosen]
        if kind is adapter.dtypes["int32"] and argument.__class__ is int and chosen == "int32":
            return self._interpreter.make(scalar(argument, INT32), adapter.record(kind, ()))
        return self._interpreter.semantic.scalar_constant(argument, kind)

    def _pointer(self, name: str, tensor: torch.Tensor, element: Any) -> Any:
        if tensor.device.type != "cpu":
            raise ValueError(f"argument {name}: the virtual GPU takes CPU tensors, got one on {tensor.device}")
        options = self._interpreter.builder.options
        if element.name.startswith("fp8") and element.name not in options.supported_fp8_dtypes:
            known = ", ".join(options.supported_fp8_dtypes)
            raise ValueError(f"argument {name}: Triton has no {element.name} for {options.arch}; it has {known}")
        region = Region(name, self._shadow.storage(tensor), view_of(tensor))
        kind = self._adapter.tl.pointer_type(element)
        data = np.array(region.view.start, np.int64, ndmin=LEAD)
        made = Value(data, Pointer(SCALARS[element.name]), (), region)
        return self._interpreter.make(made, self._adapter.record(kind, ()))

    def _descriptor(self, name: str, descriptor: Any) -> Any:
        base = self._pointer(name, descriptor.base, self._adapter.pointer_dtype(descriptor.base.dtype))
        builder = self._interpreter.builder
        builder.by_host = True
        try:
            made = self._interpreter.semantic.make_tensor_descriptor(
                base,
                [int(n) for n in descriptor.shape],
                [int(n) for n in descriptor.strides],
                [self._interpreter.constant(int(n)) for n in descriptor.block_shape],
                descriptor.padding,
            )
        finally:
            builder.by_host = False
        if getattr(descriptor, "round_f32_to_tf32", False):
            made.handle = replace(made.handle, round_f32_to_tf32=True)
        return made


def grid_of(grid: Any, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> Grid:
    """Return the launch grid as three numbers.

    Raises ValueError if the hardware would refuse it, and TypeError, as a launch does, for what is no integer.
    """
    sizes = grid({**options, **arguments}) if callable(grid) else grid
    numbers = [_size(n, sizes) for n in (sizes if isinstance(sizes, (tuple, list, torch.Size)) else (sizes,))]
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"grid {tuple(numbers)}: one to three sizes are needed")
    numbers += [1] * (3 - len(numbers))
    # CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability"
    limits = (2**31 - 1, 65535, 65535)
    if any(not 0 <= n <= most for n, most in zip(numbers, limits, strict=True)):
        raise ValueError(f"grid {tuple(numbers)} is beyond the hardware's limits {limits}")
    return numbers[0], numbers[1], numbers[2]


def _size(number: Any, grid: Any) -> int:
    try:
        return operator.index(number)
    except TypeError:
        raise TypeError(f"grid {grid}: {number!r} is a {type(number).__name__}, an integer is needed") from None


def check_warps(warps: Any, profile: Profile, out_of_resources: Callable[[int, int, str], Exception]) -> None:
    """Raise what Triton raises for a number of warps that it, or the device, does not take.

    A block has 1,024 threads at most: CUDA C++ Programming Guide, "Technical Specifications"; HIP, the same.
    """
    if not isinstance(warps, int) or warps < 1 or warps & (warps - 1):
        raise AssertionError(f"num_warps must be a power of 2, got {warps!r}")
    threads = warps * (32 if profile.vendor == "cuda" else 64)
    if threads > _MOST_THREADS:
        raise out_of_resources(threads, _MOST_THREADS, "threads")


class Runner:
    """Runs all programs of a grid: sets of them in step while they can, and in turns when they wait for each other."""

    def __init__(
        self,
        execution: Execution,
        body: Callable[[], Any],
        *,
        batch: bool,
        schedule: Schedule | None,
        target: str,
        sample: int = 0,
    ) -> None:
        self._execution = execution
        self._body = body
        self._batch = batch
        self._schedule = (schedule or Schedule()).on(target)
        assert self._schedule.resident is not None
        execution.resident = self._schedule.resident
        execution.interleaves = schedule is not None
        self._sample = sample
        #: How many programs may run in step, whatever their blocks.
        self._most = 1 << 62
        self._in_turns = schedule is not None and (not batch or schedule.yield_at == "memory")

    def run(self, grid: Grid, block: int) -> None:
        """Run ``grid``; ``block`` is the largest block that this kernel is known to use, 0 if it is not known."""
        execution = self._execution
        total = grid[0] * grid[1] * grid[2]
        # what a lone program did is never undone
        execution.journaling = total > 1
        start = 0
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self._sample and total > self._sample:
                return self._some(grid, total)
            if self._in_turns and total > 1:
                return self._take_turns(grid, [], 0)
            while start < total:
                if not self._batch:
                    size = 1
                elif block:
                    size = max(1, _LANES // block)
                else:
                    size = _FIRST_BATCH
                size = min(size, self._most)
                for programs, start in boxes(grid, start, size):  # noqa: B020
                    waiting = self._in_step(programs)
                    if waiting is not None:
                        return self._take_turns(grid, waiting, start)
                    if self._batch and execution.largest_block > block:
                        block = execution.largest_block
                        break
                    if size > self._most:
                        break

    def _some(self, grid: Grid, total: int) -> None:
        """Run some programs, from the first to the last, as far apart as can be.  Those that wait for others end."""
        for number in np.linspace(0, total - 1, self._sample, dtype=np.int64).tolist():
            programs, _ = next(boxes(grid, number, 1))
            self._in_step(programs)

    def _in_step(self, programs: Programs) -> list[Programs] | None:
        """Run a set of programs; return those that are left, in order, if they have to take turns."""
        execution = self._execution
        stack = [programs]
        while stack:
            current = stack.pop()
            if current.count > self._most:
                stack.extend(reversed(current.chunks(self._most)))
                continue
            execution.enter(current, Activity())
            try:
                self._body()
            except Divergence as divergence:
                execution.roll_back()
                stack.extend(reversed(current.split(divergence.wanted)))
            except Crowd:
                execution.roll_back()
                self._most = execution.resident
                stack.append(current)
            except Overflow:
                execution.roll_back()
                self._most = -(-current.count // 2)
                stack.append(current)
            except Interleave:
                execution.roll_back()
                return [current, *reversed(stack)]
            else:
                execution.commit()
        return None

    def _take_turns(self, grid: Grid, waiting: list[Programs], start: int) -> None:
        """Run the programs of ``waiting``, and those from number ``start`` on, in turns."""
        execution = self._execution
        numbers = [programs.numbers(grid) for programs in waiting]
        left = np.sort(np.concatenate([*numbers, np.arange(start, math.prod(grid))]))
        execution.journaling = False
        Scheduler(execution, self._body, self._schedule).run(left, grid)
        execution.commit()


def add_place(error: Exception, execution: Execution, library: str) -> None:
    """Add to an exception that is no fault where in the kernel it arose."""
    if isinstance(error, KernelFault) or error.__traceback__ is None:
        return
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    place = locate(trace.tb_frame, library)
    error.add_note(f"in {place}, kernel {execution.kernel}" if place.line else f"in kernel {execution.kernel}")
