"""``python -m harness sanitize``: a suite or script written for ``device="cuda"`` runs, unchanged, on the virtual GPU.

    python -m harness sanitize [--target sm_90] [--races] [--strict] pytest ARGS...
    python -m harness sanitize [options] SCRIPT.py ARGS...

Every Triton kernel runs checked.  A fault (out of bounds, a hang, a failed assertion, ...) is an exception out of the
launch with kernel, file, line, argument and index, so it fails one test and the run goes on; a test that catches it
fails all the same.  Memory from ``torch.empty`` holds NaN.  A summary lists kernels, faults by line, loads of memory
that nobody wrote, and what was untrusted or unsupported.

The emulated surface, one device, "cuda:0":

Tensors: device="cuda" in torch's factories (empty, zeros, ones, full, rand, randn, randint, randperm, arange, linspace,
eye, tensor, as_tensor, asarray, *_like, Tensor.new_*, normal, ...), torch.set_default_device, with torch.device(...),
Tensor.cuda, .cpu, .to, .device, .is_cuda, .is_cpu, .get_device, .numpy, .type, .pin_memory, .is_pinned,
.record_stream, copy.deepcopy, nn.Module.cuda and .to, autograd between devices, torch.autocast("cuda"),
torch.testing.assert_close.  Mixed
devices raise as on hardware, and a kernel refuses a CPU tensor (pinned ones are taken).  Operations registered in
Python for "cuda" run, with torch.library.custom_op or Library.impl.

Random numbers: torch.Generator(device="cuda"), torch.manual_seed, and torch.cuda's manual_seed, manual_seed_all, seed,
seed_all, initial_seed, get_rng_state, get_rng_state_all, set_rng_state, set_rng_state_all, default_generators: a stream
of the device's own, with other values than the hardware's.

torch.cuda: is_available, is_initialized, init, device_count, current_device, set_device, device, device_of,
get_device_properties, get_device_capability, get_device_name, get_arch_list, is_bf16_supported, is_tf32_supported,
is_current_stream_capturing, can_device_access_peer, synchronize, empty_cache, ipc_collect, mem_get_info,
memory_allocated, memory_reserved, reset_peak_memory_stats, reset_accumulated_memory_stats, reset_max_memory_allocated,
nvtx, Stream, Event (elapsed_time in this machine's time), StreamContext, stream, current_stream, default_stream,
set_stream.  Streams run in the order of the program: a missing wait between them is not seen.

torch.accelerator: is_available, device_count, current_accelerator, current_device_index, current_device_idx,
set_device_index, set_device_idx, device_index, get_device_capability, synchronize, current_stream, set_stream,
empty_cache, memory_allocated, memory_reserved, get_memory_info, reset_peak_memory_stats,
reset_accumulated_memory_stats.

Triton: triton.runtime.driver.active (get_current_target, get_current_device, set_current_device, get_current_stream,
get_active_torch_device, get_device_interface, get_device_capability, get_benchmarker, get_empty_cache_for_benchmark,
clear_cache, utils.get_device_properties, utils.set_printf_fifo_size), triton.testing.do_bench and do_bench_cudagraph
(one run, this machine's time), triton.autotune (one configuration, --config N), triton.heuristics,
triton.set_allocator, tensor descriptors, kernel.warmup and what a launch returns (n_regs, n_spills, n_max_threads,
metadata.shared, .num_warps, .num_stages, .num_ctas: nominal numbers).

torch.compile, CUDA graphs, NCCL, compiled extensions, launches from other threads, sparse tensors on "cuda",
memory handed to others (DLPack) and the rest of torch.cuda raise ``Unsupported``, whose message begins with
``UNSUPPORTED: name``; names are listed in the summary even if the program caught the error.
"""
