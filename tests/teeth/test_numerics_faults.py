"""Every fault planted in the virtual GPU's numerics is seen by the comparison with the recording of a real GPU."""

import importlib
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.teeth.numerics_faults import FAULTS, NumericsFault
from tests.vgpu.conformance.allowances import ALLOWANCES
from tests.vgpu.conformance.cases import every_case
from tests.vgpu.conformance.compare import judge
from tests.vgpu.conformance.packing import load

VGPU = Path(__file__).parents[2] / "harness" / "vgpu"
COPY = "planted_vgpu"


@pytest.fixture(scope="module")
def recorded():
    cases = every_case()
    return {fault.case: cases[fault.case] for fault in FAULTS}, load()


@contextmanager
def vgpu_with(fault, folder):
    """Import a copy of ``harness.vgpu`` with ``fault`` in it (None: as it is)."""
    root = folder / COPY
    shutil.copytree(VGPU, root, ignore=shutil.ignore_patterns("__pycache__"))
    if fault is not None:
        source = (root / fault.file).read_text()
        assert source.count(fault.old) == 1, f"{fault.old!r} stands {source.count(fault.old)} times"
        (root / fault.file).write_text(source.replace(fault.old, fault.new))
    for path in root.rglob("*.py"):
        text = path.read_text().replace("harness.vgpu", COPY).replace("from harness import vgpu", f"import {COPY}")
        path.write_text(text)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(COPY)
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
            del sys.modules[name]


def test_a_copy_without_a_fault_differs_nowhere(recorded, tmp_path):
    cases, recording = recorded
    with vgpu_with(None, tmp_path) as package:
        judged = judge(cases, recording, ALLOWANCES, package)
    assert judged.unexplained == []


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_recorded_case_differs(fault, recorded, tmp_path):
    cases, recording = recorded
    with vgpu_with(fault, tmp_path) as package:
        judged = judge({fault.case: cases[fault.case]}, recording, ALLOWANCES, package)
    assert [line.partition(": ")[0] for line in judged.unexplained] == [fault.case]


def test_sums_that_notice_an_overflow_elsewhere_are_seen(tmp_path):
    old = "np.where(reach > _FLOAT32_MAX, _batched(a, b), sums)"
    fault = NumericsFault("one overflow changes every sum", "numerics_dot.py", old, "_batched(a, b)", "")
    a = np.random.default_rng(0).standard_normal((64, 500), np.float32)
    b, far = a.T[:, :33].copy(), a.copy()
    far[0] = 2.0**126
    with vgpu_with(None, tmp_path / "right") as package:
        matmul = package.numerics.matmul
        np.testing.assert_array_equal(matmul(far, b)[1:], matmul(a, b)[1:])
    with vgpu_with(fault, tmp_path / "planted") as package:
        matmul = package.numerics.matmul
        assert not np.array_equal(matmul(far, b)[1:], matmul(a, b)[1:])
