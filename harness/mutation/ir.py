"""Triton's IR as text, read into operations: just enough to follow values through a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_LOCATION = re.compile(r"\s*loc\((.*)\)\s*$")
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_NAME = re.compile(r"%[\w$.-]+(?:#\d+)?")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)")
_ARGUMENT = re.compile(r"(%[\w$.-]+): ")
_PLACE = re.compile(r'"([^"]*)":(\d+):\d+')


class UnknownSyntax(Exception):
    """The text holds something that this reader does not know."""


@dataclass
class Op:
    """One operation: ``shape`` is that of its (first) result, empty for a scalar; ``line`` where it stands in Python.

    ``arguments`` are what its regions begin with; of a loop, ``operands`` are its bounds and ``initial`` what its
    carried values start from.  ``scf.while`` has two regions; ``inner`` is what the second begins with.
    """

    name: str
    results: list[str]
    operands: list[str]
    shape: tuple[int, ...]
    text: str
    line: int = 0
    initial: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    regions: list[list[Op]] = field(default_factory=list)


def read(text: str) -> list[Op]:
    """Return the operations of the one function in ``text``, which was printed with locations.

    Raises UnknownSyntax for several functions and for syntax outside what Triton prints for kernels.
    """
    lines = text.splitlines()
    reader = _Reader(lines, {found[1]: found[2] for line in lines if (found := _ALIAS.match(line))})
    starts = [number for number, line in enumerate(lines) if line.strip().startswith("tt.func")]
    if len(starts) != 1:
        raise UnknownSyntax(f"{len(starts)} functions")
    reader.position = starts[0] + 1
    return reader.block()


class _Reader:
    def __init__(self, lines: list[str], aliases: dict[str, str]) -> None:
        self._lines = lines
        self._aliases = aliases
        self.position = 0

    def block(self) -> list[Op]:
        """Read operations up to the closing brace, which is left."""
        found: list[Op] = []
        while True:
            if self.position >= len(self._lines):
                raise UnknownSyntax("the text ends inside a region")
            line = self._lines[self.position].strip()
            if line.startswith("}"):
                return found
            self.position += 1
            if line and not line.startswith("^"):
                found.append(self._op(line))

    def _op(self, line: str) -> Op:
        location = _LOCATION.search(line)
        text = line[: location.start()] if location else line
        left, equals, right = text.partition(" = ")
        results, body = (left, right) if equals and left.startswith("%") and "(" not in left else ("", text)
        opens = body.endswith(("{", "({"))
        op = Op(
            name=body.split("(")[0].split()[0].strip('"'),
            results=_results(results),
            operands=_NAME.findall(body.split(" : ")[0]),
            shape=_shape(body),
            text=body,
            line=self._line(location[1]) if location else 0,
        )
        if op.name == "scf.for":
            self._loop(op, body)
        elif op.name == "scf.while":
            pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)", body)
            op.arguments, op.initial = [name for name, _ in pairs], [value for _, value in pairs]
        if opens:
            self._regions(op)
        return op

    def _loop(self, op: Op, body: str) -> None:
        head, _, carried = body.partition("iter_args(")
        names = _NAME.findall(head)
        op.arguments = names[:1]
        op.operands = names[1:4]
        if carried:
            pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)", carried.split(") ->")[0] + " ")
            op.arguments += [name for name, _ in pairs]
            op.initial = [value for _, value in pairs]

    def _regions(self, op: Op) -> None:
        while True:
            op.regions.append(self.block())
            line = self._lines[self.position].strip()
            self.position += 1
            if line.startswith("} else {"):
                continue
            if line.startswith("} do {"):
                op.inner = _ARGUMENT.findall(self._lines[self.position])
                continue
            found = _LOCATION.search(line)
            if found:
                op.line = self._line(found[1])
                line = line[: found.start()]
            if line.startswith("})"):
                op.text += line
                op.shape = _shape(line)
            elif line != "}" and not line.startswith("} {"):
                raise UnknownSyntax(line)
            return

    def _line(self, location: str) -> int:
        """Return the line of Python, the innermost one of inlined calls."""
        for _ in range(8):
            place = _PLACE.search(location)
            alias = re.search(r"#loc\d*", location)
            if place and (alias is None or place.start() < alias.start()):
                return int(place[2])
            if alias is None or alias[0] not in self._aliases:
                return 0
            location = location.replace(alias[0], self._aliases[alias[0]], 1)
        return 0


def _results(left: str) -> list[str]:
    """``%a`` for one result, ``%a#0``, ``%a#1`` for two."""
    found: list[str] = []
    for part in filter(None, left.split(", ")):
        name, _, count = part.partition(":")
        found += [f"{name}#{number}" for number in range(int(count))] if count else [name]
    return found


def _shape(body: str) -> tuple[int, ...]:
    tail = body.rsplit("->", 1)[-1] if "->" in body else body.rsplit(" : ", 1)[-1]
    # `cond : type-of-condition, type-of-result` ends with the type of the result
    found = _TENSOR.findall(tail)
    return tuple(int(size) for size in found[-1].split("x") if size) if found else ()


def walk(ops: list[Op]) -> Iterator[Op]:
    """Yield every operation, those inside regions too."""
    for op in ops:
        yield op
        for region in op.regions:
            yield from walk(region)
