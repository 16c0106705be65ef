"""Branches and loops run under masks: what each program computes is, bit for bit, what it computes alone."""

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import AssertionFailed, OutOfBounds, VirtualGPU, execution

P = 37


@triton.jit
def nested_kernel(x_ptr, n_ptr, out_ptr, count_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    n = tl.load(n_ptr + pid)
    x = tl.load(x_ptr + pid * BLOCK + offs)
    acc = tl.zeros((BLOCK,), tl.float32)
    steps = 0
    for k in range(n):
        if k % 3 == 0:
            acc += x * k
        elif k % 3 == 1 and n > 4:
            extra = tl.exp(x * 0.1)
            acc -= extra
            if k > n // 2:
                acc *= 0.5
            else:
                steps += 10
        steps += 1
    tl.store(out_ptr + pid * BLOCK + offs, acc + steps)
    if steps > 5:
        tl.store(count_ptr + pid, steps)
        tl.atomic_add(count_ptr + tl.num_programs(0), steps)


@triton.jit
def pages_kernel(x_ptr, table_ptr, scale_ptr, out_ptr, K: tl.constexpr, H: tl.constexpr):
    pid = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    offs = tl.arange(0, H)
    best = -1.0
    row_ptr = scale_ptr
    for k in range(K):
        page = tl.load(table_ptr + pid * K + k)
        if page >= 0:
            scale = tl.load(scale_ptr + offs)
            got = tl.sum(tl.load(x_ptr + page * H + offs) * scale)
            if got > best:
                best = got
                row_ptr = x_ptr + page * H
    tl.store(out_ptr + pid * (H + 1) + offs, tl.load(row_ptr + offs))
    tl.store(out_ptr + pid * (H + 1) + H, best)


@triton.jit
def newton_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid)
    root = x
    tries = 0
    while tl.abs(root * root - x) > 1e-5 * x:
        root = 0.5 * (root + x / root)
        tries += 1
    block = tl.full((BLOCK,), 0, tl.int32)
    while tl.sum(block) < tries * BLOCK:
        block += 1
    tl.store(out_ptr + pid * 2, root)
    tl.store(out_ptr + pid * 2 + 1, tl.max(block).to(tl.float32))


@triton.jit
def search(x_ptr, n, wanted):
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if tl.load(x_ptr + middle) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@triton.jit
def search_kernel(x_ptr, wanted_ptr, out_ptr, n):
    pid = tl.program_id(0)
    wanted = tl.load(wanted_ptr + pid)
    found = -1
    if wanted > 20:
        found = search(x_ptr, n, wanted)
    tl.store(out_ptr + pid, found if found < n else -2)


@triton.jit
def leaving_kernel(n_ptr, out_ptr, most):
    pid = tl.program_id(0)
    n = tl.load(n_ptr + pid)
    total = 0
    for k in range(most):
        if k == n:
            break
        if k % 2 == 1:
            continue
        total += k
    if n == 3:
        tl.store(out_ptr + pid, -total)
        return
    last = -1
    for k in range(2, n * 2, 2):
        last = k
    tl.store(out_ptr + pid, total * 100 + last)


@triton.jit
def untyped_kernel(n_ptr, out_ptr):
    pid = tl.program_id(0)
    n = tl.load(n_ptr + pid)
    value = n
    if n % 2 == 0:
        value = n * 0.5
    tl.store(out_ptr + pid, value)


@triton.jit
def guarded_kernel(x_ptr, n_ptr, out_ptr, limit):
    pid = tl.program_id(0)
    n = tl.load(n_ptr + pid)
    if n < limit:
        tl.device_assert(n >= 0)
        tl.store(out_ptr, 5)
        tl.store(out_ptr + 1 + n, tl.load(x_ptr + n))


def numbers():
    """Return P numbers from 0 to 12, all of them among these."""
    torch.manual_seed(3)
    return torch.cat([torch.arange(13), torch.randint(0, 13, (P - 13,))])[torch.randperm(P)].int()


def nested():
    x, out = torch.randn(P, 16), torch.zeros(P, 16)
    count = torch.zeros(P + 1, dtype=torch.int32)
    nested_kernel[(P,)](x, numbers(), out, count, BLOCK=16)
    assert count[P] == count[:P].sum()
    return out, count


def pages():
    x, scale, out = torch.randn(9, 32), torch.rand(32), torch.zeros(P, 33)
    table = torch.randint(-6, 9, (P, 7), dtype=torch.int32)
    pages_kernel[(1, P)](x, table, scale, out, K=7, H=32)
    return (out,)


def newton():
    x, out = torch.rand(P) * 1000 + 0.001, torch.zeros(P, 2)
    newton_kernel[(P,)](x, out, BLOCK=8)
    torch.testing.assert_close(out[:, 0], x.sqrt(), rtol=1e-4, atol=0)
    return (out,)


def searches():
    x = torch.arange(0, 200, 3, dtype=torch.int32)
    wanted = torch.randint(0, 230, (P,), dtype=torch.int32)
    out = torch.zeros(P, dtype=torch.int32)
    search_kernel[(P,)](x, wanted, out, len(x))
    found = torch.searchsorted(x, wanted).int()
    assert torch.equal(out, torch.where(wanted <= 20, -1, torch.where(found < len(x), found, -2)).int())
    return (out,)


def leaving():
    out = torch.zeros(P, dtype=torch.int32)
    leaving_kernel[(P,)](numbers(), out, 20)
    for n, got in zip(numbers().tolist(), out.tolist(), strict=True):
        total = sum(range(0, n, 2))
        assert got == (-total if n == 3 else total * 100 + (2 * n - 2 if n > 1 else -1))
    return (out,)


def untyped():
    out = torch.zeros(P)
    untyped_kernel[(P,)](numbers(), out)
    assert torch.equal(out, torch.where(numbers() % 2 == 0, numbers() / 2, numbers()))
    return (out,)


ALL = [nested, pages, newton, searches, leaving, untyped]


def results(run, **options):
    """Return what a run leaves, from the same inputs every time."""
    torch.manual_seed(5)
    with VirtualGPU(**options) as gpu:
        return run(), gpu


@pytest.mark.parametrize("run", ALL)
@pytest.mark.parametrize("costly", [0, 1 << 60], ids=["splits", "masks"])
def test_programs_under_a_mask_compute_what_they_compute_alone(run, costly, monkeypatch):
    monkeypatch.setattr(execution, "_COSTLY", costly)
    together, _ = results(run)
    alone, _ = results(run, batch=False)
    for a, b in zip(together, alone, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("run", ALL)
def test_programs_under_a_mask_do_not_race(run):
    results(run, races=True)


@pytest.mark.parametrize("run", [nested, pages, newton, searches])
def test_disagreement_that_masks_can_carry_splits_nothing(run, monkeypatch):
    monkeypatch.setattr(execution, "_COSTLY", 1 << 60)
    rolled = []
    monkeypatch.setattr(execution.Execution, "roll_back", lambda self: rolled.append(self))
    monkeypatch.setattr("harness.vgpu.launch._FIRST_BATCH", P)
    results(run)
    assert not rolled


def test_programs_that_do_not_run_raise_no_alarm():
    n = torch.tensor([0, 5, 100, -7000, 2, 99999], dtype=torch.int32).clamp(min=0)
    n[3] = 7
    x, out = torch.arange(8.0), torch.zeros(9)
    with VirtualGPU(unwritten_reads="fault"):
        guarded_kernel[(6,)](x, n, out, 8)
    assert out.tolist() == [5.0, 0, 0, 2, 0, 0, 5, 0, 7]


def test_a_fault_under_a_mask_names_a_program_that_runs():
    n = torch.tensor([100, 100, 3, 9, 100], dtype=torch.int32)
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        guarded_kernel[(5,)](torch.arange(8.0), n, torch.zeros(20), 10)
    assert (caught.value.program, caught.value.index, caught.value.lanes) == ((3, 0, 0), (9,), 1)
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        guarded_kernel[(5,)](torch.arange(8.0), n, torch.zeros(0), 10)
    assert (caught.value.program, caught.value.argument) == ((2, 0, 0), "out_ptr")
    n[3] = -1
    with VirtualGPU(), pytest.raises(AssertionFailed) as caught:
        guarded_kernel[(5,)](torch.arange(8.0), n, torch.zeros(20), 10)
    assert caught.value.program == (3, 0, 0)


def test_elements_stored_under_a_mask_count_as_written():
    with VirtualGPU() as gpu:
        out = torch.empty(9)
        guarded_kernel[(3,)](torch.arange(8.0), torch.tensor([1, 90, 2], dtype=torch.int32), out, 8)
        missing = gpu.unwritten(out)
    assert (missing.count, missing.first_index) == (6, (1,))
