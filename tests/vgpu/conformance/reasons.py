"""The closed list of reasons for which the virtual GPU may differ from the recording, and what each one excuses."""

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

import numpy as np
import torch
import triton

from tests.vgpu.conformance.cases import In, numbers
from tests.vgpu.conformance.values import TYPES


class Reason(Enum):
    """Nothing else excuses a difference."""

    NAN_PAYLOAD = "both results are NaN; which NaN arithmetic makes is not modelled, and shows to a bitcast alone"
    APPROXIMATE = "an instruction or library function, documented to be off by so many units in the last place"
    FLUSHED = "a subnormal operand, or a result below twice the smallest normal, in a library that flushes in places"
    SIGNALLING = "a signalling NaN as operand"
    ORDER = "the order, and the adder, of a sum or product: bounded by roundings of the sum of magnitudes"
    NOT_ASSOCIATIVE = "a combine function that is not associative on NaN, folded in another order"
    TIE = "which of equal elements is named is left open"
    CONTRACTED = "the compiler fuses a product and a sum; equal to the recorded fused operation"
    NEGATION = "-x was 0 - x when this was recorded, and has become a change of sign since: zeros and NaN show it"
    PROMOTED = "narrow floats were computed in float32 when this was recorded, and are in a narrow type since"
    OPEN = "the language leaves the result open"
    UNORDERED = "the language leaves the order of the elements open"
    UNTRUSTED = "the virtual GPU reports the operation as outside of its proven set"
    NOT_EXECUTED = "the virtual GPU refuses the operation by name"


@dataclass(frozen=True)
class Allowance:
    """``cases``: patterns of names, one or more with spaces between.  ``source``: the document, and in it the figure.

    ``limit``: units in the last place; for ``ORDER`` the number of roundings of ``unit`` each, relative to the sum of
    magnitudes.  ``measured``: the type whose units count, if not the result's.  ``since``, ``before``: the
    first release of Triton that differs, and the first that does not.
    """

    cases: str
    reason: Reason
    source: str
    limit: float = 0
    unit: float = 2.0**-24
    measured: str = ""
    since: tuple[int, int] = (0, 0)
    before: tuple[int, int] = (99, 0)

    def applies(self):
        return self.since <= tuple(int(part) for part in triton.__version__.split(".")[:2]) < self.before

    @property
    def patterns(self):
        return self.cases.split()

    def covers(self, id):
        return self.applies() and any(fnmatchcase(id, pattern) for pattern in self.patterns)


@dataclass(frozen=True)
class Compared:
    """Result ``number`` of one case: what the virtual GPU gave and what was recorded, as bits.

    ``fused``: what was recorded for the fused operation.  ``untrusted``: the virtual GPU said so.
    """

    case: object
    type: str
    got: np.ndarray
    recorded: np.ndarray
    number: int
    fused: np.ndarray | None
    untrusted: bool

    @property
    def both(self):
        return self.got, self.recorded


def values(bits, type):
    """Bits as float64; integers as they are."""
    with np.errstate(invalid="ignore"):
        return numbers(In(type, bits)).astype(np.float64)


def is_nan(bits, type):
    return np.isnan(values(bits, type)) if "fp" in type or "bf" in type else np.zeros(bits.shape, bool)


def ulp(got, recorded, type):
    """How many codes lie between two results; 2**62 where one alone is NaN."""
    steps = []
    for bits in (got, recorded):
        width = 8 * TYPES[type][1]
        signed = bits.astype(f"u{bits.dtype.itemsize}").view(f"i{bits.dtype.itemsize}").astype(np.int64)
        if "int" in type:
            steps.append(signed.astype(object) if width == 64 else signed)
            continue
        magnitude = signed & np.int64((1 << (width - 1)) - 1)
        steps.append(np.where(signed < 0, -magnitude, magnitude))
    with np.errstate(over="ignore"):
        distance = np.abs(steps[0] - steps[1]).astype(np.float64)
    alone = is_nan(got, type) != is_nan(recorded, type)
    return np.where(alone, 2.0**62, distance)


def _as_type(bits, type, other):
    if type == other:
        return bits
    with np.errstate(all="ignore"):
        return values(bits, type).astype(other.replace("fp", "float")).view(f"u{TYPES[other][1]}")


def _operands(compared):
    """The case's operands as float64, those of the result's shape only."""
    given = (operand for operand in compared.case.operands if operand.bits is not None)
    return [values(operand.bits, operand.type) for operand in given if operand.bits.shape == compared.got.shape]


def _smallest_normal(type):
    return torch.finfo(TYPES[type][0]).tiny


def _flushed(compared):
    tiny = _smallest_normal(compared.type if "int" not in compared.type else "fp32")
    operand = np.zeros(compared.got.shape, bool)
    for x in _operands(compared):
        operand |= (x != 0) & (np.abs(x) < tiny)
    small = [np.abs(values(bits, compared.type)) < 2 * tiny for bits in (compared.got, compared.recorded)]
    return operand | (small[0] & small[1])


def _promoted(allowance, compared):
    """Where an operand is NaN, or the recorded result is the other once it has the measured type."""
    nan = np.zeros(compared.got.shape, bool)
    for x in _operands(compared):
        nan |= np.isnan(x)
    return nan | np.equal(*(_as_type(bits, compared.type, allowance.measured) for bits in compared.both))


def _signalling(compared):
    """Where an operand is a NaN without the upper bit of its mantissa."""
    found = np.zeros(compared.got.shape, bool)
    for operand in compared.case.inputs:
        if "int" not in operand.type and operand.bits.shape == compared.got.shape:
            quiet = operand.bits >> operand.bits.dtype.type(
                {"fp32": 22, "fp64": 51, "bf16": 6, "fp16": 9}[operand.type]
            )
            found |= is_nan(operand.bits, operand.type) & (quiet & 1 == 0)
    return found


def _rows_with_nan(compared):
    (operand,) = compared.case.inputs
    rows = is_nan(operand.bits, operand.type).any(axis=1)
    return np.repeat(rows, compared.got.size // rows.size)


def _ties(compared):
    """Where the elements that two indices name, or two extremes, are equal."""
    (operand,) = compared.case.inputs
    if compared.number == 1:
        x, rows = values(operand.bits, operand.type), np.arange(len(operand.bits))
        mine, theirs = (x[rows, bits.view(np.int32)] for bits in (compared.got, compared.recorded))
    else:
        mine, theirs = (values(bits, compared.type) for bits in (compared.got, compared.recorded))
    return mine == theirs


def _ordered(allowance, compared):
    """Where sums are as near as any order, rounding, or truncating adder of the unit allows."""
    case = compared.case
    given = [np.abs(values(operand.bits, operand.type)) for operand in case.operands if operand.bits is not None]
    terms = np.asarray((case.magnitude or case.predict)(*given), np.float64).reshape(compared.got.shape)
    reached = terms if case.growth is None else np.asarray(case.growth(*given)).reshape(compared.got.shape)
    got, recorded = values(compared.got, compared.type), values(compared.recorded, compared.type)
    # a rounding below the smallest normal is off by a part of the smallest subnormal instead
    floor = torch.finfo(TYPES[compared.type][0]).smallest_normal * allowance.unit
    near = np.abs(got - recorded) <= allowance.limit * (allowance.unit * terms + floor)
    # a partial sum may overflow in one order and not in the other
    largest = torch.finfo(TYPES[compared.type][0]).max
    finite = np.isfinite(got) & np.isfinite(recorded)
    return np.where(finite, near, (reached > largest) & ~(np.isnan(got) & np.isnan(recorded)))


def explained(allowance, compared):
    """Where ``allowance`` excuses a difference, as a mask over the result."""
    got, recorded, type = compared.got, compared.recorded, compared.type
    nan = is_nan(got, type) | is_nan(recorded, type)
    match allowance.reason:
        case Reason.NAN_PAYLOAD:
            return is_nan(got, type) & is_nan(recorded, type)
        case Reason.APPROXIMATE:
            measured = allowance.measured or type
            given = (_as_type(bits, type, measured) for bits in (got, recorded))
            return ~nan & (ulp(*given, measured) <= allowance.limit)
        case Reason.CONTRACTED:
            return recorded == compared.fused
        case Reason.NEGATION:
            with np.errstate(invalid="ignore"):
                same = values(got, type) == values(recorded, type)
            return same | (is_nan(got, type) & is_nan(recorded, type))
        case Reason.PROMOTED:
            return _promoted(allowance, compared)
        case Reason.FLUSHED:
            return _flushed(compared)
        case Reason.SIGNALLING:
            return _signalling(compared)
        case Reason.NOT_ASSOCIATIVE:
            return _rows_with_nan(compared)
        case Reason.TIE:
            return _ties(compared)
        case Reason.ORDER:
            with np.errstate(all="ignore"):
                return _ordered(allowance, compared)
        case Reason.UNORDERED:
            return np.full(got.shape, np.array_equal(np.sort(got, axis=None), np.sort(recorded, axis=None)))
        case Reason.UNTRUSTED:
            return np.full(got.shape, compared.untrusted)
    return np.full(got.shape, allowance.reason is Reason.OPEN)
