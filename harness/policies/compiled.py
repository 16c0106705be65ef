"""The grid barrier as Triton's front end has it for other targets: what the virtual GPU does not run."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from harness.compiling.recording import gpu_target
from harness.device import target_of
from harness.policies.barrier_kernel import exchange
from harness.policies.saying import differs

_POINTERS = ("x_ptr", "out_ptr", "passed_ptr", "words_ptr")
_NUMBERS = ("polls", "impatient", "looks", "absent", "first")
_CONSTANTS = {"PHASES": 1, "LANES": 16}
#: Target -> whether its s_barrier leaves stores of other waves on their way.
_LEAVES_STORES = {"gfx942": True, "gfx950": True, "gfx1100": False, "gfx1250": False, "sm_90": False, "sm_120": False}


def _program(arch: str) -> str:
    """Return the Triton IR of ``exchange`` for a target."""
    compiler = importlib.import_module("triton.compiler.compiler")
    ir = importlib.import_module("triton._C.libtriton").ir
    target = gpu_target(target_of(arch))
    backend = compiler.make_backend(target)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    signature = {
        **dict.fromkeys(_POINTERS, "*i32"), **dict.fromkeys(_NUMBERS, "i32"), **dict.fromkeys(_CONSTANTS, "constexpr")
    }  # fmt: skip
    source: Any = compiler.ASTSource(exchange, signature, _CONSTANTS)
    options = backend.parse_options({})
    generators = backend.get_codegen_implementation(options)
    return str(source.make_ir(target, options, generators, backend.get_module_map(), context))


def every_wave_ends_its_stores_where_a_barrier_does_not() -> Iterator[str]:
    """A wave waits for its own stores on CDNA, and nowhere else."""
    for arch, leaves in _LEAVES_STORES.items():
        yield from differs(f"stores are waited for on {arch}", "s_waitcnt vmcnt(0)" in _program(arch), leaves)


RIGHT = (every_wave_ends_its_stores_where_a_barrier_does_not,)
