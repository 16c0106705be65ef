"""Faults planted in the virtual GPU's numerics: one change of source each, and the recorded case that must differ."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NumericsFault:
    """In ``harness/vgpu/FILE``, ``old``, which stands there once, becomes ``new``; ``case`` must then differ."""

    name: str
    file: str
    old: str
    new: str
    case: str

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


FAULTS = (
    NumericsFault(
        "exp2 keeps subnormal results",
        "numerics_math.py",
        "        if profile.ftz_exp2 and x.dtype == np.float32:\n",
        "        if False:\n",
        "exp2/fp32",
    ),
    NumericsFault(
        "maximum forgets the sign of zero",
        "numerics_math.py",
        "            if mixed.any():\n",
        "            if False:\n",
        "maximum/fp32",
    ),
    NumericsFault(
        "bf16 ties go up",
        "numerics_cast.py",
        "        rounded += bits\n        rounded += _HALF_LESS_ONE\n",
        "        rounded += bits\n        rounded += _HALF_LESS_ONE + _ONE\n",
        "cast/fp32/bf16",
    ),
    NumericsFault(
        "8 bits round through float16",
        "numerics_cast.py",
        '(rounding == "rtne" and profile.fp8_path != "direct")',
        '(rounding == "rtne")',
        "cast/fp32/fp8e4nv",
    ),
    NumericsFault(
        "NaN becomes the smallest 32-bit integer",
        "numerics_cast.py",
        "if info.bits == 64 or x.dtype == np.float64 else 0",
        "if True else 0",
        "cast/fp32/int32",
    ),
    NumericsFault(
        "integer division rounds down",
        "arithmetic.py",
        "        quotient = quotient + ((quotient < 0) & (quotient * b != a))\n",
        "        pass\n",
        "floor_divide/int32",
    ),
    NumericsFault(
        "tf32 rounds to nearest",
        "numerics_dot.py",
        "return matmul(to_tf32(a), to_tf32(b))",
        "return matmul(nearest_tf32(a), nearest_tf32(b))",
        "dot/fp32/tf32/warp/plain",
    ),
    NumericsFault(
        "reductions let NaN win",
        "reduce.py",
        'result: Data = (np.fmax if kind == "max" else np.fmin).reduce(data, axis=at)',
        'result: Data = (np.maximum if kind == "max" else np.minimum).reduce(data, axis=at)',
        "max_rows/fp32",
    ),
    NumericsFault(
        "sums of bf16 round once",
        "reduce.py",
        "        total = finish(host, data[:, :, :, :half] + data[:, :, :, half : 2 * half], type)\n",
        "        total = data[:, :, :, :half] + data[:, :, :, half : 2 * half]\n",
        "sum_rows/bf16",
    ),
    NumericsFault(
        "E8M0 is off by one",
        "formats.py",
        "np.arange(-127, 129)",
        "np.arange(-126, 130)",
        "dot_scaled/e4m3/e4m3/warp",
    ),
    NumericsFault(
        "atomic sums keep subnormals",
        "atomics.py",
        "return lambda old, new: numerics.flush(numerics.flush(old) + numerics.flush(new))",
        "return np.add",
        "atomic_add/fp32",
    ),
    NumericsFault(
        "descriptors forget that integers are unsigned",
        "descriptors.py",
        'name = f"U{name}"',
        "pass",
        "descriptor_max/uint32",
    ),
    NumericsFault(
        "float remainder is exact",
        "numerics_math.py",
        '        if profile.vendor != "cuda":\n            return np.asarray(np.fmod',
        "        if True:\n            return np.asarray(np.fmod",
        "modulo/bf16",
    ),
    NumericsFault(
        "64-bit integers round twice",
        "casts.py",
        "numerics.int_to_float(data, wide, odd=element.narrow)",
        "numerics.int_to_float(data, wide)",
        "cast/uint64/bf16",
    ),
)
