"""Whatever goes wrong in a kernel, or outside of the surface, fails its own test and leaves the others alone."""

import textwrap

import pytest

from tests.sanitize.conftest import run_suite

SUITE = textwrap.dedent(
    """
    import pytest
    import torch
    import triton
    import triton.language as tl


    @triton.jit
    def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2, mask=offs < n)


    @triton.jit
    def forever(flag_ptr):
        while tl.load(flag_ptr) == 0:
            pass


    @triton.jit
    def odd(x_ptr, y_ptr, BLOCK: tl.constexpr):
        offs = tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, tl.load(x_ptr + offs).no_such_method())


    @triton.jit
    def assembly(x_ptr, y_ptr, BLOCK: tl.constexpr):
        offs = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)
        y = tl.inline_asm_elementwise("brev.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)
        tl.store(y_ptr + offs, y)


    def test_fine():
        x = torch.ones(16, device="cuda")
        y = torch.empty_like(x)
        double[(1,)](x, y, 16, BLOCK=16)
        assert torch.equal(y, x * 2)


    def test_hang():
        forever[(1,)](torch.zeros(1, dtype=torch.int32, device="cuda"))


    def test_python_error():
        odd[(1,)](torch.ones(16, device="cuda"), torch.ones(16, device="cuda"), BLOCK=16)


    def test_swallowed():
        try:
            double[(1,)](torch.ones(8, device="cuda"), torch.empty(8, device="cuda"), 16, BLOCK=16)
        except Exception:
            pass


    def test_host_pointer():
        double[(1,)](torch.ones(16), torch.empty(16, device="cuda"), 16, BLOCK=16)


    def test_mixed_devices():
        torch.ones(16, device="cuda") + torch.ones(16)


    def test_graph():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            pass


    def test_compiled():
        torch.compile(lambda x: x + 1)(torch.ones(2, device="cuda"))


    def test_assembly():
        x = torch.ones(16, dtype=torch.int32, device="cuda")
        assembly[(1,)](x, torch.empty_like(x), BLOCK=16)


    def test_unwritten():
        y = torch.empty(16, device="cuda")
        double[(1,)](torch.empty(16, device="cuda"), y, 16, BLOCK=16)
        assert y.isnan().all()


    def test_fine_again():
        test_fine()
    """
)

FAILURES = {
    "test_hang": ("HangDetected", "forever (test_suite.py:"),
    "test_python_error": ("no_such_method", "in odd (test_suite.py:"),
    "test_swallowed": ("a kernel fault was caught by the program", "element 8 of 8 (shape (8,))"),
    "test_host_pointer": ("ValueError: Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)",),
    "test_mixed_devices": ("Expected all tensors to be on the same device, but found at least two devices, cuda:0",),
    "test_graph": ("UNSUPPORTED: torch.cuda.CUDAGraph",),
    "test_compiled": ("UNSUPPORTED: torch.compile(<lambda>)",),
    "test_assembly": ("unsupported operation inline_asm", "assembly (test_suite.py:"),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    (folder / "test_suite.py").write_text(SUITE)
    return run_suite(folder, "--loop-seconds", "5")


def test_exactly_the_faulty_tests_fail(ran):
    assert {name.split("::")[1] for name in ran.failed} == set(FAILURES), ran.out


@pytest.mark.parametrize("test", FAILURES)
def test_the_message_says_what_and_where(ran, test):
    text = ran.tests[f"test_suite::{test}"]
    assert [part for part in FAILURES[test] if part not in text] == []


def test_the_summary_names_what_was_not_emulated(ran):
    line = next(line for line in ran.out.splitlines() if line.startswith("UNSUPPORTED: "))
    assert "torch.cuda.CUDAGraph (1)" in line
    assert "torch.compile(<lambda>) (1)" in line
    assert any(line.startswith("UNTRUSTED operations (fails the run") for line in ran.out.splitlines())


def test_loads_of_unwritten_memory_are_warnings_with_their_line(ran):
    line = (
        SUITE.splitlines().index("    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2, mask=offs < n)")
        + 1
    )
    assert f"double (test_suite.py:{line}): argument x_ptr, program (0, 0, 0): element (0,) of shape (16,)" in ran.out
