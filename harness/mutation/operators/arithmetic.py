"""Faults of indices, strides, bits and numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.mutation.operators import syntax
from harness.mutation.operators.syntax import axes, called, number
from harness.mutation.source import Edit, Region

_REDUCTIONS = ("sum", "max", "min", "argmax", "argmin", "cumsum", "cumprod", "sort", "flip", "reduce")
#: Calls whose literal arguments are shapes, axes or launch parameters: another number is another program, or none.
_STRUCTURAL = (
    "arange", "zeros", "full", "program_id", "num_programs", "reshape", "view", "broadcast_to", "permute", "trans",
    "expand_dims", "stride", "size", "float", "static_assert", "multiple_of", "max_contiguous", "constexpr_function",
    *_REDUCTIONS,
)  # fmt: skip


def index(region: Region) -> Iterator[Edit]:
    """A sum of two terms as their difference or without one of them; a difference as a sum or exchanged."""
    for node in region.nodes():
        if not isinstance(node, ast.BinOp) or _structural(region, node):
            continue
        if isinstance(node.op, ast.Add):
            yield Edit(node, ast.BinOp(node.left, ast.Sub(), node.right))
            yield Edit(node, node.left)
            yield Edit(node, node.right)
        elif isinstance(node.op, ast.Sub):
            yield Edit(node, ast.BinOp(node.left, ast.Add(), node.right))
            yield Edit(node, ast.BinOp(node.right, ast.Sub(), node.left))
            yield Edit(node, node.left)


def stride(region: Region) -> Iterator[Edit]:
    """Another stride of the same kernel, and a stride off by one."""
    strides = [name for name in region.parameters if "stride" in name]
    for node in region.nodes():
        if isinstance(node, ast.Name) and node.id in strides and isinstance(node.ctx, ast.Load):
            place = strides.index(node.id)
            if len(strides) > 1:
                yield Edit(node, ast.Name(strides[place + 1 if place + 1 < len(strides) else place - 1], ast.Load()))
            yield Edit(node, ast.BinOp(node, ast.Add(), ast.Constant(1)))


def axis(region: Region) -> Iterator[Edit]:
    """The other axis: of a grid, a reduction, a stride, a shape or a broadcast."""
    for node in region.nodes():
        device = ("program_id", "num_programs", *_REDUCTIONS) if region.device else ()
        if called(node, "stride", "size", *device):
            assert isinstance(node, ast.Call)
            for argument in node.args:
                if isinstance(argument, ast.Constant) and type(argument.value) is int:
                    yield Edit(argument, syntax.constant(1 if argument.value == 0 else argument.value - 1))
        elif isinstance(node, ast.Subscript):
            yield from _other_axis(node)


def _other_axis(node: ast.Subscript) -> Iterator[Edit]:
    parts = list(axes(node))
    new = [part for part in parts if isinstance(part, ast.Constant) and part.value is None]
    if len(parts) == 2 and len(new) == 1:
        yield Edit(node, ast.Subscript(node.value, ast.Tuple(parts[::-1], ast.Load()), node.ctx))
    elif syntax.last_name(node.value) == "shape" and isinstance(node.slice, ast.Constant):
        place = node.slice.value
        if type(place) is int:
            yield Edit(node.slice, syntax.constant(1 if place == 0 else place - 1))


def division(region: Region) -> Iterator[Edit]:
    """Quotient for remainder and back, and neither."""
    for node in region.nodes():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod):
            other = ast.Mod() if isinstance(node.op, ast.FloorDiv) else ast.FloorDiv()
            yield Edit(node, ast.BinOp(node.left, other, node.right))
            yield Edit(node, node.left)


def bits(region: Region) -> Iterator[Edit]:
    """A shift the other way or left out, a mask of bits with one bit less or left out, bits joined another way."""
    for node in region.nodes():
        if not isinstance(node, ast.BinOp):
            continue
        if isinstance(node.op, ast.LShift | ast.RShift):
            other = ast.RShift() if isinstance(node.op, ast.LShift) else ast.LShift()
            yield Edit(node, ast.BinOp(node.left, other, node.right))
            yield Edit(node, node.left)
        elif isinstance(node.op, ast.BitAnd) and isinstance(node.right, ast.Constant):
            if type(node.right.value) is int:
                yield Edit(node.right, ast.Constant(node.right.value >> 1))
                yield Edit(node, node.left)
        elif isinstance(node.op, ast.BitOr | ast.BitXor):
            yield Edit(node, ast.BinOp(node.left, ast.BitAnd(), node.right))
            yield Edit(node, node.left)


def constant(region: Region) -> Iterator[Edit]:
    """An integer one more or one less, a float twice as large, 0.0 as 1.0."""
    for node in region.nodes():
        if not isinstance(node, ast.Constant) or not number(node) or not _is_value(region, node):
            continue
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool):
            yield Edit(node, syntax.constant(value + 1))
            if value > 1:
                yield Edit(node, syntax.constant(value - 1))
        elif isinstance(value, float):
            yield Edit(node, syntax.constant(2 * value if value else 1.0))


def _is_value(region: Region, node: ast.Constant) -> bool:
    """Whether a literal takes part in arithmetic, on the device also as an argument or an assigned value."""
    parent = region.parents.get(node)
    if isinstance(parent, ast.BinOp):
        # `& 15` and comparisons have operators of their own, as have sentinels
        return not isinstance(parent.op, ast.BitAnd)
    if not region.device or _structural(region, node):
        return False
    return isinstance(parent, ast.Call | ast.Assign | ast.AugAssign) or (
        isinstance(parent, ast.UnaryOp) and not syntax.is_one(node)
    )


def _structural(region: Region, node: ast.AST) -> bool:
    """Whether ``node`` is, or is part of, an argument that shapes the program."""
    outer = region.parents.get(node)
    while isinstance(outer, ast.expr | ast.keyword):
        if isinstance(outer, ast.Call) and called(outer, *_STRUCTURAL):
            return True
        if isinstance(outer, ast.Call):
            return False
        outer = region.parents.get(outer)
    return False


def rescale(region: Region) -> Iterator[Edit]:
    """A factor or a divisor left out, a quotient as a product."""
    for node in region.nodes():
        if not isinstance(node, ast.BinOp) or _structural(region, node):
            continue
        if isinstance(node.op, ast.Mult):
            yield Edit(node, node.left)
            yield Edit(node, node.right)
        elif isinstance(node.op, ast.Div):
            yield Edit(node, node.left)
            yield Edit(node, ast.BinOp(node.left, ast.Mult(), node.right))


def sign(region: Region) -> Iterator[Edit]:
    """A minus, a ``not`` or an inversion left out; an absolute value left out."""
    for node in region.nodes():
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.USub) and syntax.is_one(node.operand):
                continue
            yield Edit(node, node.operand)
        elif called(node, "abs"):
            assert isinstance(node, ast.Call)
            if node.args:
                yield Edit(node, node.args[0])
