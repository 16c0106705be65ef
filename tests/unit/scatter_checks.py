"""How ``kernels.moe_scatter`` must choose and launch its forms, as checks of any copy of that module."""

import contextlib
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness import registry
from harness.device.capabilities import installed_triton, shared_memory_per_block
from harness.device.targets import TARGETS, target_of
from harness.launch.constraints import Constraints, NoForm, constraints, current_constraints
from harness.launch.current import pretending
from harness.launch.physical import Described, physical_from
from harness.launch.scatter_shared import Tile
from harness.launch.sm_budget import sm_budget
from harness.poison import Poison
from harness.strategies.layouts import Layout
from harness.strategies.moe import Routing
from harness.vgpu import VirtualGPU

ARCHS = tuple(target.arch for target in TARGETS.values())
FORMATS = ("bf16", "e4m3", "e2m1")
#: Tokens that give each tile of the table, at 4 experts and 2 slots a token.
TOKENS = (1, 64, 1024)
NATIVE = {
    "sm_100": "persistent-scatter", "sm_103": "persistent-scatter",
    "sm_120": "persistent-store", "sm_121": "persistent-store",
}  # fmt: skip
CHECKS = {}


def check(function):
    """Add ``function``, which takes a module like ``kernels.moe_scatter``, to the checks."""
    CHECKS[function.__name__] = function
    return function


def arguments(weights="bf16", tokens=3, depth=64, rows=24):
    """Legal arguments of ``tokens`` tokens, 2 slots each, on 4 experts; one slot in four has no expert."""
    given = {
        "hidden_states": torch.ones(tokens, depth, dtype=torch.bfloat16),
        "w": torch.ones(4, rows, depth, dtype=torch.bfloat16),
        "topk_ids": torch.arange(2 * tokens, dtype=torch.int32).view(tokens, 2) % 4,
        "w_scale": None,
    }
    given["topk_ids"][::2, 1] = -1
    if weights == "e4m3":
        given |= {"w": given["w"].to(torch.float8_e4m3fn), "w_scale": torch.ones(4, rows)}
    elif weights == "e2m1":
        packed = torch.full((4, rows, depth // 2), 0x22, dtype=torch.uint8)
        given |= {"w": packed, "w_scale": torch.full((4, rows, depth // 32), 127, dtype=torch.uint8)}
    return given


def form_on(api, arch, given, **wanted):
    """The form that ``given`` gets on ``arch``."""
    with pretending(arch), constraints(**wanted):
        return api.moe_scatter_form(**given)


def described(api, launch, given):
    """Launch on the virtual GPU; how many descriptors the launch made, what it launched, and its output."""
    made, original = [], api.TensorDescriptor
    api.TensorDescriptor = SimpleNamespace(from_tensor=lambda *args: made.append(args) or original.from_tensor(*args))
    try:
        with VirtualGPU() as gpu:
            out = launch(**given)
    finally:
        api.TensorDescriptor = original
    return SimpleNamespace(descriptors=len(made), launches=gpu.launches, out=out)


def refused(launch, match, **wanted):
    """``launch`` under the constraints ``wanted`` raises NoForm and launches nothing."""
    with VirtualGPU() as gpu, constraints(**wanted), pytest.raises(NoForm, match=match):
        launch(**arguments())
    assert gpu.launches == []


@check
def each_target_gets_its_form(api):
    native = NATIVE | ({"gfx1250": "persistent-scatter"} if installed_triton() >= (3, 8) else {})
    for arch in ARCHS:
        form = form_on(api, arch, arguments())
        assert form.name == native.get(arch, "non-persistent"), form
        assert arch in form.reason


@check
def the_chosen_form_is_launched(api):
    expected = {
        "sm_90": ("moe_scatter_kernel", 0),
        "sm_100": ("moe_scatter_persistent_kernel", 3),
        "sm_121": ("moe_scatter_persistent_kernel", 2),
    }
    for arch, (kernel, descriptors) in expected.items():
        with pretending(arch):
            run = described(api, api.moe_scatter, arguments())
        assert [launch.kernel for launch in run.launches] == [kernel], arch
        assert run.descriptors == descriptors, arch


@check
def forced_forms_are_launched(api):
    for launch, kernel, descriptors in (
        (api.moe_scatter_persistent_scatter, "moe_scatter_persistent_kernel", 3),
        (api.moe_scatter_persistent_store, "moe_scatter_persistent_kernel", 2),
        (api.moe_scatter_non_persistent, "moe_scatter_kernel", 0),
    ):
        run = described(api, launch, arguments())
        assert (run.launches[0].kernel, run.descriptors) == (kernel, descriptors)
        assert run.out.eq(64).sum() == 4 * 24
        assert run.out.eq(0).sum() == 2 * 24


@check
def the_launch_is_what_the_form_says(api):
    for arch, name in (("sm_90", "moe_scatter_kernel"), ("sm_120", "moe_scatter_persistent_kernel")):
        for tokens in TOKENS:
            given = arguments(tokens=tokens)
            form = form_on(api, arch, given)
            (asked,) = options(api, arch, name, given)
            assert (asked.get("num_warps"), asked.get("num_stages")) == (form.num_warps, form.num_stages)
            assert Tile(*(asked[f"BLOCK_{axis}"] for axis in "MNK")) == form.tile


def options(api, arch, name, given):
    """The keyword arguments of what ``api.moe_scatter`` launches on ``arch``; nothing is launched."""
    seen, original = [], getattr(api, name)
    setattr(api, name, defaultdict(lambda: lambda *_, **named: seen.append(named)))
    try:
        with pretending(arch):
            api.moe_scatter(**given)
    finally:
        setattr(api, name, original)
    return seen


@check
def hard_cases_hold(api):
    scatter = registry.contract("moe_scatter")
    plain = scatter.pinned[0]
    past_32_bits = Routing(num_tokens=2, num_experts=2, rows=((1, 2**32), (0, 1)), dtype=torch.int64)
    cases = (
        # experts and tokens 2**31 elements apart
        next(case for case in scatter.pinned if case.w_layout.kind == "far"),
        replace(plain, weights="e4m3", subnormal_codes=True),
        replace(plain, weights="e4m3", nan_in="w"),
        replace(plain, routing=past_32_bits),
        replace(plain, routing=past_32_bits, hidden_layout=Layout(kind="transposed")),
    )
    for case in cases:
        given = scatter.inputs(case, torch.device("cpu"), Poison())
        expected = scatter.oracle(**given)["out"]
        for launch in (api.moe_scatter_persistent_store, api.moe_scatter_non_persistent):
            with VirtualGPU(protect=given):
                out = launch(**given)
            torch.testing.assert_close(out, expected, equal_nan=True)


@check
def a_scatter_that_the_target_lacks_is_refused_before_the_launch(api):
    refused(api.moe_scatter, "sm_120 .*tile scatter refused", epilogue="scatter")
    for arch in ("sm_90", "sm_121"):
        with pretending(arch):
            refused(api.moe_scatter, f"{arch} .*tile scatter refused", epilogue="scatter")


@check
def what_does_not_fit_is_refused_before_the_launch(api):
    whole = {"block_m": 128, "block_n": 128, "block_k": 64}
    refused(api.moe_scatter, "131104 bytes .*sm_120 has 101376", is_persistent=True, num_stages=5, **whole)
    assert form_on(api, "sm_120", arguments(), is_persistent=True, num_stages=4, **whole).shared_bytes == 98_328


@check
def constraints_reach_the_launch(api):
    wanted = {"block_m": 32, "block_n": 32, "block_k": 32, "num_warps": 8, "num_stages": 2}
    form = form_on(api, "sm_120", arguments(), **wanted)
    assert (form.tile.m, form.tile.n, form.tile.k) == (32, 32, 32)
    assert (form.num_warps, form.num_stages) == (8, 2)
    with constraints(block_k=16), pytest.raises(NoForm, match="block_k: wanted at least 32 for E2M1 weights"):
        api.moe_scatter_form(**arguments("e2m1"))


@check
def constraints_are_as_before_after_every_launch(api):
    launches = (api.moe_scatter_persistent_scatter, api.moe_scatter_persistent_store, api.moe_scatter_non_persistent)
    for launch in launches:
        with VirtualGPU():
            launch(**arguments())
        assert current_constraints() == Constraints(), launch
        with contextlib.suppress(ValueError):
            launch(**arguments() | {"w_scale": torch.ones(1)})
        assert current_constraints() == Constraints(), launch


@check
def every_configuration_fits_its_target(api):
    for arch in ARCHS:
        for weights in FORMATS:
            forms = [form_on(api, arch, arguments(weights, tokens, 512, 512)) for tokens in TOKENS]
            limit = shared_memory_per_block(target_of(arch))
            for form in forms:
                assert form.shared_bytes <= limit, form
                assert form.num_stages >= 1
                # one warp was what made decoding slow
                assert form.num_warps >= 4
            assert len({form.tile.m for form in forms}) == (2 if arch == "gfx1100" else 3)


@check
def decoded_tiles_and_rdna_tiles_are_small(api):
    def tiles(arch, weights):
        forms = [form_on(api, arch, arguments(weights, tokens, 512, 512)) for tokens in TOKENS]
        return [(form.tile.m, form.tile.n, form.tile.k) for form in forms]

    assert tiles("sm_120", "bf16") == [(16, 128, 64), (64, 128, 64), (128, 128, 64)]
    assert tiles("sm_120", "e4m3") == tiles("sm_120", "e2m1") == [(16, 128, 64), (64, 128, 32), (128, 128, 32)]
    assert tiles("sm_103", "e2m1") == tiles("sm_120", "bf16")
    assert tiles("sm_90", "bf16") == [(16, 128, 128), (64, 128, 64), (128, 256, 64)]
    assert tiles("sm_90", "e2m1") == [(16, 128, 256), (32, 128, 128), (64, 128, 128)]
    assert tiles("gfx1100", "bf16") == [(16, 64, 32), (64, 64, 32), (64, 64, 32)]


@check
def words_are_for_narrow_weights_on_wgmma(api):
    def launched(arch, weights, **wanted):
        with pretending(arch), constraints(**wanted):
            return [launch.kernel for launch in described(api, api.moe_scatter, arguments(weights)).launches]

    words = ["scatter_prepare_kernel", "moe_scatter_words_kernel"]
    assert launched("sm_90", "e4m3") == launched("sm_90", "e2m1") == words
    assert launched("sm_90", "bf16") == ["moe_scatter_kernel"]
    with pytest.raises(NoForm, match="sm_90"):
        launched("sm_90", "e4m3", is_persistent=True)
    for arch in ("sm_89", "sm_120"):
        assert launched(arch, "e2m1", is_persistent=False) == ["moe_scatter_kernel"]
    for weights in ("e4m3", "e2m1"):
        # a tile as small as was asked for, of the same values
        with constraints(block_k=32, block_m=32):
            run = described(api, api.moe_scatter_words, arguments(weights))
        assert run.out.eq(64).sum() == 4 * 24
        with constraints(block_k=16), pytest.raises(NoForm, match="block_k: wanted at least 32 for words"):
            api.moe_scatter_words(**arguments(weights))


@check
def words_take_as_many_steps_as_there_are(api):
    scatter = registry.contract("moe_scatter")
    for weights in ("e4m3", "e2m1"):
        case = replace(
            scatter.pinned[0],
            routing=Routing(num_tokens=3, num_experts=2, rows=((0, 1), (1, -1))),
            weights=weights,
            hidden_size=288,
            hidden_layout=Layout(kind="transposed"),
        )
        given = scatter.inputs(case, torch.device("cpu"), Poison())
        with VirtualGPU(protect=given):
            out = api.moe_scatter_words(**given)
        torch.testing.assert_close(out, scatter.oracle(**given)["out"], equal_nan=True)


@check
def slots_are_sorted_in_as_many_chunks_as_there_are(api):
    given = arguments("e2m1", tokens=21)
    whole, original = described(api, api.moe_scatter_words, given).out, api._CHUNK
    try:
        api._CHUNK = 16
        parts = described(api, api.moe_scatter_words, given).out
    finally:
        api._CHUNK = original
    assert torch.equal(whole, parts)


@check
def a_persistent_grid_is_the_budget(api):
    device = torch.device("cuda", 0)
    with physical_from(Described(96)):
        assert api._sms(device) == 96
        with sm_budget(reserve=2):
            assert api._sms(device) == 94
    with VirtualGPU() as gpu:
        api.moe_scatter_persistent_store(**arguments(rows=520))
    assert gpu.launches[0].grid == (4, 1, 1)


class _Waits(TorchDispatchMode):
    """Raises where the host would have to know what is on the device."""

    @classmethod
    def _should_skip_dynamo(cls):
        # the wrapper that the base class would put around us imports all of torch._dynamo
        return False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "nonzero", "masked_select", "unique_dim", "_unique2"), name
        return function(*args, **(kwargs or {}))


@check
def nothing_waits_for_the_device(api):
    launches = (api.moe_scatter, api.moe_scatter_persistent_scatter, api.moe_scatter_non_persistent)
    for launch in launches:
        with VirtualGPU(), _Waits():
            launch(**arguments("e4m3"))
