"""torch's process-global state, read and put back; asked only while torch is loaded, and found in ``sys.modules``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from harness.state import ABSENT, State, Unreadable


def _torch() -> Any:
    return sys.modules["torch"]


def _state(name: str, read: Callable[[], Any], restore: Callable[[Any], object], *, consumable: bool = False) -> State:
    return State(name=f"torch {name}", read=read, restore=restore, module="torch", consumable=consumable)


def _attempt(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RuntimeError as error:
        # torch refuses to read the old setting once a new one was used
        return Unreadable(str(error).split(",")[0])


def _precision() -> dict[str, Any]:
    torch = _torch()
    backends = torch.backends
    return {
        "float32_matmul": _attempt(torch.get_float32_matmul_precision),
        "cuda.matmul": _attempt(lambda: backends.cuda.matmul.fp32_precision),
        "cudnn.conv": _attempt(lambda: backends.cudnn.conv.fp32_precision),
        "mkldnn.matmul": _attempt(lambda: backends.mkldnn.matmul.fp32_precision),
        "cuda.matmul.fp16_reduction": backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        "cuda.matmul.bf16_reduction": backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
    }


def _restore_precision(wanted: dict[str, Any]) -> None:
    torch = _torch()
    backends = torch.backends
    if isinstance(wanted["float32_matmul"], str):
        # first, because it sets the others
        torch.set_float32_matmul_precision(wanted["float32_matmul"])
    backends.cuda.matmul.fp32_precision = wanted["cuda.matmul"]
    backends.cudnn.conv.fp32_precision = wanted["cudnn.conv"]
    backends.mkldnn.matmul.fp32_precision = wanted["mkldnn.matmul"]
    backends.cuda.matmul.allow_fp16_reduced_precision_reduction = wanted["cuda.matmul.fp16_reduction"]
    backends.cuda.matmul.allow_bf16_reduced_precision_reduction = wanted["cuda.matmul.bf16_reduction"]


def _determinism() -> dict[str, Any]:
    torch = _torch()
    return {
        "algorithms": torch.get_deterministic_debug_mode(),
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "fill_uninitialized_memory": torch.utils.deterministic.fill_uninitialized_memory,
    }


def _restore_determinism(wanted: dict[str, Any]) -> None:
    torch = _torch()
    if torch.get_deterministic_debug_mode() != wanted["algorithms"]:
        # not for nothing: it loads torch's compiler
        torch.set_deterministic_debug_mode(wanted["algorithms"])
    torch.backends.cudnn.deterministic = wanted["cudnn.deterministic"]
    torch.backends.cudnn.benchmark = wanted["cudnn.benchmark"]
    torch.utils.deterministic.fill_uninitialized_memory = wanted["fill_uninitialized_memory"]


def _autograd() -> dict[str, Any]:
    torch = _torch()
    return {
        "grad": torch.is_grad_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "autocast cpu": torch.is_autocast_enabled("cpu"),
        "autocast cuda": torch.is_autocast_enabled("cuda"),
    }


def _restore_autograd(wanted: dict[str, Any]) -> None:
    torch = _torch()
    torch.set_grad_enabled(wanted["grad"])
    torch.autograd.set_detect_anomaly(wanted["anomaly"])
    torch.set_autocast_enabled("cpu", wanted["autocast cpu"])
    torch.set_autocast_enabled("cuda", wanted["autocast cuda"])


def _restore_default_device(wanted: Any) -> None:
    # a default of "cpu" by name intercepts every call; nothing set means the same
    _torch().set_default_device(None if wanted.type == "cpu" else wanted)


def _cuda() -> Any:
    """Return the current device and its current stream; there are none before CUDA is initialised."""
    cuda = _torch().cuda
    if not cuda.is_initialized():
        return ABSENT
    return {"device": cuda.current_device(), "stream": cuda.current_stream()}


def _restore_cuda(wanted: dict[str, Any]) -> None:
    cuda = _torch().cuda
    cuda.set_device(wanted["device"])
    cuda.set_stream(wanted["stream"])


def _torch_generator() -> bytes:
    return bytes(_torch().get_rng_state().numpy().tobytes())


def _restore_torch_generator(wanted: bytes) -> None:
    torch = _torch()
    torch.set_rng_state(torch.frombuffer(bytearray(wanted), dtype=torch.uint8))


STATES: tuple[State, ...] = (
    _state("default dtype", lambda: _torch().get_default_dtype(), lambda wanted: _torch().set_default_dtype(wanted)),
    _state("default device", lambda: _torch().get_default_device(), _restore_default_device),
    _state("precision", _precision, _restore_precision),
    _state("determinism", _determinism, _restore_determinism),
    _state("autograd", _autograd, _restore_autograd),
    _state("threads", lambda: _torch().get_num_threads(), lambda wanted: _torch().set_num_threads(wanted)),
    _state("current GPU", _cuda, _restore_cuda),
    _state("generator", _torch_generator, _restore_torch_generator, consumable=True),
)
