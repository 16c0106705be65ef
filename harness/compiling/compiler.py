"""One compilation, in a process that may crash: from a specialisation to figures."""

from __future__ import annotations

import contextlib
import importlib
import io
import tempfile
from dataclasses import asdict
from typing import Any

from harness.compiling import amdgcn, instructions, ptxas
from harness.compiling.figures import Figures
from harness.compiling.recording import Specialisation, gpu_target, quiet


def compile_one(specialisation: Specialisation) -> dict[str, Any]:
    """Compile and return the fields of `Figures`; the compiler's exceptions come out.

    Changes Triton's settings and writes to standard output, so it wants a process of its own.
    """
    triton = importlib.import_module("triton")
    knobs = importlib.import_module("triton.knobs")
    # ptxas -v is where NVIDIA's spills and barriers stand; Triton asks for it and prints it on request
    knobs.nvidia.dump_ptxas_log = True
    knobs.compilation.always_compile = True
    log = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="harness-compile-") as folder, contextlib.redirect_stdout(log), quiet():
        # a cache hit has no log, and the binaries are of no use to anybody
        knobs.cache.dir = folder
        compiled = triton.compile(
            specialisation.source, target=gpu_target(specialisation.target), options=dict(specialisation.options)
        )
    if specialisation.target.vendor == "cuda":
        return asdict(_nvidia(compiled, log.getvalue()))
    return asdict(_amd(compiled))


def _nvidia(compiled: Any, log: str) -> Figures:
    info = ptxas.parse(log)
    return Figures(
        registers=info.registers,
        shared_static=info.shared_static,
        spill_stores=info.spill_stores,
        spill_loads=info.spill_loads,
        stack=info.stack,
        barriers=info.barriers,
        tensor_memory_columns=getattr(compiled.metadata, "tmem_size", None) or 0,
        **_common(compiled, "ptx"),
    )


def _amd(compiled: Any) -> Figures:
    info = amdgcn.parse(compiled.asm["amdgcn"])
    return Figures(
        registers=info.vgprs,
        sgprs=info.sgprs,
        sgpr_spills=info.sgpr_spills,
        spill_stores=info.spill_bytes,
        spill_loads=info.spill_bytes,
        stack=info.scratch,
        # LLVM counts a workgroup of several waves as one that has a barrier
        barriers=1 if compiled.metadata.num_warps > 1 else 0,
        **_common(compiled, "amdgcn"),
    )


def _common(compiled: Any, kind: str) -> dict[str, Any]:
    metadata, assembly = compiled.metadata, compiled.asm[kind]
    counted = instructions.count(assembly, ptx=kind == "ptx")
    # passes may have turned descriptors into pointers before the IR called ttir is final
    asked = instructions.descriptor_operations(compiled.asm.get("source") or compiled.asm["ttir"])
    return {
        "shared": metadata.shared,
        "num_warps": metadata.num_warps,
        "num_ctas": metadata.num_ctas,
        "instructions": counted,
        "matrix": instructions.matrix_kinds(assembly),
        "asked": tuple(asked),
        "lowered": tuple(instructions.lowered(asked, counted)),
    }
