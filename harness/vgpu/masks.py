"""Which statements can run under a mask, and the code around them that joins what their programs hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def possible(statements: Sequence[ast.stmt]) -> bool:
    """Whether all that ``statements`` do to control flow and variables stays inside of them and can be joined."""
    for statement in statements:
        for node in _walk(statement):
            if isinstance(node, (ast.Return, ast.Global, ast.Nonlocal, ast.Delete, ast.FunctionDef)):
                return False
            if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                return False
    return not any(_leaves(statement) for statement in statements)


def assigned(statements: Sequence[ast.stmt]) -> list[str]:
    """Return the variables that ``statements`` assign, in order of appearance."""
    names: dict[str, None] = {}
    for statement in statements:
        for node in _walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] = None
    return list(names)


def attribute(owner: str, name: str) -> ast.Attribute:
    """Return ``owner.name``."""
    return ast.Attribute(value=ast.Name(id=owner, ctx=ast.Load()), attr=name, ctx=ast.Load())


def when_split(owner: str, method: str, names: Sequence[str] | None = None) -> ast.If:
    """Return ``if owner.split: NAMES = owner.method(locals(), NAMES)``, without the names if there are none."""
    variables = ast.Call(func=ast.Name(id="locals", ctx=ast.Load()), args=[], keywords=[])
    given: list[ast.expr] = [variables]
    if names is not None:
        given.append(ast.Tuple(elts=[ast.Constant(name) for name in names], ctx=ast.Load()))
    call = ast.Call(func=attribute(owner, method), args=given, keywords=[])
    act: ast.stmt = ast.Expr(call)
    if names:
        target = ast.Tuple(elts=[ast.Name(id=name, ctx=ast.Store()) for name in names], ctx=ast.Store())
        act = ast.Assign(targets=[target], value=call)
    return ast.If(test=attribute(owner, "split"), body=[act], orelse=[])


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes of the same scope."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _SCOPES):
            yield from _walk(child)


def _leaves(node: ast.stmt) -> bool:
    """Whether a ``break`` or ``continue`` inside belongs to a loop outside."""
    if isinstance(node, (ast.Break, ast.Continue)):
        return True
    if isinstance(node, (ast.For, ast.While)):
        return any(_leaves(child) for child in node.orelse)
    return any(_leaves(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
