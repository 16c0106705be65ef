"""Every mutant of a set of modules, each once, and those that are the original in other words."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType

from harness.mutation.operators import OPERATORS
from harness.mutation.operators.syntax import called, keyword_of
from harness.mutation.source import Module, Mutant

#: Operators on whose results Python itself cannot be asked whether anything changed.
_FOLDABLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr)


def mutants(modules: Iterable[Module], operators: Sequence[str] = ()) -> list[Mutant]:
    """Return the mutants of ``modules`` in the order of the text, of the named operators or of all.

    Two operators that make the same text make one mutant, which the first of them owns.  Text that does not compile as
    Python is no mutant.  Raises KeyError for an unknown operator.
    """
    chosen = {name: OPERATORS[name] for name in operators or OPERATORS}
    found: dict[str, Mutant] = {}
    for module in modules:
        folded: dict[str, str] = {}
        for region in module.regions():
            for name, operator in chosen.items():
                for edit in operator(region):
                    mutant = module.apply(region, name, edit)
                    if mutant.key not in found and _differs(*module.around(region, edit), folded):
                        found[mutant.key] = mutant
    order = {module.name: place for place, module in enumerate(modules)}
    return sorted(found.values(), key=lambda m: (order[m.module], m.line, list(OPERATORS).index(m.operator), m.after))


def _differs(before: str, after: str, folded: dict[str, str]) -> bool:
    """Whether ``after`` is Python and its tree another one than that of ``before``; ``folded`` keeps known trees."""
    try:
        body = ast.parse(after).body
    except (SyntaxError, ValueError):
        return False
    if before not in folded:
        folded[before] = _dump(ast.parse(before))
    return _dump(ast.Module(body, [])) != folded[before]


def same_bytecode(original: str, mutated: str) -> bool:
    """Whether Python compiles two sources to the same instructions, line numbers aside."""
    codes = [compile(text, "<module>", "exec", dont_inherit=True) for text in (original, mutated)]
    return _instructions(codes[0]) == _instructions(codes[1])


def changed_fills(original: str, mutated: str) -> list[int]:
    """Return the lines of the loads of which two sources differ in ``other=``; none if they differ in more."""
    trees = [ast.parse(text) for text in (original, mutated)]
    loads = [[node for node in ast.walk(tree) if called(node, "load")] for tree in trees]
    fills = [[_take_fill(load) for load in found if isinstance(load, ast.Call)] for found in loads]
    if ast.dump(trees[0]) != ast.dump(trees[1]):
        return []
    changed = [load for load, old, new in zip(loads[0], *fills, strict=True) if old != new]
    return [
        line
        for load in changed
        if isinstance(load, ast.Call)
        for line in range(load.lineno, (load.end_lineno or load.lineno) + 1)
    ]


def changed_choices(original: str, mutated: str) -> list[int]:
    """Return the lines of the one ``where`` whose value two sources differ in wherever its condition is off.

    That is a ``where`` of which the first choice is left, or which has another second choice; none if they differ in
    more, or another ``where`` stands on the same lines.
    """
    wanted = ast.dump(ast.parse(mutated))
    calls = _wheres(ast.parse(original))
    for number, call in enumerate(calls):
        tree = ast.parse(original)
        first_alone = ast.dump(_Replaced(_wheres(tree)[number]).visit(tree))
        if first_alone == wanted or _second_alone_differs(original, mutated, number):
            lines = range(call.lineno, (call.end_lineno or call.lineno) + 1)
            return [] if any(other is not call and other.lineno in lines for other in calls) else list(lines)
    return []


def changed_numbers(original: str, mutated: str) -> tuple[int, int] | None:
    """Return the integers before and after where two sources differ in one literal alone, None otherwise."""
    found = list(_differing(ast.parse(original), ast.parse(mutated)))
    numbers = [value for pair in found for value in map(_integer, pair) if value is not None]
    return (numbers[0], numbers[1]) if len(found) == 1 and len(numbers) == 2 else None


def _differing(old: ast.AST, new: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield the smallest parts in which two trees differ; a number with its sign is one."""
    if ast.dump(old) == ast.dump(new):
        return
    inner = [list(ast.iter_child_nodes(node)) for node in (old, new)]
    alike = type(old) is type(new) and len(inner[0]) == len(inner[1]) and inner[0]
    if not alike or _integer(old) is not None or _integer(new) is not None:
        yield old, new
        return
    within = [pair for one, other in zip(*inner, strict=True) for pair in _differing(one, other)]
    yield from within or [(old, new)]


def _integer(node: ast.AST) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _integer(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _wheres(tree: ast.AST) -> list[ast.Call]:
    found = [node for node in ast.walk(tree) if called(node, "where")]
    return [node for node in found if isinstance(node, ast.Call) and len(node.args) == 3]


def _second_alone_differs(original: str, mutated: str, number: int) -> bool:
    trees = [ast.parse(text) for text in (original, mutated)]
    calls = [_wheres(tree) for tree in trees]
    if len(calls[0]) != len(calls[1]):
        return False
    seconds = {ast.dump(found[number].args.pop()) for found in calls}
    return len(seconds) == 2 and ast.dump(trees[0]) == ast.dump(trees[1])


class _Replaced(ast.NodeTransformer):
    """Puts the first choice of one ``where`` in its place."""

    def __init__(self, call: ast.Call) -> None:
        self._call = call

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return node.args[1] if node is self._call else self.generic_visit(node)


def _take_fill(load: ast.Call) -> str:
    """Take ``other=`` out of a call and return it as text."""
    value = keyword_of(load, "other")
    load.keywords = [keyword for keyword in load.keywords if keyword.arg != "other"]
    return "" if value is None else ast.dump(value)


def _instructions(code: CodeType) -> tuple[object, ...]:
    constants = tuple(
        _instructions(item) if isinstance(item, CodeType) else (type(item), repr(item)) for item in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable


def _dump(statement: ast.AST) -> str:
    """Return what was parsed as text, with constant arithmetic done and inner statements that do nothing left out."""
    return ast.dump(_Folded().visit(statement))


class _Folded(ast.NodeTransformer):
    """Does arithmetic on literals and drops ``pass`` and docstrings from blocks that have other statements."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        sides = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant)]
        if len(sides) == 2 and all(type(side) is int for side in sides) and isinstance(node.op, _FOLDABLE):
            with contextlib.suppress(ArithmeticError, ValueError):
                return ast.Constant(_computed(node))
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and len(block) > 1:
                setattr(node, name, list(_effective(block)) or block[:1])
        return node


def _computed(node: ast.BinOp) -> int:
    expression = ast.fix_missing_locations(ast.Expression(node))
    return int(eval(compile(expression, "<constant>", "eval"), {"__builtins__": {}}))


def _effective(block: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in block:
        bare = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not bare and not isinstance(statement, ast.Pass):
            yield statement
