"""Instructions of note in a compiled kernel, and tensor-descriptor operations that became something else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

Operation = Literal["load", "store", "gather", "scatter", "reduce"]

# Name -> what it looks like.  PTX ISA, "cp.async.bulk.tensor": tile::gather4 and tile::scatter4 are load modes, a
# copy towards .global is a store.
_PTX = {
    "wgmma": r"\bwgmma\.mma_async\b",
    "tcgen05.mma": r"\btcgen05\.mma\b",
    "mma.sync": r"\bmma\.sync\b",
    "TMA gather": r"\bcp\.async\.bulk\.tensor\.[^;]*tile::gather4",
    "TMA scatter": r"\bcp\.async\.bulk\.tensor\.[^;]*tile::scatter4",
    "TMA load": r"\bcp\.async\.bulk\.tensor\.\dd\.shared::\w+\.global(?![^;]*tile::gather4)",
    "TMA store": r"\bcp\.async\.bulk\.tensor\.\dd\.global\.shared::\w+(?![^;]*tile::scatter4)",
    "TMA reduce": r"\bcp\.reduce\.async\.bulk\.tensor\b",
    "cp.async": r"\bcp\.async\.c[ag]\b",
    "ldmatrix": r"\bldmatrix\b",
    "stmatrix": r"\bstmatrix\b",
}
_AMDGCN = {
    "v_mfma": r"\bv_mfma_",
    "v_wmma": r"\bv_(?:s?wmmac?)_",
    "tensor load": r"\btensor_load_to_lds\b",
    "tensor store": r"\btensor_store_from_lds\b",
    "load to LDS": r"\b(?:global|buffer)_load_(?:lds|async_to_lds)_|\bbuffer_load_[^\n]* lds$",
    "transposed read": r"\bds_(?:read|load)_(?:b\d+_)?tr",
}
# Every line with one of those has something of this; most lines have not, and are not worth ten searches.
_NOTABLE = re.compile(r"mma|mfma|cp\.|matrix|lds|ds_|tensor_")
# MMA opcode with its shape and types, for the finest answer to "which tensor core instruction is it".
_KINDS = (
    r"\b(wgmma\.mma_async\.sync\.aligned\.[\w.]+)",
    r"\b(tcgen05\.mma\.[\w.:]+)",
    r"\b(mma\.sync\.aligned\.[\w.:]+)",
    r"\b(v_(?:mfma|s?wmmac?)_\w+)",
)
_DESCRIPTOR = re.compile(r"\btt\.descriptor_(load|store|gather|scatter|reduce)\b|\btt\.experimental_descriptor_(\w+)")
_EMITTED: dict[Operation, tuple[str, ...]] = {
    "load": ("TMA load", "tensor load"),
    "store": ("TMA store", "tensor store"),
    "gather": ("TMA gather", "tensor load"),
    "scatter": ("TMA scatter", "tensor store"),
    "reduce": ("TMA reduce",),
}


def count(assembly: str, *, ptx: bool) -> dict[str, int]:
    """Return how often each instruction of note stands in PTX or AMD assembly; those that do not are left out."""
    lines = _notable(assembly)
    found = {
        name: len(re.findall(pattern, lines, re.MULTILINE)) for name, pattern in (_PTX if ptx else _AMDGCN).items()
    }
    return {name: number for name, number in found.items() if number}


def matrix_kinds(assembly: str) -> dict[str, int]:
    """Return every matrix instruction with its shape and types, and how often it stands in the assembly."""
    lines = _notable(assembly)
    return dict(sorted(Counter(kind for pattern in _KINDS for kind in re.findall(pattern, lines)).items()))


def _notable(assembly: str) -> str:
    """Return the lines that may have an instruction of note."""
    return "\n".join(line for line in assembly.split("\n") if _NOTABLE.search(line))


def descriptor_operations(source: str) -> list[Operation]:
    """Return the tensor-descriptor operations (``Operation``) that Triton's first IR asks for, in that order."""
    found = {first or second for first, second in _DESCRIPTOR.findall(source)} if "descriptor_" in source else set()
    return [operation for operation in _EMITTED if operation in found]


def lowered(asked: Sequence[Operation], counted: Mapping[str, int]) -> list[Operation]:
    """Return those of ``asked`` for which no TMA or TDM instruction was emitted."""
    return [operation for operation in asked if not any(name in counted for name in _EMITTED[operation])]
