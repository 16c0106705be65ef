"""What a specialisation is called: for people and baselines, and for the cache."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from typing import Any

from harness.compiling import sources
from harness.compiling.recording import Specialisation, gpu_target


def qualified(specialisation: Specialisation) -> str:
    """Return the name of the jitted function with its module."""
    return f"{specialisation.function.__module__}.{specialisation.kernel}"


def config_of(specialisation: Specialisation) -> str:
    """Return ``"BLOCK_N=64 ... w4 s3 #1f3a"``: constants, options asked for, and a digest of the arguments' types.

    The digest holds types, divisibility by 16, and arguments that became constants (None, 1); it is the same on every
    target.
    """
    declared = {parameter.name for parameter in specialisation.function.params if parameter.is_constexpr}
    constants = specialisation.constants
    shown = [f"{name}={_short(constants[name])}" for name in constants if name in declared]
    short = {"num_warps": "w", "num_stages": "s", "num_ctas": "c"}
    shown += [f"{short.get(name, name + '=')}{value}" for name, value in specialisation.asked.items()]
    arguments = {name: _without_target(kind) for name, kind in specialisation.arguments.items()}
    arguments |= {name: _short(value) for name, value in constants.items() if name not in declared}
    digest = hashlib.sha256(repr(sorted(arguments.items())).encode()).hexdigest()[:4]
    return " ".join([*shown, f"#{digest}"])


def parts_of(specialisation: Specialisation, digest: Callable[[Any], str] = sources.digest) -> dict[str, Any]:
    """Return all that a result depends on: source with dependencies, signature, constants, hints, options, versions.

    ``digest`` names a jitted function's source: another than ``sources.digest`` may remember what that returned.
    """
    compiler = importlib.import_module("triton.compiler")
    libtriton = importlib.import_module("triton._C.libtriton")
    return {
        "source": digest(specialisation.function),
        "signature": sorted(specialisation.source.signature.items()),
        "constants": sorted(
            (repr(name), _constant(value, digest)) for name, value in specialisation.source.constants.items()
        ),
        "hints": sorted(map(repr, specialisation.source.attrs.items())),
        "options": {name: repr(value) for name, value in specialisation.options.items()},
        "target": specialisation.target.arch,
        "triton": importlib.import_module("triton").__version__,
        # names the assembler and its version
        "backend": compiler.make_backend(gpu_target(specialisation.target)).hash(),
        "environment": sorted(libtriton.get_cache_invalidating_env_vars().items()),
    }


def _without_target(kind: str) -> str:
    """``"*bf16:DS"`` without the hints that only one vendor's backend has: divisibility is left."""
    base, _, hints = kind.partition(":")
    return f"{base}:D" if "D" in hints else base


def _constant(value: Any, digest: Callable[[Any], str]) -> str:
    return digest(value) if hasattr(value, "cache_key") else repr(value)


def _short(value: Any) -> str:
    return sources.digest(value)[:8] if hasattr(value, "cache_key") else str(value)
