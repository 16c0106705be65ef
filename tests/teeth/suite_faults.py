"""Faults planted in the device suite: how much runs, how long, and what is excused; one change of source each."""

from tests.teeth.rooms import RoomFault


def fault(name, file, old, new, check):
    return RoomFault(name, "hardware", file, old, new, check)


FAULTS = (
    fault(
        "every profile has the same seconds",
        "suite",
        "return SECONDS[profile(config)] + ONE_CASE",
        'return SECONDS["quick"] + ONE_CASE',
        "a_longer_profile_runs_more_and_may_take_longer",
    ),
    fault(
        "no time is left for the last case",
        "suite",
        "return SECONDS[profile(config)] + ONE_CASE",
        "return SECONDS[profile(config)]",
        "a_longer_profile_runs_more_and_may_take_longer",
    ),
    fault(
        "a long search ends like a quick one",
        "suite",
        "deadline=SECONDS[name],",
        'deadline=SECONDS["quick"],',
        "the_profile_bounds_a_search",
    ),
    fault(
        "the first workload is enough",
        "sizes",
        "for number in chosen if number in workloads)",
        "for number in chosen[:1] if number in workloads)",
        "a_quick_profile_runs_what_is_chosen_and_others_all",
    ),
    fault(
        "what is no workload is left out",
        "sizes",
        "more = range(max(1, len(workloads)), len(real_sizes(contract)))",
        "more = range(0)",
        "a_quick_profile_runs_what_is_chosen_and_others_all",
    ),
    fault(
        "every profile runs what a quick one does",
        "suite",
        'if profile(config) == "quick":',
        "if profile(config):",
        "a_quick_profile_runs_what_is_chosen_and_others_all",
    ),
    fault(
        "deadlines are numbers",
        "isolation",
        "float(deadline(item.config) if callable(deadline) else deadline)",
        "0.0 if callable(deadline) else float(deadline)",
        "a_tests_own_deadline_may_depend_on_the_run",
    ),
    fault(
        "a file of known failures is for searches",
        "suite",
        "known = Ledger(known_file.excused_by(config, implementation, contract).known)",
        "known = Ledger(implementation.known)",
        "known_failures_of_a_file_are_excused_at_real_sizes",
    ),
    fault(
        "what is in quarantine runs",
        "suite",
        "if known.quarantines(case):",
        "if not known:",
        "known_failures_of_a_file_are_excused_at_real_sizes",
    ),
    fault(
        "gigabytes are drawn on the host",
        "workloads",
        "if self._drawn and self.case in self.contract.workloads:",
        "if self._drawn and not self.case:",
        "a_workload_is_drawn_on_the_device_if_that_can_be",
    ),
    fault(
        "what cannot be drawn on the device is the contract's error",
        "workloads",
        "except ContractError:",
        "except KeyError:",
        "a_workload_is_drawn_on_the_device_if_that_can_be",
    ),
)
