"""No module here asks a device or sets anything process-wide at import, and one that did would be found."""

from pathlib import Path

import pytest

from harness.import_lint import Finding, LintError, lint, modules_of

ROOT = Path(__file__).parents[2]

#: Module -> (its source, what the finding says, whether it names the line).
PLANTED = {
    "asks_is_available": ("import torch\nHAVE = torch.cuda.is_available()\n", "called torch.cuda.is_available()", 2),
    "asks_by_name": (
        "from torch.cuda import device_count\nN = device_count()\n",
        "called torch.cuda.device_count()",
        2,
    ),
    "asks_what_it_is": (
        "import torch\nif torch.cuda.get_device_capability()[0] == 12:\n    SEED = False\n",
        "called torch.cuda.get_device_capability()",
        2,
    ),
    "asks_in_a_function": (
        "import torch\ndef sms():\n    return torch.cuda.get_device_properties(0).multi_processor_count\nSMS = sms()\n",
        "called torch.cuda.get_device_properties()",
        4,
    ),
    "initialises": ("import torch\ntorch.cuda.init()\n", "called torch.cuda.init()", 2),
    "asks_triton": (
        "import triton\nTARGET = triton.runtime.driver.active.get_current_target()\n",
        "asked Triton for its active driver",
        2,
    ),
    "asks_nvml": ("import pynvml\npynvml.nvmlInit()\n", "called pynvml.nvmlInit()", 2),
    "loads_the_driver": (
        "import contextlib, ctypes\nwith contextlib.suppress(OSError):\n    ctypes.CDLL('libcuda.so.1')\n",
        "loaded the driver library libcuda.so.1",
        3,
    ),
    "looks_for_devices": (
        "import contextlib\nwith contextlib.suppress(OSError):\n    open('/dev/nvidiactl')\n",
        "looked at /dev/nvidiactl",
        3,
    ),
    "starts_a_child": (
        "import subprocess\nsubprocess.run(['true'])\n",
        "started something (subprocess.Popen: true)",
        2,
    ),
    "starts_a_thread": (
        "import threading\nthreading.Thread(target=threading.Event().wait, name='idle', daemon=True).start()\n",
        "started thread 'idle'",
        0,
    ),
    "sets_the_environment": (
        "import os\nos.environ['PLANTED'] = '1'\n",
        "environment['PLANTED']: unset -> '1'",
        0,
    ),
    "sets_the_dtype": (
        "import torch\ntorch.set_default_dtype(torch.float64)\n",
        "torch default dtype: torch.float32 -> torch.float64",
        0,
    ),
    "filters_warnings": ("import warnings\nwarnings.simplefilter('ignore')\n", "warning filters from item 0", 0),
    "sets_a_knob": (
        "import triton\ntriton.knobs.compilation.always_compile = True\n",
        "triton knobs['compilation.always_compile']: unset -> True",
        0,
    ),
    "constrains_everybody": (
        "from harness.launch.sm_budget import set_num_sms\nset_num_sms(64, device=0)\n",
        "sm budgets",
        0,
    ),
    "prints": ("print('hello')\n", "wrote to stdout: 'hello\\n'", 0),
    "raises": ("raise OSError('no device')\n", "raised OSError: no device", 0),
    "imports_an_offender": ("import offenders.hidden._offender\n", "called torch.cuda.is_available()", 0),
    "hidden._offender": ("import torch\ntorch.cuda.is_available()\n", None, 0),
    "innocent": ("import torch\n\n\ndef later():\n    return torch.cuda.is_available()\n", None, 0),
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """What the lint says of every planted module, found in one child."""
    folder = tmp_path_factory.mktemp("planted")
    for name, (source, _, _) in PLANTED.items():
        path = folder / "offenders" / (name.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    names = [f"offenders.{name}" for name in PLANTED]
    return folder, lint(names, folder)


def test_no_module_of_this_repository_does_anything_at_import():
    found = [str(finding) for finding in lint(["harness", "kernels", "reference"], ROOT)]
    # the adapter says what it lacks, at once, by raising
    absent = [line for line in found if line.startswith("harness.adapters.sglang: raised SetupError")]
    assert [line for line in found if line not in absent] == []


@pytest.mark.parametrize("name", [name for name, (_, what, _) in PLANTED.items() if what])
def test_a_module_that_does_is_found(findings, name):
    folder, found = findings
    _, what, line = PLANTED[name]
    own = [finding for finding in found if finding.module == f"offenders.{name}"]
    assert any(finding.what.startswith(what) for finding in own), own
    if line:
        (finding,) = [finding for finding in own if finding.what.startswith(what)]
        assert finding.where == f"{folder}/offenders/{name}.py:{line}"


def test_the_line_is_the_offenders_even_if_another_module_imported_it(findings):
    folder, found = findings
    (finding,) = [finding for finding in found if finding.module == "offenders.imports_an_offender"]
    assert finding.where == f"{folder}/offenders/hidden/_offender.py:2"


def test_a_module_that_does_nothing_has_no_finding(findings):
    _, found = findings
    assert [finding for finding in found if finding.module == "offenders.innocent"] == []


def test_a_finding_reads_as_a_sentence():
    finding = Finding("kernels.moe", "called torch.cuda.is_available()", "kernels/moe.py:3")
    assert str(finding) == "kernels.moe: called torch.cuda.is_available() at kernels/moe.py:3"


def test_modules_are_found_by_file():
    names = modules_of("harness", ROOT)
    assert {"harness", "harness.launch", "harness.launch.sm_budget", "harness._child"} <= set(names)
    assert not [name for name in names if name.endswith("__main__")]
    assert modules_of("harness.state", ROOT) == ("harness.state",)


def test_a_package_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no module 'nowhere' in"):
        lint(["nowhere"], ROOT)


def test_a_child_that_dies_is_an_error(tmp_path):
    (tmp_path / "dies.py").write_text("import os\nos._exit(3)\n")
    with pytest.raises(LintError, match="child ended with 3"):
        lint(["dies"], tmp_path, preload=())
