"""Registers that a wgmma may still read when they are written: machine code that is wrong now and then.

A wgmma runs on beside what follows it.  PTX ISA, "wgmma.mma_async": its registers, the left operand's among them, must
not be touched before a wgmma.wait_group that covers its group.  ptxas before CUDA 13.3 keeps to that in the order of
the PTX and not in the registers that it allots: in a loop that waits for all but N > 0 groups it decodes the next left
operand straight into registers that those N still read, although the PTX has a copy after the wait.

    triton-lang/triton, issue 9433     the fault, seen with Triton's own pipeline
    triton-lang/triton, pull 9514      a copy before each wgmma, from Triton 3.7 on: ptxas 12.9 takes it out again
    triton-lang/triton, pull 11781     the same PTX is wrong by ptxas 12.9 and right by 13.4; fixed in CUDA 13.3

So PTX cannot tell, and what is read here is what ptxas made of it.  Left operands in shared memory are no concern.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Accumulators in braces, then a left operand in braces; one in shared memory is a lone register.
_FROM_REGISTERS = re.compile(r"\bwgmma\.mma_async\S*\s+\{[^}]*\},\s*\{")
_LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);", re.MULTILINE)
_MULTIPLY = re.compile(r"[A-Z]GMMA\b")
_LEFT = re.compile(r"R(?:\d+|Z)[\w.]*, R(\d+)\b")
_WRITTEN = re.compile(r"(?:!?U?P\w+, *)*R(\d+)\b")
_TARGET = re.compile(r"(?:(!?U?P\w+), )?(?:~?URZ, )?`?\(?(0x[0-9a-f]+)")
# What has a general register first and only reads it, or predicates as its result.
_READS = re.compile(r"[A-Z]*SETP|FCHK|R2P|BAR|BRX|JMX|CALL|RET|WARPSYNC|NANOSLEEP|CCTL|KILL|VOTE\.\w+ P|[A-Z]*RED\b")
_ENDS = frozenset({"EXIT", "RET", "BRX", "JMX", "KILL", "BPT"})
_LEFT_REGISTERS = 4
# A loop that never waits is seen in full long before that, and the walk must come to an end.
_MOST_GROUPS = 32


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """``registers`` of left operands are written too early, with at most ``outstanding`` groups not waited for."""

    registers: int
    outstanding: int


@dataclass(frozen=True)
class _Instruction:
    """One instruction: its opcode, the registers it reads as a left operand and those it writes, as bits."""

    opcode: str
    text: str
    left: int
    written: int
    target: int | None
    ends: bool


@dataclass(frozen=True)
class _Pending:
    """Left operands in flight, as bits: of multiplies not yet in a group, and of each group, the oldest first."""

    open: int = 0
    groups: tuple[int, ...] = ()

    def after(self, one: _Instruction) -> _Pending:
        """Return what is in flight after ``one``, which may multiply, close a group, or wait."""
        if _MULTIPLY.match(one.opcode):
            reading = self.open | one.left
            if "gsb0" not in one.text:
                return _Pending(reading, self.groups)
            return _Pending(0, (*self.groups, reading)[-_MOST_GROUPS:])
        if one.opcode.startswith("WARPGROUP.DEPBAR"):
            left = int(one.text.rpartition(",")[2], 16)
            return _Pending(self.open, self.groups[-left:] if left else ())
        return self


def reads_registers(ptx: str) -> bool:
    """Whether a wgmma of ``ptx`` has its left operand in registers: only then is there anything to look for."""
    return _FROM_REGISTERS.search(ptx) is not None


def disassembled(cubin: bytes) -> str:
    """Return the instructions of ``cubin``, by the cuobjdump that comes with Triton; RuntimeError if it fails."""
    tool = importlib.import_module("triton").knobs.nvidia.cuobjdump.path
    with tempfile.NamedTemporaryFile(prefix="harness-sass-", suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin)
        done = subprocess.run([tool, "-sass", file.name], capture_output=True, text=True, check=False)
    if done.returncode or not _LINE.search(done.stdout):
        raise RuntimeError(f"cuobjdump -sass ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def overwritten(sass: str) -> Hazard | None:
    """Return what of left operands is written too early on any path through ``sass``, None if nothing is."""
    registers = outstanding = 0
    # addresses begin anew with each function
    for function in sass.split("Function :"):
        for written, groups in _early_writes(_parsed(function)):
            registers |= written
            outstanding = max(outstanding, groups)
    return Hazard(registers=registers.bit_count(), outstanding=outstanding) if registers else None


def _early_writes(code: list[_Instruction]) -> Iterator[tuple[int, int]]:
    """Yield (registers as bits, groups outstanding) of each write of what is in flight, on every path."""
    joins = {one.target for one in code if one.target is not None}
    seen: set[tuple[int, _Pending]] = set()
    todo = [(0, _Pending())]
    while todo:
        place, pending = todo.pop()
        while place < len(code):
            if place in joins:
                if (place, pending) in seen:
                    break
                seen.add((place, pending))
            one = code[place]
            if pending.open & one.written:
                yield pending.open & one.written, len(pending.groups) + 1
            for group in pending.groups:
                if group & one.written:
                    yield group & one.written, len(pending.groups)
            pending = pending.after(one)
            if one.target is not None:
                todo.append((one.target, pending))
            if one.ends:
                break
            place += 1


def _parsed(function: str) -> list[_Instruction]:
    lines = _LINE.findall(function)
    places = {int(address, 16): place for place, (address, *_) in enumerate(lines)}
    code = []
    for _, guard, opcode, operands in lines:
        target, always = None, not guard
        # BRA 0x10, BRA.DIV ~URZ, 0x10, BRA.U !UP0, 0x10
        if opcode.split(".")[0] == "BRA" and (found := _TARGET.match(operands)):
            target = places.get(int(found[2], 16))
            always = always and found[1] is None and ".DIV" not in opcode
        multiplies = _MULTIPLY.match(opcode)
        left = _LEFT.match(operands) if multiplies else None
        code.append(
            _Instruction(
                opcode=opcode,
                text=operands,
                left=_bits(int(left[1]), _LEFT_REGISTERS) if left else 0,
                written=0 if multiplies else _written(opcode, operands),
                target=target,
                ends=always and (target is not None or opcode.split(".")[0] in _ENDS),
            )
        )
    return code


def _written(opcode: str, operands: str) -> int:
    """The registers that an instruction writes, as bits: a store begins with an address, a comparison is in _READS."""
    found = _WRITTEN.match(operands)
    if found is None or _READS.match(f"{opcode} {operands}"):
        return 0
    return _bits(int(found[1]), _width(opcode))


def _width(opcode: str) -> int:
    """How many registers a result takes."""
    if re.match(r"(LD\w*|ATOM\w*)\b.*\.128\b|[HIQ]MMA\b|LDSM\b.*\.4\b", opcode):
        return 4
    wide = r"(LD\w*|ATOM\w*|CS2R|MOV|I?MAD)\b.*\.(64|WIDE)\b|LDSM\b.*\.2\b|CS2R$|D(ADD|MUL|FMA|MMA)\b|F2F\.F64|I2F\.F64"
    return 2 if re.match(wide, opcode) else 1


def _bits(first: int, number: int) -> int:
    return ((1 << number) - 1) << first
