"""Accesses outside of an argument's view are faults that name line, argument, program and element."""

import pickle
import re
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import KernelFault, Misaligned, OutOfBounds, VirtualGPU, WriteToInput


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, SLACK: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    y = tl.load(y_ptr + offs, mask=offs < n + SLACK, other=0.0)  # line: add y
    tl.store(out_ptr + offs, x + y, mask=offs < n)


@triton.jit
def unmasked_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, 2.0 * tl.load(x_ptr + offs))


@triton.jit
def page_kernel(cache_ptr, table_ptr, out_ptr, num_pages, PAGE: tl.constexpr, CHECK: tl.constexpr):
    pid = tl.program_id(0)
    page = tl.load(table_ptr + pid)
    offs = tl.arange(0, PAGE)
    if CHECK:
        inside = (page >= 0) & (page < num_pages) & (offs < PAGE)
        value = tl.load(cache_ptr + page.to(tl.int64) * PAGE + offs, mask=inside, other=0.0)
    else:
        value = tl.load(cache_ptr + page.to(tl.int64) * PAGE + offs)
    tl.store(out_ptr + pid * PAGE + offs, value)


@triton.jit
def wrapping_page_kernel(cache_ptr, table_ptr, out_ptr, PAGE: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, PAGE)
    tl.store(out_ptr + pid * PAGE + offs, tl.load(cache_ptr + tl.load(table_ptr + pid) * PAGE + offs))


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * stride + offs, mask=offs < width, other=0.0)))


@triton.jit
def scale_kernel(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, out_ptr, shift, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    m = tl.arange(0, M)[:, None]
    n = tl.arange(0, N)[None, :]
    half = tl.arange(0, K // 2)
    a = tl.load(a_ptr + m * (K // 2) + half[None, :] + shift)
    b = tl.load(b_ptr + half[:, None] * N + n)
    group = tl.arange(0, K // 32)[None, :]
    a_scale = tl.load(a_scale_ptr + m * (K // 32) + group)
    b_scale = tl.load(b_scale_ptr + tl.arange(0, N)[:, None] * (K // 32) + group)
    tl.store(out_ptr + m * N + n, tl.dot_scaled(a, a_scale, "e2m1", b, b_scale, "e2m1"))


@triton.jit
def read_at(x_ptr, offset):
    return tl.load(x_ptr + offset)


@triton.jit
def calling_kernel(x_ptr, out_ptr, offset):
    tl.store(out_ptr, read_at(x_ptr, offset))


@triton.jit
def word_kernel(bytes_ptr, out_ptr, shift):
    words = (bytes_ptr + shift).to(tl.pointer_type(tl.int32))
    tl.store(out_ptr + tl.arange(0, 4), tl.load(words + tl.arange(0, 4)))


@triton.jit
def zero_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))


def line_of(kernel, text):
    source = kernel.fn.__code__
    lines = Path(source.co_filename).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line and i > source.co_firstlineno)


def test_a_mask_one_too_wide_is_caught_at_its_load():
    x, y, out = torch.randn(1000), torch.randn(1000), torch.zeros(1000)
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        add_kernel[(4,)](x, y, out, 1000, SLACK=1, BLOCK=256)
    fault = caught.value
    assert (fault.kernel, fault.argument, fault.program) == ("add_kernel", "y_ptr", (3, 0, 0))
    assert (fault.index, fault.extent, fault.lanes) == ((1000,), (1000,), 1)
    assert fault.file == __file__
    assert fault.line == line_of(add_kernel, "# line: add y")
    line = fault.line
    expected = (
        f"out of bounds load in add_kernel (test_bounds.py:{line}): argument y_ptr, program (3, 0, 0): "
        "element 1000 of 1000 (shape (1000,)); 1 lane"
    )
    assert str(fault) == expected


def test_a_right_mask_raises_no_alarm():
    x, y, out = torch.randn(1000), torch.randn(1000), torch.empty(1000)
    with VirtualGPU() as gpu:
        add_kernel[(4,)](x, y, out, 1000, SLACK=0, BLOCK=256)
    assert torch.equal(out, x + y)
    assert gpu.suspects == []


@pytest.mark.parametrize("batch", [True, False])
def test_a_missing_mask_is_caught_with_its_lanes(batch):
    x, out = torch.randn(1000), torch.empty(1000)
    with VirtualGPU(batch=batch), pytest.raises(OutOfBounds) as caught:
        unmasked_kernel[(4,)](x, out, BLOCK=256)
    assert (caught.value.argument, caught.value.program, caught.value.lanes) == ("x_ptr", (3, 0, 0), 24)


@pytest.mark.parametrize("page", [-1, 8, 1 << 22, 1 << 28, 2**31 - 1])
def test_a_page_id_outside_of_the_pool_is_caught(page):
    cache, out = torch.randn(8, 64), torch.zeros(4, 64)
    table = torch.tensor([3, 0, page, 7], dtype=torch.int32)
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        page_kernel[(4,)](cache, table, out, 8, PAGE=64, CHECK=False)
    fault = caught.value
    assert (fault.argument, fault.program, fault.lanes) == ("cache_ptr", (2, 0, 0), 64)
    assert (fault.index, fault.extent) == ((page, 0), (8, 64))


@pytest.mark.parametrize("page", [-1, 8, 1 << 28])
def test_a_checked_page_id_raises_no_alarm(page):
    cache, out = torch.randn(8, 64), torch.empty(4, 64)
    table = torch.tensor([3, 0, page, 7], dtype=torch.int32)
    with VirtualGPU() as gpu:
        page_kernel[(4,)](cache, table, out, 8, PAGE=64, CHECK=True)
        assert gpu.unwritten(out) is None
    assert torch.equal(out, torch.stack([cache[3], cache[0], torch.zeros(64), cache[7]]))


def test_int32_offsets_wrap_as_on_hardware():
    cache, out = torch.randn(8, 64), torch.zeros(4, 64)
    table = torch.tensor([3, 0, 1 << 28, 7], dtype=torch.int32)
    with VirtualGPU():
        wrapping_page_kernel[(4,)](cache, table, out, PAGE=64)
    assert torch.equal(out[2], cache[0])


def test_the_gap_of_a_strided_view_is_out_of_bounds():
    wide = torch.randn(8, 32)
    x, out = wide[:, :20], torch.zeros(8)
    with VirtualGPU():
        row_sum_kernel[(8,)](x, out, 32, 20, BLOCK=32)
    torch.testing.assert_close(out, x.sum(1))
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        row_sum_kernel[(7,)](x, out, 32, 21, BLOCK=32)
    assert (caught.value.index, caught.value.extent) == ((0, 20), (8, 20))
    assert str(caught.value).endswith(": element (0, 20) of shape (8, 20); 1 lane")


def test_a_load_between_the_elements_of_a_stepped_view_says_so():
    x = torch.randn(8, 60)[:, ::3]
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        row_sum_kernel[(8,)](x, torch.zeros(8), 60, 20, BLOCK=32)
    assert (caught.value.index, caught.value.extent, caught.value.lanes) == ((0, 0), (8, 20), 13)
    between = (
        "element (0, 0) of shape (8, 20); 13 lanes: 4 bytes past it, before the next element: the strides leave a gap"
    )
    assert str(caught.value).endswith(between)


def test_a_packed_fp4_operand_shifted_by_a_byte_is_caught():
    M, N, K = 32, 32, 64
    a = torch.randint(0, 256, (M, K // 2), dtype=torch.uint8)
    b = torch.randint(0, 256, (K // 2, N), dtype=torch.uint8)
    scale = torch.full((32, K // 32), 127, dtype=torch.uint8)
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        scale_kernel[(1,)](a, scale, b, scale, torch.zeros(M, N), 1, M=M, N=N, K=K)
    assert (caught.value.argument, caught.value.index, caught.value.lanes) == ("a_ptr", (32, 0), 1)


def test_a_fault_in_a_device_function_names_its_line_and_the_kernel():
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        calling_kernel[(1,)](torch.zeros(4), torch.zeros(1), 4)
    fault = caught.value
    assert fault.kernel == "calling_kernel"
    assert fault.location.function == "read_at"
    assert re.search(r"in read_at \(test_bounds.py:\d+\), called from calling_kernel", str(fault))


def test_a_misaligned_access_is_caught():
    data = torch.arange(32, dtype=torch.uint8)
    out = torch.zeros(4, dtype=torch.int32)
    with VirtualGPU():
        word_kernel[(1,)](data, out, 4)
    assert torch.equal(out, data[4:20].view(torch.int32))
    with VirtualGPU(), pytest.raises(Misaligned) as caught:
        word_kernel[(1,)](data, out, 2)
    assert (caught.value.argument, caught.value.index, caught.value.lanes) == ("bytes_ptr", (2,), 4)


def test_a_store_to_a_protected_tensor_is_caught_by_name():
    q = torch.ones(16)
    with VirtualGPU(protect={"q": q}), pytest.raises(WriteToInput, match="store to the input q") as caught:
        zero_kernel[(1,)](q, BLOCK=16)
    assert caught.value.argument == "x_ptr"
    assert torch.equal(q, torch.ones(16))


def test_a_store_through_another_view_of_a_protected_tensor_is_caught():
    whole = torch.ones(2, 16)
    with VirtualGPU(protect={"upper": whole[0]}) as _:
        zero_kernel[(1,)](whole[1], BLOCK=16)
        with pytest.raises(WriteToInput, match="part of the input upper"):
            zero_kernel[(1,)](whole, BLOCK=16)
    assert torch.equal(whole, torch.stack([torch.ones(16), torch.zeros(16)]))


def test_an_access_to_an_empty_tensor_is_a_fault_and_a_masked_one_is_not():
    empty, out = torch.zeros(0), torch.zeros(256)
    with VirtualGPU():
        add_kernel[(1,)](empty, out, out, 0, SLACK=0, BLOCK=256)
    with VirtualGPU(), pytest.raises(OutOfBounds):
        unmasked_kernel[(1,)](empty, out, BLOCK=256)


def test_the_process_survives_a_fault_and_later_launches_work():
    x, out = torch.randn(256), torch.zeros(256)
    with VirtualGPU():
        with pytest.raises(KernelFault):
            unmasked_kernel[(2,)](x, out, BLOCK=256)
        unmasked_kernel[(1,)](x, out, BLOCK=256)
    assert torch.equal(out, 2 * x)


def test_a_fault_can_be_sent_to_another_process():
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        unmasked_kernel[(1,)](torch.zeros(4), torch.zeros(8), BLOCK=8)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert (copy.argument, copy.line, copy.index) == ("x_ptr", caught.value.line, (4,))
