"""Source text to be mutated: modules, the functions in them, and edits that leave the rest of a file as it is."""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

#: What an edit puts in the place of a node: an expression, statements, or nothing (``pass``).
Replacement = ast.expr | Sequence[ast.stmt]

_SKIPPED = (ast.Raise, ast.JoinedStr, ast.Assert, ast.FunctionDef, ast.ClassDef)
_OPERATIONS = (ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp, ast.IfExp, ast.NamedExpr, ast.Lambda)
_OUTER = (*_OPERATIONS, ast.Attribute, ast.Subscript, ast.Call, ast.Starred)
#: Words in a change by which programs may be ordered otherwise.
_ORDERS = re.compile(r"barrier|atomic|wait|volatile|sem=|scope=|dependents|on_nvidia")


@dataclass(frozen=True)
class Edit:
    """``node`` becomes ``new``; with ``last``, everything from ``node`` to ``last`` does."""

    node: ast.expr | ast.stmt
    new: Replacement
    last: ast.stmt | None = None


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One changed module.

    ``file`` and ``line`` say where, ``function`` in which function (empty: at module level), ``device`` whether it
    runs on the GPU, ``before`` and ``after`` are the changed text, and ``source`` is the whole changed file.
    """

    module: str
    file: str
    line: int
    operator: str
    function: str
    device: bool
    before: str
    after: str
    source: str = field(repr=False)
    original: str = field(repr=False)

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits that stand for this mutant as long as its file is what it was."""
        return hashlib.sha256(f"{self.module}\0{self.source}".encode()).hexdigest()[:12]

    @property
    def mark(self) -> str:
        """Twelve hexadecimal digits for the change, the same wherever its function stands in the file."""
        return mark(self.file, self.function, self.operator, self.before, self.after)

    @property
    def orders(self) -> bool:
        """Whether the changed text is about the order in which programs do things."""
        return _ORDERS.search(f"{self.before}\n{self.after}") is not None

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        lines = difflib.unified_diff(
            self.original.splitlines(keepends=True), self.source.splitlines(keepends=True), self.file, self.file, n=1
        )
        return "".join(lines)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.operator}: {one_line(self.before)} -> {one_line(self.after)}"


def mark(*parts: str) -> str:
    """Return the ``mark`` of a mutant: of its file, function, operator, and the text before and after."""
    return hashlib.sha256("\0".join(map(one_line, parts)).encode()).hexdigest()[:12]


def one_line(text: str) -> str:
    """Return ``text`` with every run of white space as one blank."""
    return " ".join(text.split())


@dataclass(frozen=True)
class Region:
    """One function, or the device constants of a module: what operators walk through.

    ``roots`` are the statements of its body without the docstring.  Nested definitions, annotations and what makes
    messages are no part of it.
    """

    name: str
    device: bool
    roots: tuple[ast.stmt, ...]
    parameters: tuple[str, ...] = ()

    def nodes(self) -> Iterator[ast.AST]:
        """Yield every node in the order of the text."""
        for root in self.roots:
            yield from _walk(root)

    def blocks(self) -> Iterator[list[ast.stmt]]:
        """Yield every list of statements that run one after the other."""
        yield list(self.roots)
        for node in self.nodes():
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block:
                    yield block

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Node to the node that holds it."""
        found: dict[ast.AST, ast.AST] = {}
        for node in self.nodes():
            for child in ast.iter_child_nodes(node):
                found[child] = node
        return found

    def within(self, node: ast.AST, *kinds: type[ast.AST]) -> bool:
        """Whether some node around ``node`` is of one of ``kinds``."""
        while (outer := self.parents.get(node)) is not None:
            if isinstance(outer, kinds):
                return True
            node = outer
        return False


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, _SKIPPED) or _chooses_text(node):
        return
    if isinstance(node, ast.Lambda):
        # a grid is often one; its parameters are names, and their defaults nobody gives
        yield node
        yield from _walk(node.body)
        return
    yield node
    refuses = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise)
    for name, child in ast.iter_fields(node):
        if name == "annotation" or (refuses and name == "body"):
            continue
        for item in child if isinstance(child, list) else [child]:
            if isinstance(item, ast.AST):
                yield from _walk(item)


def _chooses_text(node: ast.AST) -> bool:
    """Whether one side of a choice makes words with values in them: the other side does, too."""
    return isinstance(node, ast.IfExp) and isinstance(node.body, ast.JoinedStr)


class Module:
    """One source file: its text, its tree and its regions.  ``file`` is the name in reports."""

    def __init__(self, name: str, file: str, text: str) -> None:
        self.name = name
        self.file = file
        self.text = text
        self.tree = ast.parse(text)
        self._bytes = text.encode()
        self._starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def regions(self) -> Iterator[Region]:
        """Yield the device constants of the module, then every function, methods and nested ones included."""
        constants = tuple(statement for statement in self.tree.body if _is_device_constant(statement))
        if constants:
            yield Region("", True, constants)
        yield from self._functions(self.tree, "", False)

    def _functions(self, owner: ast.AST, prefix: str, device: bool) -> Iterator[Region]:
        for node in ast.iter_child_nodes(owner):
            if isinstance(node, ast.FunctionDef) and not _makes_text(node):
                name, inner = f"{prefix}{node.name}", device or _is_jitted(node)
                arguments = node.args
                parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                yield Region(name, inner, _without_docstring(node.body), tuple(arg.arg for arg in parameters))
                yield from self._functions(node, f"{name}.", inner)
            elif isinstance(node, ast.ClassDef):
                yield from self._functions(node, f"{prefix}{node.name}.", device)
            elif isinstance(node, ast.If | ast.With | ast.Try):
                yield from self._functions(node, prefix, device)

    def apply(self, region: Region, operator: str, edit: Edit) -> Mutant:
        """Return the module with ``edit`` made in ``region``."""
        start, end = self._span(edit.node, edit.last or edit.node)
        new = self._text(region, edit)
        source = (self._bytes[:start] + new.encode() + self._bytes[end:]).decode()
        return Mutant(
            module=self.name,
            file=self.file,
            line=edit.node.lineno,
            operator=operator,
            function=region.name,
            device=region.device,
            before=self._bytes[start:end].decode(),
            after=new,
            source=source,
            original=self.text,
        )

    def around(self, region: Region, edit: Edit) -> tuple[str, str]:
        """Return a statement around ``edit`` that can be parsed alone, before and after it; as small as can be."""
        start, end = self._span(edit.node, edit.last or edit.node)
        new = self._text(region, edit).encode()
        node: ast.AST = edit.node
        # statements that replace others may be told from ``pass`` by their neighbours alone
        if isinstance(node, ast.stmt):
            node = self._parents[node]
        while not (isinstance(node, ast.Module) or self._stands_alone(node)):
            node = self._parents[node]
        if isinstance(node, ast.Module):
            first, last = 0, len(self._bytes)
        else:
            assert isinstance(node, ast.stmt)
            assert node.end_lineno is not None
            first, last = self._starts[_first_line(node) - 1], self._starts[node.end_lineno]
        block = b"if 1:\n" if self._bytes[first : first + 1] in b" \t" else b""
        old, changed = self._bytes[first:last], self._bytes[first:start] + new + self._bytes[end:last]
        return (block + old).decode(), (block + changed).decode()

    def _stands_alone(self, node: ast.AST) -> bool:
        """Whether ``node`` is a statement that begins a line and needs none before it, as ``elif`` does."""
        if not isinstance(node, ast.stmt):
            return False
        line = self._bytes[self._starts[node.lineno - 1] : self._starts[node.lineno]]
        return not line[: node.col_offset].strip() and not line.lstrip().startswith(b"elif")

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def _span(self, first: ast.expr | ast.stmt, last: ast.expr | ast.stmt) -> tuple[int, int]:
        assert last.end_lineno is not None
        assert last.end_col_offset is not None
        start = self._starts[first.lineno - 1] + first.col_offset
        return start, self._starts[last.end_lineno - 1] + last.end_col_offset

    def _text(self, region: Region, edit: Edit) -> str:
        if isinstance(edit.new, ast.expr):
            text = ast.unparse(ast.fix_missing_locations(edit.new))
            # the text of a subexpression leaves out the parentheses that stood around it
            bound = isinstance(edit.new, _OPERATIONS) and isinstance(region.parents.get(edit.node), _OUTER)
            return f"({text})" if bound else text
        indent = "\n" + " " * edit.node.col_offset
        statements = [ast.unparse(ast.fix_missing_locations(statement)) for statement in edit.new] or ["pass"]
        return indent.join(line for statement in statements for line in statement.splitlines())


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _is_jitted(node: ast.FunctionDef) -> bool:
    """Whether a decorator is called ``jit``, alone or of a module, with or without arguments."""
    decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(ast.unparse(decorator).rpartition(".")[2] == "jit" for decorator in decorators)


def _makes_text(node: ast.FunctionDef) -> bool:
    """Whether a function returns words, which only messages are made of."""
    return node.returns is not None and ast.unparse(node.returns) == "str"


def _is_device_constant(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "constexpr"


def _without_docstring(body: list[ast.stmt]) -> tuple[ast.stmt, ...]:
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return tuple(body[documented:])


def adjacent(block: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Yield each statement with the one after it."""
    yield from pairwise(block)
