"""An implementation that is wrong on one target, and one that is for another; registered when this is imported."""

from dataclasses import dataclass

import hypothesis.strategies as st
import torch

from harness.contract import Contract, Requires
from harness.launch.current import current_target
from harness.registry import implements, register
from harness.tolerance import Exact


@dataclass(frozen=True)
class Case:
    n: int


register(
    Contract(
        name="asks_its_target",
        cases=lambda: st.builds(Case, n=st.integers(1, 9)),
        inputs=lambda case, device, poison: {"x": torch.arange(case.n, dtype=torch.float32, device=device)},
        oracle=lambda x: {"out": x.clone()},
        tolerance={"out": Exact()},
    )
)


@implements("asks_its_target", name="wrong-on-sm_89")
def wrong_on_sm_89(x: torch.Tensor) -> torch.Tensor:
    return x + (1 if current_target(x.device, "sm_120").arch == "sm_89" else 0)


@implements("asks_its_target", name="for-amd", requires=Requires(targets=("gfx950",)))
def for_amd(x: torch.Tensor) -> torch.Tensor:
    return x.clone()
