"""What the compile lane must see of launches: their grids, and kernels that start early; part of ``compile_checks``."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

from harness.device.targets import target_of


def a_grid_on_one_side_only_fails(api):
    grids = api.grids

    def found(before, now):
        changes = grids.compare({("i", "k", "sm_90"): frozenset(before)}, {("i", "k", "sm_90"): now})
        assert all(change.failing for change in changes)
        return [(change.grids, change.new) for change in changes]

    assert found([(4, 1, 1)], {(4, 1, 1)}) == []
    assert found([(4, 1, 1)], {(4, 1, 1), (5, 1, 1)}) == [(((5, 1, 1),), True)]
    assert found([(4, 1, 1), (5, 1, 1)], {(4, 1, 1)}) == [(((5, 1, 1),), False)]
    # nobody has looked yet, or nothing was launched
    assert grids.compare({}, {("i", "k", "sm_90"): {(1,)}}) == grids.compare({("i", "k", "sm_90"): {(1,)}}, {}) == []


def grids_are_kept_until_they_are_launched_again(api):
    grids = api.grids
    known = {("i", "k", "sm_90"): frozenset({(4, 2), (10, 1)}), ("j", "k", "sm_90"): frozenset({(1,)})}
    with tempfile.TemporaryDirectory() as folder:
        file = grids.path_in(Path(folder), (3, 7))
        grids.write(file, known)
        assert grids.read(file) == known
    now = {("i", "other", "sm_90"): {(3,)}}
    assert grids.updated(known, now, {"sm_90"}) == {("j", "k", "sm_90"): {(1,)}, ("i", "other", "sm_90"): {(3,)}}
    assert grids.updated(known, now, {"sm_120"}).keys() == known.keys() | now.keys()


_EARLY = """module {
  tt.func public @kernel(%p: !tt.ptr<f32>) {
    CALL
    WAIT
    %x = tt.load %p : !tt.ptr<f32>
    tt.call @next() : () -> ()
  }
  tt.func private @reads(%p: !tt.ptr<f32>) {
    %x = tt.atomic_rmw fadd, relaxed, gpu, %p : !tt.ptr<f32>
  }
  tt.func private @next() {
    %0 = tt.elementwise_inline_asm "griddepcontrol.launch_dependents; // dummy" -> i32
  }
  tt.func private @wait() {
    %0 = tt.elementwise_inline_asm "griddepcontrol.wait; // dummy" -> i32
  }
}
"""


def a_kernel_that_starts_early_waits_before_it_touches_memory(api):
    reads, wait = "tt.call @reads(%p) : (!tt.ptr<f32>) -> ()", "tt.call @wait() : () -> ()"

    def touched(call, waits, text=_EARLY):
        return api.early.touched(text.replace("CALL", call).replace("WAIT", waits))

    assert touched("", wait) == touched(wait, reads) == ""
    assert touched("", "") == "tt.load"
    assert touched(reads, wait) == "tt.atomic_rmw"
    targets = {marker: api.early.missing(_EARLY, target_of(marker)) for marker in ("sm_80", "sm_89", "sm_90", "gfx950")}
    assert targets == {"sm_80": True, "sm_89": True, "sm_90": False, "gfx950": True}
    # no part of a row of launches
    assert touched("", "", _EARLY.replace("griddepcontrol", "membar")) == ""


def a_grid_is_recorded_whatever_gives_it(api):
    function = SimpleNamespace(arg_names=["x", "n"])
    for grid in (4, (4, 1), [4, 1, 1], lambda meta: (meta["n"] // meta["BLOCK"],)):
        sizes = api.recording._sizes(grid, function, (None, 64), {"BLOCK": 16})
        assert sizes == (4, 1, 1)


LAUNCH_CHECKS = {
    check.__name__: check
    for check in (
        a_grid_on_one_side_only_fails,
        grids_are_kept_until_they_are_launched_again,
        a_grid_is_recorded_whatever_gives_it,
        a_kernel_that_starts_early_waits_before_it_touches_memory,
    )
}
