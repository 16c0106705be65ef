"""Triton's own compiler as a judge: does it accept a kernel, and do two kernels compile to the same program?

No GPU is needed.  Private interfaces of Triton 3.6 to 3.9 are used: the binder that specialises arguments, the
AST source, and the stages of the NVIDIA backend.
"""

from __future__ import annotations

import importlib
import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.compiling import sources

if TYPE_CHECKING:
    from harness.compiling import recording

#: The target that programs are compared for.
CAPABILITY = 120
#: What says nothing about what is computed: lines of PTX, and the debug sections after the program.
_DEBUG = re.compile(r"^\s*(//.*|\.(loc|file)\b.*)$", re.MULTILINE)
_SECTIONS = re.compile(r"^\s*\.section\s+\.debug", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Specialisation:
    """A kernel with everything that Triton fixes about a launch before compiling."""

    module: str
    kernel: str
    key: str
    options: Any
    signature: dict[str, Any]
    constexprs: dict[Any, Any]
    attributes: dict[Any, Any]


class Recorder:
    """Notes with what the kernels of some modules are launched; ``names`` which since somebody emptied it."""

    def __init__(self, modules: Iterable[types.ModuleType]) -> None:
        self.seen: dict[tuple[str, str, str], Specialisation] = {}
        self.last: Specialisation | None = None
        self.names: set[str] = set()
        for module in modules:
            for name, kernel in kernels_of(module):
                kernel.add_pre_run_hook(self._hook(module.__name__, name, kernel))

    def _hook(self, module: str, name: str, kernel: Any) -> Any:
        def note(*args: Any, **kwargs: Any) -> None:
            found = _specialised(module, name, kernel, args, kwargs)
            self.seen.setdefault((module, name, found.key), found)
            self.last = found
            self.names.add(f"{module}.{name}")

        return note


def kernels_of(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the name and the jitted function of every kernel that a module defines, autotuned ones included."""
    jitted = importlib.import_module("triton.runtime.jit").JITFunction
    for name, value in vars(module).items():
        inner = value
        while not isinstance(inner, jitted) and hasattr(inner, "fn"):
            inner = inner.fn
        if isinstance(inner, jitted) and inner.fn.__module__ == module.__name__:
            yield name, inner


def digests(modules: Iterable[types.ModuleType]) -> dict[str, str]:
    """Return a digest of the source, that of all it calls included, of every jitted function of ``modules``."""
    return {
        f"{module.__name__}.{name}": sources.digest(kernel) for module in modules for name, kernel in kernels_of(module)
    }


def _backend() -> tuple[Any, Any]:
    compiler = importlib.import_module("triton.compiler.compiler")
    target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", CAPABILITY, 32)
    return target, compiler.make_backend(target)


def _specialised(module: str, name: str, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Specialisation:
    jit = importlib.import_module("triton.runtime.jit")
    _, backend = _backend()
    binder = jit.create_function_from_signature(kernel.signature, kernel.params, backend)
    bound, specialization, options = binder(*args, **{"debug": False, "instrumentation_mode": "", **kwargs})
    options, signature, constexprs, attributes = kernel._pack_args(backend, kwargs, bound, specialization, options)
    key = repr((sorted(options.__dict__.items(), key=str), signature, constexprs, attributes))
    return Specialisation(
        module=module,
        kernel=name,
        key=key,
        options=options,
        signature=signature,
        constexprs=constexprs,
        attributes=attributes,
    )


def of_recorded(found: recording.Specialisation) -> Specialisation:
    """Return what the compile lane recorded for some target as it is for ``CAPABILITY``."""
    _, backend = _backend()
    options = backend.parse_options(dict(found.asked))
    source = found.source
    return Specialisation(
        module=found.function.__module__,
        kernel=found.kernel,
        key=repr((sorted(options.__dict__.items(), key=str), source.signature, source.constants, source.attrs)),
        options=options,
        signature=source.signature,
        constexprs=source.constants,
        attributes=source.attrs,
    )


def refusal(kernel: Any, wanted: Specialisation) -> str | None:
    """Return why Triton's compiler refuses a kernel, or None if it takes it."""
    program = attempted(kernel, wanted)
    return program.why if isinstance(program, Refused) else None


@dataclass(frozen=True)
class Refused:
    """Why Triton's compiler does not take a kernel."""

    why: str


def attempted(kernel: Any, wanted: Specialisation) -> str | Refused:
    """Return the optimised Triton IR of a kernel, or why there is none."""
    try:
        return intermediate(kernel, wanted)
    except Exception as error:
        return Refused(f"{type(error).__name__}: {last_line(str(error))}")


def last_line(text: str) -> str:
    """Return the last line that says something: Triton shows the source first, down to the place, and then why."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip(" \t^")), "")


def intermediate(kernel: Any, wanted: Specialisation, *, until: str = "ttir", locations: bool = False) -> str:
    """Return the program as text: optimised Triton IR, or what another stage (``"ptx"``) makes of it.

    ``locations`` leaves the places in the source in it.  Raises what the compiler raises.
    """
    compiler = importlib.import_module("triton.compiler.compiler")
    ir = importlib.import_module("triton._C.libtriton").ir
    target, backend = _backend()
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = compiler.ASTSource(kernel, wanted.signature, wanted.constexprs, wanted.attributes)
    generators = backend.get_codegen_implementation(wanted.options)
    program = source.make_ir(target, wanted.options, generators, backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, wanted.options, source.language)
    metadata = {"target": target, **wanted.options.__dict__}
    for name, stage in stages.items():
        program = stage(program, metadata)
        if name == until:
            break
    if locations:
        return str(program)
    text = program if isinstance(program, str) else program.str_nodebug()
    return _DEBUG.sub("", _SECTIONS.split(text)[0])


def kernel_of(wanted: Specialisation, module: types.ModuleType) -> Any:
    """Return the kernel that ``wanted`` is about as ``module`` has it now."""
    return dict(kernels_of(module))[wanted.kernel]
