"""Triton's IR in a form in which programs that compute the same values look the same.

Operations without effects are known by what they compute, wherever they stand and whatever they are called.  An integer
that depends on one value of at most 16 bits is known by all that it can be.  An exact conversion to a wider float and a
choice between a value and 0 can be exchanged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
#: One result, several under one name (``%a:2``) or under names of their own (``%a, %b``), and what gives them.
_RESULTS = re.compile(r"^(%[\w$.-]+(?::\d+)?(?:, %[\w$.-]+(?::\d+)?)*) = (.*)$", re.DOTALL)
#: What an emitted line defines beside its results: arguments of blocks, and what loops carry.
_DEFINED = re.compile(r"(%[\w$.-]+)(?=: )|(%[\w$.-]+)(?= = )")
_CONSTANT = re.compile(r"^arith\.constant (?:dense<)?(-?\d+|true|false)>? : (\S+)$")
_ZERO = re.compile(r"^arith\.constant (?:dense<)?0\.0+e\+00>? : (\S+)$")
_BITS = re.compile(r"^(?:tensor<[\dx]*x)?i(\d+)>?$")
_PURE = ("arith.", "math.")
_PURE_TOO = frozenset(
    {
        "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.join", "tt.split", "tt.make_range",
        "tt.get_program_id", "tt.get_num_programs", "tt.addptr", "tt.bitcast", "tt.int_to_ptr", "tt.ptr_to_int",
        "tt.fp_to_fp", "tt.clampf", "tt.dot",
    }
)  # fmt: skip
#: Widest value all of whose contents are looked at.
_MOST_BITS = 16

Table = NDArray[np.uint64]


def _signed(values: Table, bits: int) -> NDArray[np.int64]:
    shift = np.uint64(64 - bits)
    return (values << shift).astype(np.int64) >> np.int64(64 - bits)


def _shifted(shift: Callable[[Table, Table], Table]) -> Callable[[Table, Table, int], Table]:
    # a shift by all bits or more has no value
    return lambda a, b, bits: np.where(b < bits, shift(a, np.minimum(b, np.uint64(63))), np.uint64(0))


_COMPUTED: dict[str, Callable[[Table, Table, int], Table]] = {
    "arith.addi": lambda a, b, bits: a + b,
    "arith.subi": lambda a, b, bits: a - b,
    "arith.muli": lambda a, b, bits: a * b,
    "arith.andi": lambda a, b, bits: a & b,
    "arith.ori": lambda a, b, bits: a | b,
    "arith.xori": lambda a, b, bits: a ^ b,
    "arith.shli": _shifted(lambda a, b: a << b),
    "arith.shrui": _shifted(lambda a, b: a >> b),
}


@dataclass(frozen=True)
class _Op:
    """An operation without effects: ``operands`` are the names of values, ``text`` has a mark for each."""

    text: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class _Cases:
    """What an integer of ``bits`` is for every content of the value called ``source``; of a constant that is ""."""

    source: str
    bits: int
    values: Table


def form(program: str) -> list[str]:
    """Return the lines of the effects in ``program``, IR printed without locations, values by what they are."""
    return _Former().lines(program)


@dataclass
class _Former:
    #: Value of the program -> its name by what it is, or by which effect it comes from.
    names: dict[str, str] = field(default_factory=dict)
    ops: dict[str, _Op] = field(default_factory=dict)
    cases: dict[str, _Cases] = field(default_factory=dict)
    effects: int = 0

    def lines(self, program: str) -> list[str]:
        found = []
        for line in map(str.strip, program.splitlines()):
            parts = _RESULTS.match(line)
            body = parts[2] if parts else line
            name = body.split("(")[0].split(" ")[0].strip('"')
            pure = name.startswith(_PURE) or name in _PURE_TOO
            if parts and pure and not line.endswith("{"):
                self._define(parts, self._value(name, body))
            elif line:
                found.append(self._emit(parts, body))
        return found

    def _define(self, parts: re.Match[str], name: str) -> None:
        results: list[str] = []
        for one in parts[1].split(", "):
            own, _, count = one.partition(":")
            results += [f"{own}#{place}" for place in range(int(count))] if count else [own]
        if len(results) == 1 and ":" not in parts[1]:
            self.names[results[0]] = name
            return
        for place, result in enumerate(results):
            self.names[result] = f"{name}.{place}"

    def _emit(self, parts: re.Match[str] | None, body: str) -> str:
        """Return a line with an effect; what it defines is new."""
        for names in _DEFINED.findall(body) if body.startswith(("^", "scf.", "tt.func")) else ():
            self.names[names[0] or names[1]] = self._new()
        used = _VALUE.sub(lambda found: f"%{self.names[found[0]]}", body)
        if parts is not None:
            self._define(parts, self._new())
        return used

    def _value(self, name: str, body: str) -> str:
        operands = tuple(self.names[found] for found in _VALUE.findall(body))
        return self._made(name, _Op(_VALUE.sub("%", body), operands))

    def _made(self, name: str, op: _Op) -> str:
        if name == "arith.extf" and (moved := self._inside_choice(op)) is not None:
            return moved
        cases = self._table(name, op)
        if cases is None:
            made = _digest(op.text, *op.operands)
        else:
            made = _digest(op.text.rpartition(" ")[2], cases.source, cases.values.tobytes().hex())
            self.cases[made] = cases
        self.ops.setdefault(made, op)
        return made

    def _inside_choice(self, op: _Op) -> str | None:
        """Return the choice between a converted value and 0 for the conversion of a choice between one and 0."""
        choice = self.ops.get(op.operands[0])
        if choice is None or not choice.text.startswith("arith.select %, %, % : "):
            return None
        condition, value, other = choice.operands
        zero = self.ops.get(other)
        if zero is None or not _ZERO.match(zero.text):
            return None
        wide = op.text.rpartition(" to ")[2]
        literal = "dense<0.000000e+00>" if wide.startswith("tensor") else "0.000000e+00"
        sides = (
            self._made("arith.extf", _Op(op.text, (value,))),
            self._made("arith.constant", _Op(f"arith.constant {literal} : {wide}", ())),
        )
        kinds = choice.text.removeprefix("arith.select %, %, % : ").rpartition(", ")[0]
        text = f"arith.select %, %, % : {kinds + ', ' if kinds else ''}{wide}"
        return self._made("arith.select", _Op(text, (condition, *sides)))

    def _table(self, name: str, op: _Op) -> _Cases | None:
        """Return all that the result can be, None where it depends on more than one narrow value."""
        result = _BITS.match(op.text.rpartition(" ")[2])
        if result is None or name not in (*_COMPUTED, "arith.extui", "arith.extsi", "arith.trunci"):
            return None
        bits = int(result[1])
        kind = op.text.partition(" : ")[2].partition(" to ")[0]
        sides = [self._cases_of(operand, kind) for operand in op.operands]
        narrow = [side for side in sides if side is not None]
        sources = {side.source for side in narrow if side.source}
        if len(sources) != 1 or len(narrow) < len(sides) or bits > 64:
            return None
        values = [side.values for side in narrow]
        if name in _COMPUTED:
            found = _COMPUTED[name](values[0], values[1], bits)
        elif name == "arith.extsi":
            before = _BITS.match(kind)
            assert before is not None
            found = _signed(values[0], int(before[1])).astype(np.uint64)
        else:
            found = values[0]
        return _Cases(sources.pop(), bits, found & np.uint64((1 << bits) - 1))

    def _cases_of(self, operand: str, kind: str) -> _Cases | None:
        """Return what an operand of type ``kind`` can be: a constant, or a table over a narrow value."""
        if operand in self.cases:
            return self.cases[operand]
        bits = _BITS.match(kind)
        op = self.ops.get(operand)
        if bits is None:
            return None
        if op is not None and (constant := _CONSTANT.match(op.text)):
            value = int({"true": "1", "false": "0"}.get(constant[1], constant[1])) & ((1 << int(bits[1])) - 1)
            return _Cases("", int(bits[1]), np.asarray([value], np.uint64))
        if 1 < int(bits[1]) <= _MOST_BITS:
            return _Cases(operand, int(bits[1]), np.arange(1 << int(bits[1]), dtype=np.uint64))
        return None

    def _new(self) -> str:
        self.effects += 1
        return f"effect{self.effects}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
