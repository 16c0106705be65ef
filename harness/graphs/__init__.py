"""CUDA graphs: what an implementation that says ``capturable`` has to keep, with a GPU and without one.

``capture_lint`` runs the host code of a launch on an emulated device and names every line that a capture forbids or
that a replay would not repeat.  ``check_graphs`` captures and replays on a GPU.  Both know an implementation by
``@implements(..., capturable=Capturable())``; ``verify`` lints it as the check ``capturable``.
"""

from harness.graphs.cases import graph_cases
from harness.graphs.findings import Finding
from harness.graphs.lint import Lint, capture_lint
from harness.graphs.suite import check_graphs

__all__ = ["Finding", "Lint", "capture_lint", "check_graphs", "graph_cases"]
