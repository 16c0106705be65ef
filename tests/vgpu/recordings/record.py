"""Records what a GPU gives for every cast, function and product that ``test_numerics_recorded.py`` compares.

On a machine with one: ``python tests/vgpu/recordings/record.py h200.npz``.  Arrays are saved as raw bits under
``kind/from/to``; their inputs are saved beside them or are all values of the type, in order.
"""

import sys

import numpy as np
import torch
import triton
import triton.language as tl

BLOCK = 1024
# name: Triton type, torch type, integer types of the same width
FLOATS = {
    "fp32": (tl.float32, torch.float32, tl.int32, torch.int32),
    "bf16": (tl.bfloat16, torch.bfloat16, tl.int16, torch.int16),
    "fp16": (tl.float16, torch.float16, tl.int16, torch.int16),
    "fp8e4nv": (tl.float8e4nv, torch.float8_e4m3fn, tl.int8, torch.int8),
    "fp8e5": (tl.float8e5, torch.float8_e5m2, tl.int8, torch.int8),
}
INTEGERS = {
    "int8": (tl.int8, torch.int8),
    "uint8": (tl.uint8, torch.uint8),
    "int16": (tl.int16, torch.int16),
    "uint16": (tl.uint16, torch.uint16),
    "int32": (tl.int32, torch.int32),
    "uint32": (tl.uint32, torch.uint32),
    "int64": (tl.int64, torch.int64),
    "uint64": (tl.uint64, torch.uint64),
}
# to any 16-bit float and past it, float32 halves its lower bits here
LOWER_HALVES = np.array([0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
SPECIAL = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x34000000, 0x3F800000, 0x40400000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000],
    np.uint32,
)


@triton.jit
def cast(x_ptr, out_ptr, n, TO: tl.constexpr, ROUNDING: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x_ptr + lane, mask=lane < n).to(TO, fp_downcast_rounding=ROUNDING)
    tl.store(out_ptr + lane, y.to(BITS, bitcast=True), mask=lane < n)


@triton.jit
def to_integer(x_ptr, out_ptr, n, TO: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, tl.load(x_ptr + lane, mask=lane < n).to(TO), mask=lane < n)


@triton.jit
def unary(x_ptr, out_ptr, n, NAME: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lane, mask=lane < n)
    if NAME == "exp2":
        y = tl.exp2(x)
    elif NAME == "exp":
        y = tl.exp(x)
    elif NAME == "log":
        y = tl.log(x)
    elif NAME == "log2":
        y = tl.log2(x)
    elif NAME == "sqrt":
        y = tl.sqrt(x)
    elif NAME == "rsqrt":
        y = tl.rsqrt(x)
    elif NAME == "sin":
        y = tl.sin(x)
    elif NAME == "cos":
        y = tl.cos(x)
    elif NAME == "erf":
        y = tl.erf(x)
    elif NAME == "floor":
        y = tl.floor(x)
    else:
        y = tl.ceil(x)
    tl.store(out_ptr + lane, y, mask=lane < n)


@triton.jit
def binary(x_ptr, y_ptr, out_ptr, n, NAME: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lane, mask=lane < n)
    y = tl.load(y_ptr + lane, mask=lane < n)
    if NAME == "maximum":
        z = tl.maximum(x, y)
    elif NAME == "minimum":
        z = tl.minimum(x, y)
    elif NAME == "maximum_nan":
        z = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif NAME == "minimum_nan":
        z = tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif NAME == "add":
        z = x + y
    elif NAME == "mul":
        z = x * y
    else:
        z = x / y
    tl.store(out_ptr + lane, z, mask=lane < n)


@triton.jit
def product(a_ptr, b_ptr, out_ptr, PRECISION: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision=PRECISION))


def on_gpu(bits, name):
    signed = bits.view(f"i{bits.dtype.itemsize}")
    return torch.from_numpy(signed).cuda().view(FLOATS[name][1])


def all_of(name):
    if name == "fp32":
        upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
        return on_gpu((LOWER_HALVES[:, None] | upper).ravel(), name)
    width = FLOATS[name][1].itemsize
    return on_gpu(np.arange(1 << 8 * width).astype(f"u{width}"), name)


def grid(x):
    return (triton.cdiv(x.numel(), BLOCK),)


def record_casts(save):
    for source in FLOATS:
        x = all_of(source)
        for target, (to, _, bits, stored) in FLOATS.items():
            narrowing = FLOATS[source][1].itemsize > FLOATS[target][1].itemsize
            if source == target or (source[:3] == target[:3] == "fp8") or (target == "fp32" and source[:3] != "fp8"):
                continue
            for rounding in (None, "rtz"):
                if rounding and not (source == "fp32" and narrowing and target != "fp8e4nv"):
                    continue
                out = torch.empty(x.numel(), dtype=stored, device="cuda")
                cast[grid(x)](x, out, x.numel(), to, rounding, bits, BLOCK)
                codes = out.cpu().numpy()
                if (source, target) == ("fp32", "bf16"):
                    # as the distance from truncation, which compresses
                    codes = codes - np.tile(np.arange(1 << 16), len(LOWER_HALVES)).astype(np.int16)
                if (source, target) == ("fp32", "fp16"):
                    codes = codes.reshape(len(LOWER_HALVES), -1)[3:6].ravel()
                save(f"cast/{source}/{target}" + ("/rtz" if rounding else ""), codes)


def record_functions(save):
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    values = upper.view(np.float32)
    chosen = np.zeros(1 << 16, bool)
    chosen[::127] = True
    chosen[:128:8] = chosen[0x8000:0x8080:8] = True
    chosen |= (np.abs(values) >= 118) & (np.abs(values) <= 152)
    bits = np.concatenate([upper[chosen], upper[chosen] | np.uint32(0x5A5A)])
    save("function/x", bits)
    x = on_gpu(bits, "fp32")
    for name in ("exp2", "exp", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil"):
        out = torch.empty_like(x)
        unary[grid(x)](x, out, x.numel(), name, BLOCK)
        save(f"function/{name}", out.view(torch.int32).cpu().numpy())
    bits = np.concatenate([upper[::16], SPECIAL, SPECIAL | np.uint32(1 << 31)])
    save("integer/x", bits)
    x = on_gpu(bits, "fp32")
    for name, (to, stored) in INTEGERS.items():
        out = torch.empty(x.numel(), dtype=stored, device="cuda")
        to_integer[grid(x)](x, out, x.numel(), to, BLOCK)
        save(f"integer/{name}", out.view(torch.uint8).cpu().numpy())


def record_pairs(save):
    both = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)])
    pairs = {"fp32": [m.ravel() for m in np.meshgrid(both, both, indexing="ij")]}
    pairs["bf16"] = pairs["fp16"] = list(np.random.default_rng(0).integers(0, 1 << 16, (2, 2048)).astype(np.uint16))
    for source, (left, right) in pairs.items():
        save(f"pair/{source}/x", left)
        save(f"pair/{source}/y", right)
        x, y = on_gpu(left, source), on_gpu(right, source)
        for name in ("maximum", "minimum", "maximum_nan", "minimum_nan", "add", "mul", "div"):
            out = torch.empty_like(x)
            binary[grid(x)](x, y, out, x.numel(), name, BLOCK)
            save(f"pair/{source}/{name}", out.view(FLOATS[source][3]).cpu().numpy())


def record_products(save):
    n = 32
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, n, n)).astype(np.float32)
    a[0, 0], a[1, 1], a[2, 2] = np.nan, np.inf, 1e-40
    b[5, 3] = 0
    identity = np.eye(n, dtype=np.float32)
    save("dot/a", a)
    save("dot/b", b)
    for precision in ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"):
        for name, left, right in (("ab", a, b), ("a1", a, identity), ("1b", identity, b)):
            out = torch.empty(n, n, device="cuda")
            product[(1,)](torch.from_numpy(left).cuda(), torch.from_numpy(right).cuda(), out, precision, n)
            save(f"dot/{precision}/{name}", out.cpu().numpy())


def main(path):
    arrays = {"about": np.array(f"{torch.cuda.get_device_name()}, Triton {triton.__version__}")}
    for record in (record_casts, record_functions, record_pairs, record_products):
        record(arrays.__setitem__)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
