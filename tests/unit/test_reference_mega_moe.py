"""The oracle of ``mega_moe`` is the one of ``mxfp4_moe``, argument by argument."""

import pytest
import torch

from reference.mega_moe import mega_moe, mega_moe_magnitude
from reference.mxfp4_moe import mxfp4_moe, mxfp4_moe_magnitude
from tests.unit.contract_cases import build, contract


@pytest.mark.parametrize("pair", [(mega_moe, mxfp4_moe), (mega_moe_magnitude, mxfp4_moe_magnitude)])
@pytest.mark.parametrize(("limit", "scaling"), [(None, 1.0), (1.0, 2.5)])
def test_it_returns_what_the_oracle_of_mxfp4_moe_returns(pair, limit, scaling):
    ours, theirs = pair
    for case in contract("mega_moe").pinned:
        inputs, _ = build(contract("mega_moe"), case)
        inputs |= {"clamp_limit": limit, "routed_scaling_factor": scaling}
        grid = inputs.pop("max_blocks")
        found, wanted = ours(**inputs, max_blocks=grid)["out"], theirs(**inputs)["out"]
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
