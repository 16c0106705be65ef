"""The SM120 kernels of sglang 0.5.13.post1, loaded by path: the package is never imported and needs no GPU.

The wheel is looked for in the folder ``HARNESS_SGLANG`` (unpacked), then among the installed distributions, then in
``.cache/sglang``, where ``make verify-sglang`` unpacks it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType

import torch
from torch.nn.functional import silu

from harness.discover import SetupError
from harness.registry import implements

VERSION = "0.5.13.post1"
VARIABLE = "HARNESS_SGLANG"
_LAYERS = Path("sglang/srt/layers")


def find() -> Path:
    """Return the folder that holds ``sglang/``; raises SetupError saying what was found instead and what to run."""
    folder = os.environ.get(VARIABLE)
    candidates = [Path(folder or ".cache/sglang")]
    if folder is None:
        with contextlib.suppress(PackageNotFoundError):
            candidates.insert(0, Path(str(distribution("sglang").locate_file(""))))
    others = []
    for candidate in candidates:
        for info in candidate.glob("sglang-*.dist-info"):
            version = info.name.removeprefix("sglang-").removesuffix(".dist-info")
            if version == VERSION:
                return candidate.resolve()
            others.append(f"; found {version} in {candidate}")
    raise SetupError(
        f"sglang {VERSION} is not here: run `make verify-sglang`, or unpack its wheel and set {VARIABLE} to the folder"
        + "".join(others)
    )


def _module(root: Path, name: str) -> ModuleType:
    """Execute one file of the wheel under a private module name."""
    path = root / _LAYERS / f"{name}.py"
    private = f"_harness_sglang_{path.stem}"
    spec = importlib.util.spec_from_file_location(private, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise SetupError(f"sglang {VERSION} in {root} lacks {path.relative_to(root)}")
    module = importlib.util.module_from_spec(spec)
    # Triton looks the module of a kernel up by name.
    sys.modules[private] = module
    spec.loader.exec_module(module)
    return module


_root = find()
_triton_mla = _module(_root, "attention/flash_mla_sm120_triton")
_torch_mla = _module(_root, "attention/flash_mla_sm120")
_moe = _module(_root, "moe/fused_moe_triton/mxfp4_moe_sm120_triton")


@implements("sparse_mla_decode", name="sglang-triton")
def sparse_mla_decode_triton(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    *,
    topk_length: torch.Tensor | None = None,
    attn_sink: torch.Tensor | None = None,
    head_dim_v: int = 512,
    softmax_scale: float | None = None,
    extra_k_cache: torch.Tensor | None = None,
    extra_indices: torch.Tensor | None = None,
    extra_topk_length: torch.Tensor | None = None,
) -> dict[str, torch.Tensor]:
    """Call ``flash_mla_sparse_decode_triton``, the default path; its lse comes as ``[B, H, 1]``."""
    out, lse = _triton_mla.flash_mla_sparse_decode_triton(
        q,
        k_cache,
        indices,
        topk_length,
        attn_sink,
        head_dim_v,
        softmax_scale,
        extra_k_cache,
        extra_indices,
        extra_topk_length,
    )
    return {"out": out, "lse": lse.squeeze(-1)}


@implements("sparse_mla_decode", name="sglang-torch")
def sparse_mla_decode_torch(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    *,
    topk_length: torch.Tensor | None = None,
    attn_sink: torch.Tensor | None = None,
    head_dim_v: int = 512,
    softmax_scale: float | None = None,
    extra_k_cache: torch.Tensor | None = None,
    extra_indices: torch.Tensor | None = None,
    extra_topk_length: torch.Tensor | None = None,
) -> dict[str, torch.Tensor]:
    """Call ``_sm120_sparse_decode_fwd``, the fallback, with the default scale that its entry point fills in."""
    out, lse = _torch_mla._sm120_sparse_decode_fwd(
        q,
        k_cache,
        indices,
        topk_length,
        attn_sink,
        head_dim_v,
        q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale,
        extra_k_cache,
        extra_indices,
        extra_topk_length,
    )
    return {"out": out, "lse": lse.squeeze(-1)}


@implements("merge_attn_states", name="sglang-merge")
def merge_attn_states(outs: torch.Tensor, lses: torch.Tensor) -> dict[str, torch.Tensor]:
    """Fold ``_merge_partial_attn``, which merges two, over the parts, starting from an empty one.

    A row stands for a batch of one head.  Raises ValueError or TypeError for shapes that the fold itself cannot take.
    """
    if outs.dim() != 3 or not len(outs):
        raise ValueError(f"outs: wanted [parts, rows, head_dim] with a part or more, got {list(outs.shape)}")
    if not isinstance(lses, torch.Tensor):
        raise TypeError(f"lses: wanted a tensor, got {type(lses).__name__}")
    if lses.shape != outs.shape[:2]:
        raise ValueError(f"lses: wanted {list(outs.shape[:2])}, got {list(lses.shape)}")
    out, lse = torch.zeros_like(outs[0, :, None, None]), torch.full_like(lses[0, :, None, None], -torch.inf)
    for part in range(len(outs)):
        out, lse = _triton_mla._merge_partial_attn(out, lse, outs[part, :, None, None], lses[part, :, None, None])
    return {"out": out[:, 0, 0], "lse": lse[:, 0, 0]}


@implements("mxfp4_moe", name="sglang-slot")
def mxfp4_moe_slot(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_packed: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
    *,
    routed_scaling_factor: float = 1.0,
    clamp_limit: float | None = None,
) -> torch.Tensor:
    """Call ``mxfp4_moe_forward_triton``; it takes the sizes that the shapes already say."""
    out: torch.Tensor = _moe.mxfp4_moe_forward_triton(
        hidden_states,
        w13_packed,
        w2_packed,
        w13_scale,
        w2_scale,
        topk_ids,
        topk_weights,
        hidden_size=hidden_states.shape[1],
        intermediate_size=w13_packed.shape[1] // 2,
        routed_scaling_factor=routed_scaling_factor,
        clamp_limit=clamp_limit,
    )
    return out


@implements("mxfp4_moe", name="sglang-legacy")
def mxfp4_moe_legacy(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_packed: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
    *,
    routed_scaling_factor: float = 1.0,
    clamp_limit: float | None = None,
) -> torch.Tensor:
    """Loop over the experts around ``mxfp4_gemm_triton``, which upstream keeps without a forward of its own.

    Routing, activation, sum and their checks are this function's and follow the contract, so a fault found here is
    the GEMM's.  Raises ValueError or TypeError for illegal routing arguments.
    """
    _require_routing(hidden_states, w13_packed, w2_packed, topk_ids, topk_weights, clamp_limit)
    hidden_size, intermediate_size = hidden_states.shape[1], w13_packed.shape[1] // 2
    out = torch.zeros(hidden_states.shape, dtype=torch.float32, device=hidden_states.device)
    for expert in range(w13_packed.shape[0]):
        token, slot = torch.nonzero(topk_ids == expert, as_tuple=True)
        if not len(token):
            continue
        gate_up = _moe.mxfp4_gemm_triton(
            hidden_states[token], w13_packed[expert], w13_scale[expert], hidden_size
        ).float()
        gate, up = gate_up.split(intermediate_size, dim=1)
        if clamp_limit is not None:
            gate, up = gate.clamp(max=clamp_limit), up.clamp(-clamp_limit, clamp_limit)
        activated = (silu(gate) * up).to(hidden_states.dtype)
        down = _moe.mxfp4_gemm_triton(activated, w2_packed[expert], w2_scale[expert], intermediate_size).float()
        out.index_add_(0, token, down * topk_weights[token, slot, None])
    return (out * routed_scaling_factor).to(hidden_states.dtype)


def _require_routing(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w2_packed: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
    clamp_limit: float | None,
) -> None:
    """Refuse what the loop itself cannot take; operands of the GEMM are for the GEMM to refuse."""
    if hidden_states.dim() != 2:
        raise ValueError(f"hidden_states: wanted [M, K], got {list(hidden_states.shape)}")
    if w13_packed.dim() != 3:
        raise ValueError(f"w13_packed: wanted [E, 2I, K/2], got {list(w13_packed.shape)}")
    if w2_packed.shape[:1] != w13_packed.shape[:1]:
        raise ValueError(f"w2_packed: wanted {w13_packed.shape[0]} experts, got {list(w2_packed.shape)}")
    if topk_ids.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"topk_ids: wanted int32 or int64, got {topk_ids.dtype}")
    if topk_ids.dim() != 2 or len(topk_ids) != len(hidden_states):
        raise ValueError(f"topk_ids: wanted [{len(hidden_states)}, top_k], got {list(topk_ids.shape)}")
    if topk_weights.dtype != torch.float32:
        raise TypeError(f"topk_weights: wanted float32, got {topk_weights.dtype}")
    if topk_weights.shape != topk_ids.shape:
        raise ValueError(f"topk_weights: wanted {list(topk_ids.shape)}, got {list(topk_weights.shape)}")
    if clamp_limit is not None and not clamp_limit > 0:
        raise ValueError(f"clamp_limit: wanted a number above 0, got {clamp_limit}")
