"""Faults planted in the mutation engine about what stands around launches, and about kills in the plan's order."""

from tests.teeth.mutation_faults import EngineFault

FAULTS = (
    EngineFault(
        "what stands around launches is the harness's own",
        "behind.py",
        "    if name in SURROUNDINGS:\n",
        "    if name in ():\n",
        "what_stands_around_launches_is_mutated_where_policies_judge_it",
    ),
    EngineFault(
        "all of the harness is mutated",
        "behind.py",
        '    if name.partition(".")[0] in _FOREIGN:\n        return\n',
        '    if name.partition(".")[0] in ("torch", "triton"):\n        return\n',
        "what_stands_around_launches_is_mutated_where_policies_judge_it",
    ),
    EngineFault(
        "whoever launches with a barrier judges it",
        "targets.py",
        "    return module not in SURROUNDINGS or any(",
        "    return True or any(",
        "what_stands_around_launches_is_mutated_where_policies_judge_it",
    ),
    EngineFault(
        "a package that hands things on is a target",
        "targets.py",
        " and any(source(module, Path()).regions())",
        "",
        "what_stands_around_launches_is_mutated_where_policies_judge_it",
    ),
    EngineFault(
        "a policy is asked once a contract",
        "plan.py",
        "            if policy not in policies:\n",
        "            if policy not in policies or True:\n",
        "policies_judge_what_they_are_about_once",
    ),
    EngineFault(
        "policies judge every mutant",
        "plan.py",
        "if module in SURROUNDINGS or not isinstance(unit.case, Policy)]",
        "if module or not isinstance(unit.case, Policy)]",
        "policies_judge_what_they_are_about_once",
    ),
    EngineFault(
        "a policy always holds",
        "judge.py",
        "            return check_policies((case,))\n",
        "            return check_policies(())\n",
        "a_policy_that_does_not_hold_kills",
    ),
    EngineFault(
        "the order is learned all the same",
        "plan.py",
        "        if not self.learns:\n",
        "        if not self.learns and not told.check:\n",
        "in_order_nothing_is_learned",
    ),
    EngineFault(
        "what launches nothing that changed comes last in order too",
        "child.py",
        "    if bench.in_order or not (wanted.device and bench.digests):",
        "    if not (wanted.device and bench.digests):",
        "in_order_nothing_is_learned",
    ),
    EngineFault(
        "earlier results are asked first in order",
        "campaign.py",
        "    if options.in_order and options.earlier:\n",
        "    if options.in_order and not options.earlier:\n",
        "what_killed_earlier_is_of_no_use_in_order",
    ),
    EngineFault(
        "both orders are one",
        "table.py",
        "if r.status is Status.KILLED and r.in_order is in_order]",
        "if r.status is Status.KILLED]",
        "the_table_tells_how_soon_a_case_failed_by_the_order",
    ),
    EngineFault(
        "nearly all are 95 of 100",
        "table.py",
        "math.ceil(0.9 * len(kills))",
        "math.ceil(0.95 * len(kills))",
        "the_table_tells_how_soon_a_case_failed_by_the_order",
    ),
)
