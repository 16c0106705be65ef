"""Where a run was made: the machine, the device, the versions, the commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness.bench import provenance
from harness.device import detect
from harness.receipts import revision
from harness.receipts.machine import driver

_VERSIONS = ("torch", "triton", "numpy")


def machine_info(lane: str) -> dict[str, Any]:
    """Return what pytest-benchmark records of a machine."""
    return {
        "node": platform.node(),
        "processor": platform.processor(),
        "machine": platform.machine(),
        "python_compiler": platform.python_compiler(),
        "python_implementation": platform.python_implementation(),
        "python_implementation_version": platform.python_version(),
        "python_version": platform.python_version(),
        "python_build": list(platform.python_build()),
        "release": platform.release(),
        "system": platform.system(),
        "cpu": {"brand_raw": _cpu(), "count": os.cpu_count()},
        "device": device_info(lane),
    }


def device_info(lane: str) -> dict[str, Any]:
    """Return what was timed: its ``name``, by which files are compared, and what notes are made of."""
    versions = {name: _version(name) for name in _VERSIONS}
    if lane != "cuda":
        return {"name": f"virtual GPU on {_cpu()}", "lane": lane, "versions": versions}
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    uuid = f"GPU-{properties.uuid}"
    return {
        "name": properties.name,
        "lane": lane,
        "arch": f"sm_{properties.major}{properties.minor}",
        "uuid": uuid,
        "sms": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "l2_bytes": properties.L2_cache_size,
        "max_sm_mhz": next((device.clock_mhz for device in detect().devices if device.uuid == uuid), None),
        "driver": driver(),
        "versions": {**versions, "cuda": str(torch.version.cuda)},
    }


def slug(name: str) -> str:
    """Return ``name`` as part of a file's name: ``"NVIDIA H200"`` is ``"nvidia-h200"``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def commit_info(tree: Path, commit: str | None = None) -> dict[str, Any]:
    """Return what pytest-benchmark records of a commit.

    Where git does not say, ``commit`` or the variable HARNESS_COMMIT names it, and the digests of the sources go with
    it: see `harness.bench.provenance`.  Files that git does not know count as changes too: a new kernel is not what the
    commit says.
    """
    found = {"project": tree.resolve().name, "branch": "(unknown)", "time": None, "author_time": None}
    head = _git(tree, "rev-parse", "HEAD")
    if head is None:
        told = commit or revision.of(tree, provenance.PATHS).commit
        if told in (provenance.UNVERSIONED, revision.UNKNOWN):
            return {**found, "id": provenance.UNVERSIONED, "dirty": False}
        return {**found, "id": told, "dirty": False, provenance.RECORDED: provenance.digests(tree)}
    time, _, author_time = (_git(tree, "show", "-s", "--format=%cI %aI") or "").partition(" ")
    return {
        **found,
        "id": head,
        "dirty": bool(_git(tree, "status", "--porcelain")),
        "branch": _git(tree, "rev-parse", "--abbrev-ref", "HEAD") or "(unknown)",
        "time": time,
        "author_time": author_time,
    }


def now() -> str:
    """Return the time as pytest-benchmark writes it."""
    return datetime.now(UTC).isoformat()


def _git(tree: Path, *arguments: str) -> str | None:
    # in a hook these would name the hook's repository
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(tree), *arguments], capture_output=True, text=True, timeout=60, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
