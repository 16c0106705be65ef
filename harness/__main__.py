"""``python -m harness``."""

from harness._numpy_loops import leave_out_avx512

# Before anything imports numpy.
leave_out_avx512()

from harness.cli import entry  # noqa: E402

entry()
