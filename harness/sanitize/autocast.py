"""``torch.autocast("cuda")``: the casts that torch makes for tensors on CUDA, for tensors on the emulated device.

torch chooses its casts by a tensor's device, and here every tensor's true device is the CPU.  So while the program is
inside of ``torch.autocast("cuda")``, the CPU's autocast is on, and every operation that it knows is replaced: those in
CUDA's list do what CUDA's does, all others do nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from harness.sanitize.errors import unsupported
from harness.sanitize.patches import Patches
from harness.sanitize.places import Place, Places

# torch documentation, "Automatic Mixed Precision package", CUDA op-specific behavior; by the names of ATen
#: Operations whose tensors become the lower type.
LOWER = frozenset(
    (
        *("addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot", "linalg_vecdot"),
        *("linear", "matmul", "mm", "mv", "prelu", "einsum", "scaled_dot_product_attention"),
        *("_scaled_dot_product_flash_attention", "_convolution", "convolution", "conv1d", "conv2d", "conv3d"),
        *("conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cudnn_convolution"),
        *("cudnn_convolution_transpose", "gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell"),
        *("_thnn_fused_gru_cell", "_thnn_fused_lstm_cell"),
    )
)
#: Operations whose tensors become float32.
FLOAT32 = frozenset(
    (
        *("acos", "asin", "binary_cross_entropy_with_logits", "cdist", "cosh", "cosine_embedding_loss"),
        *("cosine_similarity", "dist", "erfinv", "exp", "expm1", "group_norm", "hinge_embedding_loss", "huber_loss"),
        *("kl_div", "l1_loss", "layer_norm", "log", "log10", "log1p", "log2", "logsumexp", "margin_ranking_loss"),
        *("mse_loss", "multilabel_margin_loss", "multi_margin_loss", "native_layer_norm", "nll_loss", "nll_loss2d"),
        *("pdist", "poisson_nll_loss", "pow", "reciprocal", "renorm", "rms_norm", "rsqrt", "sinh", "smooth_l1_loss"),
        *("soft_margin_loss", "softplus", "tan", "triplet_margin_loss", "frobenius_norm", "nuclear_norm", "norm"),
        *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d"),
        *("_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d"),
        *("upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
    )
)
#: Operations that compute in float32 unless the program names another type.
FLOAT32_UNLESS_TOLD = frozenset(
    (*("cumprod", "cumsum", "linalg_matrix_norm", "linalg_vector_norm", "log_softmax", "prod", "softmax", "sum"),)
)
#: Operations whose tensors become the widest type among them.
WIDEST = frozenset(
    (
        *("addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot"),
        *("scatter_add",),
    )
)
#: Operations that torch refuses, because their result would be no good in the lower type.
REFUSED = frozenset(("binary_cross_entropy",))

_KEY = torch._C.DispatchKey.AutocastCPU
#: torch gives it no types.
_Library: Any = torch.library.Library


def known(key: str) -> list[str]:
    """Return the operations of torch's own that autocast knows on a device, as "name" or "name.overload"."""
    found: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return sorted(name.removeprefix("aten::") for name in found if name.startswith("aten::"))


class Autocast:
    """Replacements for what enters and leaves ``torch.autocast``."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._depth = 0
        self._library: Any = None
        self._enabled: Callable[..., bool] = torch.is_autocast_enabled

    def install(self, patches: Patches) -> None:
        """Put the replacements in place."""
        cls = torch.amp.autocast
        enter, leave = cls.__enter__, cls.__exit__

        def entered(context: Any) -> Any:
            if context.device == "cpu" and context._enabled and self._library is not None:
                unsupported("torch.autocast('cpu') inside of torch.autocast('cuda')")
            result = enter(context)  # type: ignore[no-untyped-call]
            if context.device == "cuda":
                self._depth += 1
                self._follow()
            return result

        def left(
            context: Any, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> Any:
            result = leave(context, kind, error, trace)
            if context.device == "cuda":
                self._depth -= 1
                self._follow()
            return result

        patches.set(cls, "__enter__", entered)
        patches.set(cls, "__exit__", left)
        patches.set(torch, "is_autocast_enabled", self.is_enabled)

    def is_enabled(self, device_type: str = "cuda") -> bool:
        """``torch.is_autocast_enabled``: that the CPU's is on for our sake is not the program's business."""
        return False if device_type == "cpu" and self._library is not None else self._enabled(device_type)

    def _follow(self) -> None:
        on = self._enabled("cuda")
        if on and self._library is None:
            self._library = self._replacements()
        if self._library is not None:
            torch.set_autocast_enabled("cpu", on)
        if not self._depth and self._library is not None:
            self._library._destroy()
            self._library = None

    def _replacements(self) -> Any:
        library = _Library("aten", "IMPL")
        ours, theirs = known("AutocastCUDA"), known("AutocastCPU")
        with warnings.catch_warnings():
            # that kernels of torch's are overridden
            warnings.simplefilter("ignore")
            for name in ours:
                library.impl(name, self._kernel(name), "AutocastCPU")
            for name in sorted({*theirs} - {*ours}):
                library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")
        return library

    def _kernel(self, name: str) -> Callable[..., Any]:
        packet, _, overload = name.partition(".")
        operation = getattr(getattr(torch.ops.aten, packet), overload or "default")
        has_dtype = any(argument.name == "dtype" for argument in operation._schema.arguments)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_KEY)):
                given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
                if any(self._places.device(tensor).type == "cuda" for tensor in given):
                    args, kwargs = self._cast(packet, has_dtype, given, args, kwargs)
                return operation(*args, **kwargs)

        return kernel

    def _cast(
        self, name: str, has_dtype: bool, given: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        lower = torch.get_autocast_dtype("cuda")
        if name in LOWER:
            wanted = lower
        elif name in FLOAT32:
            wanted = torch.float32
        elif name in FLOAT32_UNLESS_TOLD:
            # a type that is named by position comes last
            told = kwargs.get("dtype") is not None or any(isinstance(value, torch.dtype) for value in args)
            if has_dtype and told:
                return args, kwargs
            wanted = torch.float32
        elif name in WIDEST:
            wide = any(tensor.dtype == torch.float32 for tensor in given if self._eligible(tensor))
            wanted = torch.float32 if wide else lower
        elif name in REFUSED:
            raise RuntimeError(
                f"torch.nn.functional.{name} and torch.nn.BCELoss are unsafe to autocast; "
                f"use {name}_with_logits or BCEWithLogitsLoss, or compute in float32 outside of autocast"
            )
        else:
            unsupported(f"torch.autocast('cuda') of torch.ops.aten.{name}")

        def cast(value: Any) -> Any:
            return value.to(wanted) if isinstance(value, torch.Tensor) and self._eligible(value) else value

        made = tree_map(cast, (args, kwargs))
        return made[0], made[1]

    def _eligible(self, tensor: torch.Tensor) -> bool:
        on_device = self._places.device(tensor).type == "cuda" or self._places.of(tensor) is Place.EITHER
        return on_device and tensor.is_floating_point() and tensor.dtype != torch.float64
