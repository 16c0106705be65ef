"""Faults planted in the mutation engine: one change of source each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineFault:
    """In ``harness/mutation/FILE``, ``old``, which stands there once, becomes ``new``; ``check`` must kill it."""

    name: str
    file: str
    old: str
    new: str
    check: str

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


FAULTS = (
    EngineFault(
        "red checks of the original count as kills",
        "judge.py",
        "return known is None or check in known or",
        "return known is None or bool(check) or",
        "only_checks_green_on_the_original_kill",
    ),
    EngineFault(
        "violations of the original are taken for passes",
        "judge.py",
        "frozenset(result.checks_run - {violation.check for violation in result.violations})",
        "frozenset(result.checks_run)",
        "only_checks_green_on_the_original_kill",
    ),
    EngineFault(
        "the original is never asked",
        "_worker.py",
        'found.pop("unit", None), Status(found["status"])',
        'found.pop("unit", None), Status.SURVIVED',
        "a_kill_that_the_original_shares_is_tried_again",
    ),
    EngineFault(
        "a contract that fails on everything kills everything",
        "_worker.py",
        "if number is None or not status.killed:",
        "if number is None or status not in (Status.KILLED, Status.TIMEOUT):",
        "a_contract_that_fails_on_the_original_is_no_kill",
    ),
    EngineFault(
        "what the original says is not heard",
        "_worker.py",
        'if status is Status.KILLED and not self._counts(unit, found["check"]):',
        'if not found["check"]:',
        "a_kill_that_the_original_shares_is_tried_again",
    ),
    EngineFault(
        "several regions at once never kill",
        "judge.py",
        'check == "poison:several"',
        'check == "poison:none"',
        "only_checks_green_on_the_original_kill",
    ),
    EngineFault(
        "nothing is trusted before it was asked about",
        "judge.py",
        "known is None or check in known",
        "known is not None and check in known",
        "a_place_that_was_not_asked_about_is_trusted_until_it_is",
    ),
    EngineFault(
        "only the first violation is looked at",
        "judge.py",
        "for violation in self._violations(unit):",
        "for violation in list(self._violations(unit))[:1]:",
        "a_kill_by_a_red_check_is_passed_over",
    ),
    EngineFault(
        "missing barriers are asked for values first",
        "plan.py",
        "not (turns and u.deep",
        "not (False and u.deep",
        "programs_take_turns_first_where_the_change_is_about_their_order",
    ),
    EngineFault(
        "what the original does too is a kill",
        "compared.py",
        'for (arch, message) in refused if (arch, message) not in known), "")',
        'for (arch, message) in refused), "")',
        "a_change_of_order_that_some_target_does_not_take_is_a_kill",
    ),
    EngineFault(
        "one sign is any number",
        "dead_lanes.py",
        "if known is not None and known[1] == known[2]:",
        "if known is not None:",
        "numbers_of_two_signs_are_told_apart",
    ),
    EngineFault(
        "waiting is not about order",
        "source.py",
        "barrier|atomic|wait|",
        "barrier|atomic|",
        "programs_take_turns_first_where_the_change_is_about_their_order",
    ),
    EngineFault(
        "invalid mutants count as kills",
        "results.py",
        "return self in (Status.KILLED, Status.CRASH, Status.TIMEOUT)",
        "return self in (Status.KILLED, Status.CRASH, Status.TIMEOUT, Status.INVALID)",
        "invalid_equivalent_and_skipped_mutants_are_not_counted",
    ),
    EngineFault(
        "skipped mutants count as survivors",
        "results.py",
        "return self.killed or self is Status.SURVIVED",
        "return self.killed or self in (Status.SURVIVED, Status.SKIPPED)",
        "invalid_equivalent_and_skipped_mutants_are_not_counted",
    ),
    EngineFault(
        "hangs do not count",
        "results.py",
        "return self in (Status.KILLED, Status.CRASH, Status.TIMEOUT)",
        "return self in (Status.KILLED, Status.CRASH)",
        "crashes_and_timeouts_are_kills_of_their_own",
    ),
    EngineFault(
        "argued survivors leave the denominator",
        "table.py",
        "    counted = [result for result in results if result.status.counted]\n    return sum",
        "    counted = [result for result in results if result.status.counted and not result.argued]\n    return sum",
        "argued_survivors_stay_in_the_denominator",
    ),
    EngineFault(
        "an argument covers a function of another name",
        "argued.py",
        "same = (self.file, self.function) == (result.file, result.function)",
        "same = self.file == result.file",
        "an_argument_is_about_one_function_and_one_change",
    ),
    EngineFault(
        "an argument covers every change of a place",
        "argued.py",
        "(one_line(self.before), one_line(self.after)) == result.change",
        "one_line(self.before) == result.change[0]",
        "an_argument_is_about_one_function_and_one_change",
    ),
    EngineFault(
        "wrong arguments go unnoticed",
        "argued.py",
        "if found and all(result.status.killed for result in found)",
        "if found and not found",
        "an_argument_about_a_killed_mutant_is_stale",
    ),
    EngineFault(
        "mutants that did not run excuse wrong arguments",
        "argued.py",
        "if result.status is not Status.SKIPPED]",
        "]",
        "an_argument_about_a_killed_mutant_is_stale",
    ),
    EngineFault(
        "arguments without a reason are taken",
        "argued.py",
        'if set(table) != _KEYS or not str(table["reason"]).strip():',
        "if set(table) != _KEYS:",
        "arguments_are_read_and_incomplete_ones_refused",
    ),
    EngineFault(
        "the first of two results wins even if it did not run",
        "results.py",
        "if name not in found or found[name].status is Status.SKIPPED:",
        "if name not in found:",
        "merging_keeps_each_mutant_once_and_prefers_what_ran",
    ),
    EngineFault(
        "kernels that share a file are merged into one",
        "results.py",
        "name = (result.kernel, result.key)",
        'name = ("", result.key)',
        "merging_keeps_each_mutant_once_and_prefers_what_ran",
    ),
    EngineFault(
        "the first shard has what the second has",
        "campaign.py",
        "int(mutant.key, 16) % count == number - 1",
        "int(mutant.key, 16) % count == max(number - 2, 0)",
        "shards_are_disjoint_and_complete",
    ),
    EngineFault(
        "a campaign at its floor fails",
        "floors.py",
        "found < floor",
        "found <= floor",
        "a_floor_is_held_by_every_kernel_alone",
    ),
    EngineFault(
        "one floor for all kernels together",
        "floors.py",
        "own = [result for result in results if result.kernel == kernel]",
        "own = list(results)",
        "a_floor_is_held_by_every_kernel_alone",
    ),
    EngineFault(
        "half a campaign is held to the floor",
        "floors.py",
        "own and not any(result.status is Status.SKIPPED for result in own)",
        "bool(own)",
        "a_part_of_a_campaign_is_held_to_no_floor",
    ),
    EngineFault(
        "the original in other words is a mutant",
        "generate.py",
        "return _dump(ast.Module(body, [])) != folded[before]",
        "return True",
        "mutants_are_told_apart_and_say_something_new",
    ),
)
