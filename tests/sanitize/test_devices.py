"""Tensors know where they are, go where they are sent, and are not mixed."""

import copy

import numpy as np
import pytest
import torch

from harness.sanitize.errors import Unsupported

pytestmark = pytest.mark.usefixtures("machine")

CUDA = torch.device("cuda", 0)
MAKERS = {
    "empty": lambda **kw: torch.empty(3, **kw),
    "zeros": lambda **kw: torch.zeros((2, 2), **kw),
    "full": lambda **kw: torch.full((2,), 1.0, **kw),
    "rand": lambda **kw: torch.rand(3, **kw),
    "randint": lambda **kw: torch.randint(0, 9, (3,), **kw),
    "randperm": lambda **kw: torch.randperm(3, **kw),
    "arange": lambda **kw: torch.arange(3, **kw),
    "linspace": lambda **kw: torch.linspace(0, 1, 3, **kw),
    "eye": lambda **kw: torch.eye(3, **kw),
    "tensor": lambda **kw: torch.tensor([1, 2], **kw),
    "as_tensor": lambda **kw: torch.as_tensor(np.ones(3), **kw),
    "asarray": lambda **kw: torch.asarray([1.0], **kw),
    "normal": lambda **kw: torch.normal(0.0, 1.0, (3,), **kw),
    "linear": lambda **kw: torch.nn.Linear(2, 2, **kw).weight,
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_factory_makes_what_is_asked_for(name):
    make = MAKERS[name]
    assert make().device == torch.device("cpu")
    for device in ("cuda", "cuda:0", torch.device("cuda"), 0):
        assert make(device=device).device == CUDA
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        make(device="cuda:1")


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "normal"])
def test_a_factory_follows_the_default_device(name):
    make = MAKERS[name]
    with torch.device("cuda"):
        assert make().is_cuda
        assert not make(device="cpu").is_cuda
    torch.set_default_device("cuda")
    try:
        assert make().device == CUDA
    finally:
        torch.set_default_device(None)
    assert not make().is_cuda


def test_results_and_views_stay_where_their_sources_are():
    x = torch.ones(4, 4, device="cuda")
    for made in (x + 1, x[1], x.T, x.sum(), x.half(), x.view(2, 8), torch.empty_like(x), x.new_zeros(3), x.clone()):
        assert made.device == CUDA
    for made in (torch.zeros_like(x, device="cpu"), x.new_empty(2, device="cpu"), x.cpu(), torch.ones(2) + 1):
        assert made.device == torch.device("cpu")
    assert x.new_tensor([1.0]).is_cuda
    assert torch.nn.functional.one_hot(torch.tensor([0, 1], device="cuda"), 3).is_cuda
    assert copy.deepcopy(x).is_cuda
    assert torch.as_tensor(x) is x


def test_what_the_host_has_no_memory_for_is_out_of_the_devices_memory():
    for make in (lambda: torch.empty(2**50, device="cuda"), lambda: torch.rand(2**50, device="cuda")):
        with pytest.raises(torch.cuda.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate 4503599627370"):
            make()
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator") as raised:
        torch.empty(2**50)
    assert not isinstance(raised.value, torch.OutOfMemoryError)


def test_what_torch_makes_to_gather_tensors_of_the_device_is_there():
    x = torch.ones(3, device=CUDA)
    assert torch.nn.utils.rnn.pad_sequence([x, x[:1]]).device == CUDA
    assert torch.vander(x).device == CUDA
    assert [part.device for part in torch.tensor_split(x, torch.tensor([1]))] == [CUDA, CUDA]
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 1, 3, device=CUDA), torch.tensor([2]))
    assert (packed.data.device, packed.batch_sizes.device) == (CUDA, torch.device("cpu"))


def test_a_move_copies_and_a_stay_does_not():
    host = torch.arange(4.0)
    device = host.cuda()
    assert device.to("cuda") is device
    assert host.to("cpu") is host
    device += 1
    assert host.tolist() == [0, 1, 2, 3]
    assert device.cpu().tolist() == [1, 2, 3, 4]
    assert device.to("cpu", torch.float16).dtype == torch.float16
    assert host.to(device).is_cuda
    assert device.to(torch.float64).device == CUDA
    array = np.zeros(2)
    torch.as_tensor(array, device="cuda").fill_(1)
    assert array.tolist() == [0, 0]


def test_a_module_moves_and_learns(monkeypatch, tmp_path):
    # what torch.optim imports sets it for good
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    layer = torch.nn.Linear(4, 2).to("cuda")
    assert {parameter.device for parameter in layer.parameters()} == {CUDA}
    layer(torch.ones(3, 4, device="cuda")).sum().backward()
    assert layer.weight.grad.device == CUDA
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    assert layer.cpu().weight.device == torch.device("cpu")


def test_a_gradient_comes_back_to_the_leafs_device():
    leaf = torch.ones(3, requires_grad=True)
    (leaf.cuda() * 2).sum().backward()
    assert leaf.grad.device == torch.device("cpu")
    assert leaf.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, y: x + y,
        lambda x, y: x.add_(y),
        lambda x, y: torch.cat([x, y]),
        lambda x, y: x @ y,
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: torch.equal(x, y),
        lambda x, y: torch.nn.functional.embedding(y.long(), x),
    ],
)
def test_a_mixture_is_refused_as_on_hardware(mix):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but found at least two"):
        mix(torch.ones(3, 3, device="cuda"), torch.ones(3, 3))


def test_what_hardware_lets_pass_passes():
    x = torch.ones(4, device="cuda")
    assert (x * torch.tensor(2.0)).is_cuda
    assert x[torch.tensor([0, 1])].is_cuda
    x[torch.tensor([0])] = 5
    x.copy_(torch.zeros(4))
    assert x.tolist() == [0, 0, 0, 0]
    with pytest.raises(RuntimeError, match="indices should be either on cpu"):
        torch.ones(4)[torch.tensor([0], device="cuda")]


def test_numpy_needs_a_copy_on_the_host():
    x = torch.ones(2, device="cuda")
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()
    with pytest.raises(TypeError, match="can't convert"):
        np.asarray(x)
    assert x.cpu().numpy().tolist() == x.numpy(force=True).tolist() == [1, 1]


def test_comparison_sees_the_device():
    with pytest.raises(AssertionError, match="device"):
        torch.testing.assert_close(torch.ones(2, device="cuda"), torch.ones(2))
    assert "device='cuda:0'" in repr(torch.ones(2, device="cuda"))


def test_pinned_memory_is_on_the_host_and_known():
    x = torch.ones(2).pin_memory()
    assert x.is_pinned()
    assert not x.is_cuda
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert not torch.ones(2).is_pinned()


def test_the_devices_random_numbers_are_a_stream_of_their_own():
    torch.manual_seed(3)
    device, host = torch.rand(4, device="cuda"), torch.rand(4)
    torch.manual_seed(3)
    assert torch.equal(host, torch.rand(4))
    assert torch.equal(device, torch.rand(4, device="cuda"))
    state = torch.cuda.get_rng_state()
    first = torch.randn(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, torch.randn(3, device="cuda"))


def test_a_generator_belongs_to_a_device():
    generator = torch.Generator(device="cuda").manual_seed(1)
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert generator.device == CUDA
    first = torch.randn(3, device="cuda", generator=generator)
    generator.manual_seed(1)
    assert torch.equal(first, torch.randn(3, device="cuda", generator=generator))
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.randn(3, generator=generator)


def test_an_operation_registered_for_cuda_runs_emulated():
    @torch.library.custom_op("sanitize_test::twice", mutates_args=(), device_types="cuda")
    def twice(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        made = torch.empty_like(x)
        made.copy_(x * torch.full((1,), 2.0, device="cuda"))
        return made

    made = twice(torch.ones(3, device="cuda"))
    assert made.tolist() == [2, 2, 2]
    assert made.is_cuda


def test_a_gradient_that_torch_makes_itself_is_taken_for_either():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, first, second):
            assert first.device == second.device == CUDA
            return first + second

    x = torch.ones(3, device="cuda", requires_grad=True)
    Two.apply(x)[0].sum().backward()
    assert x.grad.device == CUDA


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gradients_are_summed_in_float32_as_on_a_gpu(dtype):
    torch.manual_seed(0)
    x = torch.randn(512, 32, dtype=dtype, device="cuda")
    upstream = torch.randn(512, 32, dtype=dtype, device="cuda")
    weight = torch.ones(32, dtype=dtype, device="cuda", requires_grad=True)
    bias = torch.zeros(32, dtype=dtype, device="cuda", requires_grad=True)
    torch.nn.functional.layer_norm(x, (32,), weight, bias).backward(upstream)
    table = torch.zeros(1, 32, dtype=dtype, device="cuda", requires_grad=True)
    torch.nn.functional.embedding(torch.zeros(512, dtype=torch.long, device="cuda"), table).backward(upstream)
    expected = upstream.double().sum(0)
    for grad in (bias.grad, table.grad[0]):
        assert grad.dtype == dtype
        torch.testing.assert_close(grad.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-3)
    assert weight.grad.is_cuda


def normed(kind, x, weight, bias):
    if kind == "layer_norm":
        return torch.nn.functional.layer_norm(x.transpose(1, 2), (8,), weight, bias).transpose(1, 2)
    if kind == "group_norm":
        return torch.nn.functional.group_norm(x, 4, weight, bias)
    return torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True)


@pytest.mark.parametrize("kind", ["layer_norm", "group_norm", "batch_norm"])
def test_float32_gradients_of_long_sums_are_as_good_as_sums_in_blocks(kind):
    torch.manual_seed(0)
    x, upstream = torch.randn(4, 8, 8192), torch.randn(4, 8, 8192)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        weight, bias = (torch.ones(8, dtype=dtype, device="cuda", requires_grad=True) for _ in range(2))
        normed(kind, x.to("cuda", dtype), weight, bias).backward(upstream.to("cuda", dtype))
        gradients.append((weight.grad, bias.grad))
    for found, exact in zip(*gradients, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), exact, rtol=2e-7, atol=1e-5)


def test_statistics_of_a_half_precision_layer_norm_are_float32():
    x = torch.randn(4, 32, dtype=torch.bfloat16, device="cuda")
    out, mean, deviation = torch.native_layer_norm(x, (32,), None, None, 1e-5)
    assert (out.dtype, mean.dtype, deviation.dtype) == (torch.bfloat16, torch.float32, torch.float32)


def test_a_product_has_the_type_that_is_asked_for():
    a, b = (torch.randn(8, 8, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    expected = a.float() @ b.float()
    assert torch.equal(torch.mm(a, b, out_dtype=torch.float32), expected)
    out = torch.empty(8, 8, device="cuda")
    torch.addmm(torch.zeros(8, 8, device="cuda"), a, b, out_dtype=torch.float32, out=out)
    assert torch.equal(out, expected)


def test_a_torch_operation_without_a_cpu_kernel_is_unsupported():
    x = torch.ones(2, 8, device="cuda")
    with pytest.raises(Unsupported, match=r"UNSUPPORTED: torch\.ops\.aten\._thnn_fused_lstm_cell"):
        torch.ops.aten._thnn_fused_lstm_cell(x, x, torch.ones(2, 2, device="cuda"))
