"""The builder that Triton's semantic layer drives: every ``create_*`` computes at once, for all programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.vgpu import memory
from harness.vgpu.arithmetic import Arithmetic, name_of
from harness.vgpu.casts import Casts
from harness.vgpu.clocks import RELAXED
from harness.vgpu.descriptors import Descriptors
from harness.vgpu.elements import INT32, Element, Pointer
from harness.vgpu.execution import Execution
from harness.vgpu.extern import Extern
from harness.vgpu.products import Products
from harness.vgpu.profiles import Profile
from harness.vgpu.shapes import Shapes
from harness.vgpu.values import Mixed, Value, combine, scalar


@dataclass(frozen=True)
class Options:
    """Compilation options that the semantic layer asks for.

    ``native``: kernels that ask are told that they are compiled for the target, and take its own forms, with assembly.
    """

    profile: Profile
    native: bool = False
    debug: bool = True
    sanitize_overflow: bool = False
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 2
    extern_libs: dict[str, str] = field(default_factory=dict)
    #: Holds something once a kernel has asked for the backend.
    asked: list[str] = field(default_factory=list)

    @property
    def backend_name(self) -> str:
        """What compiles: none that a kernel knows, or the target's own."""
        self.asked[:] = [self.arch]
        return self.profile.vendor if self.native else "vgpu"

    @property
    def arch(self) -> str:
        """The target's name."""
        return self.profile.name

    @property
    def supported_fp8_dtypes(self) -> tuple[str, ...]:
        """8-bit types that a kernel for the target may use."""
        return self.profile.fp8_types

    @property
    def default_dot_input_precision(self) -> str:
        """What ``tl.dot`` does with float32 operands unless told otherwise."""
        return "tf32" if self.profile.vendor == "cuda" else "ieee"


class Builder(Arithmetic, Casts, Shapes, Products, Descriptors, Extern):
    """Implements the operations of Triton's language on ``Value``; ``execution`` is the launch being run."""

    def __init__(self, profile: Profile) -> None:
        self.options = Options(profile)
        self.codegen_fns: dict[str, Callable[..., Any]] = {"min_dot_size": lambda left, right: (1, 1, 1)}
        self.module_map: dict[str, Any] = {}
        self.execution: Execution

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Turn an operation that is not here into a fault that names it."""
        if not name.startswith(("create_", "get_")):
            raise AttributeError(name)

        def unsupported(*args: Any, **kwargs: Any) -> Any:
            raise self.execution.unsupported(name.removeprefix("create_"))

        return unsupported

    def create_get_program_id(self, axis: int) -> Value:
        """Return the program's number along ``axis``: 0 is x."""
        programs = self.execution.programs
        return Value((programs.x, programs.y, programs.z)[axis], INT32)

    def create_get_num_programs(self, axis: int) -> Value:
        """Return the size of the grid along ``axis``."""
        return scalar(self.execution.grid[axis], INT32)

    def create_load(self, pointer: Value, cache: Any = None, eviction: Any = None, volatile: bool = False) -> Value:
        """Load every lane."""
        return self._load(pointer, None, None, cache, volatile)

    def create_masked_load(
        self,
        pointer: Value,
        mask: Value,
        other: Value | None,
        cache: Any = None,
        eviction: Any = None,
        volatile: bool = False,
    ) -> Value:
        """Load the lanes of ``mask``; the others are ``other``, or zero."""
        return self._load(pointer, mask, other, cache, volatile)

    def _load(self, pointer: Value, mask: Value | None, other: Value | None, cache: Any, volatile: bool) -> Value:
        # PTX ISA, "ld": .cv fetches again and volatile is a relaxed load, so a loop may wait with either
        strong = volatile or (cache is not None and name_of(cache) == "CV")
        if strong:
            self.execution.synchronise()
        return memory.load(self.execution, pointer, mask, other, RELAXED if strong else None)

    def create_store(self, pointer: Value, value: Value, *policy: Any) -> None:
        """Store every lane."""
        memory.store(self.execution, pointer, value, None)

    def create_masked_store(self, pointer: Value, value: Value, mask: Value, *policy: Any) -> None:
        """Store the lanes of ``mask``."""
        memory.store(self.execution, pointer, value, mask)

    def create_addptr(self, pointer: Value, offset: Value) -> Value:
        """Move pointers by signed numbers of elements, in 64 bits."""
        assert isinstance(pointer.type, Pointer)
        step = offset.data.astype(np.int64, copy=False)
        size = pointer.type.element.bytes
        data = pointer.data + (step if size == 1 else step * size)
        shape = pointer.shape if len(pointer.shape) >= len(offset.shape) else offset.shape
        if isinstance(pointer.base, Mixed):
            return combine((pointer,), lambda arrays: np.broadcast_to(arrays[0], data.shape), shape).with_data(data)
        return Value(data, pointer.type, shape, pointer.base)

    def create_barrier(self) -> None:
        """Order the stores of a program's threads; its lanes run in step anyway."""
        if self.execution.races is not None:
            self.execution.races.barrier()

    def create_grid_dependency_wait(self) -> None:
        """Do nothing: launches run one after the other."""

    def create_grid_dependency_launch_dependents(self) -> None:
        """Do nothing: launches run one after the other."""

    def get_cache_policy(self, *policy: Any) -> None:
        """Return nothing: caches are not modelled."""

    def create_print(self, *args: Any) -> None:
        """Print nothing: what a kernel prints is no result."""

    def create_poison(self, type: Element) -> Value:
        """Return a value that must not be used."""
        return scalar(0, type)

    def set_loc(self, location: Any) -> None:
        """Accept a source position; the interpreter's stack knows better."""

    def get_loc(self) -> None:
        """Return no source position."""
