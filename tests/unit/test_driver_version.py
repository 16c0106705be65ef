"""The version of NVIDIA's driver, as its kernel modules write it."""

import pytest

from harness.receipts import machine

CLOSED = """NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""
OPEN = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (dvs-builder@U22)
GCC version:  gcc version 12.3.0
"""
SHORT = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82  Release Build\n"


@pytest.mark.parametrize(("text", "version"), [(CLOSED, "580.95.05"), (OPEN, "570.124.06"), (SHORT, "470.82")])
def test_both_kernel_modules_are_read(tmp_path, monkeypatch, text, version):
    (tmp_path / "version").write_text(text)
    monkeypatch.setattr(machine, "_DRIVER", tmp_path / "version")
    assert machine.driver() == version


def test_a_machine_without_a_driver_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_DRIVER", tmp_path / "version")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.driver() == machine.UNKNOWN
