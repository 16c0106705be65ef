"""One bug for each suite of ``suites``, and the one test that must fail for it."""

from dataclasses import dataclass
from pathlib import Path

SUITES = Path(__file__).parent / "suites"


@dataclass(frozen=True, kw_only=True)
class Bug:
    """``old`` becomes ``new`` in the suite; ``test`` fails then, with every part of ``message``."""

    suite: str
    old: str
    new: str
    test: str
    message: tuple[str, ...]

    def __str__(self) -> str:
        return self.suite

    def write(self, folder: Path) -> Path:
        """Write the suite with its bug to ``folder``."""
        text = (SUITES / f"{self.suite}.py").read_text()
        assert text.count(self.old) == 1, f"{self.suite}: {text.count(self.old)} times {self.old!r}"
        path = folder / f"test_{self.suite}.py"
        path.write_text(text.replace(self.old, self.new))
        return path

    @property
    def line(self) -> int:
        """Where the bug is."""
        text = (SUITES / f"{self.suite}.py").read_text()
        return text[: text.index(self.old)].count("\n") + 1


PLANTED = (
    Bug(
        suite="vector_add",
        old="    mask = offsets < n_elements\n    x = tl.load(x_ptr",
        new="    mask = offsets < n_elements + 1\n    x = tl.load(x_ptr",
        test="test_rest",
        message=("OutOfBounds", "add_kernel (test_vector_add.py:", "argument x_ptr, program (3, 0, 0)", "1000 of 1000"),
    ),
    Bug(
        suite="softmax",
        old="mask = col_offsets < n_cols",
        new="mask = col_offsets < BLOCK_SIZE",
        test="test_odd_width",
        message=("OutOfBounds", "softmax_kernel (test_softmax.py:", "argument input_ptr, program (36, 0, 0)"),
    ),
    Bug(
        suite="matmul",
        old="b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)",
        new="b = tl.load(b_ptrs)",
        test="test_odd_sizes",
        message=("OutOfBounds", "matmul_kernel (test_matmul.py:", "argument b_ptr", "of shape (50, 45)"),
    ),
    Bug(
        suite="dropout",
        old="x_keep = tl.load(x_keep_ptr + offsets, mask=mask)",
        new="x_keep = tl.load(x_keep_ptr + offsets)",
        test="test_mask",
        message=("OutOfBounds", "_dropout (test_dropout.py:", "argument x_keep_ptr", "element 150 of 150"),
    ),
    Bug(
        suite="layer_norm",
        old="    tl.atomic_xchg(Lock, 0)\n",
        new="",
        test="test_backward",
        message=("_backward_dx (test_layer_norm.py:65)", "seeing Lock[0] = 1"),
    ),
    Bug(
        suite="attention",
        old="    tl.store(M + off_hz * N_CTX + offs_m, m_i)",
        new="    tl.store(M + off_hz * N_CTX + offs_m + (STAGE & 2), m_i)",
        test="test_against_torch[True]",
        message=("OutOfBounds", "_forward (test_attention.py:", "argument M, program (1, 1, 0)", "of shape (1, 2, 64)"),
    ),
    Bug(
        suite="grouped_gemm",
        old="mask=inside[:, None] & (cols < n)[None, :],",
        new="mask=(start + inner <= k)[:, None] & (cols < n)[None, :],",
        test="test_against_torch[odd]",
        message=("OutOfBounds", "grouped_kernel (test_grouped_gemm.py:", "argument <by address>"),
    ),
    Bug(
        suite="persistent_matmul",
        old="a_ptr, shape=[M, K]",
        new="a_ptr, shape=[M + 1, K]",
        test="test_against_torch[by_device]",
        message=("OutOfBounds", "device_kernel (test_persistent_matmul.py:", "argument a_ptr", "of shape (72, 40)"),
    ),
)
