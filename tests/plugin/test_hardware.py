"""Hardware markers: what runs, what is skipped and why, and what --require-gpu makes of it."""

import argparse

import pytest

from harness import plugin

pytest_plugins = ["pytester"]

TEST = """
@pytest.mark.{marker}
def test_on_hardware_{marker}():
    raise SystemExit("reached the hardware test")
"""
#: Marker -> what a test that has it needs.
NEEDS = {
    "gpu": "a GPU", "cuda": "an NVIDIA GPU", "rocm": "an AMD GPU", "multi_gpu": "2 GPUs", "sm90": "sm_90",
    "sm100": "sm_100", "sm103": "sm_103", "sm120": "sm_120", "sm121": "sm_121", "gfx942": "gfx942", "gfx950": "gfx950",
    "gfx1250": "gfx1250",
}  # fmt: skip


@pytest.fixture
def without_gpu(pytester, monkeypatch):
    """A project that uses the harness and in which no GPU is visible, wherever this runs."""
    pytester.makeini("[pytest]\nconformance_modules = kernels\n")
    for variable in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.setenv(variable, "")
    return pytester


def run(pytester, *arguments):
    return pytester.runpytest_subprocess("-p", "harness.plugin", "-p", "no:cacheprovider", "-ra", *arguments)


def marked(*markers):
    return "import pytest\n" + "".join(TEST.format(marker=marker) for marker in markers)


def test_a_skip_says_what_was_needed_and_what_was_found(without_gpu, monkeypatch):
    # a line as long as its reason
    monkeypatch.setenv("COLUMNS", "200")
    without_gpu.makepyfile(marked(*NEEDS))
    result = run(without_gpu, "--strict-markers", "-v")
    result.assert_outcomes(skipped=len(NEEDS))
    result.stdout.fnmatch_lines(
        [f"*::test_on_hardware_{marker} SKIPPED (needs {needs}, found no GPU*" for marker, needs in NEEDS.items()]
    )


def test_require_gpu_turns_the_skip_into_an_error(without_gpu):
    without_gpu.makepyfile(marked("sm120"))
    result = run(without_gpu, "--require-gpu")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*needs sm_120, found no GPU (--require-gpu)*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


ABOUT_A_TARGET = """
import pytest

def test_about_one(gpu_target):
    raise SystemExit("reached the hardware test")

@pytest.mark.sm100
@pytest.mark.sm120
def test_about_some(gpu_target):
    raise SystemExit("reached the hardware test")
"""


def test_the_same_tests_are_about_whichever_target_is_named(without_gpu):
    without_gpu.makepyfile(ABOUT_A_TARGET)
    result = run(without_gpu, "-m", "sm120", "-v")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*::test_about_one[[]sm_120] SKIPPED*", "*::test_about_some[[]sm_120] SKIPPED*"])
    result.stdout.fnmatch_lines(["*needs sm_120, found no GPU*"])
    result = run(without_gpu, "-m", "sm90", "-v")
    result.assert_outcomes(skipped=1, deselected=1)
    result.stdout.fnmatch_lines(["*::test_about_one[[]sm_90] SKIPPED*", "*needs sm_90, found no GPU*"])


def test_without_a_name_and_a_gpu_there_is_one_skip_a_test(without_gpu):
    without_gpu.makepyfile(ABOUT_A_TARGET)
    result = run(without_gpu)
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(
        ["*needs an NVIDIA GPU, found no GPU*", "*needs sm_100 or sm_120, found no GPU*"], consecutive=False
    )


def test_a_target_that_is_emulated_needs_a_gpu_to_stand_in(without_gpu):
    without_gpu.makepyfile(ABOUT_A_TARGET)
    result = run(without_gpu, "-m", "sm120", "--emulate", "sm120", "--require-gpu")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*needs sm_120 or a GPU that can stand in for it, found no GPU (--require-gpu)*"])


def test_a_target_to_emulate_that_has_no_name_here_is_refused():
    plugin.check_target("sm120")
    plugin.check_target(None)
    with pytest.raises(pytest.UsageError, match=r"--emulate: no target 'sm_120'; there are: sm80, "):
        plugin.check_target("sm_120")


def test_unmarked_tests_run_without_a_gpu(without_gpu):
    without_gpu.makepyfile("def test_on_the_host():\n    assert True\n")
    run(without_gpu, "--require-gpu").assert_outcomes(passed=1)


def test_the_header_says_what_this_machine_can_run(without_gpu):
    result = run(without_gpu, "--collect-only")
    result.stdout.fnmatch_lines(["kernel-harness: virtual GPU, no GPU: every GPU test is skipped"])


def test_a_project_that_does_not_use_the_harness_keeps_its_own_markers(without_gpu):
    without_gpu.makeini("[pytest]\nmarkers = gpu: ours\n")
    without_gpu.makepyfile("import pytest\n@pytest.mark.gpu\ndef test_of_theirs():\n    assert True\n")
    result = run(without_gpu)
    result.assert_outcomes(passed=1)
    assert "kernel-harness:" not in result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "no implementation is registered; name its module: --module, or conformance_modules"),
        (["--contract", "mxfp4"], "no contract 'mxfp4'; did you mean 'mxfp4_moe'?"),
        (["--known", "nowhere.toml"], "--known nowhere.toml: No such file or directory"),
    ],
)
def test_suites_with_nothing_to_run_on_are_an_error(pytester, arguments, line):
    result = run(pytester, "--pyargs", "harness.suites", *arguments)
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    result.stdout.fnmatch_lines([f"*{line}*"])
    # once, not for every suite
    assert result.stdout.str().count(line) <= 2, "in the list of errors and in the summary"
    result.stdout.fnmatch_lines(["*Interrupted: 1 error during collection*"])


@pytest.mark.parametrize(
    ("taken", "allowed", "refused"),
    [
        (plugin._workers, {"1": 1, "14": 14}, ("0", "-1", "2.5", "many", "")),
        (plugin._seconds, {"0.5": 0.5, "170": 170.0}, ("0", "-1", "nan", "soon", "")),
    ],
)
def test_workers_and_deadlines_are_positive(taken, allowed, refused):
    assert {text: taken(text) for text in allowed} == allowed
    for text in refused:
        with pytest.raises(argparse.ArgumentTypeError, match="wanted"):
            taken(text)


@pytest.mark.parametrize(("profile", "examples"), [("quick", 20), ("ci", 100), ("nightly", 2000)])
def test_a_profile_sets_the_number_of_examples(pytester, profile, examples):
    pytester.makepyfile(
        f"from hypothesis import settings\ndef test_profile():\n    assert settings().max_examples == {examples}\n"
    )
    run(pytester, f"--hypothesis-profile={profile}").assert_outcomes(passed=1)
