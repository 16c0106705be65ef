"""Implementations that end their process, for tests of what outlives them; registered when this is imported."""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import replace
from typing import Any

import torch

from harness.lanes import ContextLost
from harness.registry import implements, register
from tests.unit.pooling import CONTRACT, Outputs, pooled

#: No Hypothesis cases with several configurations, no rejections: what happens in the child is the subject here.
register(replace(CONTRACT, name="victims"))


@implements("victims", name="right")
def right(**inputs: Any) -> Outputs:
    return pooled(**inputs)


@implements("victims", name="faulty")
def faulty(**inputs: Any) -> Outputs:
    outputs = pooled(**inputs)
    return {**outputs, "lse": outputs["lse"] + 1}


@implements("victims", name="exits")
def exits(**inputs: Any) -> Outputs:
    os._exit(3)


@implements("victims", name="segfaults")
def segfaults(**inputs: Any) -> Outputs:
    ctypes.string_at(0)
    return pooled(**inputs)


@implements("victims", name="hangs")
def hangs(**inputs: Any) -> Outputs:
    while True:
        time.sleep(60)


@implements("victims", name="out-of-memory")
def out_of_memory(**inputs: Any) -> Outputs:
    raise MemoryError


@implements("victims", name="lost")
def lost(**inputs: Any) -> Outputs:
    raise ContextLost("an illegal memory access was encountered")


@implements("victims", name="faulty-then-exits")
def faulty_then_exits(**inputs: Any) -> Outputs:
    if inputs["half"]:
        time.sleep(0.2)
        os._exit(4)
    return faulty(**inputs)


def _unseeded(case: Any, device: Any, poison: Any) -> Any:
    made = CONTRACT.inputs(case, device, poison)
    return {**made, "scores": torch.rand_like(made["scores"])}


register(replace(CONTRACT, name="mistaken", inputs=_unseeded))


@implements("mistaken", name="right")
def right_but_mistaken(**inputs: Any) -> Outputs:
    return pooled(**inputs)
