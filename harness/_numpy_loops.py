"""One set of numpy's loops on every x86-64 processor, so that the virtual GPU gives the same bits on all of them.

Where a processor has AVX-512, numpy takes other code for ``exp2``, ``log2``, ``log`` and more, whose results differ by
an ulp from those of other processors, and by where an element stands in its array.  Which loops to leave out numpy
reads from ``NPY_DISABLE_CPU_FEATURES`` when it is imported (NumPy manual, "CPU/SIMD optimizations"; the names
changed in 2.4).
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

VARIABLE = "NPY_DISABLE_CPU_FEATURES"
_NEW_NAMES = (2, 4)
_NAMES = {
    True: "X86_V4 AVX512_ICL AVX512_SPR",
    False: "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL",
}


def leave_out_avx512() -> None:
    """Have numpy leave out its loops for AVX-512, unless it is imported already or the variable is set by somebody."""
    if "numpy" in sys.modules or VARIABLE in os.environ or platform.machine() not in ("x86_64", "AMD64"):
        return
    try:
        version = metadata.version("numpy")
    except metadata.PackageNotFoundError:
        return
    os.environ[VARIABLE] = _NAMES[tuple(map(int, version.split(".")[:2])) >= _NEW_NAMES]
