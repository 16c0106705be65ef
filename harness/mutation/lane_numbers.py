"""What is known of the numbers in lanes that a mask turns off, where those that they begin with are known."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from harness.mutation.ir import Op

#: The defining value of a mask, and which axis of the value that it masks each of its axes lies on.
Mask = tuple[str, tuple[int, ...]]
Taint = frozenset[Mask]
#: Masks, and the two numbers of a value in every lane where one of them is off.
Known = tuple[Taint, int, int]

_NONE: Taint = frozenset()
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le, "sgt": operator.gt, "sge": operator.ge
}  # fmt: skip
_MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}
#: What a negative number is, compared with one that is not.
_BELOW = {"eq": False, "ne": True, "slt": True, "sle": True, "sgt": False, "sge": False}
#: A constant that is an integer, of every lane.
_INTEGER = re.compile(r"arith\.constant (?:dense<)?(-?\d+)>? : ")
_NEVER_NEGATIVE = ("tt.get_program_id", "tt.get_num_programs", "tt.make_range")
#: What gives such numbers where it takes such numbers alone.
_KEEPS_SIGN = ("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.trans", "tt.reshape", "arith.extsi", "arith.extui",
               "arith.divsi", "arith.remsi", "arith.minsi", "arith.maxsi")  # fmt: skip


@dataclass
class Numbers:
    """``begin``: what lanes that are off hold in the two programs that are compared, None where that is not known."""

    lines: frozenset[int]
    choices: frozenset[int]
    begin: tuple[int, int] | None
    known: dict[str, Known] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    #: Values that are negative in no lane.
    natural: set[str] = field(default_factory=set)

    def define(self, op: Op, known: Known | None) -> None:
        """Note what the results of ``op`` are."""
        # under these names other regions may have had others
        self.forget(op.results)
        for name in op.results:
            if known is not None:
                self.known[name] = known
            if op.name == "arith.constant" and (number := _INTEGER.search(op.text)):
                self.constants[name] = int(number[1])
            if self._is_natural(op, name):
                self.natural.add(name)

    def count(self, name: str, bounds: list[str]) -> None:
        """Note what the counter of a loop over ``bounds`` is: first, end and step."""
        if {bounds[0], bounds[2]} <= self.natural:
            self.natural.add(name)
        else:
            self.natural.discard(name)

    def forget(self, names: Iterable[str]) -> None:
        """Note that nothing is known of ``names``: others had them before."""
        for name in names:
            self.known.pop(name, None)
            self.constants.pop(name, None)
            self.natural.discard(name)

    def of(self, op: Op, taint: Taint, mask: Callable[[str], Taint]) -> Known | None:
        """Return what the lanes of a result hold that began with known numbers."""
        if self.begin is None or not op.operands:
            return None
        match op.name:
            case "tt.load" if op.line in self.lines and taint == mask(op.operands[1]):
                return (taint, *self.begin)
            case "arith.select" if op.line in self.choices:
                return (mask(op.operands[0]), *self.begin)
            case "arith.extsi" if "i1" not in op.text:
                return self.known.get(op.operands[0])
            case "arith.cmpi":
                return self._compared(op)
            case "arith.extui" if "i1" in op.text and (first := self.known.get(op.operands[0])):
                return first
            case "arith.andi" if op.text.rstrip(">").endswith("i1"):
                for name in op.operands:
                    masks, one, other = self.known.get(name, (_NONE, 1, 1))
                    if not one and not other:
                        return masks, 0, 0
        return None

    def _is_natural(self, op: Op, name: str) -> bool:
        if op.name in _NEVER_NEGATIVE or self.constants.get(name, -1) >= 0:
            return True
        return op.name in _KEEPS_SIGN and bool(op.operands) and self.natural.issuperset(op.operands)

    def _compared(self, op: Op) -> Known | None:
        how = op.text.split()[1].rstrip(",")
        left, right = op.operands
        if how not in _COMPARED:
            return None
        if left not in self.known:
            left, right, how = right, left, _MIRRORED.get(how, how)
        if left not in self.known:
            return None
        masks, *numbers = self.known[left]
        if right in self.constants:
            one, other = (int(_COMPARED[how](number, self.constants[right])) for number in numbers)
        elif right in self.natural and max(numbers) < 0:
            one = other = int(_BELOW[how])
        else:
            return None
        return masks, one, other
