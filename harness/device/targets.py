"""The targets that tests can ask for by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Vendor = Literal["cuda", "rocm"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """One architecture: ``marker`` selects its tests (``-m sm120``), ``arch`` is how compilers and drivers call it."""

    marker: str
    arch: str
    vendor: Vendor
    summary: str


_ALL = (
    Target(marker="sm90", arch="sm_90", vendor="cuda", summary="Hopper: H100, H200"),
    Target(marker="sm100", arch="sm_100", vendor="cuda", summary="Blackwell: B200, GB200"),
    Target(marker="sm103", arch="sm_103", vendor="cuda", summary="Blackwell Ultra: B300, GB300"),
    Target(marker="sm120", arch="sm_120", vendor="cuda", summary="desktop Blackwell: RTX PRO 6000, RTX 50"),
    Target(marker="sm121", arch="sm_121", vendor="cuda", summary="GB10"),
    Target(marker="gfx942", arch="gfx942", vendor="rocm", summary="MI300"),
    Target(marker="gfx950", arch="gfx950", vendor="rocm", summary="MI350"),
    Target(marker="gfx1250", arch="gfx1250", vendor="rocm", summary="MI400"),
)

#: By marker name.
TARGETS: dict[str, Target] = {target.marker: target for target in _ALL}
