"""Inline PTX: the instructions by which kernels decode numbers, on every lane, with the bits of the hardware.

What they do is said in the PTX ISA, 9.7: "Floating Point Instructions", "Half Precision Floating Point Instructions",
"Logic and Shift Instructions" and "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.vgpu.elements import Element, Type
from harness.vgpu.formats import decode
from harness.vgpu.memory import from_bits, to_bits
from harness.vgpu.numerics_cast import cast, encode
from harness.vgpu.profiles import Profile
from harness.vgpu.values import LEAD, Data, Value

#: Bits of a register by the letter of its constraint, and by its type.
_LETTERS = {"h": 16, "r": 32, "f": 32}
_TYPES = {"b16": 16, "u16": 16, "b32": 32, "u32": 32, "f32": 32}
#: What waits for instructions that the hardware runs on beside others; here each has ended when the next one begins.
_WAITS = ("wgmma.wait_group.sync.aligned",)
_UNSIGNED: Mapping[int, np.dtype[Any]] = {8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32)}


class UnknownPTX(Exception):
    """Assembly that is not among what is known here; the message is the instruction or the constraints."""


@dataclass(frozen=True)
class _Instruction:
    """``name`` with what it writes and reads: each the text of a register, of a literal, or of several in braces."""

    text: str
    name: str
    target: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]


def run(
    assembly: str, constraints: str, arguments: Sequence[Value], types: Sequence[Type], pack: int, profile: Profile
) -> list[Value]:
    """Return what ``assembly`` makes of ``arguments``, by output: elements of ``types``, ``pack`` of them a time.

    Of neighbours in a block that are packed into one register the earlier is in its lower bits; which elements are
    neighbours is a matter of layout on hardware.  Raises UnknownPTX for anything that is not known exactly.
    """
    letters = [part.strip() for part in constraints.split(",")]
    elements = [type.scalar for type in types]
    wanted = [_registers(element, pack) for element in elements]
    given = [_registers(value.type, pack) for value in arguments]
    outputs = sum(number for number, _ in wanted)
    widths = [bits for number, bits in (*wanted, *given) for _ in range(number)]
    ours = [("=" if number < outputs else "", bits) for number, bits in enumerate(widths)]
    if [(text[:-1], _LETTERS.get(text[-1:])) for text in letters] != ours:
        raise UnknownPTX(f"constraints {constraints}")
    shape = arguments[0].shape if arguments else ()
    registers: dict[str, Data] = {}
    for value, (number, bits) in zip(arguments, given, strict=True):
        for data in _taken(value, pack, number, bits):
            registers[f"${outputs + len(registers)}"] = data
    _execute(assembly, registers, {f"${n}": bits for n, bits in enumerate(widths)}, profile)
    made = iter(range(outputs))
    found = []
    for element, (number, bits) in zip(elements, wanted, strict=True):
        parts = [registers.get(f"${next(made)}") for _ in range(number)]
        if any(part is None for part in parts):
            raise UnknownPTX("an output that nothing writes")
        found.append(_given_back([part for part in parts if part is not None], element, bits, pack, shape))
    return found


def _registers(element: Element, pack: int) -> tuple[int, int]:
    """Return how many registers hold ``pack`` elements, and the bits of each: narrow ones share 32 (Triton)."""
    together = min(pack, max(1, 32 // element.bits))
    return pack // together, element.bits * together


def _taken(value: Value, pack: int, number: int, bits: int) -> Iterator[Data]:
    """Yield the registers that hold ``pack`` elements of ``value``."""
    data = to_bits(value if pack == 1 else value.with_data(value.full()), value.type)
    codes = np.ascontiguousarray(data).view(_code_type(value.type))
    if pack == 1:
        yield codes
        return
    lanes = codes.reshape(*codes.shape[:LEAD], -1)
    if lanes.shape[-1] % pack:
        lanes = np.concatenate([lanes] + [lanes[..., -1:]] * (pack - lanes.shape[-1] % pack), axis=-1)
    groups = lanes.reshape(*lanes.shape[:LEAD], -1, pack)
    together = pack // number
    for first in range(0, pack, together):
        register = np.zeros(groups.shape[:-1], _UNSIGNED[bits])
        for place in range(together):
            part = groups[..., first + place].astype(register.dtype)
            register |= part << register.dtype.type(place * value.type.bits)
        yield register


def _given_back(parts: Sequence[Data], element: Element, bits: int, pack: int, shape: tuple[int, ...]) -> Value:
    """Return the elements that registers hold."""
    code = _code_type(element)
    if pack == 1:
        return Value(from_bits(parts[0].view(element.stored), element), element, shape)
    together = pack // len(parts)
    each = [(part >> part.dtype.type(place * element.bits)).astype(code) for part in parts for place in range(together)]
    lanes = np.stack(each, axis=-1).reshape(*parts[0].shape[:LEAD], -1)
    size = int(np.prod(shape, dtype=np.int64))
    codes = np.ascontiguousarray(lanes[..., :size]).reshape(*lanes.shape[:LEAD], *shape)
    return Value(from_bits(codes.view(element.stored), element), element, shape)


def _code_type(element: Element) -> np.dtype[Any]:
    if element.bits not in _UNSIGNED:
        raise UnknownPTX(f"elements of {element.bits} bits")
    return _UNSIGNED[element.bits]


def _execute(assembly: str, registers: dict[str, Data], widths: Mapping[str, int], profile: Profile) -> None:
    """Run the instructions of ``assembly`` on ``registers``, unsigned bits by name; ``widths`` are the bits of each."""
    known = dict(widths)
    for statement in _statements(assembly):
        if statement.startswith(".reg"):
            _, kind, names = statement.split(None, 2)
            if kind.removeprefix(".") not in _TYPES:
                raise UnknownPTX(statement)
            known.update((name.strip(), _TYPES[kind.removeprefix(".")]) for name in names.split(","))
            continue
        if statement.split()[0] in _WAITS:
            continue
        instruction = _parsed(statement)
        if any(name not in known for name in instruction.target):
            raise UnknownPTX(statement)
        made = _computed(instruction, registers, profile, [known[name] for name in instruction.target])
        registers.update(zip(instruction.target, made, strict=True))


def _statements(assembly: str) -> Iterator[str]:
    text = re.sub(r"//[^\n]*", "", assembly).strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    return (part.strip() for part in text.split(";") if part.strip())


def _parsed(statement: str) -> _Instruction:
    name, _, rest = statement.partition(" ")
    operands = [
        tuple(part.strip() for part in (group or single).split(","))
        for group, single in re.findall(r"\{([^}]*)\}|([^,{}\s]+)", rest)
    ]
    if len(operands) < 2:
        raise UnknownPTX(statement)
    return _Instruction(statement, name, operands[0], tuple(operands[1:]))


def _computed(
    instruction: _Instruction, registers: Mapping[str, Data], profile: Profile, bits: list[int]
) -> list[Data]:
    def read(text: str) -> Data:
        if text in registers:
            return registers[text]
        try:
            return np.array(int(text, 0) & 0xFFFFFFFF, np.uint32, ndmin=LEAD)
        except ValueError:
            raise UnknownPTX(f"{instruction.text}, where nothing has written {text}") from None

    name = instruction.name
    if name == "mov.b32":
        return _moved([read(text) for text in instruction.sources[0]], len(instruction.target), bits)
    operation = _OPERATIONS.get(name)
    if operation is None or any(len(source) > 1 for source in instruction.sources) or len(bits) > 1:
        raise UnknownPTX(instruction.text)
    size, of = operation
    sources = [read(text) for (text,) in instruction.sources]
    if bits != [size]:
        raise UnknownPTX(f"{instruction.text}, into {bits[0]} bits")
    with np.errstate(all="ignore"):
        return [of(profile, *sources)]


def _moved(sources: list[Data], targets: int, bits: list[int]) -> list[Data]:
    """Move a register, or take it apart, or put it together: what comes first is in the lower bits."""
    whole = sources[0]
    if len(sources) == 2:
        low, high = (source.astype(np.uint32) for source in sources)
        whole = low | high << np.uint32(16)
    if targets == 1 and bits == [32]:
        return [whole.astype(np.uint32)]
    if targets == 2 and bits == [16, 16]:
        return [whole.astype(np.uint16), (whole >> np.uint32(16)).astype(np.uint16)]
    raise UnknownPTX(f"mov.b32 into {bits} bits")


Operation = Callable[..., Data]


def _halves(data: Data) -> tuple[Data, Data]:
    return (data & np.uint32(0xFFFF)).astype(np.uint16), (data >> np.uint32(16)).astype(np.uint16)


def _joined(low: Data, high: Data) -> Data:
    result: Data = low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)
    return result


def _float(data: Data) -> Data:
    return np.ascontiguousarray(data).view(np.float32)


def _shifted(profile: Profile, value: Data, count: Data) -> Data:
    result: Data = np.where(count > 31, np.uint32(0), value >> np.minimum(count, np.uint32(31)))
    return result


def _lop3(profile: Profile, a: Data, b: Data, c: Data, table: Data) -> Data:
    number, result = int(table.reshape(-1)[0]), np.zeros((), np.uint32)
    for row in range(8):
        if number >> row & 1:
            terms = (x if row & place else ~x for x, place in ((a, 4), (b, 2), (c, 1)))
            result = result | np.bitwise_and.reduce(list(np.broadcast_arrays(*terms)))
    return np.asarray(result, np.uint32)


def _permuted(profile: Profile, a: Data, b: Data, selector: Data) -> Data:
    """Pick four bytes of eight; bit 3 of a choice copies the sign of its byte to all of it."""
    number, result = int(selector.reshape(-1)[0]), np.zeros((), np.uint32)
    for place in range(4):
        choice = number >> 4 * place & 15
        byte = (a if choice & 7 < 4 else b) >> np.uint32(8 * (choice & 3)) & np.uint32(0xFF)
        if choice & 8:
            byte = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        result = result | byte << np.uint32(8 * place)
    return np.asarray(result, np.uint32)


def _halves_of_e4m3(profile: Profile, pair: Data) -> Data:
    codes = [(pair >> np.uint16(shift) & np.uint16(0xFF)).astype(np.uint8) for shift in (0, 8)]
    return _joined(*(encode(decode(code, "fp8e4nv"), "fp16", profile) for code in codes))


def _wide(profile: Profile, half: Data) -> Data:
    return np.ascontiguousarray(cast(decode(half, "fp16"), "fp16", "fp32", profile)).view(np.uint32)


def _bfloat16_pair(profile: Profile, high: Data, low: Data) -> Data:
    return _joined(*(encode(_float(part), "bf16", profile) for part in (low, high)))


def _fused(profile: Profile, a: Data, b: Data, c: Data) -> Data:
    """Multiply and add bfloat16 pairs with one rounding."""
    halves = ([decode(half, "bf16").astype(np.float64) for half in _halves(data)] for data in (a, b, c))
    return _joined(*(encode(_sum_to_odd(x * y, z), "bf16", profile) for x, y, z in zip(*halves, strict=True)))


def _sum_to_odd(product: Data, term: Data) -> Data:
    """Return a float64 sum rounded to odd, from which a second rounding is the one of the exact sum."""
    total = product + term
    # what the sum lost, exactly (Knuth, TAOCP 2, 4.2.2, theorem B)
    part = total - product
    lost = (product - (total - part)) + (term - part)
    bits = np.ascontiguousarray(total).view(np.int64)
    inexact = np.isfinite(total) & (lost != 0) & (bits & 1 == 0)
    # towards what was lost: a larger magnitude is the next code
    outwards = (lost > 0) == (total > 0)
    return np.where(inexact, bits + np.where(outwards, 1, -1), bits).view(np.float64)


#: Name -> bits of the register that it writes, and what is in it.
_OPERATIONS: Mapping[str, tuple[int, Operation]] = {
    "and.b32": (32, lambda profile, a, b: a & b),
    "or.b32": (32, lambda profile, a, b: a | b),
    "xor.b32": (32, lambda profile, a, b: a ^ b),
    "mul.lo.u32": (32, lambda profile, a, b: a * b),
    "shr.u32": (32, _shifted),
    "lop3.b32": (32, _lop3),
    "prmt.b32": (32, _permuted),
    "cvt.rn.f16x2.e4m3x2": (32, _halves_of_e4m3),
    "cvt.f32.f16": (32, _wide),
    "cvt.rn.bf16x2.f32": (32, _bfloat16_pair),
    "fma.rn.bf16x2": (32, _fused),
}
