"""Launches on a device as they happen: counted, checked before they start, autotuned by number.

The virtual GPU and the compile lane replace ``JITFunction.run``; here it runs, and is only asked first what it would
launch.  What is used of Triton is in all of 3.6 to 3.9.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Seen:
    """What was launched: ``kernels`` counts launches, ``configs`` the most configurations that one had to choose from.

    ``config`` describes the one that was chosen last.
    """

    kernels: int = 0
    configs: int = 1
    config: str = ""


_lock = threading.RLock()


@contextmanager
def watching(
    *,
    config: int | None = None,
    before: Callable[[str, Any], object] | None = None,
    refused: Callable[[str, Exception], Exception | None] | None = None,
) -> Iterator[Seen]:
    """Count the process's launches; may be nested, left in the order in which it was entered.

    ``config``: autotuned kernels run with the configuration of this number, modulo theirs, and are not timed.
    ``before(name, kernel)`` is called with a compiled kernel before it starts, and may raise instead.
    ``refused(name, error)`` may return another exception for one out of the compiler.
    """
    jit = importlib.import_module("triton.runtime.jit").JITFunction
    tuner = importlib.import_module("triton.runtime.autotuner").Autotuner
    seen = Seen()
    run, tune = jit.run, tuner.run

    def watched(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        name = str(getattr(self, "__name__", "kernel"))
        if before is not None or refused is not None:
            try:
                kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
            except Exception as error:
                other = None if refused is None else refused(name, error)
                if other is None:
                    raise
                raise other from error
            if before is not None and kernel is not None:
                before(name, kernel)
            if warmup:
                return kernel
        seen.kernels += not warmup
        return run(self, *args, grid=grid, warmup=warmup, **kwargs)

    def tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        if config is None:
            return tune(self, *args, **kwargs)
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            configs = self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs
            chosen = configs[config % len(configs)]
            if len(configs) > 1:
                seen.configs, seen.config = max(seen.configs, len(configs)), str(chosen)
            options = chosen.all_kwargs()
            if chosen.pre_hook is not None:
                chosen.pre_hook({**self.nargs, **kwargs, **options})
            return self.fn.run(*args, **kwargs, **options)
        finally:
            self.nargs = None

    with _lock:
        jit.run, tuner.run = watched, tuned
    try:
        yield seen
    finally:
        with _lock:
            jit.run, tuner.run = run, tune
