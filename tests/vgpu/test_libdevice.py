"""NVIDIA's device library: directed rounding against exact fractions, and what is trusted of the rest."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from harness.vgpu import VirtualGPU
from harness.vgpu.libdevice import FUNCTIONS
from harness.vgpu.libdevice_exact import EXACT
from harness.vgpu.profiles import profile

SM90 = profile("sm_90")
NO_FLUSH = dataclasses.replace(SM90, ftz_libdevice=False)
FP32 = np.dtype(np.float32)
COUNT = 150


def neighbours(exact, guess):
    """Return the float32 at or below ``exact``, and the one at or above, None where that is infinite."""
    around = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    finite = [x for x in around if np.isfinite(x)]
    below = [x for x in finite if Fraction(float(x)) <= exact]
    above = [x for x in finite if Fraction(float(x)) >= exact]
    return max(below, default=None), min(above, default=None)


def rounded(exact, mode):
    with np.errstate(over="ignore"):
        low, high = neighbours(exact, np.float32(float(exact)))
    if low is None or high is None:
        return None
    if mode == "rz":
        mode = "rd" if exact > 0 else "ru"
    if mode != "rn":
        return float(low if mode == "rd" else high)
    left, right = exact - Fraction(float(low)), Fraction(float(high)) - exact
    even = low if int(low.view(np.uint32)) % 2 == 0 else high
    return float(low if left < right else high if right < left else even)


def some_operands():
    rng = np.random.default_rng(0)

    def any_float():
        x = rng.integers(0, 2**32, COUNT, dtype=np.uint64).astype(np.uint32).view(np.float32)
        return np.where(np.isfinite(x) & (x != 0), x, np.float32(1.5))

    a, b, c = any_float(), any_float(), any_float()
    with np.errstate(over="ignore"):
        # half of them close enough to cancel, or to be a hair from a rounding boundary
        near = (a * np.float32(1 + 2**-10) * rng.choice([1, -1, 0.5, 2**-20], COUNT)).astype(np.float32)
        against = -(a.astype(np.float64) * b).astype(np.float32)
    half = np.arange(COUNT) % 2 == 0
    return (
        a,
        np.where(half & np.isfinite(near) & (near != 0), near, b),
        np.where(half & np.isfinite(against), against, c),
    )


@pytest.fixture(scope="module")
def operands():
    return some_operands()


@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
@pytest.mark.parametrize("kind", ["fadd", "fsub", "fmul", "fdiv", "frcp", "fmaf"])
def test_directed_rounding_is_exact(kind, mode, operands):
    a, b, c = operands
    given = {"frcp": (a,), "fmaf": (a, b, c)}.get(kind, (a, b))
    with np.errstate(all="ignore"):
        found = EXACT[f"{kind}_{mode}"](given, NO_FLUSH, FP32)
    for i, result in enumerate(found):
        x, y, z = (Fraction(float(operand[i])) for operand in (a, b, c))
        exact = {
            "fadd": x + y,
            "fsub": x - y,
            "fmul": x * y,
            "fdiv": x / y,
            "frcp": 1 / x,
            "fmaf": x * y + z,
        }[kind]
        wanted = rounded(exact, mode)
        assert wanted is None or float(result) == wanted, (a[i], b[i], c[i])


@pytest.mark.parametrize("mode", ["rz", "rd", "ru"])
def test_directed_square_roots_are_on_their_side(mode, operands):
    x = np.abs(operands[0])
    found = EXACT[f"fsqrt_{mode}"]((x,), NO_FLUSH, FP32)
    for square, root in zip(x, found, strict=True):
        step = np.nextafter(root, np.float32(0 if mode == "ru" else np.inf))
        low, high = sorted(Fraction(float(one)) ** 2 for one in (root, step))
        assert low <= Fraction(float(square)) <= high


@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
@pytest.mark.parametrize(("kind", "dtype"), [("int", "int32"), ("uint", "uint32"), ("ll", "int64"), ("ull", "uint64")])
def test_integers_become_floats_as_directed(kind, dtype, mode):
    info = np.iinfo(dtype)
    x = np.random.default_rng(1).integers(info.min, info.max, COUNT, dtype=dtype, endpoint=True)
    found = EXACT[f"{kind}2float_{mode}"]((x.view(dtype.removeprefix("u")),), SM90, FP32)
    assert [float(f) for f in found] == [rounded(Fraction(int(n)), mode) for n in x]


@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
def test_float64_narrows_as_directed(mode):
    x = np.random.default_rng(2).standard_normal(COUNT)
    found = EXACT[f"double2float_{mode}"]((x,), SM90, FP32)
    assert [float(f) for f in found] == [rounded(Fraction(n), mode) for n in x]


def test_counts_of_bits():
    x = np.array([0, 1, 12, 0x80000000, 0xFFFFFFFF], np.uint32).view(np.int32)
    out = np.dtype(np.int32)
    assert EXACT["clz"]((x,), SM90, out).tolist() == [32, 31, 28, 0, 0]
    assert EXACT["ffs"]((x,), SM90, out).tolist() == [0, 1, 3, 32, 1]
    assert EXACT["popc"]((x,), SM90, out).tolist() == [0, 1, 2, 1, 32]
    assert EXACT["brev"]((x,), SM90, out).tolist() == [0, -(2**31), 0x30000000, 1, -1]


def test_special_values_of_functions():
    def of(name, *x):
        return FUNCTIONS[name](*(np.array([v], np.float32) for v in x), flush=False)[0]

    assert [of("sinpi", 1e9), of("cospi", 2.5), of("cospi", 3)] == [0, 0, -1]
    assert [of("tgamma", 5), round(float(of("tgamma", -0.5)), 5), of("tgamma", -0.0)] == [24, -3.54491, -np.inf]
    assert np.isnan(of("tgamma", -2))
    assert [of("remainder", 5, 2), of("remainder", 7, 2), of("remainder", -3, 2)] == [1, -1, 1]
    assert [of("logb", 0.75), of("logb", 0), of("logb", -np.inf)] == [-1, -np.inf, np.inf]
    assert [of("round", 2.5), of("rint", 2.5), of("fdim", 3, 5)] == [3, 2, 0]
    assert of("nextafter", 1, 2) == np.nextafter(np.float32(1), np.float32(2))
    assert [of("fast_fdividef", 3, 2.0**127), of("fast_fdividef", 3, 2)] == [0, 1.5]


@triton.jit
def trusted_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = libdevice.tanh(x) + libdevice.rsqrt(x) + libdevice.pow(x, x) + libdevice.fma(x, x, x) + libdevice.div_rn(x, x)
    tl.store(out_ptr + offs, y + libdevice.float2int_rn(x) + libdevice.isnan(x).to(tl.int32))


@triton.jit
def untrusted_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, libdevice.fast_sinf(x) + libdevice.lgamma(x))


def test_functions_with_a_documented_bound_are_trusted_and_others_are_named():
    x = torch.rand(16) + 0.5
    out = torch.zeros(16)
    with VirtualGPU() as gpu:
        trusted_kernel[(1,)](x, out, BLOCK=16)
        assert gpu.untrusted == set()
        expected = x.tanh() + x.rsqrt() + x**x + x * x + x + 1 + x.round()
        torch.testing.assert_close(out, expected)
        untrusted_kernel[(1,)](x, out, BLOCK=16)
    assert gpu.untrusted == {"extern_elementwise(__nv_fast_sinf)", "extern_elementwise(__nv_lgammaf)"}
    with VirtualGPU(profile="gfx942") as gpu:
        trusted_kernel[(1,)](x, out, BLOCK=16)
    assert "extern_elementwise(__nv_tanhf)" in gpu.untrusted
