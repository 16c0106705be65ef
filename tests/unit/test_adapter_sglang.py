"""The sglang adapter against a made-up wheel: how it is found, and how arguments and outputs are mapped."""

import importlib
import sys
from importlib.metadata import PackageNotFoundError

import pytest
import torch

from harness.discover import SetupError

TRITON_MLA = """
import torch

def flash_mla_sparse_decode_triton(q, k_cache, indices, topk_length, attn_sink, head_dim_v, softmax_scale,
                                   extra_k_cache=None, extra_indices=None, extra_topk_length=None):
    global seen
    seen = locals()
    batch, _, heads, _ = q.shape
    return torch.zeros(batch, 1, heads, head_dim_v), torch.arange(batch * heads).view(batch, heads, 1)

def _merge_partial_attn(out1, lse1, out2, lse2):
    assert out1.shape[:-1] == lse1.shape and out1.dim() == 4
    return out1 + out2, lse1.clamp(min=0) * 10 + lse2
"""
TORCH_MLA = """
import torch

def _sm120_sparse_decode_fwd(q, k_cache, indices, topk_length, attn_sink, head_dim_v, softmax_scale,
                             extra_k_cache=None, extra_indices=None, extra_topk_length=None):
    global seen
    seen = locals()
    return torch.zeros(q.shape[0], 1, q.shape[2], head_dim_v), torch.zeros(q.shape[0], q.shape[2], 1)
"""
MOE = """
import torch

def mxfp4_moe_forward_triton(hidden_states, w13_packed, w2_packed, w13_scale, w2_scale, topk_ids, topk_weights,
                             hidden_size, intermediate_size, inplace=False, routed_scaling_factor=None,
                             clamp_limit=None):
    global seen
    seen = locals()
    return hidden_states

def mxfp4_gemm_triton(a, b_packed, b_scale, k_full):
    assert a.shape[1] == k_full == b_packed.shape[1] * 2
    return (a.float() @ b_scale.repeat_interleave(32, dim=1).T).bfloat16()
"""
FILES = {
    "attention/flash_mla_sm120_triton.py": TRITON_MLA,
    "attention/flash_mla_sm120.py": TORCH_MLA,
    "moe/fused_moe_triton/mxfp4_moe_sm120_triton.py": MOE,
}


def wheel(folder, version="0.5.13.post1", files=FILES):
    (folder / f"sglang-{version}.dist-info").mkdir(parents=True)
    for name, text in files.items():
        path = folder / "sglang/srt/layers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def load():
    sys.modules.pop("harness.adapters.sglang", None)
    return importlib.import_module("harness.adapters.sglang")


@pytest.fixture
def adapter(tmp_path, monkeypatch, own_registry):
    monkeypatch.setenv("HARNESS_SGLANG", str(wheel(tmp_path)))
    return load()


MLA = {"q": torch.zeros(2, 1, 3, 512), "k_cache": torch.zeros(1), "indices": torch.zeros(2, 1, 4)}


def moe(intermediate=32):
    hidden, experts = 64, 2
    return {
        "hidden_states": torch.ones(3, hidden, dtype=torch.bfloat16),
        "w13_packed": torch.zeros(experts, 2 * intermediate, hidden // 2, dtype=torch.uint8),
        "w13_scale": torch.full((experts, 2 * intermediate, hidden // 32), 1 / 64),
        "w2_packed": torch.zeros(experts, hidden, intermediate // 2, dtype=torch.uint8),
        "w2_scale": torch.full((experts, hidden, intermediate // 32), 1 / 32),
        "topk_ids": torch.tensor([[0, 1], [1, -1], [7, -1]], dtype=torch.int32),
        "topk_weights": torch.tensor([[1.0, 2.0], [4.0, float("nan")], [1.0, 1.0]]),
    }


def test_it_registers_every_path_of_the_wheel(adapter, own_registry):
    assert sorted(own_registry._implementations) == [
        ("merge_attn_states", "sglang-merge"),
        ("mxfp4_moe", "sglang-legacy"),
        ("mxfp4_moe", "sglang-slot"),
        ("sparse_mla_decode", "sglang-torch"),
        ("sparse_mla_decode", "sglang-triton"),
    ]


def test_the_package_itself_is_never_imported(adapter):
    assert not any(name == "sglang" or name.startswith("sglang.") for name in sys.modules)


def test_the_triton_path_keeps_defaults_for_upstream_and_flattens_the_lse(adapter):
    result = adapter.sparse_mla_decode_triton(**MLA, head_dim_v=256, extra_k_cache="extra", attn_sink="sink")
    assert result["lse"].tolist() == [[0, 1, 2], [3, 4, 5]]
    seen = adapter._triton_mla.seen
    assert (seen["softmax_scale"], seen["head_dim_v"], seen["extra_k_cache"]) == (None, 256, "extra")
    assert seen["attn_sink"] == "sink"


def test_the_torch_path_gets_the_default_scale_of_its_entry_point(adapter):
    adapter.sparse_mla_decode_torch(**MLA)
    assert adapter._torch_mla.seen["softmax_scale"] == 512**-0.5
    adapter.sparse_mla_decode_torch(**MLA, softmax_scale=2.0)
    assert adapter._torch_mla.seen["softmax_scale"] == 2.0


def test_merging_folds_every_part_into_an_empty_one(adapter):
    outs = torch.tensor([1.0, 2.0, 4.0])[:, None, None].expand(3, 5, 8)
    lses = torch.tensor([1.0, 2.0, 3.0])[:, None].expand(3, 5)
    merged = adapter.merge_attn_states(outs, lses)
    assert torch.equal(merged["out"], torch.full((5, 8), 7.0))
    assert torch.equal(merged["lse"], torch.full((5,), 123.0))


@pytest.mark.parametrize(
    ("argument", "outs", "lses"),
    [
        ("outs", torch.zeros(0, 5, 8), torch.zeros(0, 5)),
        ("outs", torch.zeros(5, 8), torch.zeros(5)),
        ("lses", torch.zeros(3, 5, 8), torch.zeros(3, 4)),
        ("lses", torch.zeros(3, 5, 8), 0.0),
    ],
)
def test_the_fold_refuses_what_it_is_answerable_for(adapter, argument, outs, lses):
    with pytest.raises((ValueError, TypeError), match=f"^{argument}: wanted"):
        adapter.merge_attn_states(outs, lses)


def test_the_slot_path_gets_the_sizes_that_the_shapes_say(adapter):
    adapter.mxfp4_moe_slot(**moe(), routed_scaling_factor=2.5, clamp_limit=7.0)
    seen = adapter._moe.seen
    assert (seen["hidden_size"], seen["intermediate_size"]) == (64, 32)
    assert (seen["routed_scaling_factor"], seen["clamp_limit"]) == (2.5, 7.0)
    assert seen["w2_packed"].shape == (2, 64, 16)


def test_the_loop_around_the_gemm_follows_the_contract(adapter):
    # every GEMM gives 1, so an expert gives silu(1); id 7 and id -1 are dropped, with the NaN weight beside it
    out = adapter.mxfp4_moe_legacy(**moe(), routed_scaling_factor=2.0)
    one = torch.nn.functional.silu(torch.tensor(1.0)).bfloat16().float()
    expected = (torch.tensor([3.0, 4.0, 0.0])[:, None] * one * 2).expand(3, 64).bfloat16()
    assert torch.equal(out, expected)
    clamped = adapter.mxfp4_moe_legacy(**moe(), clamp_limit=0.5)
    half = (torch.nn.functional.silu(torch.tensor(0.5)) * 0.5).bfloat16().float()
    assert torch.equal(clamped, (torch.tensor([3.0, 4.0, 0.0])[:, None] * half).expand(3, 64).bfloat16())


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("hidden_states", torch.zeros(1, 3, 64)),
        ("w13_packed", torch.zeros(64, 32)),
        ("w2_packed", torch.zeros(1, 64, 16)),
        ("topk_ids", torch.zeros(3, 2, dtype=torch.int16)),
        ("topk_ids", torch.zeros(6, dtype=torch.int32)),
        ("topk_weights", torch.zeros(3, 2, dtype=torch.bfloat16)),
        ("topk_weights", torch.zeros(3, 1)),
        ("clamp_limit", 0.0),
    ],
)
def test_the_loop_refuses_what_it_is_answerable_for(adapter, argument, value):
    with pytest.raises((ValueError, TypeError), match=f"^{argument}: wanted"):
        adapter.mxfp4_moe_legacy(**{**moe(), argument: value})


def test_a_wheel_of_another_version_is_named(tmp_path, monkeypatch, own_registry):
    monkeypatch.setenv("HARNESS_SGLANG", str(wheel(tmp_path, version="0.5.23")))
    with pytest.raises(SetupError, match=r"make verify-sglang.*found 0\.5\.23 in"):
        load()


def test_a_wheel_without_a_file_names_the_file(tmp_path, monkeypatch, own_registry):
    monkeypatch.setenv("HARNESS_SGLANG", str(wheel(tmp_path, files={})))
    with pytest.raises(SetupError, match=r"lacks sglang/srt/layers/attention/flash_mla_sm120_triton\.py"):
        load()


def absent(name):
    raise PackageNotFoundError(name)


def test_no_wheel_at_all_says_what_to_run(tmp_path, monkeypatch, own_registry):
    monkeypatch.delenv("HARNESS_SGLANG", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.metadata.distribution", absent)
    with pytest.raises(SetupError, match="is not here: run `make verify-sglang`"):
        load()
