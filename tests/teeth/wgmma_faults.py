"""Faults planted in what the compile lane reads of a wgmma's registers in machine code."""

from tests.teeth.compile_faults import CompileFault

FAULTS = (
    CompileFault(
        "a wait for some is a wait for all",
        "wgmma_hazard",
        "self.groups[-left:] if left else ()",
        "()",
        "the_next_step_must_not_write_what_is_read",
    ),
    CompileFault(
        "a wait for all keeps all",
        "wgmma_hazard",
        "self.groups[-left:] if left else ()",
        "self.groups[-left:]",
        "what_is_waited_for_may_be_written",
    ),
    CompileFault(
        "only what is in a group is in flight",
        "wgmma_hazard",
        "reading = self.open | one.left\n",
        "reading = one.left\n            if 'gsb0' not in one.text:\n                return self\n",
        "the_next_step_must_not_write_what_is_read",
    ),
    CompileFault(
        "a wide load writes one register",
        "wgmma_hazard",
        "        return 4\n",
        "        return 1\n",
        "the_next_step_must_not_write_what_is_read",
    ),
    CompileFault(
        "a step is walked once",
        "wgmma_hazard",
        "if (place, pending) in seen:",
        "if place in {known for known, _ in seen}:",
        "the_next_step_must_not_write_what_is_read",
    ),
    CompileFault(
        "a comparison writes what it compares",
        "wgmma_hazard",
        "[A-Z]*SETP|FCHK",
        "FCHK",
        "what_is_waited_for_may_be_written",
    ),
    CompileFault(
        "a branch is always taken",
        "wgmma_hazard",
        "always = always and found[1] is None",
        "always = True",
        "every_path_is_walked",
    ),
    CompileFault(
        "functions run on into each other",
        "wgmma_hazard",
        'sass.split("Function :")',
        "[sass]",
        "every_path_is_walked",
    ),
    CompileFault(
        "any wgmma has its left operand in registers",
        "wgmma_hazard",
        r"\S*\s+\{[^}]*\},\s*\{",
        r"\S*\s+\{",
        "registers_that_are_read_are_no_shared_memory",
    ),
    CompileFault(
        "what is written too early passes",
        "verdicts",
        "    if figures.overwritten:",
        "    if figures.overwritten > figures.registers:",
        "what_is_written_too_early_fails",
    ),
)
