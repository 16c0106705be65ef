"""torch.autocast("cuda") casts what torch casts: compared with torch's own choice for fake tensors on CUDA."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.sanitize.autocast import FLOAT32, FLOAT32_UNLESS_TOLD, LOWER, REFUSED, WIDEST, known
from harness.sanitize.errors import Unsupported

# what each makes of h (bfloat16 or float16) and f (float32), both (4, 4)
CALLS = {
    "matmul": lambda h, f: f @ f,
    "mm": lambda h, f: torch.mm(h, f),
    "addmm": lambda h, f: torch.addmm(f, h, f),
    "bmm": lambda h, f: torch.bmm(f.unsqueeze(0), f.unsqueeze(0)),
    "linear": lambda h, f: F.linear(f, h),
    "einsum": lambda h, f: torch.einsum("ij,kj->ik", f, f),
    "conv1d": lambda h, f: F.conv1d(f, f.unsqueeze(-1)),
    "attention": lambda h, f: F.scaled_dot_product_attention(*(f.view(1, 1, 4, 4),) * 3),
    "softmax": lambda h, f: h.softmax(-1),
    "softmax that is told": lambda h, f: torch.softmax(h, -1, dtype=torch.float64),
    "log_softmax": lambda h, f: F.log_softmax(h, -1),
    "layer_norm": lambda h, f: F.layer_norm(h, (4,)),
    "rms_norm": lambda h, f: F.rms_norm(h, (4,)),
    "sum": lambda h, f: h.sum(),
    "sum that is told": lambda h, f: h.sum(dtype=torch.bfloat16),
    "cumsum": lambda h, f: h.cumsum(0),
    "norm": lambda h, f: h.norm(),
    "pow": lambda h, f: h**2,
    "exp": lambda h, f: h.exp(),
    "rsqrt": lambda h, f: h.rsqrt(),
    "cross_entropy": lambda h, f: F.cross_entropy(h, f),
    "kl_div": lambda h, f: F.kl_div(h, h, reduction="sum"),
    "mse_loss": lambda h, f: F.mse_loss(h, h),
    "addcmul": lambda h, f: torch.addcmul(h, h, f),
    "addcmul of low ones": lambda h, f: torch.addcmul(h, h, h),
    "dot": lambda h, f: torch.dot(h.view(16), f.view(16)),
    "scatter_add": lambda h, f: torch.scatter_add(f, 0, torch.zeros_like(f, dtype=torch.int64), h),
    "gelu, which is in no list": lambda h, f: F.gelu(h),
    "mean, which is in no list": lambda h, f: h.mean(),
    "cat, which is in the CPU's": lambda h, f: torch.cat([h, h]),
    "mul, which promotes": lambda h, f: h * f,
    "matmul of float64": lambda h, f: f.double() @ f.double(),
    "pow of integers": lambda h, f: torch.ones_like(f, dtype=torch.int64) ** 2,
}


def torchs_choice(call, lower):
    with FakeTensorMode():
        h, f = torch.empty(4, 4, dtype=lower, device="cuda"), torch.empty(4, 4, device="cuda")
        torch.set_autocast_dtype("cuda", lower)
        torch.set_autocast_enabled("cuda", True)
        try:
            return call(h, f).dtype
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.set_autocast_dtype("cuda", torch.float16)


@pytest.fixture(scope="module")
def choices():
    both = (torch.float16, torch.bfloat16)
    return {(name, lower): torchs_choice(call, lower) for name, call in CALLS.items() for lower in both}


@pytest.mark.parametrize("lower", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_results_have_the_type_that_torch_gives_them_on_cuda(lower, choices, machine):
    h, f = torch.rand(4, 4, device="cuda").to(lower), torch.rand(4, 4, device="cuda")
    found = {}
    with torch.autocast("cuda", dtype=lower):
        for name, call in CALLS.items():
            found[name] = call(h, f)
    assert all(made.is_cuda for made in found.values())
    assert {name: made.dtype for name, made in found.items()} == {name: choices[name, lower] for name in CALLS}


def test_every_operation_that_torch_casts_on_cuda_has_one_rule():
    rules = (LOWER, FLOAT32, FLOAT32_UNLESS_TOLD, WIDEST, REFUSED)
    for name in known("AutocastCUDA"):
        assert sum(name.partition(".")[0] in rule for rule in rules) == 1, name


def test_values_are_those_of_casts_by_hand(machine):
    x, w = torch.randn(8, 8, device="cuda"), torch.randn(8, 8, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.linear(x, w).exp().sum()
    loss.backward()
    by_hand = w.detach().clone().requires_grad_()
    expected = F.linear(x.bfloat16(), by_hand.bfloat16()).float().exp().sum()
    expected.backward()
    assert torch.equal(loss, expected)
    assert torch.equal(w.grad, by_hand.grad)
    assert w.grad.dtype == torch.float32


def test_tensors_on_the_host_are_left_alone_and_everything_is_as_before_afterwards(machine):
    host, there = torch.ones(4, 4), torch.ones(4, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (host @ host).dtype == torch.float32
        assert not torch.is_autocast_enabled("cpu")
        with torch.autocast("cuda", enabled=False):
            assert (there @ there).dtype == torch.float32
        assert (there @ there).dtype == torch.bfloat16
        with pytest.raises(Unsupported, match=r"autocast\('cpu'\) inside"), torch.autocast("cpu"):
            pass
    assert (there @ there).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (host @ host).dtype == torch.bfloat16
        assert host.exp().dtype == torch.float32


def test_a_loss_that_torch_refuses_under_autocast_is_refused(machine):
    chances = torch.rand(4, device="cuda")
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        F.binary_cross_entropy(chances, chances)
