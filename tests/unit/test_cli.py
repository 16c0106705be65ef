"""The command line: what it prints, and one clear line with status 2 for what cannot run."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness import cli

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run one command in an empty folder; returns its status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    # a folder above the temporary one may have a pytest configuration; this one decides
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*arguments):
        status = cli.main(arguments)
        return status, *capsys.readouterr()

    return run


def test_list_names_contracts_outputs_and_implementations(run):
    status, out, _ = run("list", "--module", "kernels")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert status == 0
    assert {"mxfp4_moe", "sparse_mla_decode", "merge_attn_states"} < rows.keys()
    assert "out, lse" in rows["sparse_mla_decode"]
    assert "triton" in rows["merge_attn_states"]


def test_show_says_what_a_contract_promises(run):
    status, out, _ = run("show", "mxfp4_moe")
    assert status == 0
    for text in ("mxfp4_moe(hidden_states, ", "\noutputs\n    out: ", "\nrelations\n", "K = 48 (names hidden_states)"):
        assert text in out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["verify", "mxfp4_mo", "--module", "kernels"], "no contract 'mxfp4_mo'; did you mean 'mxfp4_moe'?"),
        (["verify", "--impl", "tritom", "--module", "kernels"], "no implementation 'tritom'; did you mean 'triton'?"),
        (["show", "sparse_mla"], "no contract 'sparse_mla'; did you mean 'sparse_mla_decode'?"),
        (["list", "--module", "no_such_module"], "cannot load module 'no_such_module': ModuleNotFoundError: "),
        (["list", "--adapter", "vllm"], "no adapter 'vllm'; there are: sglang"),
        (["case", "mxfp4_moe", "Case(", "--module", "kernels"], "not a case: "),
        (["case", "mxfp4_moe", "Case()", "--module", "kernels"], "Case: "),
        (["case", "mxfp4_moe", "Rejection(label='no')", "--module", "kernels"], "mxfp4_moe rejects nothing called"),
        (["verify", "--known", "nowhere.toml", "--module", "kernels"], "--known nowhere.toml: No such file"),
        (["verify", "--out", "pytest.ini", "--module", "kernels"], "--out pytest.ini: File exists"),
        (["new", "no-kernel"], "'no-kernel' cannot name a kernel"),
    ],
)
def test_what_cannot_run_is_one_line_and_status_2(run, arguments, line):
    status, out, error = run(*arguments)
    assert status == 2
    assert out == ""
    assert error.startswith(f"harness: {line}")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["verfiy"],
        ["verify", "--examples", "0"],
        ["verify", "--jobs", "x"],
        ["verify", "--examples", "50", "--cases", "9"],
    ],
)
def test_usage_errors_have_status_2(run, arguments):
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2


def test_sglang_without_its_wheel_says_what_to_run(run, monkeypatch):
    monkeypatch.setenv("HARNESS_SGLANG", "nowhere")
    status, _, error = run("verify", "--impl", "sglang-slot")
    assert status == 2
    assert error.startswith("harness: sglang 0.5.13.post1 is not here: run `make verify-sglang`")


def test_new_writes_a_module_that_list_then_shows(run):
    status, out, _ = run("new", "row_scale")
    assert status == 0
    assert out.splitlines()[0] == "wrote row_scale.py"
    assert "conformance_modules = row_scale" in out


def test_a_reader_that_has_enough_ends_it_without_a_word():
    # the reader is gone before a word is written; 141 is what a shell calls the end by SIGPIPE
    code = "from harness import cli; cli.main = lambda arguments: print('a row') or 0; cli.entry()"
    words = shlex.join([sys.executable, "-c", code])
    done = subprocess.run(
        ["bash", "-c", f"(sleep 1; {words}) | true; echo ${{PIPESTATUS[0]}}"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("141\n", "")
