"""The child of ``harness.import_lint``: imports modules in front of a counting driver and writes what they did as JSON.

Run as ``python -m harness._import_watch PRELOAD,... MODULE...``; it leaves its process unfit for anything else.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from harness.state import diff, snapshot

_DRIVERS = ("libcuda", "nvcuda", "libnvidia-ml", "libamdhip", "libhsa-runtime", "librocm_smi", "libamd_smi")
_DEVICE_FILES = ("/dev/nvidia", "/dev/dxg", "/dev/kfd", "/dev/dri", "/sys/class/kfd", "/proc/driver/nvidia")
_STARTS = ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "socket.connect")

# One sm_120 device, so that a module that asks whether there is one goes on and asks what it is.
_CAPABILITY = (12, 0)
_ANSWERS: dict[str, Any] = {
    "is_available": True,
    "is_initialized": True,
    "device_count": 1,
    "current_device": 0,
    "get_device_capability": _CAPABILITY,
    "get_device_name": "a counting device",
    "get_arch_list": ["sm_120"],
    "get_device_properties": SimpleNamespace(
        name="a counting device",
        major=_CAPABILITY[0],
        minor=_CAPABILITY[1],
        multi_processor_count=188,
        total_memory=96 << 30,
        warp_size=32,
        gcnArchName="",
    ),
}
_ALSO_COUNTED = (
    "init", "_lazy_init", "set_device", "synchronize", "mem_get_info", "current_stream", "manual_seed", "empty_cache",
)  # fmt: skip


class Watch:
    """Notes what happens while modules are imported; ``touched`` fills with (what, where)."""

    def __init__(self, modules: list[str]) -> None:
        self.touched: list[tuple[str, str]] = []
        self._packages = {name.partition(".")[0] for name in modules}
        self._on = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self._on = True
        try:
            yield
        finally:
            self._on = False

    def touch(self, what: str) -> None:
        if self._on:
            self.touched.append((what, self._place(sys._getframe(1))))

    def _place(self, frame: FrameType | None) -> str:
        """Return the line at module level of a watched package that led here."""
        while frame is not None:
            package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if frame.f_code.co_name == "<module>" and package in self._packages:
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note events of the interpreter that reach outside the process (``sys.addaudithook``)."""
        if not self._on:
            return
        subject = str(arguments[0]) if arguments else ""
        if event == "ctypes.dlopen" and any(driver in subject for driver in _DRIVERS):
            self.touch(f"loaded the driver library {subject}")
        elif event in ("open", "os.listdir", "os.scandir") and subject.startswith(_DEVICE_FILES):
            self.touch(f"looked at {subject}")
        elif event in _STARTS:
            self.touch(f"started something ({event}: {subject})")

    def counting(self, name: str, answer: Any) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.touch(f"called {name}()")
            return answer

        return counted


def put_counting_driver(watch: Watch) -> None:
    """Replace the ways to a device, as far as their libraries are loaded."""
    torch = sys.modules.get("torch")
    if torch is not None:
        for name in (*_ANSWERS, *_ALSO_COUNTED):
            if hasattr(torch.cuda, name):
                setattr(torch.cuda, name, watch.counting(f"torch.cuda.{name}", _ANSWERS.get(name)))
        for name in ("_cuda_init", "_cuda_getDeviceCount"):
            setattr(torch._C, name, watch.counting(f"torch._C.{name}", 1))
    runtime = sys.modules.get("triton.runtime")
    if runtime is not None:
        _count_triton(watch, runtime.driver)
    # never the real one: initialising it opens the driver
    sys.modules["pynvml"] = _CountingModule(watch, "pynvml")


class _CountingModule(ModuleType):
    def __init__(self, watch: Watch, name: str) -> None:
        super().__init__(name)
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith("NVMLError"):
            return type(name, (Exception,), {})
        return self._watch.counting(f"pynvml.{name}", 1)


def _count_triton(watch: Watch, config: Any) -> None:
    from triton.backends.compiler import GPUTarget

    driver = MagicMock()
    driver.get_current_target.return_value = GPUTarget("cuda", _CAPABILITY[0] * 10 + _CAPABILITY[1], 32)
    driver.get_current_device.return_value = 0

    def active(self: Any) -> Any:
        watch.touch("asked Triton for its active driver")
        return driver

    for name in ("active", "default"):
        setattr(type(config), name, property(active))


def examine(name: str, watch: Watch) -> list[dict[str, str]]:
    """Import module ``name`` and return its findings."""
    watch.touched.clear()
    loaded, threads, said = set(sys.modules), set(threading.enumerate()), io.StringIO()
    before = snapshot()
    problem = ""
    with watch.watching(), contextlib.redirect_stdout(said):
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            problem = f"raised {type(error).__name__}: {error}"
    found = [*watch.touched, *((str(difference), "") for difference in diff(before, snapshot()))]
    found += [(f"started thread {thread.name!r}", "") for thread in threading.enumerate() if thread not in threads]
    if said.getvalue():
        found.append((f"wrote to stdout: {said.getvalue()[:80]!r}", ""))
    if problem:
        found.append((problem, ""))
    package = name.partition(".")[0]
    others = sorted(other for other in set(sys.modules) - loaded if other.startswith(f"{package}.") and other != name)
    # without a line, it may have been one of the modules that came along
    suffix = f" (loaded with it: {', '.join(others)})" if others else ""
    return [
        {"module": name, "what": what if where else what + suffix, "where": where}
        for what, where in dict.fromkeys(found)
    ]


def main(preload: str, *names: str) -> None:
    """Write the findings of all modules ``names`` to stdout as a JSON list."""
    for library in filter(None, preload.split(",")):
        if importlib.util.find_spec(library.partition(".")[0]) is not None:
            importlib.import_module(library)
    watch = Watch(list(names))
    put_counting_driver(watch)
    sys.addaudithook(watch.audit)
    findings = [finding for name in names for finding in examine(name, watch)]
    sys.stdout.write(json.dumps(findings))


if __name__ == "__main__":
    main(*sys.argv[1:])
