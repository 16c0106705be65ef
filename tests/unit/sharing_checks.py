"""What the compile lane must see to about work that is done once: as checks, like those of ``compile_checks``."""

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import patch

import torch
from hypothesis import strategies as st

from harness.contract import Contract, Implementation
from harness.device.targets import target_of
from harness.tolerance import Exact
from tests.unit import compile_kernels

SIZES = (256, 260, 1)


def recorded(api, arch, size):
    (found,) = api.recording.record(compile_kernels.copy, {"x": torch.zeros(size)}, target_of(arch))
    return found


def launched(api, *archs):
    """Return the launches of ``SIZES`` elements, of which no two specialise alike, by target and size."""
    return {f"{arch} {size}": recorded(api, arch, size) for arch in archs for size in SIZES}


def the_same_launch_lends_to_a_like_target(api):
    found = launched(api, "sm_80", "sm_86", "sm_89", "sm_90", "sm_120", "sm_121")
    lenders = {"sm_86": "sm_80", "sm_89": "sm_80", "sm_121": "sm_120"}
    assert api.sharing.loans(found) == {
        f"{borrower} {size}": f"{lender} {size}" for borrower, lender in lenders.items() for size in SIZES
    }
    assert api.sharing.loans(launched(api, "sm_86", "sm_89", "sm_121")) == {}
    one = recorded(api, "sm_121", 256)
    wider = replace(one, options={**one.options, "num_warps": 8})
    assert api.sharing.loans({"lender": recorded(api, "sm_120", 256), "wider": wider}) == {}


def targets_are_alike_where_all_but_the_name_is_the_same(api):
    lent = api.sharing.Lowering(ttir="ir", ptx=".version 8.7\n.target sm_120a\n.address_size 64\nmov.b32 %r1, 120;\n")
    own = replace(lent, ptx=lent.ptx.replace("sm_120a", "sm_121a"))
    assert api.sharing.alike(lent, own, "sm_121")
    assert not api.sharing.alike(lent, replace(own, ttir="another"), "sm_121")
    assert not api.sharing.alike(lent, replace(own, ptx=own.ptx.replace("%r1", "%r2")), "sm_121")
    assert not api.sharing.alike(lent, lent, "sm_121")
    assert not api.sharing.alike(lent, None, "sm_121")


def what_is_borrowed_is_what_would_have_been_compiled(api):
    """And another Triton IR borrows nothing."""
    lender, borrower = recorded(api, "sm_120", 256), recorded(api, "sm_121", 256)

    def task():
        with tempfile.TemporaryDirectory() as folder:
            figures = api.figures.Figures(**api.compiler.compile_one(lender, Path(folder, "lent")))
            lent = api.sharing.Lowering.read(Path(folder, "lent"))
        figures = replace(figures, registers=1)
        return {
            "own": api.compiler.compile_one(borrower),
            "borrowed": api.compiler.assemble_one(borrower, lent, figures, "sm_120"),
            "other": api.compiler.assemble_one(borrower, replace(lent, ttir="another", ptx="none"), figures, "sm_120"),
        }

    (end,) = api.workers.run([task], jobs=1, deadline=60.0)
    assert end.how == "returned", end
    assert end.value["other"] == end.value["own"]
    assert end.value["borrowed"] == {**end.value["own"], "lent": "sm_120"}


def _carried_out(api, specialisations, *, ptx, share=True, cache=None):
    """Return what was done with each specialisation, if the lowering of each were ``ptx`` of it, None a refusal."""
    figures = asdict(api.figures.Figures(registers=64, shared=0))
    names = {id(one): name for name, one in specialisations.items()}
    done = {}

    def compile_one(one, leave=None):
        done[names[id(one)]] = "compiled"
        text = ptx(one)
        if text is None:
            raise ValueError("planted")
        if leave is not None:
            api.sharing.Lowering(ttir="ir", ptx=text).write(leave)
        return figures

    def assemble_one(one, lent, its, lender):
        done[names[id(one)]] = f"assembled for {lender}"
        return {**figures, "lent": lender}

    def run(tasks, *, on_start, on_end, **options):
        for index, task in enumerate(tasks):
            on_start(index)
            try:
                end = api.workers.Ended(how="returned", value=task())
            except ValueError as error:
                end = api.workers.Ended(how="raised", error=("ValueError", str(error)))
            on_end(index, end)

    fakes = {"compile_one": compile_one, "assemble_one": assemble_one}
    with patch.multiple(api.lane, **fakes), patch.object(api.lane.workers, "run", run):
        api.lane.carry_out(api.plan.Plan(specialisations=specialisations), cache, jobs=1, share=share)
    return done


def same(one):
    """PTX that differs between targets by their names alone."""
    return f".target {one.target.arch}a\n"


def a_kernel_lends_only_after_a_trial(api):
    found = launched(api, "sm_120", "sm_121")
    everything = dict.fromkeys(found, "compiled")
    borrowed = dict.fromkeys(sorted(name for name in found if "121" in name)[1:], "assembled for sm_120")

    assert _carried_out(api, found, ptx=same) == everything | borrowed
    assert _carried_out(api, found, ptx=same, share=False) == everything
    assert _carried_out(api, found, ptx=lambda one: same(one) + one.target.arch) == everything
    assert _carried_out(api, found, ptx=lambda one: same(one) if one.target.arch == "sm_121" else None) == everything
    assert _carried_out(api, found, ptx=lambda one: same(one) if one.target.arch == "sm_120" else None) == everything


def what_was_lent_is_no_answer_where_nothing_may_be(api):
    found = launched(api, "sm_120", "sm_121")
    with tempfile.TemporaryDirectory() as folder:
        cache = api.cache.Cache(Path(folder))
        borrowed = {name for name, how in _carried_out(api, found, ptx=same, cache=cache).items() if how != "compiled"}
        assert len(borrowed) == 2
        assert _carried_out(api, found, ptx=same, cache=cache) == {}
        assert _carried_out(api, found, ptx=same, cache=cache, share=False) == dict.fromkeys(borrowed, "compiled")


def sources_are_read_again_for_every_plan(api):
    contract = Contract(
        name="copied", cases=lambda: st.just(0), inputs=lambda case, device, poison: {"x": torch.zeros(256)},
        oracle=None, tolerance={"out": Exact()}, workloads=(0,),
    )  # fmt: skip
    pair = contract, Implementation(contract="copied", name="test", launch=compile_kernels.copy)

    def keys():
        return api.plan.make([pair], [target_of("sm_90")]).specialisations.keys()

    before, scale = keys(), compile_kernels._SCALE
    assert keys() == before
    try:
        compile_kernels._SCALE = type(scale)(3)
        assert not keys() & before
    finally:
        compile_kernels._SCALE = scale


_PTX = {
    "wgmma": "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, 1, 1, 1;",
    "tcgen05.mma": "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p2;",
    "mma.sync": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};",
    "TMA gather": "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%r2];",
    "TMA scatter": "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {%r1}], [%r2];",
    "TMA load": "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}], [%r3];",
    "TMA store": "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1}], [%r2];",
    "TMA reduce": "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd1, {%r1}], [%r2];",
    "cp.async": "cp.async.cg.shared.global [%r1], [%rd1], 16, 16;",
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%r2, %r3, %r4, %r5};",
}
_AMDGCN = {
    "v_mfma": "v_mfma_f32_32x32x16_bf16 a[0:15], v[0:3], v[4:7], a[0:15]",
    "v_wmma": "v_wmma_f32_16x16x32_bf16 v[0:7], v[8:15], v[16:23], v[0:7]",
    "tensor load": "tensor_load_to_lds s[0:3], s[4:11]",
    "tensor store": "tensor_store_from_lds s[0:3], s[4:11]",
    "load to LDS": "buffer_load_dwordx4 v1, s[0:3], 0 offen lds",
    "transposed read": "ds_read_b64_tr_b16 v[0:1], v2",
}


def every_instruction_of_note_is_counted(api):
    """Among lines that are not looked at."""
    for lines, ptx, other in ((_PTX, True, "\tadd.s32 %r1, %r2, 1;"), (_AMDGCN, False, "\tv_add_u32_e32 v0, 1, v1")):
        for name, line in lines.items():
            assert api.instructions.count(f"{other}\n\t{line}\n{other}\n", ptx=ptx) == {name: 1}, name
    kinds = api.instructions.matrix_kinds("\n".join([*_PTX.values(), *_AMDGCN.values()]))
    assert len(kinds) == 5
    assert set(kinds.values()) == {1}


SHARING_CHECKS = {
    check.__name__: check
    for check in (
        the_same_launch_lends_to_a_like_target,
        targets_are_alike_where_all_but_the_name_is_the_same,
        what_is_borrowed_is_what_would_have_been_compiled,
        a_kernel_lends_only_after_a_trial,
        what_was_lent_is_no_answer_where_nothing_may_be,
        sources_are_read_again_for_every_plan,
        every_instruction_of_note_is_counted,
    )
}
