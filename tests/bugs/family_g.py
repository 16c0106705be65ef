"""Family g, what a process has once: defaults, constraints, budgets and patches that must end with their scope."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from triton.runtime.autotuner import Autotuner

from harness import injector
from harness.launch import constraints as constraint_scope
from harness.launch import current
from harness.launch.constraints import Constraints, constraints, current_constraints
from harness.launch.current import current_target, pretending
from harness.launch.physical import physical_from, physical_sms
from harness.launch.sm_budget import current_budget, set_num_sms, sm_budget
from harness.vgpu import VirtualGPU, session
from kernels import moe_scatter
from tests.bugs.cases import scatter
from tests.bugs.entry import Bug, Policy, Source
from tests.bugs.running import Changed, Made, replaced
from tests.teeth import state_checks
from tests.unit.budgets import Devices
from tests.unit.scatter_checks import arguments

CONSTRAINTS, BUDGET = "harness.launch.constraints", "harness.launch.sm_budget"
CPU = torch.device("cpu")
_STATE = SimpleNamespace(constraints=constraint_scope, injector=injector)


class Global:
    """Stands in for a context variable, and is everybody's."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self) -> Any:
        return self._value

    def set(self, value: Any) -> None:
        self._value = value


def constraints_end_with_an_exception() -> None:
    state_checks.constraints_are_restored_after_an_exception(_STATE)


def a_pretended_target_ends_with_an_exception() -> None:
    with contextlib.suppress(ArithmeticError), pretending("sm_90"):
        raise ArithmeticError
    assert current_target(CPU, "sm_120").arch == "sm_120"


def a_budget_ends_with_its_scope() -> None:
    with physical_from(Devices({0: 148})):
        set_num_sms(100)
        with contextlib.suppress(ArithmeticError), sm_budget():
            raise ArithmeticError
        assert current_budget() == 100


def no_step_of_a_scope_leaks() -> None:
    tried = injector.inject(lambda: constraints(num_stages=2), interrupts=False)
    assert not tried.leaks, str(tried)


def crossed_threads_have_their_own_constraints() -> None:
    state_checks.crossed_threads_have_their_own_constraints(_STATE)


def every_device_is_counted_for_itself() -> None:
    with physical_from(Devices({0: 148, 1: 78})):
        assert [physical_sms(0), physical_sms(1)] == [148, 78]


def every_launch_asks_for_its_target() -> None:
    forms = []
    for arch in ("sm_100", "sm_120", "sm_90"):
        with pretending(arch):
            forms.append(moe_scatter.moe_scatter_form(**arguments()).name)
    assert forms == ["persistent-scatter", "persistent-store", "non-persistent"]


def an_outer_scope_is_back_after_an_inner_one() -> None:
    with constraints(num_stages=2):
        with constraints(block_m=64):
            pass
        assert current_constraints() == Constraints(num_stages=2)
    assert current_constraints() == Constraints()


#: What a virtual GPU takes the place of.
_PATCHED = (triton.JITFunction, Autotuner)


def _runs() -> list[Any]:
    return [owner.__dict__["run"] for owner in _PATCHED]


def a_virtual_gpu_ends_with_its_block() -> None:
    before = _runs()
    try:
        with VirtualGPU():
            assert _runs() != before
        assert _runs() == before
    finally:
        for owner, run in zip(_PATCHED, before, strict=True):
            owner.run = run


def a_virtual_gpu_that_does_not_begin_leaves_nothing() -> None:
    before = _runs()

    def fail(shadow: Any) -> Any:
        raise OSError("no watch")

    gpu = VirtualGPU()
    try:
        with replaced(session, Watch=fail)(), pytest.raises(OSError, match="no watch"):
            gpu.__enter__()
        assert _runs() == before
    finally:
        # with the fault the object holds what was entered and has not ended
        if (kept := vars(gpu).pop("_kept", None)) is not None:
            kept.__exit__(None, None, None)


def a_reserve_is_taken_from_the_whole() -> None:
    with physical_from(Devices({0: 148})):
        set_num_sms(100)
        with sm_budget(2) as sms:
            assert sms == 100


BUGS = (
    Bug("B191", "linkedin/Liger-Kernel#13", "launched on the current device, not on the tensors'",
        "moe_scatter", "non-persistent",
        Source("kernels/moe_scatter.py", "    with torch.cuda.device_of(w):\n", "    if True:\n"),
        "device", scatter((0, 1))),
)  # fmt: skip

POLICIES = (
    Policy("B179", "sgl-project/sglang#34440", "a scope that an exception leaves in force",
           Changed(CONSTRAINTS, "    finally:\n        _current.set(outer)",
                   "    except LookupError:\n        raise\n    _current.set(outer)"),
           constraints_end_with_an_exception),
    Policy("B180", "vllm-project/vllm#51064", "set, yield, reset, without a finally",
           Made("harness/launch/current.py", "pretending", "restore",
                "try: yield chosen finally: _pretended.reset(token)", "yield chosen _pretended.reset(token)"),
           a_pretended_target_ends_with_an_exception),
    Policy("B181", "huggingface/transformers#35845", "an exception between setting and the block that restores",
           Changed(CONSTRAINTS, "    try:\n        _current.set(inner)\n        yield inner",
                   "    _current.set(inner)\n    repr(inner)\n    try:\n        yield inner"),
           no_step_of_a_scope_leaks),
    Policy("B182", "vectorize-io/hindsight#2167", "threads that cross restore each other's value",
           replaced(constraint_scope, _current=Global(Constraints())), crossed_threads_have_their_own_constraints),
    Policy("B186", "flashinfer-ai/flashinfer#4260", "properties kept for a device without a number",
           Changed("harness.launch.physical", "key = (device, asked.context(device))",
                   'key = ("cuda", asked.context(device))'),
           every_device_is_counted_for_itself),
    Policy("B187", "ROCm/aiter#1221", "the first device's architecture kept for all",
           replaced(moe_scatter, current_target=lambda *args, **kwargs: current.target_of("sm_120")),
           every_launch_asks_for_its_target),
    Policy("B192", "triton-lang/triton#7807", "scopes that end in the wrong order",
           Changed(CONSTRAINTS, "    finally:\n        _current.set(outer)",
                   "    finally:\n        _current.set(_FREE)"),
           an_outer_scope_is_back_after_an_inner_one),
    Policy("B194", "huggingface/trl#6783", "patched modules stay patched",
           Changed("harness.vgpu.triton_adapter", "                        setattr(cls, name, original)\n",
                   "                        pass\n"),
           a_virtual_gpu_ends_with_its_block),
    Policy("B196", "ROCm/aorta#279", "patches entered by hand leak when the start fails",
           Changed("harness.vgpu.session", "stack.enter_context(self._adapter.patched(self._run, self._tune))",
                   "self._kept = self._adapter.patched(self._run, self._tune)\n            self._kept.__enter__()"),
           a_virtual_gpu_that_does_not_begin_leaves_nothing),
    Policy("B197", "sgl-project/sglang#36657", "a reserve taken off what is left already",
           Changed(BUDGET, "free = physical - reserve if outer is None else min(physical - reserve, outer)",
                   "free = (physical if outer is None else outer) - reserve"),
           a_reserve_is_taken_from_the_whole),
)  # fmt: skip
