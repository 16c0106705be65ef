"""What may differ from the recording, each with its reason and the document that says so."""

from tests.vgpu.conformance.reasons import Allowance, Reason

_GUIDE = 'CUDA C++ Programming Guide, "Mathematical Functions", maximum ulp error {} of {}'
_HIGHAM = "Higham, Accuracy and Stability of Numerical Algorithms, 4.2: n roundings, of the sum of magnitudes"
_FTZ = 'libdevice User\'s Guide: __nvvm_reflect("__CUDA_FTZ"), which Triton sets, chooses flushing code'


def _ulp(cases, limit, source):
    return Allowance(cases, Reason.APPROXIMATE, source, limit)


def _library(limit, *names):
    """Functions of the device library, in float32: the documented error, and half a unit that rounding here adds."""
    cases = " ".join(f"libdevice.{name}/fp32" for name in names)
    return _ulp(cases, limit, _GUIDE.format(limit, ", ".join(f"{name}f" for name in names)))


def _order(cases, limit, unit=2.0**-24, source=_HIGHAM):
    return Allowance(cases, Reason.ORDER, source, limit, unit)


_NAN = Allowance(
    "exp/fp32 exp2/fp32 log*/fp[36][24] sqrt*/fp32 rsqrt/fp32 sin/fp32 cos/fp32 erf/fp[36][24] floor/fp32 ceil/fp32 "
    "sigmoid/fp32 silu_by_exp/fp32 reciprocal/fp32 negate/fp32 plus/fp[36][24] minus/fp[36][24] times/fp[36][24] "
    "divide/* fdiv/fp32 div_rn/fp32 modulo/fp[36][24] maximum*/fp[36][24] minimum*/fp[36][24] clamp*/fp[36][24] "
    "times_plus/fp[36][24] minus_times/fp[36][24] fma*/fp[36][24] cast/fp64/?f16 cast/fp64/fp16 "
    "sum_*/fp32 max_rows/fp32 min_rows/fp32 multiply_rows/fp32 cumsum*/fp32 cumprod/fp32 scan_larger/fp32 "
    "topk_of_nan/fp32 softmax/fp32 split_sum/fp32 stretch/fp32 "
    "libdevice.*/fp32 libdevice.*/fp32/int32 libdevice.*/fp64 atomic_add/fp[36][24] descriptor_add/fp32 dot/*/special "
    "dot_scaled/* mixed/*/plus mixed/*/times mixed/*/divide mixed/*/where mixed/*/maximum number/*",
    Reason.NAN_PAYLOAD,
    'PTX ISA, "Floating Point": payloads are not preserved; single precision gives 0x7FFFFFFF',
)
_NARROW = "triton.language.standard and semantic: from 3.9 on scans, indexed extremes and mixed operands stay narrow"
_NARROW_NAN = (
    Allowance("cumsum/bf16 cumprod/bf16", Reason.NAN_PAYLOAD, "the sign of a NaN cast to bf16", before=(3, 9)),
    Allowance(
        "max_and_index/bf16 min_and_index/bf16 max_and_last_index/bf16 cumsum_reverse/bf16",
        Reason.NAN_PAYLOAD,
        _NARROW,
        since=(3, 9),
    ),
)
_NARROW_RESULTS = (
    Allowance("cumsum*/bf16 cumprod/bf16", Reason.ORDER, _NARROW, 63, 2.0**-9, since=(3, 9)),
    Allowance("clamp_symmetric/fp16 mixed/bf16/fp16/maximum", Reason.PROMOTED, _NARROW, measured="fp16", since=(3, 9)),
)
_FLUSHED = Allowance(
    "libdevice.exp/fp32 libdevice.exp10/fp32 libdevice.*cbrt/fp32 libdevice.erfinv/fp32 libdevice.erfcx/fp32 "
    "libdevice.normcdf/fp32 libdevice.normcdfinv/fp32 libdevice.rcp_r[du]/fp32 libdevice.pow/fp32 libdevice.fmod/fp32 "
    "libdevice.remainder/fp32 libdevice.rhypot/fp32 libdevice.rnorm3d/fp32 libdevice.div_r[du]/fp32 "
    "libdevice.mul_r[ndu]/fp32 libdevice.fma/fp32 libdevice.fma_r[ndu]/fp32",
    Reason.FLUSHED,
    _FTZ,
)
_APPROXIMATE = (
    _ulp("exp/fp32 exp2/fp32", 2, 'PTX ISA, "ex2": 2 ulp'),
    _ulp("log/fp32 log2/fp32", 2, _GUIDE.format(1, "logf, log2f") + ", either way"),
    _ulp("sqrt/fp32 libdevice.sqrt/fp32", 1, 'PTX ISA, "sqrt": relative error 2**-23'),
    _ulp("rsqrt/fp32 libdevice.rsqrt/fp32", 2, 'PTX ISA, "rsqrt": relative error 2**-22.9'),
    _ulp("sin/fp32 cos/fp32", 2, _GUIDE.format(2, "sinf, cosf")),
    _ulp("erf/fp32", 2, _GUIDE.format(2, "erff")),
    _ulp("reciprocal/fp32 divide/* fdiv/fp32", 2, 'PTX ISA, "div": div.full, 2 ulp'),
    _ulp("sigmoid/fp32 silu_by_exp/fp32", 4, 'PTX ISA, "ex2" and "div": 2 ulp each'),
    _ulp("exp/fp16 exp2/fp16 erf/fp16 sigmoid/fp16", 1, "2 ulp of float32 across a rounding boundary of float16"),
    _ulp("exp/fp64 exp2/fp64 log2/fp64 rsqrt/fp64", 1, _GUIDE.format(1, "exp, exp2, log2, rsqrt in float64")),
    _ulp("sin/fp64 cos/fp64 erf/fp64", 2, _GUIDE.format(2, "sin, cos, erf in float64")),
    _ulp("sigmoid/fp64 libdevice.tanh/fp64 libdevice.rsqrt/fp64", 1, _GUIDE.format(1, "exp, tanh, rsqrt in float64")),
    _library(1, "expm1", "log", "log2", "log1p", "cbrt", "rcbrt"),
    _library(2, "tanh", "exp", "exp2", "exp10", "log10", "sin", "cos", "asin", "acos", "atan", "cosh", "erf", "erfinv"),
    _library(2, "sinpi", "cospi", "rhypot", "rnorm3d"),
    _library(3, "atan2", "sinh", "atanh", "asinh", "hypot", "norm3d"),
    _library(4, "tan", "acosh", "erfc", "erfcinv", "erfcx", "pow"),
    _library(5, "normcdf", "normcdfinv"),
    _library(6, "cyl_bessel_i0", "cyl_bessel_i1"),
    _ulp("libdevice.fast_expf/fp32", 2, 'PTX ISA, "ex2": 2 ulp of the power of the rounded product'),
    _ulp("libdevice.fast_exp10f/fp32", 2, 'PTX ISA, "ex2": 2 ulp of the power of the rounded product'),
    _ulp("libdevice.fast_dividef/fp32", 2, _GUIDE.format(2, "__fdividef")),
    _ulp("randn/*", 4, _GUIDE.format("1, 2 and 2", "logf, sinf and cosf") + ", and sqrt.approx"),
    Allowance("mixed/*/divide", Reason.APPROXIMATE, 'PTX ISA, "div": div.full, 2 ulp of float32', 2, measured="fp32"),
)
_SUMS = (
    # 32 by 64: at most 63 additions in a row
    _order("sum_rows/fp32 cumsum*/fp32", 63),
    _order("sum_rows/bf16", 63, 2.0**-9),
    _order("sum_rows/fp16 cumsum*/fp16", 63, 2.0**-11),
    _order("multiply_rows/fp32 cumprod/fp32", 63),
    _order("multiply_rows/bf16", 63, 2.0**-9),
    _order("multiply_rows/fp16 cumprod/fp16", 63, 2.0**-11),
    _order("multiply_rows/fp64 cumprod/fp64", 63, 2.0**-53),
)
_TENSOR_CORE = (
    # measured: at most 12 units of 2**-24 of the sum of magnitudes, where 128 terms are truncated
    _order("dot/bf16/* dot/fp16/fp32/* dot/fp32/* dot/fp8*/warp/* dot_scaled/*", 16),
    _order("dot/fp16/fp16/*", 8, 2.0**-11, "float16 accumulators, rounded at every step of the instruction"),
    _order(
        "dot/fp8*/group/*",
        64,
        2.0**-13,
        "DeepSeek-V3 Technical Report, 3.3.2: wgmma of 8-bit floats keeps about 14 bits while it adds up",
    ),
)
_ZERO = 'LLVM Language Reference, "udiv", "sdiv", "urem", "srem": division by zero is undefined'
_NOT_FIRST = "triton.language.max: with return_indices_tie_break_left=False any of the equal elements"
_OTHERS = (
    Allowance(
        "times_plus/*f* minus_times/*f*",
        Reason.CONTRACTED,
        "ptxas --fmad: equal to the recorded tl.fma of the same operands",
    ),
    Allowance(
        "sigmoid/fp64 negate/fp[36][24] negate/bf16 negate/fp16 fma_negated/fp32",
        Reason.NEGATION,
        "triton.language.semantic.minus: from 3.8 on the builder's fneg",
        since=(3, 8),
    ),
    Allowance("modulo/fp64 fma*/fp64", Reason.UNTRUSTED, "not modelled: the exact product of two float64"),
    Allowance(
        "libdevice.[jy][01]/fp32 libdevice.[lt]gamma/fp32 libdevice.fast_sinf/fp32 libdevice.fast_cosf/fp32 "
        "libdevice.fast_tanf/fp32 libdevice.fast_log*/fp32 libdevice.fast_powf/fp32 libdevice.logb/fp32 "
        "libdevice.nextafter/fp32 libdevice.ldexp/fp32/int32 libdevice.scalbn/fp32/int32 libdevice.pow/fp32/int32",
        Reason.UNTRUSTED,
        "no bound in units in the last place over the whole domain, or subnormals taken in a way that is not modelled",
    ),
    Allowance("floor_divide/*/by_zero modulo/*/by_zero", Reason.OPEN, _ZERO),
    Allowance("max_and_last_index/*", Reason.TIE, _NOT_FIRST),
    Allowance("fold_rows/fp32", Reason.TIE, "zeros of either sign have equal magnitudes"),
    Allowance(
        "argmax_rows/fp[36][24] argmin_rows/fp[36][24] max_and_index/fp[36][24] min_and_index/fp[36][24] "
        "max_and_last_index/fp[36][24] fold_rows/fp[36][24] scan_larger_reverse/*",
        Reason.NOT_ASSOCIATIVE,
        "triton.language.reduce: combine_fn must be associative; comparisons with NaN are not",
    ),
    Allowance("cat/*", Reason.UNORDERED, "triton.language.cat: can_reorder"),
    Allowance("libdevice.rsqrt_rn/fp32 libdevice.mulhi/*", Reason.NOT_EXECUTED, "no model"),
)
ALLOWANCES: tuple[Allowance, ...] = (
    _NAN,
    *_NARROW_NAN,
    *_NARROW_RESULTS,
    _FLUSHED,
    *_APPROXIMATE,
    *_SUMS,
    *_TENSOR_CORE,
    *_OTHERS,
)

_COMPILER = "PassManager::run failed"
_DRIVER = "AcceleratorError"
#: What Triton 3.6 and the driver did not run on the H200: patterns of names, and a part of what was said.
REFUSED: dict[str, str] = {
    "negate/fp8*": _COMPILER,
    "is_nan/fp8*": _COMPILER,
    "plus/fp8*": _COMPILER,
    "minus/fp8*": _COMPILER,
    "times/fp8*": _COMPILER,
    "less/fp8*": _COMPILER,
    "equal/fp8*": _COMPILER,
    "clamp_symmetric*/fp64": "failed to translate module to LLVM IR",
    # tl.maximum of bfloat16 is a float32, which the scan does not take back
    "scan_larger/bf16": "CompilationError",
    "cast/fp64/fp8*": _COMPILER,
    "cast/fp8*/fp64": _COMPILER,
    "cast/fp8*/fp8*": _COMPILER,
    "cast/fp64/*/rtz": _COMPILER,
    "cast/fp32/fp8e4nv/rtz": _COMPILER,
    # 8-bit elements have no NaN that a descriptor can fill in
    "descriptor_load/fp8*/*/nan": _DRIVER,
    "descriptor_load/fp8*/negative/zero": _DRIVER,
    "descriptor_load/int8/negative/zero": _DRIVER,
    "descriptor_store/*/negative": _DRIVER,
}
