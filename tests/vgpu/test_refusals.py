"""Operations that Triton's compiler refuses for a target the virtual GPU refuses too, no others: compiled to compare.

What the front end refuses whatever the target is, such as ``break``, is asked of Triton: tests/unit/test_compiles.py.
"""

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from harness.vgpu import NotCompilable, VirtualGPU

TYPES = {"fp8e4nv": (torch.float8_e4m3fn, tl.float8e4nv), "fp8e5": (torch.float8_e5m2, tl.float8e5)}


@triton.jit
def add(a, b, x, o, T: tl.constexpr):
    return a + b


@triton.jit
def negated(a, b, x, o, T: tl.constexpr):
    return -a


@triton.jit
def compared(a, b, x, o, T: tl.constexpr):
    return tl.where(a < b, a, b)


@triton.jit
def total(a, b, x, o, T: tl.constexpr):
    return tl.zeros([16], T) + tl.sum(a, 0)


@triton.jit
def sorted_block(a, b, x, o, T: tl.constexpr):
    return tl.sort(a)


@triton.jit
def filled_with_an_integer(a, b, x, o, T: tl.constexpr):
    return tl.load(x + o, mask=o < 7, other=0)


@triton.jit
def by_way_of_float64(a, b, x, o, T: tl.constexpr):
    return a.to(tl.float64).to(T)


@triton.jit
def to_another_format(a, b, x, o, T: tl.constexpr):
    return a.to(tl.float8e5).to(tl.float8e4nv).to(T)


@triton.jit
def from_integers(a, b, x, o, T: tl.constexpr):
    return o.to(T)


@triton.jit
def rounded_toward_zero(a, b, x, o, T: tl.constexpr):
    return a.to(tl.float32).to(T, fp_downcast_rounding="rtz")


@triton.jit
def magnitude(a, b, x, o, T: tl.constexpr):
    return tl.abs(a)


@triton.jit
def selected(a, b, x, o, T: tl.constexpr):
    return tl.where(o < 5, a, b)


@triton.jit
def filled_with_a_float(a, b, x, o, T: tl.constexpr):
    return tl.load(x + o, mask=o < 7, other=0.0)


@triton.jit
def widened(a, b, x, o, T: tl.constexpr):
    return (a.to(tl.float32) + b.to(tl.bfloat16)).to(T)


@triton.jit
def joined(a, b, x, o, T: tl.constexpr):
    return tl.sum(tl.join(a.to(tl.float32), b.to(tl.bfloat16)).to(tl.float32), 1).to(T)


@triton.jit
def concatenated(a, b, x, o, T: tl.constexpr):
    some = tl.cat(o, o.to(tl.int8), can_reorder=True)
    return tl.load(x + o + tl.sum(some, 0) * 0)


@triton.jit
def joined_with_and_without_sign(a, b, x, o, T: tl.constexpr):
    return tl.load(x + tl.max(tl.join(o, o.to(tl.uint32)), 1).to(tl.int32))


@triton.jit
def kernel(x, out, F: tl.constexpr, T: tl.constexpr):
    o = tl.arange(0, 16)
    a = tl.load(x + o)
    b = tl.load(x + 16 + o)
    tl.store(out + o, F(a, b, x, o, T))


BY_NAME = {
    function.__name__: function
    for function in (
        *(add, negated, compared, total, sorted_block, filled_with_an_integer, by_way_of_float64),
        *(to_another_format, from_integers, rounded_toward_zero, magnitude, selected, filled_with_a_float, widened),
        *(joined, concatenated, joined_with_and_without_sign),
    )
}
ALLOWED = {"magnitude", "selected", "filled_with_a_float", "widened", "joined_with_and_without_sign"}
# function, format, compute capability, whether it compiles
CASES = [
    *((name, "fp8e4nv", 90, name in ALLOWED) for name in BY_NAME),
    ("rounded_toward_zero", "fp8e5", 90, True),
    ("add", "fp8e5", 90, False),
    ("magnitude", "fp8e4nv", 80, False),
    ("magnitude", "fp8e5", 80, True),
    ("to_another_format", "fp8e5", 80, False),
]


def triton_compiles(function, name, arch):
    kind = TYPES[name][1]
    signature = {"x": f"*{name}", "out": f"*{name}", "F": "constexpr", "T": "constexpr"}
    source = ASTSource(kernel, signature, {"F": function, "T": kind})
    try:
        triton.compile(source, target=GPUTarget("cuda", arch, 32))
    except Exception:
        return False
    return True


def virtual_gpu_runs(function, name, arch):
    dtype, kind = TYPES[name]
    with VirtualGPU(profile=f"sm_{arch}"):
        try:
            kernel[(1,)](torch.ones(32).to(dtype), torch.empty(16, dtype=dtype), function, kind)
        except NotCompilable:
            return False
        except (AssertionError, ValueError) as error:
            # the frontend's own refusal, and the launch's: any other failure is a fault of the virtual GPU
            if "cannot cast" in str(error) or "Triton has no fp8" in str(error):
                return False
            raise
    return True


@pytest.mark.parametrize(("name", "format", "arch", "expected"), CASES)
def test_triton_and_the_virtual_gpu_agree_on_what_compiles(name, format, arch, expected, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    # Triton 3.9 warns where it is not set
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    assert virtual_gpu_runs(BY_NAME[name], format, arch) == expected
    assert triton_compiles(BY_NAME[name], format, arch) == expected


def test_the_message_names_line_types_target_and_what_to_do():
    x = torch.ones(32).to(torch.float8_e4m3fn)
    with VirtualGPU(), pytest.raises(NotCompilable) as caught:
        kernel[(1,)](x, x.clone(), add, tl.float8e4nv)
    assert str(caught.value) == (
        f"Triton does not compile arithmetic on fp8e4nv for sm_120, in add (test_refusals.py:"
        f"{add.fn.__code__.co_firstlineno + 2}): convert to float16, bfloat16 or float32 first"
    )


def test_a_type_that_the_target_has_not_is_refused_by_argument():
    x = torch.ones(32).to(torch.float8_e4m3fn)
    said = "argument x: Triton has no fp8e4nv for sm_80"
    with VirtualGPU(profile="sm_80"), pytest.raises(ValueError, match=said) as caught:
        kernel[(1,)](x, x.clone(), magnitude, tl.float8e4nv)
    assert caught.value.__notes__ == ["in kernel kernel"]


def test_amd_targets_are_not_held_to_what_nvidia_refuses():
    x, out = torch.ones(32).to(torch.float8_e4m3fnuz), torch.empty(16, dtype=torch.float8_e4m3fnuz)
    with VirtualGPU(profile="gfx942"):
        kernel[(1,)](x, out, add, tl.float8e4b8)
    assert out.float().eq(2).all()
