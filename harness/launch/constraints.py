"""Which form of ``moe_scatter`` a target gets, and the constraints that a caller may put on the choice.

A constraint lives in a scope and nowhere else::

    with constraints(is_persistent=False, num_stages=2):
        moe_scatter(...)

Scopes are context variables: threads and tasks have their own, importing this module asks no device, and leaving a
scope by any exception puts the outer one back.
"""

from __future__ import annotations

import contextvars
import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from harness.device.capabilities import installed_triton, shared_memory_per_block, tma_form
from harness.device.targets import Target, target_of
from harness.launch.scatter_shared import BF16, Operands, Tile, shared_bytes

__all__ = ["Constraints", "Form", "NoForm", "Operands", "choose_form", "constraints", "current_constraints"]

FormName = Literal["persistent-scatter", "persistent-store", "non-persistent"]

_WARPS = (1, 2, 4, 8, 16)
_STAGES = range(1, 9)
_BLOCKS = (16, 32, 64, 128, 256)
_EPILOGUES = ("scatter", "store")
_ALLOWED: dict[str, tuple[object, ...] | range] = {
    "is_persistent": (True, False),
    "epilogue": _EPILOGUES,
    "block_m": _BLOCKS,
    "block_n": _BLOCKS,
    "block_k": _BLOCKS,
    "num_warps": _WARPS,
    "num_stages": _STAGES,
}


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What the choice of a form must respect; None leaves a matter open.

    ``epilogue``: how rows are written, ``"scatter"`` (tile scatter by TMA) or ``"store"`` (plain stores).
    Raises TypeError for a value of the wrong type, ValueError for one that is not offered or contradicts another.
    """

    is_persistent: bool | None = None
    epilogue: Literal["scatter", "store"] | None = None
    block_m: int | None = None
    block_n: int | None = None
    block_k: int | None = None
    num_warps: int | None = None
    num_stages: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            value = getattr(self, name)
            if value is None:
                continue
            # True equals 1, so the type has to be compared as well
            if type(value) is not type(allowed[0]):
                raise TypeError(f"{name}: want {type(allowed[0]).__name__}, got {value!r}")
            if value not in allowed:
                raise ValueError(f"{name}: want one of {', '.join(map(str, allowed))}, got {value!r}")
        if self.is_persistent is False and self.epilogue == "scatter":
            raise ValueError(
                "is_persistent=False contradicts epilogue='scatter': tile scatter is the persistent form's"
            )
        if self.is_persistent is False and self.num_warps == 1:
            raise ValueError(_ONE_WARP)


# Reported of triton_kernels 3.6 on sm_120: small non-persistent kernels fell to one warp, and decoding to 35 tokens/s.
_ONE_WARP = "num_warps: the non-persistent form needs at least 2 warps, got 1"
_FREE = Constraints()
_current: contextvars.ContextVar[Constraints] = contextvars.ContextVar("moe_scatter_constraints", default=_FREE)


def current_constraints() -> Constraints:
    """Return the constraints in force in this thread or task."""
    return _current.get()


@contextmanager
def constraints(**values: Any) -> Iterator[Constraints]:
    """Add ``values``, the fields of `Constraints`, to those in force; yield all that are in force in the block.

    An inner scope overrides an outer one field by field, None lifts a field. Raises TypeError for an unknown name or a
    wrong type, ValueError for a value that is not offered or contradicts another.
    """
    known = [field.name for field in fields(Constraints)]
    for name in values:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise TypeError(f"no constraint {name!r}{hint}; there are: {', '.join(known)}")
    outer = _current.get()
    inner = replace(outer, **values)
    try:
        _current.set(inner)
        yield inner
    finally:
        _current.set(outer)


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form of ``moe_scatter`` with the launch parameters that fit, and why it was taken.

    ``persistent-scatter``: TMA gather and tile scatter; ``persistent-store``: TMA gather and plain stores;
    ``non-persistent``: plain pointers. ``shared_bytes`` is an upper bound for one block.
    """

    name: FormName
    reason: str
    tile: Tile
    num_warps: int
    num_stages: int
    shared_bytes: int

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class NoForm(ValueError):
    """No form satisfies the constraints on this target; the message says what stood against each."""


def choose_form(
    target: Target | str,
    triton_version: str | tuple[int, int] | None = None,
    limits: Constraints | None = None,
    *,
    operands: Operands = BF16,
    refused: bool = False,
) -> Form:
    """Return the first of the three forms, in the order of `Form`, that ``target`` can do and that fits it.

    ``triton_version`` is ``"3.7.1"`` or ``(3, 7)``, by default the installed one; ``limits`` are by default
    those in force. A persistent form is taken by itself only where its TMA operations are instructions; where Triton
    lowers them to pointer accesses it is taken on request. Stages are given up until a block's shared memory fits,
    unless their number was asked for. With ``refused`` a form that does not compile on ``target`` is taken too, for
    whoever wants to see the compiler refuse it. Raises NoForm if nothing is left, ValueError for an unknown target or
    Triton.
    """
    target = target_of(target) if isinstance(target, str) else target
    version = _version(triton_version)
    wanted = current_constraints() if limits is None else limits
    against = []
    for name in _names(wanted):
        try:
            reason = _capable(name, target, version, forced=wanted.is_persistent is True, refused=refused)
            return _fitted(name, reason, target, wanted, operands)
        except NoForm as problem:
            against.append(f"{name}: {problem}")
    raise NoForm(f"moe_scatter on {target.arch} with Triton {version[0]}.{version[1]}: {'; '.join(against)}")


def _names(wanted: Constraints) -> list[FormName]:
    names: list[FormName] = []
    if wanted.is_persistent is not False:
        if wanted.epilogue != "store":
            names.append("persistent-scatter")
        if wanted.epilogue != "scatter":
            names.append("persistent-store")
    if wanted.is_persistent is not True and wanted.epilogue != "scatter":
        names.append("non-persistent")
    return names


def _capable(name: FormName, target: Target, version: tuple[int, int], *, forced: bool, refused: bool) -> str:
    """Return why ``target`` can do the form; raises NoForm with the reason why not."""
    gather, scatter = (tma_form(target, operation, version) for operation in ("gather", "scatter"))
    found = f"{target.arch}, Triton {version[0]}.{version[1]}: tile gather {gather}, tile scatter {scatter}"
    needed = {"persistent-scatter": (gather, scatter), "persistent-store": (gather,), "non-persistent": ()}[name]
    if ("refused" in needed and not refused) or ("lowered" in needed and not forced):
        raise NoForm(found)
    return f"{found} (as asked, by pointers)" if "lowered" in needed else found


def _fitted(name: FormName, reason: str, target: Target, wanted: Constraints, operands: Operands) -> Form:
    tile = Tile(wanted.block_m or 128, wanted.block_n or 128, wanted.block_k or 64)
    num_warps = wanted.num_warps or (8 if tile.m * tile.n >= 128 * 128 else 4)
    if name == "non-persistent" and num_warps == 1:
        raise NoForm(_ONE_WARP)
    limit = shared_memory_per_block(target)
    stages = (3, 2, 1) if wanted.num_stages is None else (wanted.num_stages,)
    for num_stages in stages:
        gathers, scatters = name != "non-persistent", name == "persistent-scatter"
        needed = shared_bytes(target, tile, num_stages, operands, gathers=gathers, scatters=scatters)
        if needed <= limit:
            return Form(
                name=name, reason=reason, tile=tile, num_warps=num_warps, num_stages=num_stages, shared_bytes=needed
            )
    raise NoForm(f"{needed} bytes of shared memory with num_stages={num_stages} and {tile}, {target.arch} has {limit}")


def _version(given: str | tuple[int, int] | None) -> tuple[int, int]:
    if given is None:
        return installed_triton()
    if isinstance(given, tuple):
        return given
    parts = given.split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts[:2]):
        raise ValueError(f"triton_version: want a form such as '3.7.1', got {given!r}")
    return int(parts[0]), int(parts[1])
