"""Launches that a CUDA graph cannot hold, each wrong in one way, with what has to find it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tests.teeth.graph_wrappers import WIDTH, add_kernel, empty_out, gather, plain, tuned_kernel


@dataclass(frozen=True)
class GraphFault:
    """``make()`` returns the launch; on a GPU ``check`` fails, in the lint a finding of ``rule``: None, it is clean.

    ``line`` stands in the source line that the lint names.
    """

    make: Callable
    check: str
    rule: str | None
    line: str = ""

    def __str__(self) -> str:
        return self.make.__name__


FAULTS: list[GraphFault] = []


def fault(check, rule, line=""):
    def add(make):
        FAULTS.append(GraphFault(make, check, rule, line))
        return make

    return add


def after(look):
    """Return a launch that calls ``look(x, ids, live)`` first."""
    rest = plain()

    def launch(x, ids, live):
        look(x, ids, live)
        return rest(x, ids, live)

    return launch


@fault("graph:capture", "waits", "live.item()")
def item_of_a_length():
    def launch(x, ids, live):
        out = torch.zeros(len(ids), WIDTH, device=x.device)
        gather(x, ids, live, out[: live.item()])
        return out

    return launch


@fault("graph:capture", "waits", "ids.tolist()")
def ids_as_a_list():
    return after(lambda x, ids, live: ids.tolist())


@fault("graph:capture", "waits", "live.cpu()")
def length_read_on_the_host():
    return after(lambda x, ids, live: live.cpu())


@fault("graph:capture", "waits", "if (ids < 0).any()")
def branch_by_data():
    def launch(x, ids, live):
        out = empty_out(x, ids)
        if (ids < 0).any():
            out.zero_()
        return gather(x, ids, live, out)

    return launch


@fault("graph:capture", "waits", "torch.equal")
def tensors_compared():
    return after(lambda x, ids, live: torch.equal(ids, ids.sort().values))


@fault("graph:capture", "waits", "x[live[0] * 0]")
def device_number_as_an_index():
    return after(lambda x, ids, live: x[live[0] * 0])


@fault("graph:capture", "waits", "synchronize()")
def device_synchronised():
    return after(lambda x, ids, live: torch.cuda.synchronize())


@fault("graph:capture", "waits", "synchronize()")
def event_synchronised():
    def look(x, ids, live):
        event = torch.cuda.Event()
        event.record()
        event.synchronize()

    return after(look)


@fault("graph:capture", "shape", "torch.nonzero")
def nonzero_rows():
    return after(lambda x, ids, live: torch.nonzero(ids >= 0))


@fault("graph:capture", "shape", "ids[ids >= 0]")
def mask_as_an_index():
    return after(lambda x, ids, live: ids[ids >= 0])


@fault("graph:capture", "shape", "ids.unique()")
def unique_ids():
    return after(lambda x, ids, live: ids.unique())


@fault("graph:capture", "shape", "repeat_interleave")
def rows_repeated_by_data():
    return after(lambda x, ids, live: torch.repeat_interleave(x, torch.ones_like(x[:, 0]).int(), dim=0))


@fault("graph:capture", "shape", "out[ids < 0] = ")
def tensor_assigned_by_a_mask():
    def launch(x, ids, live):
        out = gather(x, ids, live, empty_out(x, ids))
        out[ids < 0] = torch.zeros(WIDTH, device=x.device)
        return out

    return launch


@fault("graph:capture", "copies", "torch.tensor(")
def list_of_the_hosts_copied():
    return after(lambda x, ids, live: torch.tensor([0, 1, 2], device=x.device))


@fault("graph:capture", "copies", "x[[0, 1]]")
def list_as_an_index():
    return after(lambda x, ids, live: x[[0, 1]])


@fault("graph:capture", "compiles", "gather_kernel[")
def compiled_in_capture():
    calls = []

    def launch(x, ids, live):
        calls.append(1)
        return gather(x, ids, live, empty_out(x, ids), tag=len(calls))

    return launch


@fault("graph:capture", "tunes", "tuned_kernel[")
def tuned_in_capture():
    calls = []

    def launch(x, ids, live):
        calls.append(1)
        first = gather(x, ids, live, empty_out(x, ids))
        out = torch.empty_like(first)
        tuned_kernel[(len(out),)](first, out, len(calls), WIDTH=WIDTH)
        return out

    return launch


@fault("graph:first", "raises", "workspace.zero_()")
def workspace_first_touched_in_inference_mode():
    held = {}

    def launch(x, ids, live):
        workspace = held.setdefault(len(ids), empty_out(x, ids))
        workspace.zero_()
        return gather(x, ids, live, workspace).clone()

    return launch


@fault("graph:inputs", "unread", "(2 * x)")
def stale_copy_of_an_input():
    held = {}

    def launch(x, ids, live):
        if x.data_ptr() not in held:
            # the input too, so that nobody else gets its address
            held[x.data_ptr()] = x, (2 * x) / 2
        return gather(held[x.data_ptr()][1], ids, live, empty_out(x, ids))

    return launch


@fault("graph:inputs", "unread", "int(live)")
def length_remembered_by_the_host():
    held = {}

    def launch(x, ids, live):
        if id(live) not in held:
            held[id(live)] = live, int(live)
        out = torch.zeros(len(ids), WIDTH, device=x.device)
        gather(x, ids, ids, out[: held[id(live)][1]], looks=False)
        return out

    return launch


@fault("graph:inputs", "unread", "live.clone()")
def plan_of_a_call_in_two_buffers_by_turns():
    plans = []

    def launch(x, ids, live):
        if not torch.cuda.is_current_stream_capturing():
            # a first call in inference mode would leave buffers that none outside of it may write
            with torch.inference_mode(False):
                plans.append(live.clone() if len(plans) < 2 else plans.pop(0).copy_(live))
        return gather(x, ids, plans[-1], empty_out(x, ids))

    return launch


@fault("graph:inputs", None)
def padded_rows_read():
    def launch(x, ids, live):
        return gather(x, ids, live, empty_out(x, ids), looks=False)

    return launch


@fault("graph:memory", "replaces", "gather_kernel[")
def workspace_regrown():
    held = {}

    def launch(x, ids, live):
        if "workspace" not in held or len(held["workspace"]) < len(ids):
            held["workspace"] = empty_out(x, ids)
        return gather(x, ids, live, held["workspace"][: len(ids)]).clone()

    return launch


@fault("graph:memory", "keeps", "torch.empty(")
def buffer_made_in_capture():
    held = {}

    def launch(x, ids, live):
        key = (len(ids), torch.cuda.is_current_stream_capturing())
        if key not in held:
            held[key] = empty_out(x, ids)
        return gather(x, ids, live, held[key]).clone()

    return launch


@fault("graph:memory", "stream", "torch.empty_like")
def scratch_of_another_streams_pool():
    side = []

    def launch(x, ids, live):
        side or side.append(torch.cuda.Stream())
        out = empty_out(x, ids)
        with torch.cuda.stream(side[0]):
            scratch = torch.empty_like(out)
        return out.copy_(gather(x, ids, live, scratch))

    return launch


@fault("graph:replay", "stream", "gather_kernel[")
def stream_outside_of_the_capture():
    side = []

    def launch(x, ids, live):
        side or side.append(torch.cuda.Stream())
        out = empty_out(x, ids)
        if not torch.cuda.is_current_stream_capturing():
            side[0].wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side[0]):
            gather(x, ids, live, out)
        if not torch.cuda.is_current_stream_capturing():
            torch.cuda.current_stream().wait_stream(side[0])
        return out

    return launch


@fault("graph:capture", "stream", "")
def stream_forked_and_not_joined():
    def launch(x, ids, live):
        side = torch.cuda.Stream()
        out = empty_out(x, ids)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            gather(x, ids, live, out)
        if not torch.cuda.is_current_stream_capturing():
            torch.cuda.current_stream().wait_stream(side)
        return out

    return launch


@fault("graph:outputs", "shares", "torch.empty(4096")
def output_allocated_once():
    held = {}

    def launch(x, ids, live):
        if "out" not in held:
            held["out"] = torch.empty(4096, WIDTH, device=x.device)
        return gather(x, ids, live, held["out"][: len(ids)])

    return launch


@fault("graph:pool", "shares", "torch.empty(")
def output_of_all_captures():
    held = {}

    def launch(x, ids, live):
        if not torch.cuda.is_current_stream_capturing():
            return gather(x, ids, live, empty_out(x, ids))
        if len(ids) not in held:
            held[len(ids)] = empty_out(x, ids)
        return gather(x, ids, live, held[len(ids)])

    return launch


@fault("graph:replay", None)
def sums_not_cleared_in_the_graph():
    held = {}

    def launch(x, ids, live):
        if len(ids) not in held:
            with torch.inference_mode(False):
                held[len(ids)] = empty_out(x, ids)
        sums = held[len(ids)]
        if not torch.cuda.is_current_stream_capturing():
            sums.zero_()
        add_kernel[(len(ids),)](gather(x, ids, live, empty_out(x, ids)), sums, WIDTH=WIDTH, num_warps=1)
        return sums.clone()

    return launch
