"""What ``new`` writes passes its own contract, whose pinned cases and illegal calls kill faults of its kernel."""

import importlib
import sys
from dataclasses import replace

import pytest

from harness import registry, scaffold
from harness.run import check_case, check_rejections

#: Name -> (what stands once in the kernel's module, what it becomes, the check that must fail).
FAULTS = {
    "row in 32 bits": (".to(tl.int64)", "", "memory"),
    "one column too many": ("mask = column < num_columns", "mask = column <= num_columns", "memory"),
    "another row's factor": ("tl.load(factor_ptr + row)", "tl.load(factor_ptr)", "oracle:out"),
    "stride taken for the width": ("x_ptr + row * x_stride", "x_ptr + row * num_columns", "memory"),
    "columns may lie apart": ("if x.stride(1) != 1:", "if x.stride(1) < 1:", "rejects:columns apart"),
    "factors of another type": ("if factor.dtype != torch.float32:", "if not factor.dtype:", "rejects:factor dtype"),
    "factors may lie apart": (" or factor.stride(0) != 1:", ":", "rejects:factor apart"),
}


@pytest.fixture
def scaffolded(tmp_path, monkeypatch):
    """Write a kernel with ``old`` replaced by ``new``, import it, and return all the checks that it fails."""
    monkeypatch.setattr(registry, "_contracts", {})
    monkeypatch.setattr(registry, "_implementations", {})
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    scaffold.write("planted_scaffold", tmp_path)
    file = tmp_path / "planted_scaffold.py"
    monkeypatch.syspath_prepend(tmp_path)

    def failed(old="", new=""):
        source = file.read_text()
        assert not old or source.count(old) == 1, f"{old!r} stands {source.count(old)} times"
        file.write_text(source.replace(old, new))
        importlib.import_module("planted_scaffold")
        contract = registry.contract("planted_scaffold")
        (implementation,) = registry.implementations("planted_scaffold")
        alone = replace(contract, relations=())
        results = [check_rejections(contract, implementation)]
        results += [check_case(alone, implementation, case, only="oracle:out") for case in contract.pinned]
        return {violation.check for result in results for violation in result.violations}

    yield failed
    del sys.modules["planted_scaffold"]


def test_what_is_written_passes(scaffolded):
    assert scaffolded() == set()


@pytest.mark.parametrize("name", FAULTS)
def test_the_named_check_kills(name, scaffolded):
    old, new, check = FAULTS[name]
    assert check in scaffolded(old, new)
