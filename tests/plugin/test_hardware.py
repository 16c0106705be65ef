"""Hardware markers: what runs, what is skipped and why, and what --require-gpu makes of it."""

import pytest

pytest_plugins = ["pytester"]

TEST = """
import pytest

@pytest.mark.{marker}
def test_on_hardware():
    raise SystemExit("reached the hardware test")
"""


@pytest.fixture
def without_gpu(pytester, monkeypatch):
    """A project that uses the harness and in which no GPU is visible, wherever this runs."""
    pytester.makeini("[pytest]\nconformance_modules = kernels\n")
    for variable in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.setenv(variable, "")
    return pytester


def run(pytester, *arguments):
    return pytester.runpytest_subprocess("-p", "harness.plugin", "-p", "no:cacheprovider", "-ra", *arguments)


@pytest.mark.parametrize(
    ("marker", "needs"),
    [
        ("gpu", "a GPU"),
        ("cuda", "an NVIDIA GPU"),
        ("rocm", "an AMD GPU"),
        ("multi_gpu", "2 GPUs"),
        ("sm90", "sm_90"),
        ("sm100", "sm_100"),
        ("sm103", "sm_103"),
        ("sm120", "sm_120"),
        ("sm121", "sm_121"),
        ("gfx942", "gfx942"),
        ("gfx950", "gfx950"),
        ("gfx1250", "gfx1250"),
    ],
)
def test_a_skip_says_what_was_needed_and_what_was_found(without_gpu, marker, needs):
    without_gpu.makepyfile(TEST.format(marker=marker))
    result = run(without_gpu, "--strict-markers")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"*needs {needs}, found no GPU*"])


def test_require_gpu_turns_the_skip_into_an_error(without_gpu):
    without_gpu.makepyfile(TEST.format(marker="sm120"))
    result = run(without_gpu, "--require-gpu")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*needs sm_120, found no GPU (--require-gpu)*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


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


@pytest.mark.parametrize(("profile", "examples"), [("quick", 20), ("ci", 100), ("nightly", 2000)])
def test_a_profile_sets_the_number_of_examples(pytester, profile, examples):
    pytester.makepyfile(
        f"from hypothesis import settings\ndef test_profile():\n    assert settings().max_examples == {examples}\n"
    )
    run(pytester, f"--hypothesis-profile={profile}").assert_outcomes(passed=1)
