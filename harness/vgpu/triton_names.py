"""Names that Triton gives to types and to launch options."""

from __future__ import annotations

import torch

#: torch dtype by Triton's name; what is not here (E8M0, packed FP4) is passed as bytes.
DTYPES = {
    torch.bool: "int1",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.int16: "int16",
    torch.uint16: "uint16",
    torch.int32: "int32",
    torch.uint32: "uint32",
    torch.int64: "int64",
    torch.uint64: "uint64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
    torch.float8_e4m3fnuz: "fp8e4b8",
    torch.float8_e5m2fnuz: "fp8e5b16",
}
#: torch dtypes without a type of Triton's, passed as bytes.
BYTES = ("float8_e8m0fnu", "float4_e2m1fn_x2")

#: Names of Triton's canonical type abbreviations in parameter annotations.
ANNOTATIONS = {
    "i1": "int1",
    "u1": "int1",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}

#: Keyword arguments of a launch that choose how it is compiled and mean nothing to its result.
LAUNCH_OPTIONS = frozenset(
    (
        *("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override", "enable_fp_fusion", "debug"),
        *("launch_cooperative_grid", "launch_pdl", "cluster_dims", "ptx_version", "ptx_options", "extern_libs"),
        *("instrumentation_mode", "sanitize_overflow", "arch", "backend_name", "max_num_imprecise_acc_default"),
        *("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "default_dot_input_precision"),
        *("allowed_dot_input_precisions", "minRegAutoWS", "maxRegAutoWS", "num_buffers_warp_spec"),
        *("num_consumer_groups", "reg_dec_producer", "reg_inc_consumer", "enable_warp_specialization"),
        *("waves_per_eu", "matrix_instr_nonkdim", "kpack", "allow_flush_denorm", "schedule_hint"),
    )
)
