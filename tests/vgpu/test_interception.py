"""Launches inside of the context run on the virtual GPU; afterwards Triton is as it was."""

import sys
import threading

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from harness.vgpu import VirtualGPU, triton_adapter


@triton.jit
def fill_kernel(out_ptr, value, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, value, mask=offs < n)


configs = [triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((16, 1), (32, 2), (64, 4))]


@triton.autotune(configs=configs, key=["n"])
@triton.jit
def tuned_kernel(out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, BLOCK, mask=offs < n)


def _keep_small(configs, named_args, **kwargs):
    return [c for c in configs if c.kwargs["BLOCK"] <= named_args["n"]]


@triton.autotune(configs=configs, key=["n"], prune_configs_by={"early_config_prune": _keep_small})
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def pruned_kernel(out_ptr, even_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, BLOCK, mask=offs < n)
    tl.store(even_ptr, EVEN)


def _mark(args):
    args["seen_ptr"].fill_(5)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 16}, pre_hook=_mark), triton.Config({"BLOCK": 32}, pre_hook=_mark)],
    key=["n"],
    reset_to_zero=["sum_ptr"],
)
@triton.jit
def hooked_kernel(sum_ptr, seen_ptr, n, BLOCK: tl.constexpr):
    tl.atomic_add(sum_ptr, 1.0)


@triton.autotune(
    configs=configs,
    key=["n"],
    prune_configs_by={"perf_model": lambda BLOCK, **rest: -BLOCK, "top_k": 2},
)
@triton.jit
def modelled_kernel(out_ptr, n, BLOCK: tl.constexpr):
    tl.store(out_ptr, BLOCK)


def test_a_launch_is_recorded():
    out = torch.zeros(100)
    with VirtualGPU() as gpu:
        fill_kernel[(2,)](out, 3.0, 100, BLOCK=64, num_warps=8, num_stages=3)
    (launch,) = gpu.launches
    assert (launch.kernel, launch.grid, launch.programs) == ("fill_kernel", (2, 1, 1), 2)
    assert (launch.config, launch.configs) == (0, 1)
    assert launch.seconds > 0
    assert out.eq(3).all()


def test_a_grid_function_sees_arguments_by_name():
    out = torch.zeros(100)
    with VirtualGPU() as gpu:
        fill_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](out, 1.0, n=100, BLOCK=16)
    assert gpu.launches[0].grid == (7, 1, 1)
    assert out.eq(1).all()


def test_an_empty_grid_launches_nothing():
    out = torch.zeros(4)
    with VirtualGPU() as gpu:
        fill_kernel[(0,)](out, 1.0, 4, BLOCK=4)
    assert gpu.launches[0].programs == 0
    assert out.eq(0).all()


def test_a_grid_that_the_hardware_refuses_is_refused():
    with VirtualGPU(), pytest.raises(ValueError, match="grid \\(1, 65536, 1\\) is beyond"):
        fill_kernel[(1, 65536)](torch.zeros(4), 1.0, 4, BLOCK=4)


def test_unknown_and_missing_arguments_are_refused():
    out = torch.zeros(4)
    with VirtualGPU():
        with pytest.raises(KeyError, match="BLOK"):
            fill_kernel[(1,)](out, 1.0, 4, BLOCK=4, BLOK=4)
        with pytest.raises(TypeError, match="'n'"):
            fill_kernel[(1,)](out, 1.0, BLOCK=4)
        with pytest.raises(TypeError, match="argument value: a kernel cannot take dict"):
            fill_kernel[(1,)](out, {}, 4, BLOCK=4)


def test_every_configuration_can_be_chosen():
    seen = []
    for config in range(4):
        out = torch.zeros(50, dtype=torch.int32)
        with VirtualGPU(config=config) as gpu:
            tuned_kernel[lambda meta: (triton.cdiv(50, meta["BLOCK"]),)](out, 50)
        assert (gpu.configs, gpu.launches[0].config, gpu.launches[0].configs) == (3, config % 3, 3)
        assert out.unique().numel() == 1
        seen.append(out[0].item())
    assert seen == [16, 32, 64, 16]
    assert tuned_kernel.cache == {}


def test_pruning_and_heuristics_are_respected():
    seen = []
    for config in range(3):
        out, even = torch.zeros(48, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        with VirtualGPU(config=config) as gpu:
            pruned_kernel[(3,)](out, even, 48)
        assert gpu.configs == 2
        seen.append((out[0].item(), even.item()))
    assert seen == [(16, 1), (32, 0), (16, 1)]


def test_a_performance_model_keeps_its_best_configurations():
    seen = []
    for config in range(2):
        out = torch.zeros(1, dtype=torch.int32)
        with VirtualGPU(config=config) as gpu:
            modelled_kernel[(1,)](out, 64)
        assert gpu.configs == 2
        seen.append(out.item())
    assert seen == [64, 32]


def test_hooks_and_resets_run_without_a_driver():
    total, seen = torch.full((1,), 7.0), torch.zeros(1)
    with VirtualGPU(config=1):
        hooked_kernel[(4,)](total, seen, 64)
        assert (total.item(), seen.item()) == (4.0, 5.0)
        hooked_kernel[(4,)](total, seen, 64)
        assert total.item() == 8.0


def test_a_constant_given_twice_is_refused():
    with VirtualGPU(), pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        tuned_kernel[(1,)](torch.zeros(4, dtype=torch.int32), 4, BLOCK=16)


def test_triton_is_restored_even_after_an_exception():
    before = JITFunction.run, Autotuner.run
    inside = []

    def launch():
        with VirtualGPU():
            inside.append(JITFunction.run)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        launch()
    assert inside != [before[0]]
    with pytest.raises(ValueError, match="no target profile"):
        VirtualGPU(profile="sm_1")
    assert (JITFunction.run, Autotuner.run) == before


def test_a_second_virtual_gpu_in_the_same_thread_is_refused():
    out = torch.zeros(4)
    with VirtualGPU():
        with pytest.raises(RuntimeError, match="already active in this thread"), VirtualGPU():
            pass
        fill_kernel[(1,)](out, 1.0, 4, BLOCK=4)
    assert out.eq(1).all()


def test_threads_have_virtual_gpus_of_their_own():
    outs = [torch.zeros(64) for _ in range(3)]
    sessions = []
    barrier = threading.Barrier(3)

    def work(number):
        with VirtualGPU() as gpu:
            barrier.wait(30)
            for _ in range(5):
                fill_kernel[(4,)](outs[number], float(number), 64, BLOCK=16)
            barrier.wait(30)
            sessions.append(gpu)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    before = JITFunction.run
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert JITFunction.run is before
    assert [len(gpu.launches) for gpu in sessions] == [5, 5, 5]
    assert [out.unique().tolist() for out in outs] == [[0.0], [1.0], [2.0]]


def test_an_unsupported_triton_is_named_when_the_context_is_entered(monkeypatch):
    monkeypatch.setattr(triton, "__version__", "3.5.0")
    triton_adapter.adapter.cache_clear()
    gpu = VirtualGPU()
    try:
        with pytest.raises(RuntimeError, match=r"the virtual GPU needs Triton 3\.6.3\.9, found 3\.5\.0"), gpu:
            pass
    finally:
        triton_adapter.adapter.cache_clear()


def test_functions_decorated_for_tritons_own_interpreter_run_too(monkeypatch):
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    interpreted = interpreter.InterpretedFunction(fill_kernel.fn)
    out = torch.zeros(10)
    before = interpreter.InterpretedFunction.run
    with VirtualGPU() as gpu:
        interpreted[(1,)](out, 2.0, 10, BLOCK=16)
    assert gpu.launches[0].kernel == "fill_kernel"
    assert out.eq(2).all()
    assert interpreter.InterpretedFunction.run is before
    assert "triton.runtime.interpreter" in sys.modules
