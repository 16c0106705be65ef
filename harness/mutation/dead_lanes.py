"""Proof that nothing depends on what a load gives where its mask is off.

Two programs are followed at once that differ only in those lanes.  A value's *taint* says in which of its lanes it may
differ: wherever one of some masks is off.  A mask is named by the value that defines it and the axes of the tainted
value that its own axes lie on.  The proof holds if no store, address, branch or loop bound is tainted in a lane that
counts.  Where the two numbers that such lanes begin with are known, they are computed with: -1 and -2 are both below 0,
and what follows from that alone is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.mutation.ir import Op, walk
from harness.mutation.lane_numbers import Mask, Numbers, Taint

_NONE: Taint = frozenset()
_ELEMENTWISE = (
    "tt.addptr", "tt.bitcast", "tt.fp_to_fp", "tt.int_to_ptr", "tt.ptr_to_int", "tt.clampf", "tt.mulhiui",
    "tt.precise_sqrt", "tt.precise_divf", "tt.extern_elementwise",
)  # fmt: skip
_SOURCES = ("arith.constant", "tt.get_program_id", "tt.get_num_programs", "tt.make_range", "ub.poison")
_YIELDS = ("scf.yield", "scf.condition", "tt.return")
#: Numbers of fewer bits than any integer of a kernel has.
_MOST = 1 << 6


class Unproved(Exception):
    """Something may depend on the lanes; the message says what."""


def prove(
    ops: list[Op], lines: Iterable[int], choices: Iterable[int] = (), numbers: tuple[int, int] | None = None
) -> None:
    """Raise Unproved unless no effect of a program depends on masked-off lanes of its loads on ``lines``.

    Or on those lanes of its selections on the lines ``choices`` that their condition turns off.  ``numbers``: what
    these lanes hold in the two programs, if that is known.
    """
    small = numbers is not None and max(map(abs, numbers)) < _MOST
    own, chosen = frozenset(lines), frozenset(choices)
    _Analysis(own, chosen, Numbers(own, chosen, numbers if small else None)).block(ops)


def loads(ops: list[Op], lines: Iterable[int], name: str = "tt.load") -> bool:
    """Whether a program has a load, or what else is called ``name``, that stands on one of ``lines``."""
    wanted = frozenset(lines)
    return any(op.name == name and op.line in wanted for op in walk(ops))


@dataclass
class _Analysis:
    lines: frozenset[int]
    choices: frozenset[int]
    numbers: Numbers
    taint: dict[str, Taint] = field(default_factory=dict)
    #: Boolean value -> the masks of which it is the conjunction.
    parts: dict[str, Taint] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def block(self, ops: list[Op]) -> list[Taint]:
        """Follow the values through ``ops``; returns the taints of what the block yields."""
        yielded: list[Taint] = []
        for op in ops:
            for result in op.results:
                self.shapes[result] = op.shape
            if op.name in _YIELDS:
                yielded = [self._of(name) for name in op.operands]
            elif op.name == "scf.for":
                self._loop(op)
            elif op.name == "scf.while":
                self._while(op)
            elif op.name == "scf.if":
                self._branch(op)
            else:
                self._set(op, self._result(op))
        return yielded

    def _loop(self, op: Op) -> None:
        self._clean(op.operands, "a loop bound")
        carried = [self._of(name) for name in op.initial]
        self.numbers.count(op.arguments[0], op.operands)
        while True:
            self.taint[op.arguments[0]] = _NONE
            self.numbers.forget(op.arguments[1:])
            for name, start, taint in zip(op.arguments[1:], op.initial, carried, strict=True):
                self.taint[name], self.shapes[name] = taint, self.shapes.get(start, ())
            after = self._left(op, self.block(op.regions[0]))
            joined = [old | new for old, new in zip(carried, after, strict=True)]
            if joined == carried:
                break
            carried = joined
        for name, start, taint in zip(op.results, op.initial, carried, strict=True):
            self.taint[name], self.shapes[name] = taint, self.shapes.get(start, ())

    def _while(self, op: Op) -> None:
        carried = [self._of(name) for name in op.initial]
        while True:
            self._begin(op.arguments, op.initial, carried)
            condition, *passed = self._left(op, self.block(op.regions[0]))
            if condition:
                raise Unproved("whether a loop goes on")
            handed = op.regions[0][-1].operands[1:]
            self._begin(op.inner, handed, passed)
            after = self._left(op, self.block(op.regions[1]))
            joined = [old | new for old, new in zip(carried, after, strict=True)]
            if joined == carried:
                break
            carried = joined
        self._begin(op.results, handed, passed)

    def _left(self, around: Op, taints: Iterable[Taint]) -> list[Taint]:
        """Return ``taints`` at the end of a region of ``around``: masks that are made there are others in every turn.

        So are those that a loop carries.
        """
        inside = {name for op in walk([around]) for name in (*op.results, *op.arguments, *op.inner)}
        return [frozenset((f"{m} of before" if m in inside else m, axes) for m, axes in taint) for taint in taints]

    def _begin(self, names: list[str], values: Iterable[str], taints: Iterable[Taint]) -> None:
        self.numbers.forget(names)
        for name, value, taint in zip(names, values, taints, strict=True):
            self.taint[name], self.shapes[name] = taint, self.shapes.get(value, ())
            self.parts.pop(name, None)

    def _branch(self, op: Op) -> None:
        self._clean(op.operands[:1], "a branch")
        sides = [self._left(op, self.block(region)) for region in op.regions]
        last = [region[-1].operands for region in op.regions if region]
        for number, name in enumerate(op.results):
            self.shapes[name] = self.shapes.get(last[0][number], ())
            self.taint[name] = frozenset().union(*(side[number] for side in sides if number < len(side)))

    def _set(self, op: Op, taint: Taint) -> None:
        known = self.numbers.of(op, taint, self._parts)
        if known is not None and known[1] == known[2]:
            taint -= known[0]
        self.numbers.define(op, known)
        for name in op.results:
            self.taint[name] = taint
            self.parts[name] = self._conjunction(op, name)

    def _conjunction(self, op: Op, name: str) -> Taint:
        if op.name == "arith.andi":
            return self._parts(op.operands[0]) | self._parts(op.operands[1])
        if op.name in ("tt.broadcast", "tt.expand_dims", "tt.trans", "tt.splat"):
            return self._moved(op, self._parts(op.operands[0])) or _NONE
        return frozenset({(name, tuple(range(len(op.shape))))})

    def _result(self, op: Op) -> Taint:
        match op.name:
            case "tt.load":
                return self._load(op)
            case "tt.store":
                return self._store(op)
            case "arith.andi":
                left, right = op.operands
                return (self._of(left) - self._parts(right)) | (self._of(right) - self._parts(left))
            case "arith.select":
                condition, yes, no = op.operands
                off = self._parts(condition) if op.line in self.choices else _NONE
                taken, other = self._of(yes) - self._parts(condition), self._of(no)
                lanes, first, second = self.numbers.known.get(condition, (_NONE, 0, 1))
                if first == second:
                    # there both programs choose the same side
                    taken, other = (taken, other - lanes) if first else (taken - lanes, other)
                return self._of(condition) | taken | other | off
            case "tt.broadcast" | "tt.expand_dims" | "tt.trans" | "tt.splat" | "tt.reshape" | "tt.join" | "tt.split":
                moved = self._moved(op, self._of(op.operands[0]))
                others = [self._of(name) for name in op.operands[1:]]
                return frozenset().union(self._needed(op, moved), *others)
            case "tt.reduce" | "tt.scan":
                return self._along(op)
            case "tt.dot":
                return self._dot(op)
        known = op.name.startswith(("arith.", "math.")) or op.name in (*_ELEMENTWISE, *_SOURCES)
        if not known or op.regions:
            self._clean(op.operands, op.name)
        return frozenset().union(*(self._of(name) for name in op.operands))

    def _load(self, op: Op) -> Taint:
        pointer, *rest = op.operands
        mask = self._parts(rest[0]) if rest else _NONE
        self._clean(rest[:1], "the mask of a load")
        if self._of(pointer) - mask:
            raise Unproved("the address of a load")
        other = self._of(rest[1]) if len(rest) > 1 else _NONE
        if op.line not in self.lines and not other:
            return _NONE
        # where a mask is itself another in the two programs, so may be the lanes that it turns off
        inherited = {(m, tuple(axes[a] for a in own)) for root, axes in mask for m, own in self._of(root)}
        return mask | inherited

    def _store(self, op: Op) -> Taint:
        pointer, value, *rest = op.operands
        self._clean(rest, "the mask of a store")
        mask = self._parts(rest[0]) if rest else _NONE
        if (self._of(pointer) | self._of(value)) - mask:
            raise Unproved(f"what is stored on line {op.line}")
        return _NONE

    def _along(self, op: Op) -> Taint:
        found = re.search(r"axis = (\d+)", op.text)
        axis = int(found[1]) if found else -1
        taint: set[Mask] = set()
        for mask, axes in frozenset().union(*(self._of(name) for name in op.operands)):
            if axis < 0 or axis in axes:
                raise Unproved(f"a reduction on line {op.line}")
            gone = op.name == "tt.reduce"
            taint.add((mask, tuple(a - (gone and a > axis) for a in axes)))
        return frozenset(taint)

    def _dot(self, op: Op) -> Taint:
        left, right, into = op.operands[:3]
        rows = {(mask, axes) for mask, axes in self._of(left) if set(axes) <= {0}}
        columns = {(mask, axes) for mask, axes in self._of(right) if set(axes) <= {1}}
        if self._of(left) - rows or self._of(right) - columns:
            raise Unproved(f"a matrix product on line {op.line}")
        return frozenset(rows | columns) | self._of(into)

    def _moved(self, op: Op, masks: Taint) -> Taint | None:
        """Return ``masks`` on the axes of a value that is laid out anew; None if one lies across axes that are cut."""
        old, new = self.shapes.get(op.operands[0], ()), op.shape
        if op.name == "tt.expand_dims":
            axis = int(re.search(r"axis = (\d+)", op.text)[1])  # type: ignore[index]
            return frozenset((mask, tuple(a + (a >= axis) for a in axes)) for mask, axes in masks)
        if op.name == "tt.trans":
            numbers = re.search(r"order = array<i32: ([\d, ]+)>", op.text)
            order = [int(number) for number in numbers[1].split(",")] if numbers else []
            return frozenset((mask, tuple(order.index(a) for a in axes)) for mask, axes in masks)
        if op.name == "tt.reshape":
            kept = 0
            while kept < min(len(old), len(new)) and old[kept] == new[kept]:
                kept += 1
            return masks if all(max(axes, default=-1) < kept for _, axes in masks) else None
        if op.name == "tt.split":
            return masks if all(max(axes, default=-1) < len(new) for _, axes in masks) else None
        return masks

    def _needed(self, op: Op, masks: Taint | None) -> Taint:
        if masks is None:
            raise Unproved(f"{op.name} on line {op.line}")
        return masks

    def _clean(self, names: Iterable[str], what: str) -> None:
        if any(self._of(name) for name in names):
            raise Unproved(what)

    def _of(self, name: str) -> Taint:
        return self.taint.get(name, _NONE)

    def _parts(self, name: str) -> Taint:
        return self.parts.get(name, frozenset({(name, tuple(range(len(self.shapes.get(name, ())))))}))
