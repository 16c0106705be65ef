"""What must hold of where kernels are looked for, and of what judges and stays: see ``mutation_checks``."""

import contextlib
import importlib
import sys
from types import SimpleNamespace

import pytest

from harness.contract import Implementation
from harness.discover import SetupError
from harness.outcome import CaseResult
from tests.unit.mutation_proofs import CHECKS, check

__all__ = ["CHECKS"]

_KERNEL = "import triton\n\n\n@triton.jit\ndef {name}(x, n):\n    pass\n"
_AUTOTUNED = (
    "import triton\n\n\n@triton.autotune([triton.Config({})], key=['n'])\n@triton.jit\ndef tuned(x, n):\n    pass\n"
)
_TREE = {
    "gate_acme/__init__": "from .deep.words import words as short\nfrom .other import unused\n",
    "gate_acme/other": "unused = 1\n",
    "gate_acme/deep/__init__": "",
    "gate_acme/deep/words": f"from ._bytes import value\n{_KERNEL.format(name='words')}",
    "gate_acme/deep/_bytes": "value = 1\n",
    "gate_acme/ops": "from . import host\nfrom .deep.words import value, words\n\n\ndef launch():\n    return value\n",
    "gate_acme/host": "",
    "gate_kernels": _AUTOTUNED,
    "gate_more": _KERNEL.format(name="more") + "\n\ndef call():\n    return more\n",
    "gate_named": "from gate_kernels import tuned\n\n\ndef launch():\n    return tuned\n",
    "gate_dotted": "import gate_kernels\n\n\ndef launch():\n    return gate_kernels.tuned\n",
    "gate_table": "from gate_kernels import tuned\n\nBY_SIZE = {64: tuned}\n",
    "gate_tabled": "from gate_table import BY_SIZE\n\n\ndef launch():\n    return BY_SIZE\n",
    "gate_passed_on": "from gate_acme import short\n\n\ndef launch():\n    return short\n",
    "gate_calling": "from gate_more import call\n\n\ndef launch():\n    return call()\n",
    "gate_hiding": "def launch():\n    return __import__('gate_kernels')\n",
}


@contextlib.contextmanager
def _tree(folder):
    """Modules of somebody's project, importable as long as the block lasts; yields what launches with one."""
    for name, text in _TREE.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()

    def implementation(name):
        return Implementation(contract="c", name="i", launch=importlib.import_module(name).launch)

    try:
        yield implementation
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.startswith("gate_")]:
            del sys.modules[name]


@check
def kernels_are_found_wherever_they_stand(api, folder):
    expected = {
        "gate_acme.ops": ["gate_acme.host", "gate_acme.deep._bytes", "gate_acme.deep.words", "gate_acme.ops"],
        "gate_named": ["gate_kernels", "gate_named"],
        "gate_dotted": ["gate_kernels", "gate_dotted"],
        "gate_tabled": ["gate_kernels", "gate_table", "gate_tabled"],
        # what hands the kernel on is executed again as well, and nothing else that it imports
        "gate_passed_on": ["gate_acme.deep._bytes", "gate_acme.deep.words", "gate_acme", "gate_passed_on"],
        "gate_calling": ["gate_more", "gate_calling"],
        "gate_hiding": ["gate_hiding"],
    }
    with _tree(folder) as implementation:
        found = {name: list(api.behind.files([implementation(name)])) for name in expected}
        assert found == expected
        assert {name for name, modules in found.items() if not api.behind.has_kernels(modules)} == {"gate_hiding"}


@check
def what_is_installed_is_left_alone_unless_its_kernel_is_named(api, folder):
    kept = api.behind._installed_folders
    try:
        api.behind._installed_folders = lambda: (folder.resolve(),)
        with _tree(folder) as implementation:
            assert api.behind.files([implementation("gate_calling")]) == ["gate_calling"]
            assert api.behind.files([implementation("gate_named")]) == ["gate_kernels", "gate_named"]
    finally:
        api.behind._installed_folders = kept


@check
def a_mutant_reaches_those_who_import_it_by_a_relative_name(api, folder):
    with _tree(folder) as implementation:
        subject = implementation("gate_acme.ops")
        loaded = api.behind.files([subject])
        with api.install.installed("gate_acme.deep._bytes", "value = 2\n", loaded):
            assert sys.modules["gate_acme.ops"].launch() == 2
        assert sys.modules["gate_acme.ops"].launch() == 1


@check
def a_contract_without_a_kernel_is_refused_with_what_was_searched(api, folder):
    with _tree(folder) as implementation:
        good, bad = (
            (SimpleNamespace(name=name), implementation(module))
            for name, module in (("seen", "gate_named"), ("hidden", "gate_hiding"))
        )
        assert api.campaign._without_kernels([good], named=True) == []
        told = "".join(api.campaign._without_kernels([good, bad], named=False))
        assert "hidden: no jitted function in gate_hiding" in told
        for pairs, named in (([good, bad], True), ([bad], False)):
            with pytest.raises(SetupError, match="hidden: no jitted function in gate_hiding"):
                api.campaign._without_kernels(pairs, named=named)


def _judging(case):
    return _helper(case)


def _helper(case):
    return _shared(case)


def _shared(case):
    return case


def _launching(x):
    def grid(meta):
        return _shared(meta)

    return grid


@check
def what_judges_and_what_it_calls_are_no_mutants(api):
    nothing = dict.fromkeys(
        ("inputs", "oracle", "magnitude", "features", "rejects", "policies", "work", "replays", "launches")
    )
    contract = SimpleNamespace(**nothing, cases=_judging, relations=(), pinned=(CaseResult(),))
    pairs = [(contract, SimpleNamespace(launch=_launching))]
    functions = ("_judging", "_judging.inner", "_helper", "_shared", "_launching", "_launching.grid", "")
    made = [SimpleNamespace(module=__name__, function=name) for name in functions]
    made += [SimpleNamespace(module=CaseResult.__module__, function="CaseResult.of")]
    left = [mutant.function for mutant in api.targets.changing(made, pairs)]
    assert left == ["_shared", "_launching", "_launching.grid", ""]


@check
def a_grid_in_a_lambda_is_mutated(api):
    text = "def f(x, n):\n    grid = lambda meta: (triton.cdiv(n, meta['BLOCK']),)\n    kernel[grid](x, n)\n"
    made = api.generate.mutants([api.source.Module("m", "m.py", text)], ["loop"])
    assert "n // meta['BLOCK']" in [mutant.after for mutant in made]
