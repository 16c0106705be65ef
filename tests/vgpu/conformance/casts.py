"""Casts between all pairs of types, with both roundings, and bitcasts."""

import numpy as np
import triton
import triton.language as tl

from tests.vgpu.conformance.cases import Case, In, Out, add
from tests.vgpu.conformance.values import BLOCK, TYPES, every

LANGUAGE = {
    **{name: getattr(tl, name) for name in TYPES if "int" in name},
    "fp64": tl.float64,
    "fp32": tl.float32,
    "bf16": tl.bfloat16,
    "fp16": tl.float16,
    "fp8e4nv": tl.float8e4nv,
    "fp8e5": tl.float8e5,
}


@triton.jit
def cast(x_ptr, out_ptr, TO: tl.constexpr, ROUNDING: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, tl.load(x_ptr + lane).to(TO, fp_downcast_rounding=ROUNDING))


@triton.jit
def to_bool(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, tl.load(x_ptr + lane).to(tl.int1).to(tl.int8))


@triton.jit
def bitcast(x_ptr, out_ptr, TO: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, tl.load(x_ptr + lane).to(TO, bitcast=True))


def _case(id, kernel, source, target, predict=np.asarray, **constants):
    bits = every(source)
    grid = (bits.size // BLOCK,)
    add(Case(id, kernel, (In(source, bits), Out(target, bits.shape)), {**constants, "BLOCK": BLOCK}, grid, predict))


def _register():
    for source in TYPES:
        for target in TYPES:
            if source == target or target == "int1" or {source[:3], target[:3]} in ({"fp8", "int"}, {"fp8", "uin"}):
                # the language has no cast between integers and 8-bit floats
                continue
            _case(f"cast/{source}/{target}", cast, source, target, TO=LANGUAGE[target], ROUNDING=None)
        if source != "int1" and not source.startswith("fp8"):
            _case(f"cast/{source}/int1", to_bool, source, "int8")
    for source in ("fp32", "fp64"):
        for target in ("bf16", "fp16", "fp8e5", "fp8e4nv"):
            _case(f"cast/{source}/{target}/rtz", cast, source, target, TO=LANGUAGE[target], ROUNDING="rtz")
    for source, target, predict in (
        ("fp32", "int32", lambda x: x.view(np.int32)),
        ("int32", "fp32", lambda x: x.view(np.float32)),
        ("int16", "bf16", lambda x: (x.astype(np.int32) << 16).view(np.float32)),
        ("int16", "fp16", lambda x: x.view(np.float16).astype(np.float32)),
        ("fp8e4nv", "int8", None),
        ("uint8", "fp8e5", None),
        ("fp64", "int64", lambda x: x.view(np.int64)),
    ):
        _case(f"bitcast/{source}/{target}", bitcast, source, target, predict, TO=LANGUAGE[target])


_register()
