"""From what JSON holds to dataclasses: each value is looked at, and what is wrong is said with its place."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints


class Malformed(ValueError):
    """A value is not what its field wants."""


def decoded(kind: Any, value: Any, where: str = "") -> Any:
    """Return ``value`` as a ``kind``: a dataclass, tuple[X, ...], dict[str, X], X | None, str, int, float or bool.

    Raises Malformed naming the place of what does not fit.
    """
    if is_dataclass(kind):
        return _object(kind, value, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (one,) = (each for each in inner if each is not type(None))
        return None if value is None else decoded(one, value, where)
    if origin is tuple:
        _require(isinstance(value, list), where, "a list", value)
        return tuple(decoded(inner[0], each, f"{where}[{number}]") for number, each in enumerate(value))
    if origin is dict:
        _require(isinstance(value, dict), where, "an object", value)
        return {name: decoded(inner[1], each, f"{where}[{name!r}]") for name, each in value.items()}
    # a whole number of seconds is written without a point
    wanted = (int, float) if kind is float else kind
    _require(isinstance(value, wanted) and (kind is bool or not isinstance(value, bool)), where, kind.__name__, value)
    return value


def _object(kind: Any, value: Any, where: str) -> Any:
    known = {each.name for each in fields(kind)}
    _require(
        isinstance(value, dict) and value.keys() == known, where, f"an object of {', '.join(sorted(known))}", value
    )
    hints = get_type_hints(kind)
    return kind(**{name: decoded(hints[name], each, f"{where}.{name}".lstrip(".")) for name, each in value.items()})


def _require(fits: bool, where: str, wanted: str, value: Any) -> None:
    if not fits:
        got = f"an object of {', '.join(sorted(value))}" if isinstance(value, dict) else repr(value)
        shown = got if len(got) <= 100 else f"{got[:100]}..."
        raise Malformed(f"{where or 'the receipt'}: wanted {wanted}, got {shown}")
