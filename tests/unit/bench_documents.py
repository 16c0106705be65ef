"""Stored runs made up for tests: a device, a commit, workloads with blocks around a time."""

from datetime import datetime, timedelta

import numpy as np

from harness.bench import store

DEVICE = {"name": "NVIDIA H200", "lane": "cuda", "arch": "sm_90", "uuid": "GPU-1", "driver": "580.1", "sms": 132}
RATES = {"copy": 4.27e12, "matmul": 7.9e14}
#: (contract, label, implementation, seconds, FLOPs, bytes)
WORKLOADS = (
    ("merge_attn_states", "num_parts=2", "triton", 5.1e-6, 8_388_608, 12_600_000),
    ("mxfp4_moe", "num_tokens=1", "auto", 31.9e-6, 301_989_888, 80_300_000),
    ("mxfp4_moe", "num_tokens=64", "auto", 764e-6, 19_327_352_832, 2_703_000_000),
    ("paged_mqa_logits", "seq_lens=16x16384", "triton", 13.2e-6, 4_294_967_296, 35_700_000),
    ("sparse_mla_decode", "num_rows=256,topk=1024", "triton", 188e-6, 34_359_738_368, 102_000_000),
    ("ep_dispatch_combine", "num_tokens=512,dispatch_dtype=fp8", "triton", 61e-6, 14_680_064, 117_000_000),
)
START = datetime.fromisoformat("2026-11-01T02:00:00+00:00")


def row(workload, *, timing="rot", times=None, count=10, noise=0.002, rng=None):
    """Return one benchmark whose blocks are ``times``, or ``count`` around the workload's own."""
    contract, label, implementation, seconds, flops, moved = workload
    rng = rng or np.random.default_rng(0)
    blocks = times if times is not None else (seconds * np.exp(noise * rng.standard_normal(count))).tolist()
    floor = max(flops / RATES["matmul"], moved / RATES["copy"])
    extra = {
        "contract": contract, "implementation": implementation, "label": label, "case": f"{contract}:{label}",
        "lane": "cuda", "timing": timing, "l2": "cold", "flops": flops, "bytes": moved, "floor": floor,
        "bound": "memory" if moved / RATES["copy"] > flops / RATES["matmul"] else "compute",
        "blocks": blocks, "blocks_are": "processes", "median_low": min(blocks), "median_high": max(blocks),
        "before": {"sm_mhz": 1980, "celsius": 41, "watts": 300.0, "throttled": []},
    }  # fmt: skip
    return store.benchmark(f"{contract}[{implementation}-{label}-{timing}]", extra, blocks, 8)


def document(*, night=0, commit="a" * 40, dirty=False, device=None, slower=None, refused=(), rows=None, seed=None):
    """Return a run of ``night``; ``slower`` maps a contract to how much slower it is."""
    rng = np.random.default_rng(night if seed is None else seed)
    slower = slower or {}
    timed = [(*work[:3], work[3] * (1 + slower.get(work[0], 0)), *work[4:]) for work in WORKLOADS]
    return {
        "machine_info": {"node": "test", "device": DEVICE if device is None else device},
        "commit_info": {"id": commit, "dirty": dirty, "branch": "main"},
        "benchmarks": rows if rows is not None else [row(workload, rng=rng) for workload in timed],
        "datetime": (START + timedelta(days=night)).isoformat(),
        "version": store.VERSION,
        "harness": {"format": store.FORMAT, "rates": RATES, "refused": list(refused)},
    }


def run(path="run.json", **fields):
    """Return the same as if it had been read from ``path``."""
    made = document(**fields)
    return store.Run(path=path, document=made, entries=store.entries(made))
