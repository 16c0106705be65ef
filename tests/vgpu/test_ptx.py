"""Inline PTX on the virtual GPU: the bits of each instruction, and what is not known is refused by its text."""

from fractions import Fraction

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from harness.registry import contract, implementations, load
from harness.run import check_case
from harness.vgpu import VirtualGPU, profiles, ptx
from harness.vgpu.elements import BF16, FP16, FP32, INT8, INT32
from harness.vgpu.faults import UnsupportedOperation
from harness.vgpu.values import Value
from kernels._e4m3_words import bfloat16_of, float16_of, scaled
from kernels._mxfp4_words import on_nvidia

SM120 = profiles.profile("sm_120")


@triton.jit
def e4m3_kernel(words_ptr, exponents_ptr, half_ptr, scaled_ptr, N: tl.constexpr):
    words = tl.load(words_ptr + tl.arange(0, N))
    at = tl.arange(0, 4 * N)
    tl.store(half_ptr + at, tl.reshape(float16_of(words), (4 * N,)))
    tl.store(scaled_ptr + at, tl.reshape(scaled(words, tl.load(exponents_ptr + tl.arange(0, N))), (4 * N,)))


@triton.jit
def pair_kernel(x_ptr, out_ptr, N: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, N), bfloat16_of(tl.load(x_ptr + tl.arange(0, N))))


@triton.jit
def form_kernel(out_ptr):
    tl.store(out_ptr, 1 if on_nvidia() else 2)


def _words(*numbers):
    return Value(np.array(numbers, np.uint32).view(np.int32).reshape(1, 1, 1, -1), INT32, (len(numbers),))


def _ran(assembly, *arguments, types=(INT32,), pack=1, constraints=None):
    letters = constraints or ",".join(["=r"] * len(types) + ["r"] * len(arguments))
    made = ptx.run(assembly, letters, arguments, types, pack, SM120)
    return [value.data.reshape(-1) for value in made]


def _same(found, wanted):
    return torch.equal(found.nan_to_num(nan=7e5, posinf=8e5), wanted.nan_to_num(nan=7e5, posinf=8e5))


def test_every_e4m3_code_becomes_float16_and_is_scaled_with_one_rounding():
    codes = torch.arange(256, dtype=torch.uint8)
    words = codes.view(torch.int32).repeat(256)
    exponents = torch.arange(256, dtype=torch.int32).repeat_interleave(64)
    half = torch.empty(words.numel() * 4, dtype=torch.float16)
    product = torch.empty(words.numel() * 4, dtype=torch.bfloat16)
    with VirtualGPU() as gpu:
        e4m3_kernel[(1,)](words, exponents, half, product, words.numel())
    values = codes.view(torch.float8_e4m3fn).double().repeat(256)
    scales = torch.exp2(exponents.double() - 127).where(exponents != 255, torch.nan).repeat_interleave(4)
    assert _same(half.float(), values.float())
    assert _same(product.float(), (values * scales).to(torch.bfloat16).float())
    zero = (values == 0) & (exponents != 255).repeat_interleave(4)
    assert torch.equal(product.signbit()[zero], values.signbit()[zero])
    assert not gpu.untrusted


def test_two_that_share_a_register_stay_in_order():
    x = torch.randn(32, generator=torch.Generator().manual_seed(0))
    out = torch.empty(32, dtype=torch.bfloat16)
    with VirtualGPU():
        pair_kernel[(1,)](x, out, 32)
    assert torch.equal(out, x.bfloat16())


def test_a_fused_product_is_rounded_once():
    generator = np.random.default_rng(0)
    a, b, c = (generator.integers(0x3000, 0x4F00, 4000, np.uint32) | generator.integers(0, 2, 4000, np.uint32) << 15
               for _ in range(3))  # fmt: skip
    (found,) = _ran("fma.rn.bf16x2 $0, $1, $2, $3;", _words(*a), _words(*b), _words(*c))

    def value(code):
        return Fraction(float(torch.tensor(int(code) << 16, dtype=torch.int64).to(torch.int32).view(torch.float32)))

    for code, x, y, z in zip(found.view(np.uint32) & 0xFFFF, a, b, c, strict=True):
        exact = value(x) * value(y) + value(z)
        near = [value(int(code) + step) for step in (-1, 1) if (int(code) + step) & 0x7FFF]
        error = abs(value(code) - exact)
        assert all(error < abs(other - exact) or (error == abs(other - exact) and not code & 1) for other in near)


def test_bits_are_picked_shifted_and_joined():
    x, y = 0x8040C0A1, 0x11223344
    for selector, wanted in ((0xF741, 0x001144C0), (0xB741, 0xFF1144C0)):
        (picked,) = _ran(f"prmt.b32 $0, $1, $2, {selector};", _words(x), _words(y))
        assert picked.view(np.uint32)[0] == wanted
    for table in (0xEA, 0x96, 0x01):
        (made,) = _ran(f"lop3.b32 $0, $1, $2, $3, {table};", _words(x), _words(y), _words(0x0F0F3C5A))
        rows = [(x >> n & 1) * 4 + (y >> n & 1) * 2 + (0x0F0F3C5A >> n & 1) for n in range(32)]
        assert made.view(np.uint32)[0] == sum((table >> row & 1) << n for n, row in enumerate(rows))
    assembly = "{ .reg .b16 low, high; mov.b32 {low, high}, $1; mov.b32 $0, {high, low}; }"
    assert _ran(assembly, _words(x))[0].view(np.uint32)[0] == 0xC0A18040
    assert _ran("shr.u32 $0, $1, 4;", _words(x))[0].view(np.uint32)[0] == x >> 4
    assert _ran("shr.u32 $0, $1, 32;", _words(x))[0].view(np.uint32)[0] == 0
    assert _ran("mul.lo.u32 $0, $1, 0x10001;", _words(x))[0].view(np.uint32)[0] == x * 0x10001 % 2**32


def test_there_is_nothing_to_wait_for():
    assert _ran("wgmma.wait_group.sync.aligned 0; mov.b32 $0, 7;")[0] == 7


@pytest.mark.parametrize(
    ("assembly", "types", "constraints", "said"),
    [
        ("brev.b32 $0, $1;", (INT32,), None, r"brev.b32 \$0, \$1"),
        ("mov.b32 $0, other;", (INT32,), None, "nothing has written other"),
        ("mov.b32 other, $1;", (INT32,), None, "mov.b32 other"),
        ("and.b32 $0, $2, 1;", (INT32, INT32), None, "nothing writes"),
        ("mov.b32 $0, $1;", (BF16,), None, "constraints"),
        ("mov.b32 $0, $1;", (INT32,), "=r", "constraints"),
        ("cvt.f32.f16 $0, $1;", (FP16,), "=h,r", "into 16 bits"),
        ("mov.b32 $0, $1;", (INT8,), None, "constraints"),
        (".reg .pred p; mov.b32 $0, $1;", (INT32,), None, "pred"),
    ],
)
def test_what_is_not_known_is_refused_by_its_text(assembly, types, constraints, said):
    with pytest.raises(ptx.UnknownPTX, match=said):
        _ran(assembly, _words(1), types=types, constraints=constraints)


def test_four_bytes_share_a_register():
    data = np.arange(8, dtype=np.int8).reshape(1, 1, 1, 8)
    (made,) = _ran("prmt.b32 $0, $1, 0, 0x0123;", Value(data, INT8, (8,)), types=(INT8,), pack=4)
    assert made.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_floats_keep_their_bits():
    value = Value(np.array([1.5, -0.0], np.float32).reshape(1, 1, 1, 2), FP32, (2,))
    (made,) = _ran("xor.b32 $0, $1, 0x80000000;", value, types=(FP32,), constraints="=f,f")
    assert made.tolist() == [-1.5, 0.0]


def test_a_kernel_hears_that_it_is_compiled_for_the_target_where_that_is_asked_for():
    out = torch.zeros(1, dtype=torch.int32)
    for native, wanted in ((False, 2), (True, 1), (False, 2)):
        with VirtualGPU(native=native) as gpu:
            assert not gpu.forms
            form_kernel[(1,)](out)
        assert (out.item(), gpu.forms) == (wanted, True)


def test_no_other_vendor_runs_ptx():
    x = torch.zeros(32)
    with VirtualGPU(profile="gfx950"), pytest.raises(UnsupportedOperation, match=r"cvt\.rn\.bf16x2\.f32"):
        pair_kernel[(1,)](x, torch.empty(32, dtype=torch.bfloat16), 32)


def test_a_case_runs_in_both_forms_where_there_are_two():
    for name, forms in (("paged_mqa_logits", True), ("merge_attn_states", False)):
        load([f"kernels.{name}"], installed=False)
        of = contract(name)
        (one,) = (i for i in implementations(name) if i.name == "triton")
        result = check_case(of, one, of.pinned[0], only="assembly")
        assert not result.violations
        assert ("assembly" in result.checks_run) == forms
