"""One lowering for targets that Triton treats alike: who may lend whom its PTX, and what has to be shown first.

Between the Triton IR of a kernel and its PTX most targets of one generation differ in nothing but the name of the
target, and that part is most of a compilation.  Where it is so, one target's PTX is assembled for the others: the
assembler's verdict is each target's own.  Nothing is taken on trust for good: in every run each kernel is compiled in
full on each such target for one of its specialisations, and it lends only where the PTX was the same, letter by letter
but for the name; what is borrowed has first the same Triton IR.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.compiling.cache import key_of
from harness.compiling.naming import parts_of, qualified
from harness.compiling.recording import Specialisation

#: Target -> the target of its generation that is compiled in full.
LENDERS = {"sm_86": "sm_80", "sm_89": "sm_80", "sm_103": "sm_100", "sm_121": "sm_120"}
# Options that Triton sets by the target alone; what they do to a kernel is in its Triton IR.
_BY_TARGET = frozenset({"arch", "supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes"})
_TARGET = re.compile(r"^(\.target\s+sm_)\d+", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Lowering:
    """What a compilation leaves to others: a digest of its Triton IR, and its PTX."""

    ttir: str
    ptx: str

    def write(self, path: Path) -> None:
        """Keep this in ``path``, all of it or nothing: its process may be killed at any moment."""
        part = path.with_name(f"{path.name}.part")
        part.write_text(json.dumps(asdict(self)))
        part.replace(path)

    @classmethod
    def read(cls, path: Path) -> Lowering | None:
        """Return what is in ``path``, or None where no compilation got as far as that."""
        return cls(**json.loads(path.read_text())) if path.is_file() else None


def digest_of(ttir: str) -> str:
    """Return a name for the text of a kernel's Triton IR."""
    return hashlib.sha256(ttir.encode()).hexdigest()


def retargeted(ptx: str, arch: str) -> str:
    """Return ``ptx`` with ``arch`` (``"sm_121"``) in its ``.target`` line; a suffix, as in ``sm_120a``, stays."""
    return _TARGET.sub(rf"\g<1>{arch.removeprefix('sm_')}", ptx, count=1)


def loans(specialisations: Mapping[str, Specialisation], digest: Callable[[Any], str] | None = None) -> dict[str, str]:
    """Return borrower -> lender, keys of ``specialisations``: the same launch on a target that may lend.

    Same are source, signature, constants, hints and every option that is not the target's own.  ``digest`` names a
    jitted function's source, as in ``parts_of``.
    """
    lending = {
        (one.target.arch, _form(one, digest)): key
        for key, one in specialisations.items()
        if one.target.arch in LENDERS.values()
    }
    found = {
        key: lending.get((LENDERS[one.target.arch], _form(one, digest)))
        for key, one in specialisations.items()
        if one.target.arch in LENDERS
    }
    return {key: lender for key, lender in found.items() if lender is not None}


def trials(
    borrowed: Mapping[str, str], specialisations: Mapping[str, Specialisation], lent: Mapping[str, Lowering]
) -> dict[tuple[str, str], str]:
    """Return (kernel, target) -> the borrower that is compiled in full to see whether the two targets are alike there.

    ``lent`` are the lowerings of lenders by their keys; a lender that was refused lends nothing.  Keys are digests:
    which launch is tried is as good as drawn, and drawn again with every change of the kernel.
    """
    chosen: dict[tuple[str, str], str] = {}
    for key, lender in sorted(borrowed.items()):
        if lender in lent:
            chosen.setdefault(place_of(specialisations[key]), key)
    return chosen


def place_of(specialisation: Specialisation) -> tuple[str, str]:
    """Return (kernel, target), what a trial speaks for."""
    return qualified(specialisation), specialisation.target.arch


def alike(lent: Lowering, own: Lowering | None, arch: str) -> bool:
    """Whether ``own``, compiled in full for ``arch``, is ``lent`` but for the name of the target."""
    return own is not None and own.ttir == lent.ttir and own.ptx == retargeted(lent.ptx, arch)


def _form(specialisation: Specialisation, digest: Callable[[Any], str] | None) -> str:
    parts = parts_of(specialisation) if digest is None else parts_of(specialisation, digest)
    options = {name: value for name, value in parts["options"].items() if name not in _BY_TARGET}
    kept = {name: value for name, value in parts.items() if name not in ("target", "backend")}
    return key_of({**kept, "options": options, "kernel": qualified(specialisation)})
