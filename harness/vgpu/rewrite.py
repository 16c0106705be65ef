"""Rewriting of a kernel's source so that every operation, branch and call goes through the interpreter.

The rewritten function is ordinary Python at the original file and lines.  ``a + b`` becomes ``__vgpu.add(a, b)``,
``if c:`` becomes ``if __vgpu.branch(c):``, and so on, as Triton's own code generator treats them.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from harness.vgpu.execution import MARKER

_BODY = f"{MARKER}_body"
_FACTORY = f"{MARKER}_factory"

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


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function; ``constants`` collects the literals, which become cells of the function."""

    def __init__(self, function: FunctionType) -> None:
        self.constants: list[Any] = []
        self._globals = function.__globals__
        self._local = set(function.__code__.co_varnames) | set(function.__code__.co_cellvars)
        self._fixed: set[str] = set()
        self._loops = 0

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        self.constants.append(node.value)
        return ast.copy_location(_name(f"{MARKER}_{len(self.constants) - 1}"), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return self._at(node, _call(_BINARY[type(node.op)], self.visit(node.left), self.visit(node.right)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return self._at(node, _call(_UNARY[type(node.op)], self.visit(node.operand)))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        method = "all_of" if isinstance(node.op, ast.And) else "any_of"
        return self._at(node, _call(method, *(_later(self.visit(value)) for value in node.values)))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1:
            method = _COMPARE[type(node.ops[0])]
            return self._at(node, _call(method, self.visit(node.left), self.visit(node.comparators[0])))
        links: list[ast.expr] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            method = ast.Attribute(value=_name(MARKER), attr=_COMPARE[type(op)], ctx=ast.Load())
            links += [method, _later(self.visit(right))]
        return self._at(node, _call("chain", self.visit(node.left), *links))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test, body, orelse = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        return self._at(node, _call("choose", test, _later(body), _later(orelse)))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        args = [self.visit(arg) for arg in node.args]
        keywords = [ast.keyword(arg=k.arg, value=self.visit(k.value)) for k in node.keywords]
        return self._at(node, _call("call", self.visit(node.func), *args, keywords=keywords))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
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

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
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
            return self.visit(node)  # type: ignore[no-any-return]
        bounds = [ast.Constant(None) if b is None else self.visit(b) for b in (node.lower, node.upper, node.step)]
        return _call("slice", *bounds)

    def visit_Tuple(self, node: ast.Tuple) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            return node
        return self._at(node, _call("tuple", *(self.visit(e) for e in node.elts)))

    def visit_List(self, node: ast.List) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            return node
        return self._at(node, _call("tuple", *(self.visit(e) for e in node.elts)))

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        self.generic_visit(node)
        return self._at(node, _call("tuple", ast.Starred(value=node, ctx=ast.Load())))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = _call("raw", self.visit(part.value))
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        node.value = self._at(node.value, _call("assign", self.visit(node.value)))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target = node.targets[0]
        fixed = isinstance(target, ast.Name) and target.id in self._fixed
        node.value = self._at(node.value, _call("constant" if fixed else "assign", self.visit(node.value)))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            if isinstance(node.target, ast.Name) and "constexpr" in ast.unparse(node.annotation):
                self._fixed.add(node.target.id)
            return ast.copy_location(ast.Pass(), node)
        value = _call("annotated", self.visit(node.annotation), self.visit(node.value))
        return self._at(node, ast.Assign(targets=[node.target], value=value))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        old = ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node)  # type: ignore[union-attr]
        value = _call("assign", _call(_BINARY[type(node.op)], old, self.visit(node.value)))
        return self._at(node, ast.Assign(targets=[node.target], value=value))

    def visit_If(self, node: ast.If) -> ast.stmt:
        node.test = self._at(node.test, _call("branch", self.visit(node.test)))
        node.body = self._block(node.body)
        node.orelse = self._block(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self._loops += 1
        guard = f"{MARKER}_loop{self._loops}"
        start = ast.Assign(targets=[ast.Name(id=guard, ctx=ast.Store())], value=_call("loop"))
        test = ast.Call(
            func=ast.Attribute(value=_name(guard), attr="test", ctx=ast.Load()),
            args=[self.visit(node.test)],
            keywords=[],
        )
        node.test = self._at(node.test, test)
        node.body = self._block(node.body)
        node.orelse = self._block(node.orelse)
        return [self._at(node, start), node]

    def visit_For(self, node: ast.For) -> ast.stmt:
        source = node.iter
        if isinstance(source, ast.Call):
            args = [self.visit(arg) for arg in source.args]
            keywords = [ast.keyword(arg=k.arg, value=self.visit(k.value)) for k in source.keywords]
            items = _call("iterate", self.visit(source.func), *args, keywords=keywords)
        else:
            items = _call("items", self.visit(source))
        node.iter = self._at(source, items)
        node.body = self._block(node.body)
        node.orelse = self._block(node.orelse)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = self.visit(node.msg) if node.msg is not None else ast.Constant("")
        return self._at(node, ast.Expr(_call("check", self.visit(node.test), message)))

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
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


class Rewritten:
    """The rewritten code of one kernel or device function."""

    def __init__(self, function: FunctionType) -> None:
        definition = _parse(function)
        rewriter = _Rewriter(function)
        defaults = definition.args.defaults, definition.args.kw_defaults
        definition.body = rewriter.body(definition.body)
        definition.decorator_list = []
        definition.returns = None
        definition.name = _BODY
        for argument in ast.walk(definition.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        # values are put in place afterwards; only their number matters here
        definition.args.defaults = [ast.Constant(None) for _ in defaults[0]]
        definition.args.kw_defaults = [None if d is None else ast.Constant(None) for d in defaults[1]]
        self.function = function
        self.constants = rewriter.constants
        self._names = [MARKER, *(f"{MARKER}_{i}" for i in range(len(self.constants))), *function.__code__.co_freevars]
        self._code = self._compile(definition)

    def _compile(self, definition: ast.FunctionDef) -> CodeType:
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(arg=name) for name in self._names],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        )
        # a function without any operation still has to carry the marker
        touch = ast.Expr(_name(MARKER))
        definition.body.insert(0, ast.copy_location(touch, definition))
        result = ast.Return(_name(_BODY))
        factory = ast.FunctionDef(
            name=_FACTORY, args=arguments, body=[definition, result], decorator_list=[], type_params=[]
        )
        module = ast.Module(body=[ast.copy_location(factory, definition)], type_ignores=[])
        ast.fix_missing_locations(module)
        namespace: dict[str, Any] = {}
        exec(compile(module, self.function.__code__.co_filename, "exec"), self.function.__globals__, namespace)
        made: FunctionType = namespace[_FACTORY](*([None] * len(self._names)))
        return made.__code__.replace(co_name=self.function.__name__, co_qualname=self.function.__qualname__)

    def bind(self, interpreter: Any, constant: Callable[[Any], Any]) -> FunctionType:
        """Return the function bound to an interpreter; ``constant`` wraps its literals and defaults."""
        own = {f"{MARKER}_{i}": value for i, value in enumerate(self.constants)}
        outer = dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True))
        cells = []
        for name in self._code.co_freevars:
            if name == MARKER:
                cells.append(CellType(interpreter))
            elif name in own:
                cells.append(CellType(constant(own[name])))
            else:
                cells.append(outer[name])
        made = FunctionType(
            self._code, self.function.__globals__, self.function.__name__, self._defaults(constant), tuple(cells)
        )
        keywords = self.function.__kwdefaults__
        made.__kwdefaults__ = None if keywords is None else {k: constant(v) for k, v in keywords.items()}
        return made

    def _defaults(self, constant: Callable[[Any], Any]) -> tuple[Any, ...] | None:
        defaults = self.function.__defaults__
        return None if defaults is None else tuple(constant(value) for value in defaults)


def _parse(function: FunctionType) -> ast.FunctionDef:
    lines, start = inspect.getsourcelines(function)
    source = "".join(lines)
    if source[:1].isspace():
        # a function inside of another: give its indentation something to belong to
        source = "if True:\n" + source
        start -= 1
    tree = ast.parse(source)
    ast.increment_lineno(tree, start - 1)
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


_CACHE: WeakKeyDictionary[FunctionType, Rewritten] = WeakKeyDictionary()


def rewritten(function: FunctionType) -> Rewritten:
    """Return the rewritten form of ``function``; raises OSError if its source cannot be found."""
    found = _CACHE.get(function)
    if found is None:
        found = _CACHE[function] = Rewritten(function)
    return found
