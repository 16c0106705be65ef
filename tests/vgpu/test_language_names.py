"""Every public function of the language runs on the virtual GPU, or is refused or distrusted by its name."""

import importlib.util
import inspect
import re
import textwrap

import pytest
import torch
import triton.language as tl
from triton.language.extra import cuda
from triton.language.extra.cuda import libdevice

from harness.vgpu import UnsupportedOperation, VirtualGPU
from harness.vgpu.extern import function_of
from harness.vgpu.libdevice_exact import EXACT
from tests.vgpu.language_names import NO_OPERATIONS, PROVEN, UNSUPPORTED

HEAD = """
import triton
import triton.language as tl
from triton.language.extra import cuda

@triton.jit
def summed(p, q):
    return p + q

@triton.jit
def halved(p):
    if p > 4:
        p = p // 2
    return p
"""
AGGREGATE = """
@tl.core._aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor

    @triton.constexpr_function
    def __init__(self, first, second):
        self.first = first
        self.second = second
"""
KERNEL = """
@triton.jit
def {name}(x, i, h, s, out):
    o = tl.arange(0, 16)
    a = tl.load(x + o)
    b = tl.load(x + 16 + o)
    n = tl.load(i + o)
    u = n.to(tl.uint32)
    t = tl.reshape(a, [4, 4])
    m = tl.load(h + o[:, None] * 16 + o[None, :])
    m8 = tl.broadcast_to(a[:, None], [16, 32]).to(tl.float8e4nv)
    scale = tl.full([16, 1], 127, tl.uint8)
{body}
    tl.store(out + o, r)
"""
# symbols of libdevice that nothing is promised of for every argument, or that the recording contradicts somewhere
UNPROVEN = {f"fast_{name}f" for name in ("cos", "sin", "tan", "log", "log2", "log10", "pow")}
UNPROVEN |= {"j0", "j0f", "j1", "j1f", "y0", "y0f", "y1", "y1f", "lgamma", "lgammaf", "tgamma", "tgammaf"}
UNPROVEN |= {"ldexpf", "logbf", "nextafterf", "powi", "powif", "scalbnf", "erfcinv", "erfcx"}
UNMODELLED = {"byte_perm", "double2hiint", "double2loint", "hiloint2double", "mulhi", "umulhi", "mul64hi", "umul64hi"}
UNMODELLED |= {"jn", "yn", "sad", "usad", "hadd", "rhadd", "uhadd", "urhadd", "rcp64h", "frsqrt_rn", "fma"}
UNMODELLED |= {
    f"{kind}_{mode}"
    for kind in ("dadd", "dsub", "dmul", "ddiv", "dsqrt", "drcp", "fma", "ll2double", "ull2double")
    for mode in ("rn", "rz", "rd", "ru")
}


def present(name):
    if name == "make_block_ptr":
        # Triton 3.9 keeps the name, to say that it is gone
        return hasattr(tl, "advance")
    return hasattr(cuda, name[5:]) if name.startswith("cuda.") else hasattr(tl, name)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A module with a kernel for each name that the installed Triton has."""
    path = tmp_path_factory.mktemp("names") / "kernels.py"
    parts = [HEAD, AGGREGATE if hasattr(tl, "aggregate_replace") else ""]
    for name, expression in {**PROVEN, **UNSUPPORTED}.items():
        if present(name):
            body = expression if re.search(r"^r = |\nr = |\n    r \+= ", expression) else f"r = {expression}"
            parts.append(KERNEL.format(name=f"use_{name.replace('.', '_')}", body=textwrap.indent(body, "    ")))
    path.write_text("".join(parts))
    spec = importlib.util.spec_from_file_location("kernels_by_name", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def used(kernels, name):
    out = torch.full((16,), float("nan"))
    x, i = torch.rand(32) + 0.5, torch.arange(16, dtype=torch.int32)
    h, s = torch.rand(16, 16).half(), torch.zeros(16, dtype=torch.int32)
    with VirtualGPU(profile="sm_90") as gpu:
        getattr(kernels, f"use_{name.replace('.', '_')}")[(1,)](x, i, h, s, out)
    return out, gpu.untrusted


def test_every_public_name_is_listed_once():
    public = {n for n in dir(tl) if not n.startswith("_") and not inspect.ismodule(getattr(tl, n))}
    listed = [*PROVEN, *UNSUPPORTED, *NO_OPERATIONS]
    assert len(listed) == len(set(listed))
    assert public <= set(listed)


@pytest.mark.parametrize("name", [name for name in PROVEN if present(name)])
def test_what_is_proven_runs_trusted(name, kernels):
    out, untrusted = used(kernels, name)
    assert untrusted == set()
    assert not out.isnan().any()


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_unsupported_says_so_by_name(name, kernels):
    with pytest.raises(UnsupportedOperation, match="unsupported operation inline_asm"):
        used(kernels, name)


def symbols():
    return sorted(set(re.findall(r'"__nv_(\w+)"', inspect.getsource(libdevice))))


def test_every_function_of_the_device_library_is_proven_or_named():
    found = {"unproven": set(), "unmodelled": set()}
    for symbol in symbols():
        function = function_of(symbol)
        if symbol in EXACT:
            continue
        if function is None:
            found["unmodelled"].add(symbol if symbol in UNMODELLED else symbol.removesuffix("f"))
        elif (function.ulp if symbol.endswith("f") else function.wide_ulp) is None:
            found["unproven"].add(symbol)
    assert found["unmodelled"] <= UNMODELLED
    assert found["unproven"] == UNPROVEN
