"""The sanitizer lane: every implementation on a GPU under NVIDIA's compute-sanitizer, its reports read as verdicts.

Not to be confused with ``harness.sanitize``, which runs suites without a GPU.
"""
