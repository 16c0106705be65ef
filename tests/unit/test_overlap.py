"""Launches that start while the one before still runs: on which targets, and what they do before they wait for it."""

import ast
import inspect

import pytest
import torch

from harness.device.targets import TARGETS
from kernels import (
    _mxfp4_words_kernels,
    _mxfp4_words_launch,
    _sparse_mla_merge,
    paged_mqa_logits,
    sparse_mla_decode,
)
from kernels._overlap import can_overlap, overlap_option

#: Host code, the device code that it launches, and how many kernels of it.
LAUNCHES = (
    (sparse_mla_decode, _sparse_mla_merge, 1),
    (paged_mqa_logits, paged_mqa_logits, 1),
    (_mxfp4_words_launch, _mxfp4_words_kernels, 7),
)
MEMORY = {
    "load", "store", "atomic_add", "_load_entry", "_load_heads", "_load_tokens", "_tile_tokens", "_tile_rows",
    "sort_slots", "reorder_tile", "slot_gate_up_tile", "sorted_tile", "gate_up_tile", "down_tile", "combine_tile",
    "token_tile", "clear_turns", "take_turns",
}  # fmt: skip


def called(node):
    """Return the last part of the name that a call calls, or None."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", None))


def launched_early(host):
    """Return the kernels that the source ``host`` launches with the option to start early."""
    calls = [node for node in ast.walk(ast.parse(host)) if isinstance(node, ast.Call)]
    early = [call for call in calls if any(called(word.value) == "overlap_option" for word in call.keywords)]
    return [call.func.value.id for call in early]


def done_before_waiting(device, kernel):
    """Return the accesses to memory that ``kernel`` in the source ``device`` makes before it waits, by name."""
    bodies = {node.name: node for node in ast.parse(device).body if isinstance(node, ast.FunctionDef)}
    calls = [node for node in ast.walk(bodies[kernel]) if called(node)]
    waits = [node.lineno for node in calls if called(node) == "wait_for_previous"]
    return [called(node) for node in calls if called(node) in MEMORY and node.lineno <= min(waits, default=10**9)]


@pytest.mark.parametrize(("host", "device", "count"), LAUNCHES, ids=[host.__name__ for host, _, _ in LAUNCHES])
def test_a_launch_that_starts_early_waits_before_it_touches_memory(host, device, count):
    kernels = launched_early(inspect.getsource(host))
    assert len(kernels) == count
    assert [done_before_waiting(inspect.getsource(device), kernel) for kernel in kernels] == [[]] * count


def test_what_a_kernel_reads_too_early_is_found():
    source = "def kernel(p, o):\n    a = tl.load(p)\n    wait_for_previous(True)\n    tl.store(o, a)\n"
    assert done_before_waiting(source, "kernel") == ["load"]
    assert done_before_waiting(source.replace("wait_for_previous(True)", "pass"), "kernel") == ["load", "store"]


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.arch)
def test_hopper_and_what_came_after_can_overlap(target):
    assert can_overlap(target) == (target.arch in ("sm_90", "sm_100", "sm_103", "sm_120", "sm_121"))


def test_nothing_is_asked_of_a_launch_without_a_gpu():
    assert overlap_option(torch.empty(0), overlap=True) == {}
