"""Pointers that a kernel makes of addresses: which tensors they reach, wherever those were made."""

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import OutOfBounds, VirtualGPU


@triton.jit
def gathered_kernel(addresses, out_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, N)
    source = tl.load(addresses + pid).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + pid * N + offs, tl.load(source + offs))


def gathered(sources, n):
    addresses = torch.tensor([source.data_ptr() for source in sources])
    out = torch.empty(len(sources), n)
    gathered_kernel[(len(sources),)](addresses, out, N=n)
    return out


MADE = {
    "copy": lambda x: x.clone(),
    "cast": lambda x: x.double().float(),
    "copy of part": lambda x: x[:8].contiguous(),
    "copy into new memory": lambda x: torch.empty(16).copy_(x),
    "sum": lambda x: x + 1,
    "view": lambda x: (x * 2)[4:12],
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_every_tensor_made_in_a_session_is_reached(make):
    before = torch.arange(16.0)
    with VirtualGPU() as gpu:
        # looks for what was there before, once
        gathered([before], 8)
        sources = [make(torch.arange(16.0)), torch.arange(16.0)]
        out = gathered(sources, 8)
    assert gpu.suspects == []
    assert torch.equal(out, torch.stack([source[:8] for source in sources]))


def test_tensors_made_before_the_session_are_reached():
    sources = [torch.arange(16.0), torch.arange(16.0) + 100]
    with VirtualGPU():
        out = gathered(sources, 16)
    assert torch.equal(out, torch.stack(sources))


def test_an_address_past_a_tensor_is_out_of_bounds_of_its_storage():
    source = torch.arange(16.0)
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        gathered([source], 32)
    assert caught.value.argument == "<by address>"
    assert caught.value.line == gathered_kernel.fn.__code__.co_firstlineno + 5


def test_an_address_of_nothing_belongs_to_no_tensor():
    with VirtualGPU(), pytest.raises(OutOfBounds, match="address 0x40 belongs to no tensor"):
        gathered_kernel[(1,)](torch.tensor([64]), torch.empty(16), N=16)
