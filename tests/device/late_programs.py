"""Programs about blocks that come late and exceptions between reservations: NAME in, one line of JSON out."""

import json
import sys
import time

import torch
import triton
import triton.language as tl

from harness.launch.grid_barrier import MAX_POLLS, barrier_launch
from harness.launch.sm_budget import available_sms, current_budget, sm_budget
from tests.device.barrier_programs import DEVICE, FEW_POLLS, HELD, LANES, Publisher, held_sms, publish


@triton.jit(do_not_specialize=["launch", "late", "max_polls"])
def late_kernel(x_ptr, passed_ptr, wrong_ptr, words_ptr, go_ptr, launch, late, max_polls, LANES: tl.constexpr):
    """``publish``, but block ``late`` waits until the host has set ``go``, and stores its row after that."""
    if tl.program_id(0) == late:
        polls = 0
        while (tl.atomic_add(go_ptr, 0, sem="acquire", scope="gpu") == 0) & (polls < 1 << 24):
            polls += 1
    publish(x_ptr, passed_ptr, wrong_ptr, words_ptr, launch, max_polls, LANES)


class Late(Publisher):
    """Launches of ``late_kernel``: as a publisher's, until a block is told to be late."""

    def __init__(self):
        self.go = torch.ones(1, dtype=torch.int32, device=DEVICE)
        self.late = -1
        super().__init__()

    def enqueue(self, blocks, words, max_polls=MAX_POLLS):
        self.count += 1
        return late_kernel[(blocks,)](
            self.x, self.passed, self.wrong, words, self.go, self.count, self.late, max_polls,
            LANES=LANES, num_warps=self.warps,
        )  # fmt: skip

    def released(self, blocks, late, *, seconds, max_polls):
        """Launch, let block ``late`` go ``seconds`` after all others are at the barrier, and return what happened."""
        # copies that no SM takes part in: the grid may have them all
        on, off = (torch.tensor([value], dtype=torch.int32).pin_memory() for value in (1, 0))
        watcher, self.late = torch.cuda.Stream(), late
        self.passed.zero_()
        self.go.copy_(off)
        torch.cuda.synchronize()
        with barrier_launch(DEVICE, kernel="publish", reserve=HELD) as launch:
            self.enqueue(blocks, launch.words, max_polls)
        with torch.cuda.stream(watcher):
            until = time.monotonic() + 5
            while int(launch.words[:1].cpu()) < blocks - 1 and time.monotonic() < until:
                time.sleep(0.001)
            waiting = int(launch.words[:1].cpu())
            time.sleep(seconds)
            early = int(self.passed[:blocks].cpu().sum())
            reported = int(launch.words[2:3].cpu())
            self.go.copy_(on, non_blocking=True)
        torch.cuda.synchronize()
        words = launch.words.cpu().tolist()
        launch.words[2:7].copy_(self.no_report)
        self.late = -1
        return {
            "blocks": blocks,
            "late": late,
            "waiting": waiting,
            "early": early,
            "reported": reported,
            "passed": int(self.passed[:blocks].cpu().sum()),
            "wrong": int(self.wrong.cpu()),
            "clean": words[:2] == [0, 0],
            "report": words[2:7],
        }


def late():
    """A late block is waited for, whichever it is; one that comes after the others gave up does not pass either."""
    publisher = Late()
    with sm_budget(HELD, device=DEVICE) as budget:
        bound = publisher.bound(budget)
    return {
        "bound": bound,
        "waited": [publisher.released(bound, block, seconds=0.25, max_polls=MAX_POLLS) for block in (0, bound - 1)],
        "given_up": publisher.released(bound, bound // 2, seconds=1.0, max_polls=FEW_POLLS),
        "after": publisher.outcome(bound, reserve=HELD),
    }


class Interrupted(Exception):
    """Raised in the middle of a block that holds SMs."""


def interrupted():
    """An exception inside a budget, a launch or beside a hog gives all that they held back."""
    publisher = Publisher()
    whole = available_sms(DEVICE)
    bound = publisher.bound(whole)

    def in_a_budget():
        with sm_budget(HELD, device=DEVICE) as budget:
            publisher.outcome(publisher.bound(budget))
            held_back.append(budget)
            raise Interrupted

    def in_a_launch():
        with barrier_launch(DEVICE, kernel="publish", reserve=HELD) as launch:
            held_back.append(launch.num_sms)
            publisher.enqueue(publisher.bound(launch.num_sms), launch.words, FEW_POLLS)
            raise Interrupted

    def beside_a_hog():
        with held_sms(HELD) as (numbers, _), sm_budget(HELD, device=DEVICE) as budget:
            held_back.append(budget if len(set(numbers)) == HELD else -1)
            raise Interrupted

    found = {}
    for attempt in (in_a_budget, in_a_launch, beside_a_hog):
        held_back: list[int] = []
        found[attempt.__name__] = after_interruption(attempt, publisher, bound) | {"budget": held_back}
    return {"sms": whole, "bound": bound, "attempts": found}


def after_interruption(attempt, publisher, bound):
    """What is there once ``attempt`` has raised: the SMs, and how the widest grid of the whole device comes out."""
    try:
        attempt()
        raised = False
    except Interrupted:
        raised = True
    return {
        "raised": raised,
        "available": available_sms(DEVICE),
        "budget_left": current_budget(DEVICE),
        "after": publisher.outcome(bound),
    }


def green_interrupted():
    """An exception inside a budget of a green context leaves the context's budget, and then the device's, as it was."""
    from torch.cuda.green_contexts import GreenContext

    publisher = Publisher()
    whole = available_sms(DEVICE)
    context = GreenContext.create(num_sms=64, device_id=DEVICE.index)
    inside, budgets = [], []

    def attempt():
        context.set_context()
        try:
            try:
                with sm_budget(HELD, device=DEVICE) as budget:
                    budgets.append(budget)
                    publisher.outcome(publisher.bound(budget), reserve=HELD)
                    raise Interrupted
            finally:
                inside.append(available_sms(DEVICE))
        finally:
            context.pop_context()
            torch.cuda.synchronize()

    found = after_interruption(attempt, publisher, publisher.bound(whole))
    return found | {"sms": whole, "inside": inside, "budgets": budgets}


PROGRAMS = {program.__name__: program for program in (late, interrupted, green_interrupted)}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(PROGRAMS[sys.argv[1]]()) + "\n")
