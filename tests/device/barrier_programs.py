"""Programs about the grid barrier on a real device, each for a process of its own: NAME in, one line of JSON out.

Every wait in them ends by itself, so a program that finds a fault says so instead of hanging.
"""

import json
import sys
import threading
import time
from contextlib import contextmanager

import torch
import triton
import triton.language as tl

from harness.launch import Resources, barrier_safe_grid, context_units
from harness.launch.current import current_target
from harness.launch.grid_barrier import (
    MAX_POLLS,
    GridBarrierTimeout,
    barrier_launch,
    check_grid_barriers,
    grid_barrier,
    grid_leave,
)
from harness.launch.sm_budget import available_sms, sm_budget

DEVICE = torch.device("cuda", torch.cuda.current_device())
#: Warps of a block that leave room for one more of its kind in an SM, and lanes so that each thread has one.
WARPS, LANES = 32, 1024
#: Looks before a block gives up where it must: some tenths of a second.
FEW_POLLS = 160_000
HELD = 2
_TILE = tl.constexpr(32_768)


@triton.jit
def publish(x_ptr, passed_ptr, wrong_ptr, words_ptr, launch, max_polls, LANES: tl.constexpr):
    """Store a row that no launch before stored, meet, read the next block's row and count what is wrong in it."""
    block, blocks = tl.program_id(0), tl.num_programs(0)
    lanes = tl.arange(0, LANES)
    tl.store(x_ptr + block * LANES + lanes, lanes + block + launch)
    passed = grid_barrier(words_ptr, 1, max_polls)
    if passed:
        ahead = (block + 1) % blocks
        got = tl.load(x_ptr + ahead * LANES + lanes)
        wrong = tl.sum((got != lanes + ahead + launch).to(tl.int32), 0)
        tl.atomic_add(wrong_ptr, wrong, mask=wrong > 0, sem="relaxed")
    tl.store(passed_ptr + block, passed.to(tl.int32))
    grid_leave(words_ptr)


@triton.jit(do_not_specialize=["launch", "max_polls"])
def publish_kernel(x_ptr, passed_ptr, wrong_ptr, words_ptr, launch, max_polls, LANES: tl.constexpr):
    """``publish``."""
    publish(x_ptr, passed_ptr, wrong_ptr, words_ptr, launch, max_polls, LANES)


@triton.jit
def hold_kernel(tile_ptr, state_ptr, sm_ptr, max_polls):
    """Hold an SM until ``state[1]`` is set: 48 values a thread stay in registers, so that no warp has room."""
    values = tl.load(tile_ptr + tl.arange(0, _TILE))
    more = tl.load(tile_ptr + tl.arange(0, _TILE // 2) * 2)
    where = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(sm_ptr + tl.program_id(0), where)
    tl.atomic_add(state_ptr, 1, sem="release", scope="gpu")
    polls = 0
    while (tl.atomic_add(state_ptr + 1, 0, sem="acquire", scope="gpu") == 0) & (polls < max_polls):
        polls += 1
    tl.store(tile_ptr + tl.arange(0, _TILE), values + 1)
    tl.store(tile_ptr + tl.arange(0, _TILE // 2) * 2, more + 1)


class Publisher:
    """Launches of ``publish_kernel`` on buffers that are made once, so that nothing is allocated while SMs are held."""

    def __init__(self, warps=WARPS, most=2048):
        self.x = torch.zeros(most, LANES, dtype=torch.int32, device=DEVICE)
        self.passed = torch.zeros(most, dtype=torch.int32, device=DEVICE)
        self.wrong = torch.zeros(1, dtype=torch.int32, device=DEVICE)
        self.no_report = torch.zeros(5, dtype=torch.int32, device=DEVICE)
        self.warps = warps
        self.count = 0
        with barrier_launch(DEVICE, kernel="publish", reserve=0) as launch:
            compiled = self.enqueue(1, launch.words)
        torch.cuda.synchronize()
        compiled._init_handles()
        self.resources = Resources(num_warps=warps, registers=compiled.n_regs, shared_dynamic=compiled.metadata.shared)

    def enqueue(self, blocks, words, max_polls=MAX_POLLS):
        self.count += 1
        return publish_kernel[(blocks,)](
            self.x, self.passed, self.wrong, words, self.count, max_polls, LANES=LANES, num_warps=self.warps
        )

    def bound(self, num_sms):
        """The most blocks that wait for each other safely on ``num_sms``."""
        return barrier_safe_grid(10**6, self.resources, current_target(DEVICE), num_sms=num_sms).bound

    def outcome(self, blocks, *, reserve=0, max_polls=FEW_POLLS):
        """Launch, wait for the stream alone, and return what happened."""
        begin = time.monotonic()
        with barrier_launch(DEVICE, kernel="publish", reserve=reserve) as launch:
            self.enqueue(blocks, launch.words, max_polls)
        torch.cuda.current_stream().synchronize()
        seconds = time.monotonic() - begin
        words = launch.words.cpu().tolist()
        launch.words[2:7].copy_(self.no_report)
        return {
            "blocks": blocks,
            "passed": int(self.passed[:blocks].cpu().sum()),
            "wrong": int(self.wrong.cpu()),
            "clean": words[:2] == [0, 0],
            "report": words[2:7],
            "seconds": round(seconds, 4),
        }


def resident():
    """The widest grid that is resident passes, one block more times out, and what follows is good again."""
    publisher = Publisher()
    bound = publisher.bound(available_sms(DEVICE))
    runs = [publisher.outcome(blocks) for blocks in (bound, bound + 1, bound, bound + 8, bound)]
    with barrier_launch(DEVICE, kernel="publish", reserve=0) as launch:
        publisher.enqueue(bound + 1, launch.words, FEW_POLLS)
    try:
        check_grid_barriers(DEVICE)
        message = None
    except GridBarrierTimeout as timeout:
        message = str(timeout)
    check_grid_barriers(DEVICE)
    return {
        "sms": available_sms(DEVICE),
        "registers": publisher.resources.registers,
        "bound": bound,
        "runs": runs,
        "message": message,
        "microseconds_a_look": round(runs[1]["seconds"] / FEW_POLLS * 1e6, 3),
    }


@contextmanager
def held_sms(blocks):
    """Keep ``blocks`` SMs busy from another stream; yields their numbers."""
    tile = torch.zeros(_TILE.value, dtype=torch.int32, device=DEVICE)
    state, one = torch.zeros(2, dtype=torch.int32, device=DEVICE), torch.ones(1, dtype=torch.int32, device=DEVICE)
    numbers = torch.full((blocks,), -1, dtype=torch.int32, device=DEVICE)
    holder, watcher = torch.cuda.Stream(), torch.cuda.Stream()
    # loaded and run once before, because loading code waits for the device
    state[1:].copy_(one)
    compiled = hold_kernel[(blocks,)](tile, state, numbers, 1 << 24, num_warps=WARPS)
    torch.cuda.synchronize()
    state.zero_()
    torch.cuda.synchronize()
    try:
        with torch.cuda.stream(holder):
            hold_kernel[(blocks,)](tile, state, numbers, 1 << 24, num_warps=WARPS)
        until = time.monotonic() + 5
        with torch.cuda.stream(watcher):
            while int(state[:1].cpu()) < blocks and time.monotonic() < until:
                time.sleep(0.001)
            found = numbers.cpu().tolist() if int(state[:1].cpu()) == blocks else []
        yield found, compiled.n_regs
    finally:
        with torch.cuda.stream(watcher):
            state[1:].copy_(one)
        torch.cuda.synchronize()


def held():
    """While another stream's kernel holds two SMs the full grid times out and the reserved one passes."""
    publisher = Publisher()
    whole = available_sms(DEVICE)
    bound = publisher.bound(whole)
    with sm_budget(HELD, device=DEVICE) as budget:
        reserved = publisher.bound(budget)
    publisher.outcome(1)
    with held_sms(HELD) as (numbers, registers):
        full = publisher.outcome(bound)
        spared = publisher.outcome(reserved, reserve=HELD)
    return {
        "sms": whole,
        "budget": budget,
        "held": numbers,
        "registers": [publisher.resources.registers, registers],
        "full": full,
        "reserved": spared,
        "after": publisher.outcome(bound),
    }


def green():
    """In green contexts the bound is that of the context's own SMs."""
    from torch.cuda.green_contexts import GreenContext

    publisher = Publisher()
    whole = publisher.bound(available_sms(DEVICE))
    contexts, found = [], []
    for wanted in (96, 64, 40):
        context = GreenContext.create(num_sms=wanted, device_id=DEVICE.index)
        contexts.append(context)
        context.set_context()
        try:
            units = context_units()
            bound = publisher.bound(available_sms(DEVICE))
            found.append(
                {
                    "wanted": wanted,
                    "units": units,
                    "available": available_sms(DEVICE),
                    "properties": torch.cuda.get_device_properties(DEVICE).multi_processor_count,
                    "bound": bound,
                    "runs": [publisher.outcome(blocks) for blocks in (bound, bound + 1, whole, bound)],
                }
            )
        finally:
            context.pop_context()
        torch.cuda.synchronize()
    return {"whole": whole, "contexts": found, "after": publisher.outcome(whole)}


def many(launches=100_000, captured=1000):
    """Half of the launches one by one, half by replays of a graph, data published in each; one look at the end."""
    publisher = Publisher(warps=4)
    blocks = available_sms(DEVICE)
    begin = time.monotonic()
    with barrier_launch(DEVICE, kernel="publish", reserve=0) as launch:
        for _ in range(launches // 2):
            publisher.enqueue(blocks, launch.words)
    torch.cuda.synchronize()
    loop_seconds = time.monotonic() - begin
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), barrier_launch(DEVICE, kernel="publish", reserve=0) as captured_launch:
        for _ in range(captured):
            publisher.enqueue(blocks, captured_launch.words)
    begin = time.monotonic()
    for _ in range(launches // 2 // captured):
        graph.replay()
    torch.cuda.synchronize()
    graph_seconds = time.monotonic() - begin
    check_grid_barriers(DEVICE)
    return {
        "launches": launches // 2 + launches // 2 // captured * captured,
        "blocks": blocks,
        "wrong": int(publisher.wrong.cpu()),
        "clean": not launch.words.any().item() and not captured_launch.words.any().item(),
        "seconds": [round(loop_seconds, 3), round(graph_seconds, 3)],
        "microseconds_a_captured_launch": round(graph_seconds / (launches // 2) * 1e6, 2),
    }


def host():
    """Capture before the first launch is refused, captured timeouts are reported, threads take turns by the lease."""
    early = torch.cuda.CUDAGraph()
    refused = None
    with torch.cuda.graph(early):
        try:
            with barrier_launch(DEVICE, kernel="publish"):
                pass
        except RuntimeError as error:
            refused = str(error)
    publisher = Publisher()
    bound = publisher.bound(available_sms(DEVICE))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), barrier_launch(DEVICE, kernel="publish", reserve=0) as launch:
        publisher.enqueue(bound + 1, launch.words, FEW_POLLS)
        publisher.enqueue(bound, launch.words)
    messages = []
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            graph.replay()
        try:
            check_grid_barriers(DEVICE)
        except GridBarrierTimeout as timeout:
            messages.append(str(timeout))
    captured_passed = int(publisher.passed[:bound].cpu().sum())

    failures = []

    def launch_often():
        try:
            own = Publisher()
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(100):
                    with barrier_launch(DEVICE, kernel="publish", reserve=0) as mine:
                        own.enqueue(bound, mine.words)
                torch.cuda.current_stream().synchronize()
            failures.append(int(own.wrong.cpu()))
        except Exception as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=launch_often) for _ in range(2)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_grid_barriers(DEVICE)
    return {
        "refused": refused,
        "bound": bound,
        "messages": messages,
        "captured_passed": captured_passed,
        "threads": failures,
        "seconds": round(time.monotonic() - begin, 3),
        "wrong": int(publisher.wrong.cpu()),
    }


PROGRAMS = {program.__name__: program for program in (resident, held, green, many, host)}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(PROGRAMS[sys.argv[1]]()) + "\n")
