"""Capabilities: why none is computed from an architecture's number, and that the table is what Triton compiles."""

import re

import pytest

from harness.device import TARGETS, capabilities, target_of
from tests.unit.launch_checks import DESCRIPTORS, PREDICATES, table

CUDA = [target.arch for target in TARGETS.values() if target.vendor == "cuda"]


def number(arch):
    return int(arch.removeprefix("sm_"))


#: What a program may try instead of the table: feature, its naive predicate, and the targets that it gets wrong.
NAIVE = {
    "scatter from sm_90 on": ("scatter", lambda n: n >= 90, {"sm_90", "sm_120", "sm_121"}),
    "scatter from major 10 on": ("scatter", lambda n: n // 10 >= 10, {"sm_120", "sm_121"}),
    "no scatter on sm_120": ("scatter", lambda n: n >= 100 and n != 120, {"sm_121"}),
    "gather on major 10": ("gather", lambda n: n // 10 == 10, {"sm_120", "sm_121"}),
    "no gather on major 12, as no scatter": ("gather", lambda n: n // 10 >= 10 and n // 10 != 12, {"sm_120", "sm_121"}),
    "tensor memory from sm_100 on": ("tensor_memory", lambda n: n >= 100, {"sm_120", "sm_121"}),
    "tensor memory on sm_100": ("tensor_memory", lambda n: n == 100, {"sm_103"}),
    "wgmma from sm_90 on": ("wgmma", lambda n: n >= 90, {"sm_100", "sm_103", "sm_120", "sm_121"}),
    "fp8 from major 9 on": ("fp8_mma", lambda n: n // 10 >= 9, {"sm_89"}),
    "fp8 on major 8": ("fp8_mma", lambda n: n // 10 >= 8, {"sm_80", "sm_86"}),
    "fp4 on major 10": ("fp4_mma", lambda n: n // 10 == 10, {"sm_120", "sm_121"}),
    "fp4 on sm_120": ("fp4_mma", lambda n: n in (100, 120), {"sm_103", "sm_121"}),
    "block scales on major 12": ("block_scaled_mma", lambda n: n // 10 == 12, {"sm_100", "sm_103"}),
    "clusters up to sm_100": ("clusters", lambda n: n in (90, 100), {"sm_103", "sm_120", "sm_121"}),
}


@pytest.mark.parametrize("name", NAIVE)
def test_a_predicate_on_the_number_is_wrong(name):
    feature, naive, wrong = NAIVE[name]
    rows = table(PREDICATES) if feature in table(PREDICATES)["sm_90"] else table(DESCRIPTORS)
    right = {arch: rows[arch][feature][-1] in ("N", "s") for arch in CUDA}
    assert {arch for arch in CUDA if naive(number(arch)) != right[arch]} == wrong


def test_shared_memory_follows_no_number_either():
    sizes = {arch: capabilities.shared_memory_per_block(target_of(arch)) for arch in CUDA}
    assert sizes == {
        "sm_80": 166_912, "sm_86": 101_376, "sm_89": 101_376, "sm_90": 232_448, "sm_100": 232_448, "sm_103": 232_448,
        "sm_120": 101_376, "sm_121": 101_376,
    }  # fmt: skip
    assert capabilities.shared_memory_per_block(target_of("gfx942")) == 65_536
    assert capabilities.shared_memory_per_block(target_of("gfx1250")) == 327_680


@pytest.mark.parametrize("version", [(3, 5), (3, 10), (4, 0)])
def test_a_triton_that_nobody_tried_is_not_guessed(version):
    with pytest.raises(ValueError, match=f"wanted one of 3.6, 3.7, 3.8, 3.9, got {version[0]}.{version[1]}"):
        capabilities.tma_form(target_of("sm_100"), "load", version)


def test_the_installed_triton_is_the_default():
    version = capabilities.installed_triton()
    for target in TARGETS.values():
        assert capabilities.tma_form(target, "gather") == capabilities.tma_form(target, "gather", version)


@pytest.fixture
def compiled(monkeypatch):
    """``compiled(arch, operation)``: what Triton makes of one descriptor operation, without a GPU."""
    # Triton 3.9 warns where it is unset
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.errors import PTXASError

    from tests.unit import descriptor_kernels

    def form(arch, operation):
        is_cuda = arch.startswith("sm_")
        wave = 32 if is_cuda else target_of(arch).limits.wave_size
        target = GPUTarget("cuda", number(arch), 32) if is_cuda else GPUTarget("hip", arch, wave)
        kernel = getattr(descriptor_kernels, operation)
        pointers = {"in_ptr": "*bf16", "out_ptr": "*bf16", "rows_ptr": "*i32"}
        signature = {name: kind for name, kind in pointers.items() if name in kernel.arg_names}
        aligned = {(position,): [["tt.divisibility", 16]] for position in range(len(signature))}
        signature |= {"num_rows": "i32", "ROWS": "constexpr", "COLUMNS": "constexpr"}
        source = ASTSource(fn=kernel, signature=signature, constexprs={"ROWS": 32, "COLUMNS": 64}, attrs=aligned)
        try:
            result = triton.compile(source, target=target)
        except (PTXASError, RuntimeError) as error:
            return "refused" if isinstance(error, PTXASError) or "PassManager" in str(error) else repr(error)
        text = result.asm["ptx" if is_cuda else "amdgcn"]
        return "native" if re.search(r"cp\.async\.bulk\.tensor|\btensor_(load|store)", text) else "lowered"

    return form


# The rows that differ; every target of every operation is the compile lane's.
@pytest.mark.parametrize(
    ("arch", "operation"),
    [
        ("sm_89", "gather"),
        ("sm_90", "store"),
        ("sm_90", "gather"),
        ("sm_103", "scatter"),
        ("sm_120", "gather"),
        ("sm_120", "scatter"),
        ("sm_121", "scatter"),
        ("gfx950", "scatter"),
        ("gfx1250", "load"),
        ("gfx1250", "scatter"),
    ],
)
def test_the_table_is_what_triton_compiles(compiled, capfd, arch, operation):
    assert compiled(arch, operation) == capabilities.tma_form(target_of(arch), operation)
