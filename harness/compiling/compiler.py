"""One compilation, in a process that may crash: from a specialisation to figures."""

from __future__ import annotations

import contextlib
import importlib
import io
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.compiling import amdgcn, instructions, ptxas, wgmma_hazard
from harness.compiling.acceptance import reason_of
from harness.compiling.figures import Figures
from harness.compiling.recording import Specialisation, gpu_target, quiet
from harness.compiling.sharing import Lowering, digest_of, retargeted


class Refused(Exception):
    """Triton's front end does not take a kernel: file, line and function, and the reason."""


def compile_one(specialisation: Specialisation, leave: Path | None = None) -> dict[str, Any]:
    """Compile and return the fields of `Figures`; the compiler's exceptions come out, the front end's as Refused.

    ``leave``: where the lowering goes, for targets that are alike (NVIDIA only).  Changes Triton's settings and writes
    to standard output, so it wants a process of its own.
    """
    triton = importlib.import_module("triton")
    knobs = _settings()
    log = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="harness-compile-") as folder, contextlib.redirect_stdout(log), quiet():
        # a cache hit has no log, and the binaries are of no use to anybody
        knobs.cache.dir = folder
        with _explained():
            compiled = triton.compile(
                specialisation.source, target=gpu_target(specialisation.target), options=dict(specialisation.options)
            )
    if leave is not None:
        Lowering(ttir=digest_of(compiled.asm["ttir"]), ptx=compiled.asm["ptx"]).write(leave)
    if specialisation.target.vendor == "cuda":
        return asdict(_nvidia(compiled, log.getvalue()))
    return asdict(_amd(compiled))


def assemble_one(specialisation: Specialisation, lent: Lowering, figures: Figures, lender: str) -> dict[str, Any]:
    """Return what `compile_one` would, from the lowering that ``lender``, an alike target, has lent.

    The Triton IR is made and compared: where it differs, ``specialisation`` is compiled in full.  ``figures`` are the
    lender's; what the assembler says is this target's own.  The field ``lent`` is the lender's name where it lent.
    """
    _settings()
    target = gpu_target(specialisation.target)
    backend = importlib.import_module("triton.compiler.compiler").make_backend(target)
    options = backend.parse_options(dict(specialisation.options))
    ir = importlib.import_module("triton._C.libtriton").ir
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, specialisation.source.language)
    metadata = {"target": target, **options.__dict__}
    log = io.StringIO()
    with contextlib.redirect_stdout(log), quiet(), _explained():
        module = specialisation.source.make_ir(
            target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
        )
        if digest_of(str(stages["ttir"](module, metadata))) != lent.ttir:
            return compile_one(specialisation)
        stages["cubin"](retargeted(lent.ptx, specialisation.target.arch), metadata)
    return {**asdict(replace(figures, **_assembled(log.getvalue()))), "lent": lender}


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Say why the front end refused, and where, before anything else: its own text begins with the whole function."""
    compiler: Any = importlib.import_module("triton.compiler.compiler")
    errors = importlib.import_module("triton.compiler.errors")
    # it would take the frames away that know file and line
    compiler.filter_traceback = lambda error: None
    try:
        yield
    except errors.CompilationError as error:
        reason, place = reason_of(error)
        raise Refused(f"{place}: {reason}" if place else reason) from error


def _settings() -> Any:
    """Set what every compilation wants of Triton, and return its settings."""
    knobs = importlib.import_module("triton.knobs")
    # ptxas -v is where NVIDIA's spills and barriers stand; Triton asks for it and prints it on request
    knobs.nvidia.dump_ptxas_log = True
    knobs.compilation.always_compile = True
    return knobs


def _assembled(log: str) -> dict[str, Any]:
    """The fields of `Figures` that the assembler decides."""
    info = ptxas.parse(log)
    return {
        "registers": info.registers,
        "shared_static": info.shared_static,
        "spill_stores": info.spill_stores,
        "spill_loads": info.spill_loads,
        "stack": info.stack,
        "barriers": info.barriers,
    }


def _nvidia(compiled: Any, log: str) -> Figures:
    return Figures(
        **_assembled(log),
        tensor_memory_columns=getattr(compiled.metadata, "tmem_size", None) or 0,
        **_hazard(compiled.asm),
        **_common(compiled, "ptx"),
    )


def _hazard(asm: Any) -> dict[str, Any]:
    """The fields of `Figures` about a wgmma's registers; few kernels have any, and only those are disassembled."""
    if not wgmma_hazard.reads_registers(asm["ptx"]):
        return {}
    found = wgmma_hazard.overwritten(wgmma_hazard.disassembled(asm["cubin"]))
    return {} if found is None else {"overwritten": found.registers, "outstanding": found.outstanding}


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
