"""Triton launches of linted host code: what each would compile and tune, and the tensors it gets.  Nothing runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from harness.sanitize.driver import Compiled
from harness.sanitize.patches import Patches

#: Called before each launch with the kernel's name and the tensors among its arguments.
OnLaunch = Callable[[str, list[torch.Tensor]], object]
#: Called with what a launch needs that no earlier one left behind: "compiles" or "tunes", and the kernel's name.
OnWork = Callable[[str, str], object]


class _Launched(Compiled):
    """What a launch returns; it has no code of any kind, rather than code that cannot be shown."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        super().__init__(name, options)
        self.asm: dict[str, Any] = {}


class Kernels:
    """Takes the place of ``JITFunction.run`` and ``Autotuner.run``; remembers what was compiled and tuned."""

    def __init__(self, on_launch: OnLaunch, on_work: OnWork) -> None:
        self._on_launch = on_launch
        self._on_work = on_work
        self._binders: dict[Any, Any] = {}
        self._compiled: set[tuple[Any, ...]] = set()
        self._tuned: set[tuple[Any, ...]] = set()

    def install(self, patches: Patches) -> None:
        """Replace both methods."""
        jit = importlib.import_module("triton.runtime.jit")
        autotuner = importlib.import_module("triton.runtime.autotuner")
        ours = self

        def run(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> Any:
            return ours._run(self, args, kwargs, grid, warmup)

        def tune(self: Any, *args: Any, **kwargs: Any) -> Any:
            return ours._tune(self, args, kwargs)

        patches.set(jit.JITFunction, "run", run)
        patches.set(autotuner.Autotuner, "run", tune)

    def _run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any, warmup: bool) -> Any:
        for hook in getattr(function, "pre_run_hooks", ()):
            hook(*args, **kwargs)
        if function not in self._binders:
            *_, self._binders[function] = function.create_binder()
        bound, specialised, options = self._binders[function](*args, **{"debug": function.debug, **kwargs})
        if callable(grid):
            grid(bound)
        name = function.__name__
        key = (function, str(specialised), str(options))
        if key not in self._compiled:
            self._compiled.add(key)
            self._on_work("compiles", name)
        if not warmup:
            self._on_launch(name, [tensor for value in bound.values() for tensor in _tensors(value)])
        return _Launched(name, kwargs)

    def _tune(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the first configuration, as if it had been the fastest."""
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        try:
            given = {name: value for name, value in {**tuner.nargs, **kwargs}.items() if name in tuner.arg_names}
            key = (
                id(tuner),
                *(given[name] for name in tuner.keys if name in given),
                *(str(value.dtype) for value in given.values() if hasattr(value, "dtype")),
            )
            if len(tuner.configs) > 1 and key not in self._tuned:
                self._tuned.add(key)
                self._on_work("tunes", tuner.base_fn.__name__)
            config = tuner.configs[0]
            if config.pre_hook is not None:
                config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
            return tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        finally:
            tuner.nargs = None


def _tensors(value: Any) -> list[torch.Tensor]:
    """Return what a kernel's argument points to: itself, the parts of a tuple, the base of a descriptor."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for member in value for tensor in _tensors(member)]
    base = getattr(value, "base", None)
    return [base] if isinstance(base, torch.Tensor) else []
