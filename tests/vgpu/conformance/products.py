"""``tl.dot`` and ``tl.dot_scaled``, small enough for one warp's instruction and large enough for a warp group's."""

import numpy as np
import torch
import triton
import triton.language as tl

from tests.vgpu.conformance.blocks import narrowed
from tests.vgpu.conformance.cases import Case, In, Out, add
from tests.vgpu.conformance.values import moderate, random_bits

# name: rows, columns, length of the sums
SIZES = {"warp": (32, 32, 64), "group": (64, 32, 128)}


@triton.jit
def product(
    a_ptr,
    b_ptr,
    acc_ptr,
    out_ptr,
    PRECISION: tl.constexpr,
    OUT: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    a = tl.load(a_ptr + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    b = tl.load(b_ptr + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :])
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    acc = tl.load(acc_ptr + at)
    tl.store(out_ptr + at, tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=OUT))


@triton.jit
def scaled(
    a_ptr,
    a_scale_ptr,
    b_ptr,
    b_scale_ptr,
    out_ptr,
    A: tl.constexpr,
    B: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    A_ROW: tl.constexpr = K // 2 if A == "e2m1" else K
    B_COLUMN: tl.constexpr = K // 2 if B == "e2m1" else K
    a = tl.load(a_ptr + tl.arange(0, M)[:, None] * A_ROW + tl.arange(0, A_ROW)[None, :])
    b = tl.load(b_ptr + tl.arange(0, B_COLUMN)[:, None] * N + tl.arange(0, N)[None, :])
    group = tl.arange(0, K // 32)[None, :]
    a_scale = tl.load(a_scale_ptr + tl.arange(0, M)[:, None] * (K // 32) + group)
    if B == "bf16" or B == "fp16":
        y = tl.dot_scaled(a, a_scale, A, b, None, B)
    else:
        b_scale = tl.load(b_scale_ptr + tl.arange(0, N)[:, None] * (K // 32) + group)
        y = tl.dot_scaled(a, a_scale, A, b, b_scale, B)
    tl.store(out_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], y)


def matrices(m, n, k, largest, tiny, special):
    """Operands of random numbers; with ``special``, rows with NaN, infinities, cancellation, subnormals, overflow."""
    a = moderate(60, m * k, -3, 3).view(np.float32).reshape(m, k).copy()
    b = moderate(61, k * n, -3, 3).view(np.float32).reshape(k, n).copy()
    # one term a sum
    a[m - 4 :] = 0
    a[range(m - 4, m), range(4)] = np.float32([1, 3, -1, 1.5])
    # what cancels, and what remains
    a[m - 5], a[m - 5, 0], a[m - 5, k - 1] = np.float32(2**-6), 256, -256
    b[0], b[k - 1] = 1, 1
    if special:
        b[5, 3], b[6, 4] = 0, -np.inf
        a[0, 0], a[1, 5], a[2, 5], a[2, 6] = np.nan, np.inf, np.inf, -np.inf
        a[3] = np.arange(1, k + 1) * tiny
        a[4], b[:, 7] = largest, largest
    return a, b


def _products():
    for size, (m, n, k) in SIZES.items():
        acc = moderate(62, m * n, -3, 3).reshape(m, n)
        for type, largest, tiny in (
            ("bf16", 3e38, 1e-40),
            ("fp16", 6e4, 6e-8),
            ("fp8e4nv", 448, 2**-9),
            ("fp8e5", 57344, 2**-16),
            ("fp32", 3e38, 1e-40),
            ("fp64", 3e38, 1e-40),
        ):
            for kind in ("plain", "special"):
                a, b = matrices(m, n, k, largest, tiny, kind == "special")
                if type == "fp64":
                    x, y = a.astype(np.float64).view(np.uint64), b.astype(np.float64).view(np.uint64)
                elif type == "fp32":
                    x, y = a.view(np.uint32), b.view(np.uint32)
                else:
                    x, y = narrowed(a, type), narrowed(b, type)
                for precision in ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6") if type == "fp32" else ("ieee",):
                    for out in ("fp32", "fp16") if type == "fp16" else ("fp64",) if type == "fp64" else ("fp32",):
                        start = acc if out == "fp32" else np.zeros((m, n), {"fp16": "u2", "fp64": "u8"}[out])
                        operands = (In(type, x), In(type, y), In(out, start), Out(out, (m, n)))
                        language = {"fp32": tl.float32, "fp16": tl.float16, "fp64": tl.float64}[out]
                        constants = {"PRECISION": precision, "OUT": language, "M": m, "N": n, "K": k}
                        rounding = precision if type == "fp32" else out
                        id = f"dot/{type}/{rounding}/{size}/{kind}"
                        add(Case(id, product, operands, constants, (1,), _plus_product))
        a, b = random_bits(63, m * k, 1).reshape(m, k), random_bits(64, k * n, 1).reshape(k, n)
        a[0], b[:, 0] = 0x80, 0x80
        start = random_bits(65, m * n, 4).reshape(m, n)
        constants = {"PRECISION": "ieee", "OUT": tl.int32, "M": m, "N": n, "K": k}
        operands = (In("int8", a), In("int8", b), In("int32", start), Out("int32", (m, n)))
        add(Case(f"dot/int8/{size}", product, operands, constants, (1,), _plus_product))


def _plus_product(a, b, acc):
    wide = np.int64 if a.dtype.kind == "i" else np.float64
    return a.astype(wide) @ b.astype(wide) + acc


def _decoded(codes, fmt, packed_axis):
    """Codes, as numbers, of a format of ``tl.dot_scaled`` as float64."""
    if fmt in ("bf16", "fp16"):
        return np.asarray(codes, np.float64)
    codes = np.asarray(codes).astype(np.uint8)
    if fmt != "e2m1":
        dtype = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[fmt]
        decoded = torch.from_numpy(codes).view(dtype).to(torch.float64).numpy()
        # what a cast of fp8e5 to bf16 makes of infinity and, at most, of NaN
        return np.nan_to_num(decoded, nan=114688, posinf=65536, neginf=-65536) if fmt == "e5m2" else decoded
    codes = np.moveaxis(codes, packed_axis, -1)
    both = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:-1], -1)
    return np.moveaxis(_E2M1[both & 7] * np.where(both & 8, -1.0, 1.0), -1, packed_axis)


def _scaled_product(sizes, left, right):
    """The product, or with ``sizes`` the sums of its terms' magnitudes."""

    def product(a, a_scale, b, b_scale):
        x, y = _decoded(a, left, 1), _decoded(b, right, 0)
        x = x * np.repeat(_power(a_scale), 32, axis=1)
        if right not in ("bf16", "fp16"):
            y = y * np.repeat(_power(b_scale), 32, axis=1).T
        return np.abs(x) @ np.abs(y) if sizes else x @ y

    return product


def _power(scale):
    return np.where(scale == 255, np.nan, np.ldexp(1.0, scale.astype(np.int64) - 127))


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _scaled():
    for size, (m, n, k) in SIZES.items():
        a_scale, b_scale = (
            np.uint8(118) + random_bits(70 + i, rows * k // 32, 1).reshape(rows, k // 32) % np.uint8(16)
            for i, rows in enumerate((m, n))
        )
        # the ends of E8M0 and its NaN
        a_scale[0, 0], a_scale[1, 0], a_scale[2, 1], b_scale[3, 0] = 0, 254, 255, 255
        for left, right in (
            ("e4m3", "e4m3"),
            ("e5m2", "e5m2"),
            ("e4m3", "e5m2"),
            ("e2m1", "e2m1"),
            ("e2m1", "e4m3"),
            ("e4m3", "bf16"),
            ("e2m1", "bf16"),
            ("e2m1", "fp16"),
        ):
            x = random_bits(72, m * k, 1).reshape(m, k)
            a = x[:, : k // 2].copy() if left == "e2m1" else x
            # every code, NaN included, but in two rows only
            a[2:] &= np.uint8(0xFF) if left == "e2m1" else np.uint8(0xB7)
            if right in ("bf16", "fp16"):
                b = In(right, narrowed(matrices(m, n, k, 1, 1, False)[1], right))
            else:
                y = random_bits(73, k * n, 1).reshape(k, n)
                b = In("uint8", y[: k // 2] if right == "e2m1" else y & np.uint8(0xB7))
            operands = (In("uint8", a), In("uint8", a_scale), b, In("uint8", b_scale), Out("fp32", (m, n)))
            constants = {"A": left, "B": right, "M": m, "N": n, "K": k}
            functions = (_scaled_product(sizes, left, right) for sizes in (False, True))
            add(Case(f"dot_scaled/{left}/{right}/{size}", scaled, operands, constants, (1,), *functions))


_products()
_scaled()
