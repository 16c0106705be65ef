"""Small questions about syntax, and small pieces of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def called(node: ast.AST, *names: str) -> bool:
    """Whether ``node`` calls something whose last name is one of ``names``."""
    return isinstance(node, ast.Call) and last_name(node.func) in names


def last_name(node: ast.expr) -> str:
    """``"load"`` for ``tl.load``; empty where there is no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def number(node: ast.AST) -> bool:
    """Whether ``node`` is a literal int or float."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def is_one(node: ast.AST) -> bool:
    """Whether ``node`` is the literal 1, which with a minus is a sentinel."""
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1


def constant(value: int | float) -> ast.expr:
    """Return the literal; a negative one in the way that the parser reads it."""
    if value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def with_keyword(call: ast.Call, name: str, value: ast.expr | None) -> ast.Call:
    """Return ``call`` with keyword ``name`` set to ``value``, or without it."""
    keywords = []
    for keyword in call.keywords:
        if keyword.arg != name:
            keywords.append(keyword)
        elif value is not None:
            keywords.append(ast.keyword(arg=name, value=value))
    return ast.Call(call.func, call.args, keywords)


def with_argument(call: ast.Call, position: int, value: ast.expr) -> ast.Call:
    """Return ``call`` with another positional argument."""
    return ast.Call(call.func, [*call.args[:position], value, *call.args[position + 1 :]], call.keywords)


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument, or None."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def names_read(node: ast.AST) -> set[str]:
    """Names that ``node`` reads; an augmented assignment reads its target."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        found.add(node.target.id)
    return found


def names_written(node: ast.AST) -> set[str]:
    """Names that ``node`` assigns."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def axes(node: ast.Subscript) -> Iterator[ast.expr]:
    """Yield what stands between the commas of an index."""
    yield from node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
