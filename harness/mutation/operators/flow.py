"""Faults of order, loops, guards and cleaning up."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.mutation.operators import syntax
from harness.mutation.operators.syntax import called, names_read, names_written
from harness.mutation.source import Edit, Region, adjacent

_RANGES = ("range", "static_range")
_EFFECTS = ("store", "atomic_add", "atomic_xchg", "atomic_cas", "atomic_max", "atomic_min", "debug_barrier", "copy_")
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)


def accumulate(region: Region) -> Iterator[Edit]:
    """Overwriting for accumulating: ``x = y`` for ``x += y``, a matrix product without its accumulator."""
    for node in region.nodes():
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            yield Edit(node, [ast.Assign([node.target], node.value)])
            other = ast.Add() if isinstance(node.op, ast.Sub) else ast.Sub()
            if not isinstance(node.op, ast.Mult):
                yield Edit(node, [ast.AugAssign(node.target, other, node.value)])
            yield Edit(node, [])
        elif called(node, "dot", "dot_scaled"):
            assert isinstance(node, ast.Call)
            if called(node, "dot") and len(node.args) == 3:
                yield Edit(node, ast.Call(node.func, node.args[:2], node.keywords))
            elif syntax.keyword_of(node, "acc") is not None:
                yield Edit(node, syntax.with_keyword(node, "acc", None))


def loop(region: Region) -> Iterator[Edit]:
    """A loop that begins late or ends early, a quotient that drops the rest."""
    for node in region.nodes():
        if isinstance(node, ast.For) and called(node.iter, *_RANGES):
            call = node.iter
            assert isinstance(call, ast.Call)
            stop = 0 if len(call.args) == 1 else 1
            step: ast.expr = call.args[2] if len(call.args) > 2 else ast.Constant(1)
            shorter = ast.BinOp(call.args[stop], ast.Sub(), step)
            yield Edit(call, syntax.with_argument(call, stop, shorter))
            if stop:
                later: ast.expr = ast.BinOp(call.args[0], ast.Add(), step)
                yield Edit(call, syntax.with_argument(call, 0, later))
            else:
                yield Edit(call, ast.Call(call.func, [ast.Constant(1), *call.args], call.keywords))
        elif called(node, "cdiv"):
            assert isinstance(node, ast.Call)
            yield Edit(node, ast.BinOp(node.args[0], ast.FloorDiv(), node.args[1]))
            yield Edit(node, ast.BinOp(node, ast.Add(), ast.Constant(1)))


def order(region: Region) -> Iterator[Edit]:
    """Two statements exchanged of which one uses what the other makes, or which both act on memory."""
    for block in region.blocks():
        for first, second in adjacent(block):
            if isinstance(first, _SIMPLE) and isinstance(second, _SIMPLE) and _are_ordered(first, second, region):
                yield Edit(first, [second, first], last=second)


def _are_ordered(first: ast.stmt, second: ast.stmt, region: Region) -> bool:
    if all(any(called(node, *_EFFECTS) for node in ast.walk(statement)) for statement in (first, second)):
        return True
    # reading before the first assignment is an error that everything finds
    earlier = {name for other in region.roots if other.lineno < first.lineno for name in names_written(other)}
    known = earlier | set(region.parameters)
    flows = names_written(first) & names_read(second)
    return bool(names_read(first) & names_written(second)) or bool(flows & known)


def guard(region: Region) -> Iterator[Edit]:
    """A condition that is always taken, never taken, or taken the wrong way round."""
    for node in region.nodes():
        if not isinstance(node, ast.If):
            continue
        if isinstance(node.body[-1], ast.Raise):
            # that is an argument check, which `validation` is about
            continue
        yield Edit(node, list(node.orelse))
        if not _leaves(node.body):
            yield Edit(node, list(node.body))
            if node.orelse:
                yield Edit(node.test, ast.UnaryOp(ast.Not(), node.test))


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def one_path(region: Region) -> Iterator[Edit]:
    """A store or a second assignment that is missing."""
    written: set[str] = set(region.parameters)
    for node in region.nodes():
        if isinstance(node, ast.Expr) and called(node.value, *_EFFECTS) and not called(node.value, "debug_barrier"):
            yield Edit(node, [])
        elif isinstance(node, ast.Assign):
            targets = names_written(node)
            if targets and targets <= written:
                yield Edit(node, [])
            written |= targets


def restore(region: Region) -> Iterator[Edit]:
    """State that is not put back, or not put back after an exception; a context that is not entered."""
    for node in region.nodes():
        if isinstance(node, ast.Try) and node.finalbody:
            yield Edit(node, [*node.body, *node.orelse])
            yield Edit(node, [*node.body, *node.orelse, *node.finalbody])
        elif isinstance(node, ast.With):
            yield Edit(node, list(node.body))


def validation(region: Region) -> Iterator[Edit]:
    """An argument check that is missing, on the host."""
    if region.device:
        return
    for node in region.nodes():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if syntax.last_name(node.value.func).lstrip("_").startswith(("require", "check", "validate")):
                yield Edit(node, [])
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
            yield Edit(node, list(node.orelse))
