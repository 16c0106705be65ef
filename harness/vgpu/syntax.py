"""The syntax that a kernel may use, and the call of the interpreter that each piece of it becomes."""

from __future__ import annotations

import ast
from types import FunctionType, ModuleType
from typing import Any

from harness.vgpu import masks
from harness.vgpu.execution import MARKER

_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
}
_COMPARE = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Is: "is_",
    ast.IsNot: "is_not",
    ast.In: "in_",
    ast.NotIn: "not_in",
}
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Not: "not_", ast.Invert: "invert"}


def _name(id: str) -> ast.Name:
    return ast.Name(id=id, ctx=ast.Load())


def _call(method: str, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.Call:
    function = ast.Attribute(value=_name(MARKER), attr=method, ctx=ast.Load())
    return ast.Call(func=function, args=list(args), keywords=keywords or [])


def _later(body: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(args=nothing, body=body)


class Rewriter(ast.NodeTransformer):
    """Rewrites one function; ``constants`` collects the literals, which become cells of the function."""

    def __init__(self, function: FunctionType) -> None:
        self.constants: list[Any] = []
        self._globals = function.__globals__
        self._local = set(function.__code__.co_varnames) | set(function.__code__.co_cellvars)
        self._fixed: set[str] = set()
        self._guards = 0

    def visit_Constant(self, node: ast.Constant) -> Any:
        self.constants.append(node.value)
        return ast.copy_location(_name(f"{MARKER}_{len(self.constants) - 1}"), node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._at(node, _call(_BINARY[type(node.op)], self.visit(node.left), self.visit(node.right)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return self._at(node, _call(_UNARY[type(node.op)], self.visit(node.operand)))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        method = "all_of" if isinstance(node.op, ast.And) else "any_of"
        return self._at(node, _call(method, *(_later(self.visit(value)) for value in node.values)))

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1:
            single = _COMPARE[type(node.ops[0])]
            return self._at(node, _call(single, self.visit(node.left), self.visit(node.comparators[0])))
        links: list[ast.expr] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            method = ast.Attribute(value=_name(MARKER), attr=_COMPARE[type(op)], ctx=ast.Load())
            links += [method, _later(self.visit(right))]
        return self._at(node, _call("chain", self.visit(node.left), *links))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test, body, orelse = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        return self._at(node, _call("choose", test, _later(body), _later(orelse)))

    def visit_Call(self, node: ast.Call) -> Any:
        args = [self.visit(arg) for arg in node.args]
        keywords = [ast.keyword(arg=k.arg, value=self.visit(k.value)) for k in node.keywords]
        return self._at(node, _call("call", self.visit(node.func), *args, keywords=keywords))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if not isinstance(node.ctx, ast.Load) or isinstance(self._module(node.value), ModuleType):
            return node
        return self._at(node, _call("attribute", self.visit(node.value), ast.Constant(node.attr)))

    def _module(self, node: ast.expr) -> Any:
        """Return the module that an expression like ``tl.math`` names, or None."""
        if isinstance(node, ast.Name) and node.id not in self._local:
            return self._globals.get(node.id)
        if isinstance(node, ast.Attribute):
            outer = self._module(node.value)
            return getattr(outer, node.attr, None) if isinstance(outer, ModuleType) else None
        return None

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return node
        index = node.slice
        if isinstance(index, ast.Tuple):
            parts = [self._slice(part) for part in index.elts]
            inner: ast.expr = ast.Tuple(elts=parts, ctx=ast.Load())
        else:
            inner = self._slice(index)
        return self._at(node, _call("subscript", self.visit(node.value), inner))

    def _slice(self, node: ast.expr) -> ast.expr:
        if not isinstance(node, ast.Slice):
            visited: ast.expr = self.visit(node)
            return visited
        bounds = [ast.Constant(None) if b is None else self.visit(b) for b in (node.lower, node.upper, node.step)]
        return _call("slice", *bounds)

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return node
        return self._at(node, _call("tuple", *(self.visit(e) for e in node.elts)))

    def visit_List(self, node: ast.List) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return node
        return self._at(node, _call("tuple", *(self.visit(e) for e in node.elts)))

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        self.generic_visit(node)
        return self._at(node, _call("tuple", ast.Starred(value=node, ctx=ast.Load())))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = _call("raw", self.visit(part.value))
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        node.value = self._at(node.value, _call("assign", self.visit(node.value)))
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        fixed = isinstance(target, ast.Name) and target.id in self._fixed
        node.value = self._at(node.value, _call("constant" if fixed else "assign", self.visit(node.value)))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            if isinstance(node.target, ast.Name) and "constexpr" in ast.unparse(node.annotation):
                self._fixed.add(node.target.id)
            return ast.copy_location(ast.Pass(), node)
        value = _call("annotated", self.visit(node.annotation), self.visit(node.value))
        return self._at(node, ast.Assign(targets=[node.target], value=value))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        old = ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node)  # type: ignore[union-attr]
        value = _call("assign", _call(_BINARY[type(node.op)], old, self.visit(node.value)))
        return self._at(node, ast.Assign(targets=[node.target], value=value))

    def visit_If(self, node: ast.If) -> Any:
        if not masks.possible([*node.body, *node.orelse]):
            node.test = self._at(node.test, _call("branch", self.visit(node.test)))
            node.body = self._block(node.body)
            node.orelse = self._block(node.orelse)
            return node
        names = masks.assigned([*node.body, *node.orelse])
        fork = self._guard("fork")
        start = ast.Assign(targets=[ast.Name(id=fork, ctx=ast.Store())], value=_call("fork", self.visit(node.test)))
        statements: list[ast.stmt] = [start, masks.when_split(fork, "begin")]
        statements.append(ast.If(test=masks.attribute(fork, "then"), body=self._block(node.body), orelse=[]))
        statements.append(masks.when_split(fork, "turn", names))
        if node.orelse:
            other = ast.If(test=masks.attribute(fork, "otherwise"), body=self._block(node.orelse), orelse=[])
            statements.append(other)
        statements.append(masks.when_split(fork, "end", names))
        return [self._at(node, statement) for statement in statements]

    def visit_While(self, node: ast.While) -> Any:
        maskable = not node.orelse and masks.possible(node.body)
        names = masks.assigned(node.body)
        guard = self._guard("loop")
        start = ast.Assign(targets=[ast.Name(id=guard, ctx=ast.Store())], value=_call("loop", ast.Constant(maskable)))
        test = ast.Call(func=masks.attribute(guard, "test"), args=[self.visit(node.test)], keywords=[])
        node.test = self._at(node.test, test)
        node.body = self._round(node, guard, names) if maskable else self._block(node.body)
        node.orelse = self._block(node.orelse)
        return [self._at(node, start), node]

    def visit_For(self, node: ast.For) -> Any:
        source = node.iter
        if not isinstance(source, ast.Call):
            node.iter = self._at(source, _call("items", self.visit(source)))
            node.body = self._block(node.body)
            node.orelse = self._block(node.orelse)
            return node
        args = [self.visit(arg) for arg in source.args]
        keywords = [ast.keyword(arg=k.arg, value=self.visit(k.value)) for k in source.keywords]
        maskable = not node.orelse and masks.possible(node.body)
        items = _call("each" if maskable else "iterate", self.visit(source.func), *args, keywords=keywords)
        if not maskable:
            node.iter = self._at(source, items)
            node.body = self._block(node.body)
            node.orelse = self._block(node.orelse)
            return node
        names = masks.assigned(node.body)
        guard = self._guard("each")
        start = ast.Assign(targets=[ast.Name(id=guard, ctx=ast.Store())], value=items)
        node.iter = self._at(source, _name(guard))
        node.body = self._round(node, guard, names)
        return [self._at(node, start), node]

    def _round(self, node: ast.For | ast.While, guard: str, names: list[str]) -> list[ast.stmt]:
        begin, end = masks.when_split(guard, "begin"), masks.when_split(guard, "end", names)
        return [self._at(node, begin), *self._block(node.body), self._at(node, end)]

    def _guard(self, kind: str) -> str:
        self._guards += 1
        return f"{MARKER}_{kind}{self._guards}"

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = self.visit(node.msg) if node.msg is not None else ast.Constant("")
        return self._at(node, ast.Expr(_call("check", self.visit(node.test), message)))

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Constant):
            return ast.copy_location(ast.Pass(), node)
        node.value = self.visit(node.value)
        return node

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite a function's body."""
        return self._block(statements)

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            new = self.visit(statement)
            result.extend(new if isinstance(new, list) else [new])
        return result

    def _at(self, old: ast.AST, new: Any) -> Any:
        return ast.copy_location(new, old)
