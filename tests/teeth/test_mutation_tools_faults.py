"""Every fault planted in the adapters of other tools is killed by the check that names it."""

import importlib
from types import SimpleNamespace

import pytest

from tests.teeth.mutation_faults import EngineFault
from tests.teeth.test_mutation_faults import COPY, api_with
from tests.teeth.test_mutation_faults import engine as engine  # a fixture
from tests.unit.mutation_tools import CHECKS
from tests.unit.test_mutation_tools import MODULES

FAULTS = (
    EngineFault(
        "only the first output is compared", "tools.py",
        'for name in contract.outputs:\n            yield f"{CHECK}:{name}", difference(',
        'for name in contract.outputs[:1]:\n            yield f"{CHECK}:{name}", difference(',
        "every_output_is_compared",
    ),
    EngineFault(
        "reports of a tool are dropped", "tools.py",
        "                found.violations.append(Violation(check, outcome.problem))\n", "",
        "what_a_tool_reports_is_a_kill_in_its_words",
    ),
    EngineFault(
        "what a tool does not model is a report", "tools.py",
        'Violation(f"{check}: no verdict", outcome.problem)', "Violation(check, outcome.problem)",
        "what_a_tool_does_not_model_is_no_kill",
    ),
    EngineFault(
        "the tracer's results are not looked at", "tools.py",
        '("tracer", _traced, True)', '("tracer", _traced, False)',
        "the_sanitizer_has_no_results_to_compare_and_the_tracer_has",
    ),
    EngineFault(
        "gpucheck's own tolerance is doubled", "tools.py",
        '("gpucheck", False)', '("gpucheck", True)',
        "gpucheck_compares_by_its_own_tolerances_and_by_ours",
    ),
    EngineFault(
        "a release is asked of a style that has none", "styles.py",
        "    if name not in TOOLS:\n        return \"\"\n", "",
        "a_style_names_the_package_that_is_missing",
    ),
    EngineFault(
        "cases that fail on the original judge", "reach.py",
        "if trusted.green[place(unit)]:", "if place(unit) in trusted.green:",
        "only_cases_that_pass_on_the_original_judge",
    ),
    EngineFault(
        "units keep their numbers", "reach.py",
        "replace(unit, number=len(kept))", "unit",
        "only_cases_that_pass_on_the_original_judge",
    ),
    EngineFault(
        "what one implementation refuses is refused for all", "reach.py",
        " for module, said in words.items() if module not in run}", " for module, said in words.items()}",
        "a_module_that_one_implementation_runs_is_judged",
    ),
    EngineFault(
        "mutants that a tool cannot judge are survivors", "peers.py",
        "    judged = [place for place in places if _counted(results[place])]\n", "    judged = places\n",
        "a_judge_that_says_why_it_abstains_has_its_rate_on_fewer",
    ),
    EngineFault(
        "who ran out of time abstains", "peers.py",
        "return result.status is Status.SKIPPED and bool(result.reason)", "return result.status is Status.SKIPPED",
        "a_judge_that_says_why_it_abstains_has_its_rate_on_fewer",
    ),
    EngineFault(
        "no verdict is a rate of nothing", "peers.py",
        'return "-" if places else ""', 'return "0.0%"',
        "a_judge_that_judges_nothing_of_a_kernel_has_no_rate",
    ),
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path, engine):
    with api_with(fault, tmp_path, engine):
        modules = {name: module.__name__.replace("harness.mutation", COPY) for name, module in MODULES.items()}
        api = SimpleNamespace(**{name: importlib.import_module(copy) for name, copy in modules.items()})
        with pytest.raises((AssertionError, KeyError, IndexError, pytest.fail.Exception)):
            CHECKS[fault.check](api)


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
