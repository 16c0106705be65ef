"""From the printed form of a case back to the case, without evaluating anything."""

from __future__ import annotations

import ast
import dataclasses
import enum
import math
import sys
from collections.abc import Iterator
from typing import Any

from harness.contract import Contract

_CONSTANTS = {"inf": math.inf, "nan": math.nan}
_COLLECTIONS: dict[str, Any] = {"frozenset": frozenset, "set": set, "tuple": tuple, "list": list}


def parse(contract: Contract[Any], text: str) -> Any:
    """Return the case that ``text``, a ``repr``, describes.

    Names are looked up where the contract's functions were defined and in the packages of strategies. Only
    dataclasses are called; enum members, torch dtypes, literals, ``inf`` and ``nan`` are read. Raises ValueError
    saying what in ``text`` is none of these, or what its dataclass refused.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"not a case: {error.msg} at column {error.offset}") from None
    case = _Reader(contract).value(tree.body)
    if not dataclasses.is_dataclass(case) or isinstance(case, type):
        raise ValueError(f"not a case: {ast.unparse(tree)} is of type {type(case).__name__}, not a dataclass")
    return case


def _namespaces(contract: Contract[Any]) -> Iterator[dict[str, Any]]:
    """Where a case's names may live, nearest first."""
    homes = [function.__module__ for function in (contract.inputs, contract.cases, contract.features)]
    homes += [type(case).__module__ for case in (*contract.pinned, *contract.workloads)]
    homes += sorted(name for name in sys.modules if name.startswith("harness.strategies"))
    for home in dict.fromkeys(homes):
        if home in sys.modules:
            yield vars(sys.modules[home])


class _Reader:
    """Turns syntax nodes into values."""

    def __init__(self, contract: Contract[Any]) -> None:
        self._contract = contract

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Tuple(elts=elements):
                return tuple(self.value(element) for element in elements)
            case ast.List(elts=elements):
                return [self.value(element) for element in elements]
            case ast.Set(elts=elements):
                return {self.value(element) for element in elements}
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return {self.value(key): self.value(item) for key, item in zip(keys, values, strict=True) if key}
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._number(operand)
            case ast.Name(id=name) if name in _CONSTANTS:
                return _CONSTANTS[name]
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
        raise ValueError(f"not part of a case: {ast.unparse(node)}")

    def _number(self, node: ast.expr) -> Any:
        value = self.value(node)
        if not isinstance(value, int | float | complex):
            raise ValueError(f"not a number: {ast.unparse(node)}")
        return value

    def _attribute(self, node: ast.Attribute) -> Any:
        """A torch dtype or an enum member."""
        if isinstance(node.value, ast.Name) and node.value.id == "torch":
            import torch

            dtype = getattr(torch, node.attr, None)
            if isinstance(dtype, torch.dtype):
                return dtype
            raise ValueError(f"not a torch dtype: {ast.unparse(node)}")
        owner = self._class(node.value)
        if isinstance(owner, enum.EnumMeta) and node.attr in owner.__members__:
            return owner[node.attr]
        raise ValueError(f"not an enum member or a torch dtype: {ast.unparse(node)}")

    def _call(self, node: ast.Call) -> Any:
        """A dataclass, or a collection of one iterable."""
        positional = [self.value(argument) for argument in node.args]
        if any(keyword.arg is None for keyword in node.keywords):
            raise ValueError(f"not part of a case: ** in {ast.unparse(node)}")
        named = {keyword.arg: self.value(keyword.value) for keyword in node.keywords if keyword.arg}
        if isinstance(node.func, ast.Name) and node.func.id in _COLLECTIONS and not named and len(positional) < 2:
            return _COLLECTIONS[node.func.id](*positional)
        cls = self._class(node.func)
        if not dataclasses.is_dataclass(cls):
            raise ValueError(f"only dataclasses are called in a case: {ast.unparse(node.func)}")
        try:
            return cls(*positional, **named)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{ast.unparse(node.func)}: {error}") from error

    def _class(self, node: ast.expr) -> type:
        """Resolve ``Name`` or ``Outer.Name`` to a class."""
        if isinstance(node, ast.Attribute):
            found = getattr(self._class(node.value), node.attr, None)
        elif isinstance(node, ast.Name):
            spaces = _namespaces(self._contract)
            found = next((space[node.id] for space in spaces if node.id in space), None)
        else:
            found = None
        if not isinstance(found, type):
            raise ValueError(f"contract {self._contract.name} knows no class {ast.unparse(node)}")
        return found
