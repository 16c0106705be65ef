"""What must hold for the ways through a launch: checks that take the modules to check, for teeth too."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from harness.contract import Contract, Implementation, Requires
from harness.device.targets import TARGETS
from harness.launch.current import current_target
from harness.tolerance import Exact

BOTH = (TARGETS["sm90"], TARGETS["sm120"])


@triton.jit
def first_kernel(x_ptr, n, BLOCK: tl.constexpr, WIDE: tl.constexpr, SIZE: tl.constexpr):
    tl.store(x_ptr, n)


@triton.jit
def second_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr, BLOCK)


@dataclass(frozen=True)
class Case:
    n: int


CONTRACT = Contract(
    name="ways",
    cases=lambda: None,
    inputs=lambda case, device, poison: {"x": torch.zeros(case.n, device=device)},
    oracle=lambda x: {"out": x},
    tolerance={"out": Exact()},
)


def implementation(launch, *targets):
    return Implementation(contract="ways", name="a", launch=launch, requires=Requires(targets=targets))


def first(x, *, block=16, wide=False, **options):
    """One launch that says how many elements there are, which is no way of its own."""
    first_kernel[(1,)](x, x.numel(), BLOCK=block, WIDE=wide, SIZE=x.numel(), **options)


def missing(api, launch, wanted, standing, *targets):
    """Place -> sizes of the cases in ``wanted`` whose way none of those in ``standing`` takes."""
    one = implementation(launch, *targets)
    found = [api.reach.ways(CONTRACT, [one], [Case(n) for n in sizes], BOTH) for sizes in (wanted, standing)]
    return {place[0]: [case.n for case, _ in lost] for place, lost in api.reach.unreached(*found).items()}


def everywhere(*sizes):
    return {"sm_90": list(sizes), "sm_120": list(sizes)}


def a_size_alone_is_no_way(api):
    assert missing(api, first, (4, 400), (8,)) == {}


def another_tile_is_another_way(api):
    assert missing(api, lambda x: first(x, block=64 if x.numel() > 32 else 16), (33, 64, 8), (32,)) == everywhere(33)


def a_switch_of_the_kernel_is_another_way(api):
    assert missing(api, lambda x: first(x, wide=x.numel() > 32), (33, 8), (32,)) == everywhere(33)


def other_options_are_another_way(api):
    def launch(x):
        n = x.numel()
        first(x, num_warps=8 if n == 33 else 4, num_stages=3 if n == 34 else 2, maxnreg=64 if n == 35 else 128)

    assert missing(api, launch, (33, 34, 35, 36), (1,)) == everywhere(33, 34, 35)


def another_kernel_is_another_way(api):
    def launch(x):
        first(x)
        if x.numel() > 32:
            second_kernel[(1,)](x, BLOCK=16)

    assert missing(api, launch, (33, 8), (32,)) == everywhere(33)
    # one launch of both is not two launches of one
    assert missing(api, launch, (8,), (33,)) == everywhere(8)


def every_target_counts_by_itself(api):
    def launch(x):
        hopper = current_target(x.device, "sm_120").arch == "sm_90"
        first(x, block=64 if hopper and x.numel() > 32 else 16)

    def narrow_on_one(x):
        hopper = current_target(x.device, "sm_120").arch == "sm_90"
        first(x, block=16 if hopper and x.numel() <= 32 else 64)

    assert missing(api, narrow_on_one, (33,), (32,)) == {"sm_90": [33]}
    assert missing(api, launch, (33,), (32,)) == {"sm_90": [33]}
    assert missing(api, launch, (33,), (32,), "sm120") == {}


CHECKS = {
    check.__name__: check
    for check in (
        a_size_alone_is_no_way,
        another_tile_is_another_way,
        a_switch_of_the_kernel_is_another_way,
        other_options_are_another_way,
        another_kernel_is_another_way,
        every_target_counts_by_itself,
    )
}
