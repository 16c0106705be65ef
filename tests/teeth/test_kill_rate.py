"""No mutant survives without an argument: a sample on every run, all of them where ``HARNESS_MUTANTS=all`` asks.

Each test is one shard of one kernel in a worker of its own, so that pytest-xdist spreads a campaign.
"""

import os
from pathlib import Path

import pytest

from harness import discover, selection
from harness.mutation import argued, campaign, command, generate, pool
from harness.mutation.results import Status
from harness.mutation.targets import source, targets

ROOT = Path(__file__).parents[2]
WHOLE = os.environ.get("HARNESS_MUTANTS") == "all"
#: Parts of a kernel's mutants, and how many of a part run.
SHARDS, SAMPLE = (16, None) if WHOLE else (1, 12)
KERNELS = ("merge_attn_states", "mxfp4_moe", "sparse_mla_decode") if WHOLE else ("merge_attn_states",)


@pytest.mark.parametrize("shard", range(1, SHARDS + 1))
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_mutant_survives_without_an_argument(kernel, shard):
    discover.load(("kernels",), folder=ROOT)
    settings = pool.Settings(modules=("kernels",), folder=ROOT, examples=40 if WHOLE else 8, deadline=600.0)
    found = []
    for target in targets(selection.pairs([kernel]), selection.pairs()):
        # what kernels share is judged by all of them, which takes too long for a sample
        if WHOLE or target.name == kernel:
            made = generate.mutants([source(name, ROOT) for name in target.modules])
            wanted = campaign.limited(campaign.shard(made, shard, SHARDS), SAMPLE)
            pool.run(target, wanted, settings, until=float("inf"), on_result=found.append)
    arguments = argued.read(ROOT / command.ARGUED)
    survivors = [r for r in argued.explained(found, arguments) if r.status is Status.SURVIVED and not r.argued]
    assert [result.diff for result in survivors] == []
    assert any(result.status is Status.KILLED for result in found)
