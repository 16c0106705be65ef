"""Family e, capture and replay of graphs: waits, first touches, pointers, keys.  `on_device` has what needs a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.launch import grid_barrier
from harness.launch.physical import Described, physical_from
from harness.launch.sm_budget import sm_budget, workspace_key
from tests.bugs.cases import ep, logits, moe
from tests.bugs.entry import Around, Bug, Inputs, Outputs, Policy, Source, result
from tests.bugs.running import Changed, Made

CPU = torch.device("cpu")
BARRIER, BUDGET = "harness.launch.grid_barrier", "harness.launch.sm_budget"
MOE, LOGITS = "mxfp4_moe", "paged_mqa_logits"


def before(act: Callable[[Inputs], object]) -> Around:
    """Return the fault of doing ``act`` before each launch."""

    def fault(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
        act(inputs)
        return launch(**inputs)

    return fault


def _growing() -> Around:
    """Return the fault of a workspace that is kept, and replaced when a launch needs more."""
    kept: dict[str, torch.Tensor] = {}

    def fault(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
        hidden = inputs["hidden_states"]
        if "rows" not in kept or len(kept["rows"]) < len(hidden):
            with torch.inference_mode(False):
                kept["rows"] = torch.empty_like(hidden)
        rows = kept["rows"][: len(hidden)]
        rows.copy_(hidden)
        return launch(**inputs | {"hidden_states": rows})

    return fault


def _prepared_once() -> Around:
    """Return the fault of metadata that is made at the first launch and never again."""
    made: dict[str, torch.Tensor] = {}

    def fault(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
        if not made:
            made["lens"] = inputs["seq_lens"].clone()
        return launch(**inputs | {"seq_lens": made["lens"]})

    return fault


def _mask_first_touched() -> Around:
    """Return the fault of a mask that the first launch allocates, in whatever mode it has."""
    kept: dict[str, torch.Tensor] = {}

    def fault(launch: Callable[..., Outputs], inputs: Inputs) -> Outputs:
        if not kept:
            kept["mask"] = torch.ones_like(inputs["topk_ids"])
        kept["mask"].zero_()
        return launch(**inputs)

    return fault


def words_stay_where_they_are() -> None:
    with physical_from(Described(8)):
        found = []
        for _ in range(2):
            with grid_barrier.barrier_launch(CPU, kernel="words") as launch:
                found.append(launch.words)
    assert found[0].data_ptr() == found[1].data_ptr()


def nothing_is_allocated_while_capturing() -> None:
    with physical_from(Described(8)), pytest.raises(RuntimeError, match="is being captured"):
        grid_barrier._words(CPU, 0, "capture")


def words_of_inference_mode_can_be_cleared_outside() -> None:
    with physical_from(Described(8)):
        with torch.inference_mode(), grid_barrier.barrier_launch(CPU, kernel="words") as launch:
            pass
        assert not launch.words.is_inference()
        launch.words[2:7] = torch.tensor([1, 0, 1, 1, 2])
        with pytest.raises(grid_barrier.GridBarrierTimeout):
            grid_barrier.check_grid_barriers(CPU)


def a_key_has_every_size() -> None:
    with physical_from(Described(8)):
        assert len({workspace_key("attention", 4, length, uses_sms=False) for length in (1024, 4096)}) == 2


def a_key_has_the_sms_that_it_is_for() -> None:
    keys = set()
    with physical_from(Described(148)):
        for reserve in (2, 52):
            with sm_budget(reserve):
                keys.add(workspace_key("metadata", 64, uses_sms=True))
    assert len(keys) == 2


def _coupled_by_a_tile(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    return outputs["out"] + inputs["hidden_states"].sum() * 0


def _by_the_bound(outputs: Any, inputs: dict[str, Any]) -> torch.Tensor:
    found = outputs["logits"]
    return found * (1 + 2.0**-22) if inputs["max_seq_len"] > 64 else found


BUGS = (
    Bug("B134", "vllm-project/vllm#38436", "a row's NaN reaches the rows of its tile", "mxfp4_moe", "slot",
        result(out=_coupled_by_a_tile), "oracle:out", moe((0,), (1,), nan_in="hidden_states")),
    Bug("B136", "lightseekorg/tokenspeed#446", "rows whose span is empty", "paged_mqa_logits", "triton",
        Source("kernels/paged_mqa_logits.py", 'total * scale, float("-inf"))',
               'total * scale, tl.where(seq_len > 0, float("-inf"), float("nan")))'), "oracle:logits",
        logits(1, 0, extra_columns=1)),
    Bug("B142", "flashinfer-ai/flashinfer#4647", "the result depends on the host's bound of lengths",
        "paged_mqa_logits", "triton", result(logits=_by_the_bound), "relation:wider logits", logits(3)),
    Bug("B130", "triton-lang/triton#10596", "a benchmark runs while a launch is captured", MOE, "slot",
        before(lambda i: torch.cuda.synchronize()), "capturable:waits", moe((0,))),
    Bug("B131", "deepseek-ai/DeepEP#62", "dispatch counts on the host while it is captured", "ep_dispatch_combine",
        "triton", Made("kernels/ep_dispatch_combine.py", "ep_dispatch", "mask",
                       "capacity < world * max_tokens and not _capturing(x.device)", "capacity < world * max_tokens"),
        "capturable:waits",
        ep((0,), (1,), live=(1, 1), tokens=1, spare=0)),
    Bug("B132", "meta-pytorch/tritonparse#197", "tensors printed while a launch is captured", MOE, "grouped",
        before(lambda i: str(i["topk_weights"])), "capturable:waits", moe((0,))),
    Bug("B137", "sgl-project/sglang#24692", "ids made unique", MOE, "grouped", before(lambda i: i["topk_ids"].unique()),
        "capturable:shape", moe((0,))),
    Bug("B139", "vllm-project/vllm#46067", "a workspace that grows with later captures", MOE, "slot", _growing(),
        "capturable:replaces", (moe((0,)), moe((0,), (1,), (2,)))),
    Bug("B144", "alibaba/rtp-llm#1259", "metadata that a replay does not make anew", LOGITS, "triton",
        _prepared_once(), "capturable:unread", logits(3)),
    Bug("B146", "sgl-project/sglang#35116", "a mask first touched in inference mode", MOE, "slot",
        _mask_first_touched(), "capturable:raises", moe((0,))),
    Bug("B147", "kvcache-ai/sglang#69", "repeats by numbers of the device", MOE, "grouped",
        before(lambda i: i["topk_ids"].flatten().repeat_interleave(i["topk_ids"].flatten().clamp(min=0))),
        "capturable:shape", moe((1,))),
    Bug("B150", "sgl-project/sglang#10056", "a factor that is a tensor becomes a number", MOE, "slot",
        before(lambda i: float(i["topk_weights"][0, 0])), "capturable:waits", moe((0,))),
)  # fmt: skip

POLICIES = (
    Policy("B140", "flashinfer-ai/flashinfer#4398", "a workspace allocated in the middle of captures",
           Changed(BARRIER, 'if user == "capture":', "if False:"), nothing_is_allocated_while_capturing),
    Policy("B141", "huggingface/transformers#45323", "a key without a number that the kernel was made for",
           Changed(BUDGET, "return (kernel, index, *sizes)", "return (kernel, index, *sizes[:1])"),
           a_key_has_every_size),
    Policy("B145", "vllm-project/vllm-ascend#16794", "a workspace that only the launch holds",
           Changed(BARRIER, "if key not in table:", "if True:"), words_stay_where_they_are),
    Policy("B151", "vllm-project/vllm#21691", "metadata of another number of SMs",
           Changed(BUDGET, '(kernel, index, *sizes, ("num_sms", budget))', "(kernel, index, *sizes)"),
           a_key_has_the_sms_that_it_is_for),
    Policy("B146", "sgl-project/sglang#35116", "barrier words first touched in inference mode",
           Changed(BARRIER, "with torch.inference_mode(False):", "if True:"),
           words_of_inference_mode_can_be_cleared_outside),
)  # fmt: skip
