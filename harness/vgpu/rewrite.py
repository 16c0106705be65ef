"""Rewriting of a kernel's source so that every operation, branch and call goes through the interpreter.

The rewritten function is ordinary Python at the original file and lines.  ``a + b`` becomes ``__vgpu.add(a, b)``,
``if c:`` becomes ``if __vgpu.branch(c):``, or, where its body can run under a mask, two sides around
``__vgpu.fork(c)``; and so on, as Triton's own code generator treats them.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from harness.vgpu.execution import MARKER
from harness.vgpu.syntax import Rewriter

_BODY = f"{MARKER}_body"
_FACTORY = f"{MARKER}_factory"


class Rewritten:
    """The rewritten code of one kernel or device function."""

    def __init__(self, function: FunctionType) -> None:
        definition = _parse(function)
        rewriter = Rewriter(function)
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
        touch = ast.Expr(ast.Name(id=MARKER, ctx=ast.Load()))
        definition.body.insert(0, ast.copy_location(touch, definition))
        result = ast.Return(ast.Name(id=_BODY, ctx=ast.Load()))
        factory = ast.parse(f"def {_FACTORY}(): pass").body[0]
        assert isinstance(factory, ast.FunctionDef)
        factory.args = arguments
        factory.body = [definition, result]
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
