"""Faults of masks and of what stands in for masked-out values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.mutation.operators.syntax import called, constant, is_one, keyword_of, number, with_argument, with_keyword
from harness.mutation.source import Edit, Region

_NEIGHBOURS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
#: Comparison -> what is added to its right side so that it differs from the neighbouring comparison.
_BEYOND: dict[type[ast.cmpop], int] = {ast.Lt: -1, ast.LtE: 1, ast.Gt: 1, ast.GtE: -1}
_MASKED = ("load", "store", "atomic_add", "atomic_max", "atomic_min", "atomic_xchg", "atomic_cas", "atomic_or")


def comparison(region: Region) -> Iterator[Edit]:
    """``<`` for ``<=`` and back, ``==`` for ``!=`` and back."""
    for node in region.nodes():
        if isinstance(node, ast.Compare):
            for place, op in enumerate(node.ops):
                if type(op) in _NEIGHBOURS:
                    ops = [*node.ops[:place], _NEIGHBOURS[type(op)](), *node.ops[place + 1 :]]
                    yield Edit(node, ast.Compare(node.left, ops, node.comparators))


def bound(region: Region) -> Iterator[Edit]:
    """The right side of an ordering comparison off by one."""
    for node in region.nodes():
        if isinstance(node, ast.Compare):
            for place, op in enumerate(node.ops):
                step = _BEYOND.get(type(op))
                if step is not None:
                    right = node.comparators[place]
                    moved = ast.BinOp(right, ast.Add() if step > 0 else ast.Sub(), ast.Constant(1))
                    others = [*node.comparators[:place], moved, *node.comparators[place + 1 :]]
                    yield Edit(node, ast.Compare(node.left, node.ops, others))


def mask(region: Region) -> Iterator[Edit]:
    """A mask left out, and one condition of several left out."""
    for node in region.nodes():
        if called(node, *_MASKED):
            assert isinstance(node, ast.Call)
            if keyword_of(node, "mask") is not None:
                bare = with_keyword(with_keyword(node, "mask", None), "other", None)
                yield Edit(node, bare)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
            if not number(node.left) and not number(node.right):
                yield Edit(node, node.left)
                yield Edit(node, node.right)
        elif isinstance(node, ast.BoolOp):
            for place in range(len(node.values)):
                rest = [*node.values[:place], *node.values[place + 1 :]]
                yield Edit(node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))


def other(region: Region) -> Iterator[Edit]:
    """Another value for masked-out lanes; none, where that is not the 0 that Triton gives anyway."""
    for node in region.nodes():
        if called(node, "load"):
            assert isinstance(node, ast.Call)
            value = keyword_of(node, "other")
            if value is not None:
                zero = number(value) and not ast.literal_eval(value)
                yield Edit(value, constant(1 if zero else 0))
                if not zero:
                    yield Edit(node, with_keyword(node, "other", None))


def select(region: Region) -> Iterator[Edit]:
    """One side of a choice for all, and the two sides exchanged."""
    for node in region.nodes():
        if called(node, "where"):
            assert isinstance(node, ast.Call)
            if len(node.args) == 3:
                condition, yes, no = node.args
                yield Edit(node, yes)
                yield Edit(node, no)
                yield Edit(node, ast.Call(node.func, [condition, no, yes], node.keywords))
        elif isinstance(node, ast.IfExp):
            yield Edit(node, node.body)
            yield Edit(node, node.orelse)


def sentinel(region: Region) -> Iterator[Edit]:
    """A value that stands for "nothing" or "no limit", replaced by one that can occur."""
    for node in region.nodes():
        if called(node, "float") and isinstance(node, ast.Call) and len(node.args) == 1:
            text = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if isinstance(text, str):
                negative = text.startswith("-")
                yield Edit(node, constant(-1.0e30 if negative else 1.0e30))
                yield Edit(node, with_argument(node, 0, ast.Constant(text[1:] if negative else f"-{text}")))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and is_one(node.operand):
            yield Edit(node, constant(0))
            yield Edit(node, constant(-2))
