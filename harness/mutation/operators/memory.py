"""Faults of clamps, types and the order of memory operations."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.mutation.operators.syntax import called, keyword_of, last_name, with_keyword
from harness.mutation.source import Edit, Region

_EXTREMES = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max"}
_FUNCTIONS = {
    "exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log", "rsqrt": "sqrt", "sqrt": "rsqrt", "sum": "max",
    "argmax": "argmin", "argmin": "argmax", "zeros": "ones", "ones": "zeros", "zeros_like": "ones_like",
}  # fmt: skip
_TYPES = {
    "float32": "bfloat16", "bfloat16": "float16", "float16": "bfloat16", "float64": "float32", "uint8": "int8",
    "uint16": "int16", "uint32": "int32", "float8e4nv": "float8e5", "float8_e4m3fn": "float8_e5m2", "int8": "uint8",
}  # fmt: skip


def _renamed(function: ast.expr, name: str) -> ast.expr:
    if isinstance(function, ast.Attribute):
        return ast.Attribute(function.value, name, function.ctx)
    return ast.Name(name, ast.Load())


def clamp(region: Region) -> Iterator[Edit]:
    """A limit left out, and the larger taken for the smaller."""
    for node in region.nodes():
        if called(node, *_EXTREMES) and isinstance(node, ast.Call) and len(node.args) >= 2:
            if last_name(node.func) in ("max", "min") and region.device:
                # a reduction: `function` exchanges it
                continue
            for place, argument in enumerate(node.args):
                if len(node.args) == 2:
                    yield Edit(node, argument)
                else:
                    yield Edit(node, ast.Call(node.func, [*node.args[:place], *node.args[place + 1 :]], node.keywords))
            yield Edit(node, ast.Call(_renamed(node.func, _EXTREMES[last_name(node.func)]), node.args, node.keywords))
        elif called(node, "clamp", "clamp_"):
            assert isinstance(node, ast.Call)
            if region.device and node.args:
                yield Edit(node, node.args[0])
            elif isinstance(node.func, ast.Attribute):
                yield Edit(node, node.func.value)
            for keyword in node.keywords if len(node.keywords) > 1 else []:
                if keyword.arg is not None:
                    yield Edit(node, with_keyword(node, keyword.arg, None))


def function(region: Region) -> Iterator[Edit]:
    """Another base, the greatest for the least, the greatest for the sum."""
    for node in region.nodes():
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            other = _FUNCTIONS.get(name)
            if other is None and region.device and name in ("max", "min"):
                other = _EXTREMES[name]
            if other is not None:
                yield Edit(node, ast.Call(_renamed(node.func, other), node.args, node.keywords))


def width(region: Region) -> Iterator[Edit]:
    """32 bits for 64."""
    for node in region.nodes():
        if isinstance(node, ast.Attribute) and node.attr in ("int64", "long"):
            yield Edit(node, ast.Attribute(node.value, "int32", node.ctx))


def dtype(region: Region) -> Iterator[Edit]:
    """Another type of the same kind; the value for the bits; no conversion at all."""
    for node in region.nodes():
        if isinstance(node, ast.Attribute) and node.attr in _TYPES and last_name(node.value) in ("tl", "torch"):
            if not region.within(node, ast.Compare):
                yield Edit(node, ast.Attribute(node.value, _TYPES[node.attr], node.ctx))
        elif called(node, "to") and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if keyword_of(node, "bitcast") is not None:
                yield Edit(node, with_keyword(node, "bitcast", None))
            yield Edit(node, node.func.value)


def copy(region: Region) -> Iterator[Edit]:
    """A tensor used with the strides it came with."""
    for node in region.nodes():
        if called(node, "contiguous", "clone") and isinstance(node, ast.Call):
            receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
            if receiver is not None and not region.device:
                yield Edit(node, receiver)


def atomic(region: Region) -> Iterator[Edit]:
    """A plain store for an atomic operation whose result nobody reads; another atomic operation."""
    for node in region.nodes():
        if isinstance(node, ast.Expr) and called(node.value, "atomic_add", "atomic_xchg", "atomic_max", "atomic_min"):
            call = node.value
            assert isinstance(call, ast.Call)
            kept = [keyword for keyword in call.keywords if keyword.arg == "mask"]
            yield Edit(call, ast.Call(_renamed(call.func, "store"), call.args, kept))
        if called(node, "atomic_add", "atomic_xchg"):
            assert isinstance(node, ast.Call)
            other = "atomic_xchg" if last_name(node.func) == "atomic_add" else "atomic_add"
            yield Edit(node, ast.Call(_renamed(node.func, other), node.args, node.keywords))


def semantics(region: Region) -> Iterator[Edit]:
    """An acquire or a release left out; a scope that is too small."""
    for node in region.nodes():
        if isinstance(node, ast.Call):
            ordering, scope = keyword_of(node, "sem"), keyword_of(node, "scope")
            if isinstance(ordering, ast.Constant) and ordering.value != "relaxed":
                yield Edit(ordering, ast.Constant("relaxed"))
                for weaker in ("acquire", "release") if ordering.value == "acq_rel" else ():
                    yield Edit(ordering, ast.Constant(weaker))
            if isinstance(scope, ast.Constant) and scope.value in ("sys", "gpu"):
                yield Edit(scope, ast.Constant("gpu" if scope.value == "sys" else "cta"))


def barrier(region: Region) -> Iterator[Edit]:
    """A barrier that is missing: Triton's own, or a call of a function that is one."""
    for node in region.nodes():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = last_name(node.value.func)
            if "barrier" in name or "sync" in name or name.startswith(("wait", "_wait")):
                yield Edit(node, [])
