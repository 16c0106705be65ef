"""Grouped matrix product with gathered rows in and scattered rows out: ``moe_scatter`` and its three forced forms.

The contract, byte by byte:

- hidden_states ``[M, K]`` bfloat16, any strides; topk_ids ``[M, topk]`` int32 or int64.
- w, one of

  ===================  ============  =========================================================================
  w                    shape         w_scale
  ===================  ============  =========================================================================
  bfloat16             [E, N, K]     none
  float8_e4m3fn        [E, N, K]     float32 ``[E, N]``, any strides: one factor a row, applied to the sum
  uint8 (two E2M1)     [E, N, K/2]   E8M0 ``[E, N, K/32]`` (uint8 or float8_e8m0fnu, 255 is NaN); the low nibble
                                     is the even k
  ===================  ============  =========================================================================

- out ``[M, topk, N]`` bfloat16, contiguous: ``out[m, j] = w[e] . hidden_states[m]``, e = topk_ids[m, j].  Sums in
  float32, one rounding; a product of two bfloat16 is exact and so is every dequantised weight.
- An id below 0 or >= E is no expert: nothing is read for it, and its row is written with exact zeros.
- K is a multiple of 32, N of 8.  M, topk and E may be 0.  w's rows are contiguous and do not overlap; its base and its
  other strides are multiples of 16 bytes, w_scale's last stride is 1 for E2M1.
- A row's bits do not depend on the content or the order of the other rows; nothing waits for the device and no size
  depends on the ids, so every form can be captured in a graph.
- There are three forms of the kernel.  ``harness.launch.constraints`` chooses by target, Triton version and shared
  memory, within the constraints in force; ``moe_scatter_form`` shows the choice and its reason without a launch.
- On targets with wgmma the non-persistent form decodes narrow weights in registers, from words of them
  (``kernels._moe_scatter_words``), unless a persistent form is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from harness import Capturable, Compiles, Expected, Requires, implements
from harness.device.capabilities import has_tensor_memory, has_wgmma
from harness.device.targets import Target
from harness.launch.constraints import Form, NoForm, Operands, choose_form, constraints, current_constraints
from harness.launch.current import current_target
from harness.launch.sm_budget import available_sms
from kernels._fp4 import GROUP
from kernels._moe_routing import group_by_expert, most_tiles
from kernels._moe_scatter_kernels import moe_scatter_kernel, moe_scatter_persistent_kernel
from kernels._moe_scatter_words import MOST_QUADS, moe_scatter_words_kernel, scatter_prepare_kernel
from kernels._validate import (
    require_dtype,
    require_multiple,
    require_rank,
    require_same_device,
    require_shape,
    require_stride,
)

Format = Literal["bf16", "e4m3", "e2m1"]

#: What a block's shared memory is made of, by format of the weights.
OPERANDS: dict[Format, Operands] = {
    "bf16": Operands(),
    "e4m3": Operands(weights=8),
    "e2m1": Operands(weights=4, scaled=True),
}
WORDS_OPERANDS: dict[Format, Operands] = {
    "e4m3": Operands(weights=8, swapped=True),
    "e2m1": Operands(weights=4, scaled=True, swapped=True),
}
#: (mean slots an expert up to which the entry serves, rows of a tile)
BLOCK_M = ((16, 16), (96, 64), (None, 128))
#: The same for words of weights: (mean, slots, weight rows and depth of a tile, warps, stages).  From sweeps on an H200
#: (256 experts of 4096 x 4096, 6 a token, 16 to 8192 tokens), as are the tiles of bfloat16 that wgmma multiplies.
WORDS_TILES: dict[Format, tuple[tuple[int | None, int, int, int, int, int], ...]] = {
    "e4m3": ((16, 16, 64, 128, 4, 4), (48, 32, 128, 128, 4, 3), (None, 64, 128, 64, 4, 4)),
    "e2m1": ((16, 16, 128, 256, 4, 3), (48, 32, 128, 128, 4, 3), (None, 64, 128, 128, 4, 3)),
}
#: Rows of a tile -> its columns, depth and stages.
WGMMA_TILES = {16: (128, 128, 3), 64: (128, 64, 3), 128: (256, 64, 4)}
#: Rows, columns and depth beyond which a tile spills there (compiled, not measured).
LARGEST = {"gfx1100": (64, 64, 32)}
#: Depth of a tile of more than 16 rows whose decoded weights stay in registers, for the same reason: wherever products
#: do not read them from shared memory.
DECODED_DEPTH = 32
#: Bytes: TMA reads and writes at multiples of it (CUDA driver API, cuTensorMapEncodeTiled).
TMA_ALIGNMENT = 16

_FORMATS: dict[torch.dtype, Format] = {torch.bfloat16: "bf16", torch.float8_e4m3fn: "e4m3", torch.uint8: "e2m1"}
_LARGEST = (128, 128, 64)
#: Columns of hidden states that one program puts into stored order, and slots that it looks at together, at most.
_PREPARED, _CHUNK = 1024, 4096
# CPU tensors are the virtual GPU's: its default target, and few enough SMs that a program takes several tiles.
_VIRTUAL_TARGET = "sm_120"
_VIRTUAL_SMS = 4


# Each tile of the tables from its smallest mean, whole, for each format: tokens of one slot for one expert.
_GRAPHS = Capturable(
    cases=tuple(
        f"Case(routing=Routing(num_tokens={tokens}, num_experts=2, rows=((0, 1), (1, -1))), hidden_size=1024, "
        f"output_size=256, weights={weights!r})"
        for weights in ("bf16", "e4m3", "e2m1")
        for tokens in (16, 17, 97)
    )
)


def _validate(
    hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor, w_scale: torch.Tensor | None
) -> Format:
    require_dtype("hidden_states", hidden_states, torch.bfloat16)
    require_dtype("w", w, *_FORMATS)
    require_dtype("topk_ids", topk_ids, torch.int32, torch.int64)
    weights = _FORMATS[w.dtype]
    if weights == "bf16":
        if w_scale is not None:
            raise ValueError("w_scale: wanted None for bfloat16 weights, got a value")
    elif weights == "e4m3":
        require_dtype("w_scale", w_scale, torch.float32)
    else:
        require_dtype("w_scale", w_scale, torch.uint8, torch.float8_e8m0fnu)

    require_rank("hidden_states", hidden_states, 2, "[M, K]")
    require_rank("w", w, 3, "[E, N, K]")
    tokens, depth = hidden_states.shape
    experts, rows, _ = w.shape
    require_multiple("hidden_states", "K", depth, GROUP)
    require_multiple("w", "N", rows, TMA_ALIGNMENT // 2)
    if weights == "e2m1":
        require_shape("w", w, (experts, rows, depth // 2), "[E, N, K/2]")
        require_shape("w_scale", w_scale, (experts, rows, depth // GROUP), "[E, N, K/32]")
        require_stride("w_scale", w_scale, 2, 1)
    else:
        require_shape("w", w, (experts, rows, depth), "[E, N, K]")
        if weights == "e4m3":
            require_shape("w_scale", w_scale, (experts, rows), "[E, N]")
    # For every form, so that what is legal does not depend on the target; a copy in every call would be worse.
    if not _describable(w):
        raise ValueError(
            f"w: wanted rows of stride 1 that do not overlap, base and strides in multiples of {TMA_ALIGNMENT} bytes, "
            f"got strides {list(w.stride())} of {w.element_size()}-byte elements, offset {w.data_ptr() % TMA_ALIGNMENT}"
        )
    require_shape("topk_ids", topk_ids, (tokens, None), "[M, topk]")
    scales = {} if w_scale is None else {"w_scale": w_scale}
    require_same_device({"hidden_states": hidden_states, "w": w, **scales, "topk_ids": topk_ids})
    return weights


def _describable(tensor: torch.Tensor) -> bool:
    # Axes nested in each other without overlap, base and steps at multiples of TMA_ALIGNMENT.
    size, extent = tensor.element_size(), tensor.shape[-1]
    if tensor.stride(-1) != 1 or tensor.data_ptr() % TMA_ALIGNMENT:
        return False
    for stride, count in zip(tensor.stride()[-2::-1], tensor.shape[-2::-1], strict=True):
        if stride < extent or stride * size % TMA_ALIGNMENT:
            return False
        extent = stride * count
    return True


def _takes_words(weights: Format, target: Target) -> bool:
    return weights != "bf16" and has_wgmma(target) and current_constraints().is_persistent is not True


def _stages(of_table: int) -> int | None:
    # A tile that was asked for may need fewer stages than the table's.
    asked = current_constraints()
    own = asked.block_m or asked.block_n or asked.block_k
    return asked.num_stages or (None if own else of_table)


def _choose_words(weights: Format, w: torch.Tensor, mean: float, target: Target) -> Form:
    asked = current_constraints()
    tiles = WORDS_TILES[weights]
    _, *tile = next(tile for tile in tiles if tile[0] is None or mean <= tile[0])
    block_m, block_n, block_k, num_warps, num_stages = tile
    limits = replace(
        asked,
        is_persistent=False,
        block_m=asked.block_m or block_m,
        block_n=asked.block_n or min(block_n, max(16, triton.next_power_of_2(w.shape[1]))),
        block_k=asked.block_k or block_k,
        num_warps=asked.num_warps or num_warps,
        num_stages=_stages(num_stages),
    )
    if limits.block_k < GROUP:
        raise NoForm(f"block_k: wanted at least {GROUP} for words of weights, got {limits.block_k}")
    return choose_form(target=target, limits=limits, operands=WORDS_OPERANDS[weights])


def _choose(weights: Format, w: torch.Tensor, num_slots: int, target: Target, *, refused: bool = False) -> Form:
    wanted = current_constraints()
    experts, rows, _ = w.shape
    mean = num_slots / max(experts, 1)
    if _takes_words(weights, target):
        return _choose_words(weights, w, mean, target)
    most_m, most_n, most_k = LARGEST.get(target.arch, _LARGEST)
    block_m = wanted.block_m or min(most_m, next(size for most, size in BLOCK_M if most is None or mean <= most))
    if weights != "bf16" and block_m > BLOCK_M[0][1] and not (has_wgmma(target) or has_tensor_memory(target)):
        most_k = min(most_k, DECODED_DEPTH)
    num_stages = wanted.num_stages
    if weights == "bf16" and has_wgmma(target) and wanted.is_persistent is not True and block_m in WGMMA_TILES:
        most_n, most_k, num_stages = WGMMA_TILES[block_m]
        num_stages = _stages(num_stages)
    limits = replace(
        wanted,
        block_m=block_m,
        block_n=wanted.block_n or min(most_n, max(16, triton.next_power_of_2(rows))),
        block_k=wanted.block_k or most_k,
        num_stages=num_stages,
    )
    if weights == "e2m1" and limits.block_k < GROUP:
        raise NoForm(f"block_k: wanted at least {GROUP} for E2M1 weights, one group of a scale, got {limits.block_k}")
    return choose_form(target, limits=limits, operands=OPERANDS[weights], refused=refused)


def moe_scatter_form(
    hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor, *, w_scale: torch.Tensor | None = None
) -> Form:
    """Return the form that ``moe_scatter`` takes for these arguments under the constraints in force, and why.

    Raises as ``moe_scatter`` does.  Launches nothing.
    """
    weights = _validate(hidden_states, w, topk_ids, w_scale)
    target = current_target(w.device, default=_VIRTUAL_TARGET)
    return _choose(weights, w, topk_ids.numel(), target)


@implements("moe_scatter", name="auto", capturable=_GRAPHS)
def moe_scatter(
    hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor, *, w_scale: torch.Tensor | None = None
) -> torch.Tensor:
    """Return ``[M, topk, N]``, one row a (token, expert) slot; the module says what goes in and comes out.

    The form is the one that ``moe_scatter_form`` tells, decided for the tensors' device (for CPU tensors, which only
    the virtual GPU launches on, as on sm_120).  Workspace: 4 bytes a slot and 12 a tile, and a copy of
    ``hidden_states`` where its columns have a stride or, in a persistent form, its rows are not at multiples of 16
    bytes.

    Raises TypeError (dtype) or ValueError (rank, shape, stride, device) naming the argument and NoForm, a ValueError,
    where no form can satisfy the constraints, all of them before any launch.
    """
    return _launch(hidden_states, w, topk_ids, w_scale)


def _launch(
    hidden_states: torch.Tensor,
    w: torch.Tensor,
    topk_ids: torch.Tensor,
    w_scale: torch.Tensor | None,
    *,
    virtual_target: str = _VIRTUAL_TARGET,
    refused: bool = False,
) -> torch.Tensor:
    weights = _validate(hidden_states, w, topk_ids, w_scale)
    tokens, depth = hidden_states.shape
    experts, rows, _ = w.shape
    num_slots, topk = topk_ids.numel(), topk_ids.shape[1]
    target = current_target(w.device, default=virtual_target)
    form = _choose(weights, w, num_slots, target, refused=refused)
    if num_slots == 0 or experts == 0:
        return torch.zeros(tokens, topk, rows, dtype=torch.bfloat16, device=w.device)

    persistent = form.name != "non-persistent"
    from_words = _takes_words(weights, target)
    ready = _describable(hidden_states) if persistent else from_words or hidden_states.stride(1) == 1
    x = hidden_states if ready else hidden_states.clone(memory_format=torch.contiguous_format)
    # Triton has no names for these formats on every target: their bytes go in as bytes.
    codes = w.view(torch.uint8) if weights == "e4m3" else w
    scale = w_scale.view(torch.uint8) if weights == "e2m1" else w_scale
    scale_arguments = (None, 0, 0) if scale is None else (scale, scale.stride(0), scale.stride(1))

    # Triton launches on the current device, which need not be the tensors'.
    with torch.cuda.device_of(w):
        ids = topk_ids.reshape(-1)
        # Slots without an expert are grouped like an expert's, behind the last one.
        if from_words:
            order = torch.empty(num_slots, dtype=torch.int32, device=w.device)
            tiles = torch.empty(most_tiles(num_slots, experts + 1, form.tile.m), 3, dtype=torch.int32, device=w.device)
        else:
            nobody = torch.where((ids >= 0) & (ids < experts), ids, experts)
            order, tiles = group_by_expert(nobody, experts + 1, form.tile.m)
        out = torch.empty(tokens, topk, rows, dtype=torch.bfloat16, device=w.device)
        columns = triton.cdiv(rows, form.tile.n)
        options = {
            "TOPK": topk, "N": rows, "K": depth, "FORMAT": weights,
            "BLOCK_M": form.tile.m, "BLOCK_N": form.tile.n, "BLOCK_K": form.tile.k,
            "num_warps": form.num_warps, "num_stages": form.num_stages,
        }  # fmt: skip
        if persistent:
            scatters = form.name == "persistent-scatter"
            depth_of_codes = form.tile.k // 2 if weights == "e2m1" else form.tile.k
            flat = out.view(num_slots, rows)
            moe_scatter_persistent_kernel[(min(_sms(w.device), len(tiles) * columns),)](
                order, tiles, len(tiles), num_slots, experts, tokens,
                TensorDescriptor.from_tensor(x, [1, form.tile.k]),
                TensorDescriptor.from_tensor(codes, [1, form.tile.n, depth_of_codes]),
                *scale_arguments,
                TensorDescriptor.from_tensor(flat, [1, form.tile.n]) if scatters else flat,
                SCATTERS=scatters, **options,
            )  # fmt: skip
        elif from_words:
            quads = _quads(weights, depth, form.tile.k)
            stored = torch.empty(tokens, depth, dtype=torch.bfloat16, device=w.device)
            step = min(depth & -depth, _PREPARED)
            scatter_prepare_kernel[(max(experts + 1, tokens * (depth // step)),)](
                ids, num_slots, experts, order, tiles, len(tiles),
                hidden_states, *hidden_states.stride(), stored, tokens,
                K=depth, FORMAT=weights, BLOCK_K=step, QUADS=quads, EXPERTS=triton.next_power_of_2(experts + 1),
                CHUNK=min(triton.next_power_of_2(num_slots), _CHUNK), BLOCK_M=form.tile.m, num_warps=4,
            )  # fmt: skip
            words = w.view(torch.int32)
            moe_scatter_words_kernel[(len(tiles) * columns,)](
                order, tiles, num_slots, experts,
                stored, words, words.stride(0), words.stride(1), *scale_arguments, out,
                PTX=True, QUADS=quads, **options,
            )  # fmt: skip
        else:
            moe_scatter_kernel[(len(tiles) * columns,)](
                order, tiles, num_slots, experts,
                x, x.stride(0), codes, codes.stride(0), codes.stride(1), *scale_arguments, out, **options,
            )  # fmt: skip
    return out


def _quads(weights: Format, depth: int, block_k: int) -> int:
    """Return how many words, of E4M3, or groups of 32, of E2M1, are stored together: `kernels._moe_scatter_words`."""
    if weights == "e4m3":
        return min(MOST_QUADS, (depth & -depth) // 16, block_k // 16)
    return min(MOST_QUADS, (depth & -depth) // GROUP, block_k // GROUP)


def _sms(device: torch.device) -> int:
    return _VIRTUAL_SMS if device.type == "cpu" else available_sms(device)


@implements(
    "moe_scatter",
    name="persistent-scatter",
    requires=Requires(targets=("sm100", "sm103")),
    capturable=_GRAPHS,
    compiles=Compiles(
        expected=(
            Expected(
                verdict="REFUSED",
                targets=("sm90", "sm120", "sm121"),
                says="Feature '.tile::scatter4' not supported",
                because="tile scatter is in sm_100 and sm_103 only; sm_90 has no tile gather either",
            ),
        )
    ),
)
def moe_scatter_persistent_scatter(
    hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor, *, w_scale: torch.Tensor | None = None
) -> torch.Tensor:
    """``moe_scatter`` with TMA gather and tile scatter, CPU tensors as on sm_100.

    A device that has no tile scatter gets NoForm.  Where nothing can run anyway, on CPU tensors, a pretended target
    without one is taken at its word, so that its compiler's refusal can be seen.
    """
    with constraints(is_persistent=True, epilogue="scatter"):
        return _launch(hidden_states, w, topk_ids, w_scale, virtual_target="sm_100", refused=w.device.type == "cpu")


@implements(
    "moe_scatter",
    name="persistent-store",
    requires=Requires(targets=("sm100", "sm103", "sm120", "sm121")),
    capturable=_GRAPHS,
)
def moe_scatter_persistent_store(
    hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor, *, w_scale: torch.Tensor | None = None
) -> torch.Tensor:
    """``moe_scatter`` with TMA gather and plain stores."""
    with constraints(is_persistent=True, epilogue="store"):
        return _launch(hidden_states, w, topk_ids, w_scale)


@implements("moe_scatter", name="non-persistent", capturable=_GRAPHS)
def moe_scatter_non_persistent(
    hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor, *, w_scale: torch.Tensor | None = None
) -> torch.Tensor:
    """``moe_scatter`` by plain pointers."""
    with constraints(is_persistent=False):
        return _launch(hidden_states, w, topk_ids, w_scale)


@implements("moe_scatter", name="words", requires=Requires(targets=("sm90",)), capturable=_GRAPHS)
def moe_scatter_words(
    hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor, *, w_scale: torch.Tensor | None = None
) -> torch.Tensor:
    """``moe_scatter`` by plain pointers, CPU tensors as on sm_90, which decodes words of narrow weights."""
    with constraints(is_persistent=False, epilogue="store"):
        return _launch(hidden_states, w, topk_ids, w_scale, virtual_target="sm_90")
