"""Every fault planted in what tells a contract's mistakes from an implementation's faults is killed by its test."""

from dataclasses import dataclass
from types import ModuleType

import pytest

from harness.outcome import ContractError
from harness.state import restore, snapshot
from tests.teeth.swapping import swapped
from tests.unit import test_compare, test_contract_mistakes, test_in_place, test_leaks


@dataclass(frozen=True)
class Fault:
    """In ``harness.MODULE``, ``old``, which stands there once, becomes ``new``; the test called so must fail."""

    module: str
    old: str
    new: str
    test: str
    tests: ModuleType = test_contract_mistakes

    def __str__(self) -> str:
        return f"{self.module}-{self.test}"


FAULTS = (
    Fault(
        "trial",
        "            check_repeatable(self.contract, self.case, self._first, before)\n",
        "",
        "inputs_that_are_not_the_same_twice_blame_no_implementation",
    ),
    Fault(
        "blame",
        "first.views.keys() ^ second.views.keys()",
        "second.views.keys() - first.views.keys()",
        "an_argument_that_is_there_only_once_is_named",
    ),
    Fault(
        "blame",
        "name for name in made if name not in contract.tolerance",
        "name for name in () if name not in contract.tolerance",
        "an_output_that_no_tolerance_is_for_is_a_mistake",
    ),
    Fault(
        "blame",
        "isinstance(tolerance, Budget) and not low[name].is_floating_point()",
        "isinstance(tolerance, Budget) and low[name].dtype is torch.int64",
        "a_budget_for_integers_is_a_mistake",
    ),
    Fault(
        "blame",
        "if low[name].shape != high[name].shape:",
        "if low[name].ndim != high[name].ndim:",
        "a_shape_that_follows_the_dtype_is_a_mistake",
    ),
    Fault(
        "blame",
        "size not in (1, wanted)",
        "size > wanted",
        "a_magnitude_that_does_not_broadcast_is_a_mistake",
    ),
    Fault(
        "search",
        "if not (hunt.cases or hunt.drawn or hunt.no_room or hunt.out_of_time):",
        "if not (hunt.drawn + 1 or hunt.no_room or hunt.out_of_time):",
        "cases_that_are_none_are_a_mistake",
    ),
    Fault(
        "run",
        '    with blamed_on(contract, "rejects"):\n        rejections = tuple(contract.rejects())\n',
        "    rejections = tuple(contract.rejects())\n",
        "illegal_calls_that_cannot_be_made_are_a_mistake",
    ),
    Fault("contract", "if not self.tolerance:", "if self.tolerance is None:", "a_contract_needs_an_output"),
    Fault(
        "report.summary",
        "all(record.verdict is Verdict.CONTRACT for record in self.records)",
        "any(record.verdict is Verdict.CONTRACT for record in self.records)",
        "nothing_but_wrong_contracts_is_status_2",
    ),
    Fault(
        "report.summary",
        "judged = [record for record in self.records if record.verdict is not Verdict.CONTRACT]",
        "judged = list(self.records)",
        "a_wrong_contract_is_no_fault_in_the_headline",
    ),
    Fault(
        "report.table",
        "            if record.verdict is Verdict.CONTRACT:\n                continue\n",
        "",
        "every_report_says_once_what_is_wrong_with_a_contract",
    ),
    Fault(
        "report.junit",
        "    if record.verdict in (Verdict.KNOWN, Verdict.CONTRACT):\n",
        "    if record.verdict is Verdict.KNOWN:\n",
        "every_report_says_once_what_is_wrong_with_a_contract",
    ),
    Fault(
        "report.records",
        'return "" if self.note and said.startswith(self.note) else self.note',
        "return self.note",
        "a_crash_says_its_text_once",
    ),
    Fault(
        "trial",
        "        self.result.checks_run.add(check)\n        self.add(check, _said(",
        '        self.result.checks_run |= {"memory", "raises"}\n        self.add(check, _said(',
        "the_check_of_memory_passes_nothing_where_every_launch_raised",
    ),
    Fault(
        "compare",
        "for digits in (9, 17):",
        "for digits in (6, 17):",
        "what_differs_is_shown_to_differ",
        test_compare,
    ),
    Fault(
        "compare",
        "    if shown[0] != shown[1]:\n        return shown\n    return f",
        "    if shown:\n        return shown\n    return f",
        "nan_that_differ_in_their_bits_only_are_shown_by_them",
        test_compare,
    ),
    Fault(
        "leaks",
        'dict(getattr(os.environ, "_data", os.environ)),',
        "None,",
        "a_variable_of_the_environment_is_named_and_taken_back",
        test_leaks,
    ),
    Fault("leaks", "            restore(before)\n", "", "a_default_dtype_is_no_fault_of_shape", test_leaks),
    Fault(
        "leaks",
        "if torch.initial_seed() != seed:",
        "if not torch.equal(torch.get_rng_state(), generator):",
        "a_seed_is_a_change_and_a_number_drawn_is_none",
        test_leaks,
    ),
    Fault(
        "trial",
        "written = execution.result.outside(inputs) if isinstance(execution.result, InPlace) else []",
        "written = []",
        "a_write_between_the_rows_of_a_view_is_a_fault",
        test_in_place,
    ),
    Fault(
        "in_place",
        "return InPlace(launch(**{**inputs, **written}), written)",
        "return InPlace(launch(**inputs), written)",
        "a_write_between_the_rows_of_a_view_is_a_fault",
        test_in_place,
    ),
    Fault(
        "in_place",
        "if name in outputs}",
        "if outputs}",
        "an_argument_that_is_no_output_may_hold_anything_afterwards",
        test_in_place,
    ),
    Fault(
        "in_place",
        "if isinstance(inputs.get(name), torch.Tensor)}",
        "}",
        "an_illegal_argument_reaches_the_launch",
        test_in_place,
    ),
    Fault(
        "discover",
        '        except (Exception, SystemExit) as error:\n            raise SetupError(f"cannot load module',
        '        except Exception as error:\n            raise SetupError(f"cannot load module',
        "a_module_that_exits_is_no_pass",
    ),
    Fault(
        "lanes",
        "except (Exception, SystemExit) as raised:",
        "except Exception as raised:",
        "an_exit_in_a_launch_is_a_fault_with_its_line",
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_test_kills(fault):
    # a test that unpacks the one violation it expects raises ValueError
    caught = (AssertionError, pytest.fail.Exception, ContractError, ZeroDivisionError, SystemExit, ValueError)
    before = snapshot()
    try:
        with swapped(f"harness.{fault.module}", fault.old, fault.new), pytest.raises(caught):
            getattr(fault.tests, f"test_{fault.test}")()
    finally:
        # what a faulty watch does not put back
        restore(before)
