"""What a code object for AMD says about its kernel, in the metadata at the end of its assembly."""

from __future__ import annotations

import re
from dataclasses import dataclass

# VGPRs are 32 bits a lane
_REGISTER_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class CodeObjectInfo:
    """VGPRs (arch and accumulation together) and SGPRs a wave, spilled ones of both, bytes of scratch a lane."""

    vgprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    scratch: int

    @property
    def spill_bytes(self) -> int:
        """Bytes a lane that go through memory; an SGPR is spilled into lanes of a VGPR."""
        return self.vgpr_spills * _REGISTER_BYTES


def parse(assembly: str) -> CodeObjectInfo:
    """Read the ``amdhsa.kernels`` metadata of a single kernel; raises ValueError where a count is missing."""

    # the metadata ends the file, and the file is long
    metadata = assembly[max(0, assembly.find("amdhsa.kernels:")) :]

    def count(key: str) -> int:
        found = re.findall(rf"^\s*-?\s*\.{key}:\s*(\d+)\s*$", metadata, re.MULTILINE)
        if not found:
            raise ValueError(f"code object: no .{key} in {len(assembly)} characters of assembly")
        return max(map(int, found))

    return CodeObjectInfo(
        vgprs=count("vgpr_count"),
        sgprs=count("sgpr_count"),
        vgpr_spills=count("vgpr_spill_count"),
        sgpr_spills=count("sgpr_spill_count"),
        scratch=count("private_segment_fixed_size"),
    )
