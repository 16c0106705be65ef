"""A barrier for all blocks of a grid: device functions, the words they need, and what belongs around such a launch.

In a kernel, with ``num_ctas=1`` and plain loads and stores for what crosses the barrier::

    @triton.jit
    def kernel(..., words_ptr, max_polls):
        ...                                            # phase 1
        if grid_barrier(words_ptr, 1, max_polls):      # barriers are numbered 1, 2, ... alike in every block
            ...                                        # phase 2: sees all that any block stored in phase 1
        grid_leave(words_ptr)                          # every block, once, on every path

On the host::

    with barrier_launch(x.device, kernel="mega_moe") as launch:
        safe = barrier_safe_grid(wanted, resources, target, num_sms=launch.num_sms, even=True)
        kernel[(safe.grid,)](..., launch.words, MAX_POLLS)
    check_grid_barriers(x.device)       # when convenient: waits for the device, raises GridBarrierTimeout

All blocks of the grid must be resident (``barrier_safe_grid``).  Where they are not, blocks leave after ``max_polls``
looks instead of hanging, ``grid_barrier`` returns False in all of them, and one block leaves a report in the words.
The last block out clears the words for the next launch, whatever happened, so nothing is reset by the host, grids may
differ from launch to launch, and a captured launch can be replayed.

The wait is counted in looks because that is the one clock all targets and Triton versions share: ``%globaltimer`` is
NVIDIA's, its resolution is up to a millisecond, and AMD's counter runs at a frequency of its own.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from harness.launch.lease import launch_lease
from harness.launch.physical import Physical, device_index, source
from harness.launch.sm_budget import sm_budget, workspace_key

__all__ = [
    "MAX_POLLS",
    "BarrierLaunch",
    "GridBarrierTimeout",
    "barrier_launch",
    "check_grid_barriers",
    "grid_barrier",
    "grid_leave",
]

#: Looks of a block at the count before it gives up: seconds, where a phase takes milliseconds.
MAX_POLLS = 1 << 22

# Words, int32, all 0 between launches except for the report: arrivals, blocks that left, then the report: whether
# there is one, block, phase, arrived, wanted.
_LEFT = tl.constexpr(1)
_REPORT = tl.constexpr(2)
_REPORT_START, _REPORT_STOP = 2, 7
# A cache line, so that two sets of words do not share one.
_WORDS = 32
# Added to the arrivals when a block gives up.  It is more than any count, so whoever waits sees it as the end of the
# wait: one word says both, and a count that is complete cannot be poisoned any more.
_POISON = tl.constexpr(1 << 30)


# On these Triton's s_barrier waits for LDS alone: stores of other waves may still be on their way when it is passed.
_BARRIER_IGNORES_STORES = ("gfx942", "gfx950")

# Triton's code generator looks up annotations, so the functions that it compiles have none.


@tl.core.builtin  # type: ignore[untyped-decorator]
def _ends_own_stores(_semantic: Any = None) -> tl.constexpr:
    options = _semantic.builder.options
    # the virtual GPU names the same targets, but its barrier orders stores and it runs no assembly
    return tl.constexpr(options.backend_name == "hip" and options.arch in _BARRIER_IGNORES_STORES)


@triton.jit
def _publish():  # type: ignore[no-untyped-def]  # noqa: ANN202
    # Every thread's stores before the one release that follows: Triton 3.6 to 3.8 put no barrier before a scalar one.
    if _ends_own_stores():
        tl.inline_asm_elementwise(
            "s_waitcnt vmcnt(0)\nv_mov_b32 $0, 0", "=v", [], dtype=tl.int32, is_pure=False, pack=1
        )
    tl.debug_barrier()


@triton.jit
def _grid_blocks():  # type: ignore[no-untyped-def]  # noqa: ANN202
    return tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)


@triton.jit
def grid_barrier(words_ptr, phase, max_polls):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Wait until every block of the grid has called this with ``phase``; return whether they all did.

    ``words_ptr``: ``BarrierLaunch.words``.  ``phase``: 1 for the first barrier of the launch, then 2, ...; phases x
    blocks stay below 2**30.  What any thread of a block stored before is visible to every thread of every block after.
    False: some block looked ``max_polls`` times in vain, here or at a later barrier; nothing of another block may be
    read then.  A block that gave up may call further barriers, which return False at once.
    """
    blocks = _grid_blocks()
    needed = phase * blocks
    _publish()
    tl.atomic_add(words_ptr, 1, sem="release", scope="gpu")
    seen = tl.atomic_add(words_ptr, 0, sem="acquire", scope="gpu")
    polls = 0
    while (seen < needed) & (polls < max_polls):
        seen = tl.atomic_add(words_ptr, 0, sem="acquire", scope="gpu")
        polls += 1
    # Others may arrive meanwhile: only a count that is still short becomes poison, and only one block makes it so.
    while seen < needed:
        found = tl.atomic_cas(words_ptr, seen, seen + _POISON, sem="acquire", scope="gpu")
        if found == seen:
            block = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)
            tl.store(words_ptr + _REPORT + 1, block)
            tl.store(words_ptr + _REPORT + 2, phase)
            tl.store(words_ptr + _REPORT + 3, seen - (phase - 1) * blocks)
            tl.store(words_ptr + _REPORT + 4, blocks)
            tl.store(words_ptr + _REPORT, 1)
            seen += _POISON
        else:
            seen = found
    return seen < _POISON


@triton.jit
def grid_leave(words_ptr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Leave the grid: the last thing a block does with the words, once; the last block clears them."""
    # Acquire and release: the plain stores below come after every other block's last look.
    before = tl.atomic_add(words_ptr + _LEFT, 1, sem="acq_rel", scope="gpu")
    if before == _grid_blocks() - 1:
        tl.store(words_ptr, 0)
        tl.store(words_ptr + _LEFT, 0)


class GridBarrierTimeout(RuntimeError):
    """A block waited at a grid barrier for blocks that did not come; the outputs of that launch are not complete.

    ``block`` is the one that gave up, by its number in the grid, ``phase`` its barrier, ``arrived`` how many of
    ``wanted`` blocks had come to it.
    """

    def __init__(self, block: int, phase: int, arrived: int, wanted: int) -> None:
        super().__init__(f"grid barrier timeout: block {block}, phase {phase}, arrived {arrived} of {wanted}")
        self.block = block
        self.phase = phase
        self.arrived = arrived
        self.wanted = wanted


@dataclass(frozen=True)
class BarrierLaunch:
    """What a kernel with a grid barrier may use: ``num_sms`` units of the device, and ``words``, int32."""

    num_sms: int
    words: torch.Tensor


_tables: weakref.WeakKeyDictionary[Physical, dict[tuple[Hashable, ...], torch.Tensor]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


@contextmanager
def barrier_launch(
    device: torch.device, *, kernel: str, reserve: int = 2, timeout_s: float = 60.0
) -> Iterator[BarrierLaunch]:
    """Stand around the one launch of a kernel with a grid barrier on ``device``, and nothing else.

    Makes ``device`` current, leaves ``reserve`` units free (``sm_budget``), waits up to ``timeout_s`` seconds for other
    threads' barrier kernels (``launch_lease``), and keeps later ones behind this launch, on whatever stream.  The host
    does not wait for the device.  On the virtual GPU a timeout is raised on leaving.

    Words belong to the device and the current stream; launches that are captured have a set of their own, which the
    first launch outside of a capture allocates.  A capture takes no lease, because nothing runs: keep replays apart
    from other barrier kernels, by ``launch_lease`` or by their stream.

    Raises ValueError, NoDevice, LeaseError and LeaseTimeout as those do, RuntimeError for a first launch in a capture.
    """
    on_gpu = device.type == "cuda"
    index = device_index(device)
    # -1 is no device: a block that changes nothing, and shows whoever looks that the launch is in one
    with torch.cuda.device(index if on_gpu else -1), sm_budget(reserve, device=index) as num_sms:
        if on_gpu and torch.cuda.is_current_stream_capturing():
            yield BarrierLaunch(num_sms, _words(device, index, "capture"))
            return
        stream = torch.cuda.current_stream(index) if on_gpu else None
        user = "host" if stream is None else stream.cuda_stream
        with launch_lease(index, kernel=kernel, timeout_s=timeout_s) as lease:
            words = _words(device, index, user)
            try:
                yield BarrierLaunch(num_sms, words)
            except BaseException:
                # what was interrupted may have counted some blocks in and not out
                _forget(index, user)
                raise
            finally:
                if stream is not None:
                    ended = torch.cuda.Event()  # type: ignore[no-untyped-call]
                    ended.record(stream)
                    lease.until(lambda: ended.wait(torch.cuda.current_stream(index)))
        if not on_gpu:
            _raise_report(words)


def check_grid_barriers(device: torch.device) -> None:
    """Wait for ``device`` and raise GridBarrierTimeout if a barrier of a launch since the last check timed out.

    Of several that did, each call reports one.  Where a set of words saw several, it is the last.
    """
    index = device_index(device)
    if device.type == "cuda":
        torch.cuda.synchronize(index)
    with _lock:
        table = dict(_tables.get(source(), {}))
    for key, words in table.items():
        if key[1] == index:
            _raise_report(words)


def _raise_report(words: torch.Tensor) -> None:
    report = words[_REPORT_START:_REPORT_STOP]
    reported, block, phase, arrived, wanted = report.tolist()
    if reported:
        report.zero_()
        raise GridBarrierTimeout(block, phase, arrived, wanted)


def _words(device: torch.device, index: int, user: Hashable) -> torch.Tensor:
    key = _key(index, user)
    with _lock:
        table = _tables.setdefault(source(), {})
        if key not in table:
            if user == "capture":
                raise RuntimeError(
                    f"grid barrier on device {index}: the first launch is being captured; launch once before, because "
                    "words that a graph owns would not be cleared before its first replay"
                )
            # tensors made in inference mode could not be cleared outside of it
            with torch.inference_mode(False):
                table[key] = torch.zeros(_WORDS, dtype=torch.int32, device=device)
                if device.type == "cuda":
                    table.setdefault(_key(index, "capture"), torch.zeros(_WORDS, dtype=torch.int32, device=device))
            if device.type == "cuda":
                # replays run on any stream
                torch.cuda.current_stream(index).synchronize()
        return table[key]


def _forget(index: int, user: Hashable) -> None:
    with _lock:
        _tables.get(source(), {}).pop(_key(index, user), None)


def _key(index: int, user: Hashable) -> tuple[Hashable, ...]:
    # their number and layout are the same whatever the grid
    return workspace_key("grid_barrier", user, uses_sms=False, device=index)
