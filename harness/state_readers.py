"""The process-global state that every snapshot reads: interpreter, numpy, torch, Triton, and this package's own.

A reader of a library's state is asked only while that library is loaded, and finds it in ``sys.modules``: taking a
snapshot imports nothing.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import state_torch
from harness.state import State

#: pytest writes the running test and phase; torch writes its cache's folder when it first imports its compiler, which
#: a dispatch mode and many an operation make it do.
_NOT_OURS = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "TORCHINDUCTOR_CACHE_DIR")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGALRM,) if hasattr(signal, "SIGALRM") else ()))
_STATUS = Path("/proc/self/status")


def _module(name: str) -> Any:
    return sys.modules[name]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _NOT_OURS}


def _restore_environment(wanted: dict[str, str]) -> None:
    for name in set(_environment()) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)


def _umask() -> int:
    """Return the umask without touching it where the kernel tells; elsewhere it is zero for an instant."""
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _restore_filters(wanted: tuple[Any, ...]) -> None:
    warnings.filters[:] = wanted  # type: ignore[index]  # typeshed says Sequence; it is a list
    # leaving the block drops what the interpreter remembered of the old list
    with warnings.catch_warnings():
        pass


def _restore_handlers(wanted: dict[str, Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        for name, handler in wanted.items():
            signal.signal(signal.Signals[name], handler)


def _restore_list(target: list[str]) -> Callable[[tuple[str, ...]], None]:
    def put_back(wanted: tuple[str, ...]) -> None:
        target[:] = wanted

    return put_back


def _set_excepthook(hook: Any) -> None:
    sys.excepthook = hook


def _numpy_generator() -> bytes:
    _, keys, position, has_gauss, gauss = _module("numpy").random.get_state()
    return bytes(keys.tobytes()) + f"|{position}|{has_gauss}|{gauss!r}".encode()


def _restore_numpy_generator(wanted: bytes) -> None:
    numpy = _module("numpy")
    words = numpy.random.get_state()[1]
    keys = numpy.frombuffer(wanted[: words.nbytes], words.dtype)
    position, has_gauss, gauss = wanted[words.nbytes + 1 :].decode().split("|")
    numpy.random.set_state(("MT19937", keys, int(position), int(has_gauss), float(gauss)))


def _knob_groups() -> dict[str, Any]:
    knobs = _module("triton.knobs")
    return {name: group for name, group in vars(knobs).items() if isinstance(group, knobs.base_knobs)}


def _knobs() -> dict[str, Any]:
    """Return what was set on Triton's knobs by assignment, and the functions hooked in; environment apart."""
    set_knobs: dict[str, Any] = {}
    for name, group in _knob_groups().items():
        for knob, value in vars(group).items():
            set_knobs[f"{name}.{knob}"] = value
        for knob, value in vars(type(group)).items():
            if hasattr(value, "calls"):
                set_knobs[f"{name}.{knob}.calls"] = tuple(value.calls)
    return set_knobs


def _restore_knobs(wanted: dict[str, Any]) -> None:
    for name, group in _knob_groups().items():
        for knob in list(vars(group)):
            if f"{name}.{knob}" not in wanted:
                del vars(group)[knob]
        for key, value in wanted.items():
            owner, _, knob = key.partition(".")
            if owner != name:
                continue
            if knob.endswith(".calls"):
                getattr(type(group), knob.removesuffix(".calls")).calls[:] = value
            else:
                vars(group)[knob] = value


def _driver() -> Any:
    """Return the driver that somebody put in force; the one Triton found by itself is no change."""
    config = _module("triton.runtime").driver
    return None if config._active is config._default else config._active


def _set_driver(wanted: Any) -> None:
    _module("triton.runtime").driver._active = wanted


def _context_variable(name: str, module: str, attribute: str) -> State:
    """Return the state that is the value of a context variable, in the thread or task that asks."""
    return State(
        name=name,
        read=lambda: getattr(_module(module), attribute).get(),
        restore=lambda wanted: getattr(_module(module), attribute).set(wanted),
        module=module,
    )


#: In the order in which they are restored.
BUILT_IN: tuple[State, ...] = (
    State(name="environment", read=_environment, restore=_restore_environment),
    State(name="cwd", read=os.getcwd, restore=os.chdir),
    State(name="umask", read=_umask, restore=os.umask),
    State(name="sys.path", read=lambda: tuple(sys.path), restore=_restore_list(sys.path)),
    State(name="sys.argv", read=lambda: tuple(sys.argv), restore=_restore_list(sys.argv)),
    State(name="sys.excepthook", read=lambda: sys.excepthook, restore=_set_excepthook),
    State(name="recursion limit", read=sys.getrecursionlimit, restore=sys.setrecursionlimit),
    State(
        name="signal handlers",
        read=lambda: {number.name: signal.getsignal(number) for number in _SIGNALS},
        restore=_restore_handlers,
    ),
    State(name="warning filters", read=lambda: tuple(warnings.filters), restore=_restore_filters),
    State(name="python generator", read=random.getstate, restore=random.setstate, consumable=True),
    State(
        name="numpy errors",
        read=lambda: dict(_module("numpy").geterr()),
        restore=lambda wanted: _module("numpy").seterr(**wanted),
        module="numpy",
    ),
    State(
        name="numpy generator",
        read=_numpy_generator,
        restore=_restore_numpy_generator,
        module="numpy.random",
        consumable=True,
    ),
    *state_torch.STATES,
    State(name="triton knobs", read=_knobs, restore=_restore_knobs, module="triton.knobs"),
    _context_variable("triton allocator", "triton.runtime._allocation", "_allocator"),
    State(name="triton driver", read=_driver, restore=_set_driver, module="triton.runtime.driver"),
    _context_variable("sm budgets", "harness.launch.sm_budget", "_budgets"),
    _context_variable("source of SM counts", "harness.launch.physical", "_source"),
    _context_variable("launch constraints", "harness.launch.constraints", "_current"),
    State(
        name="launch leases",
        read=lambda: _module("harness.launch.lease").lease_holders(),
        restore=None,
        module="harness.launch.lease",
    ),
)
