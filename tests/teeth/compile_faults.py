"""Faults planted in the compile lane: what such tools get wrong, one change of source each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CompileFault:
    """In ``harness/compiling/FILE.py``, ``old``, which stands there once, becomes ``new``; ``check`` must fail.

    ``check`` names one of ``tests.unit.compile_checks``.
    """

    name: str
    file: str
    old: str
    new: str
    check: str

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


FAULTS = (
    CompileFault(
        "the stack read as a spill",
        "ptxas",
        "spill_stores=sum(stores for _, stores, _ in functions)",
        "spill_stores=sum(stack for stack, _, _ in functions)",
        "a_stack_is_no_spill",
    ),
    CompileFault(
        "static shared memory overlooked",
        "ptxas",
        "int(shared[1]) if shared else 0",
        "0",
        "a_stack_is_no_spill",
    ),
    CompileFault(
        "spilled registers taken for bytes",
        "amdgcn",
        "return self.vgpr_spills * _REGISTER_BYTES",
        "return self.vgpr_spills",
        "amd_metadata_is_read",
    ),
    CompileFault(
        "the limit of shared memory is Triton's business",
        "verdicts",
        "if shared > most:",
        "if shared > most and not nvidia:",
        "each_limit_is_kept",
    ),
    CompileFault(
        "the limit leaves static shared memory out",
        "verdicts",
        "shared = figures.shared + figures.shared_static",
        "shared = figures.shared",
        "each_limit_is_kept",
    ),
    CompileFault(
        "registers of a block not multiplied",
        "verdicts",
        "if not residency.blocks_per_sm:",
        "if figures.registers > 255:",
        "each_limit_is_kept",
    ),
    CompileFault(
        "only spill loads count",
        "figures",
        "return max(self.spill_stores, self.spill_loads)",
        "return self.spill_loads // 8",
        "a_spill_fails",
    ),
    CompileFault(
        "a gather taken for a load",
        "instructions",
        r"\.global(?![^;]*tile::gather4)",
        r"\.global",
        "a_missing_instruction_is_noticed",
    ),
    CompileFault(
        "lowered descriptors pass",
        "verdicts",
        "    if figures.lowered:",
        "    if figures.lowered == figures.asked:",
        "a_missing_instruction_is_noticed",
    ),
    CompileFault(
        "temporary paths in a refusal",
        "messages",
        'return one_line("; ".join(words))',
        "return one_line(text)",
        "a_refusal_is_in_the_assemblers_words",
    ),
    CompileFault(
        "only one assembler's name is known",
        "messages",
        r'r"ptxas[\w-]*\s+',
        r'r"ptxas-blackwell\s+',
        "a_refusal_is_in_the_assemblers_words",
    ),
    CompileFault(
        "the place of a refusal filtered away",
        "compiler",
        "compiler.filter_traceback = lambda error: None",
        "assert compiler",
        "a_refusal_of_the_front_end_says_why_and_where",
    ),
    CompileFault(
        "the outermost refusal is the reason",
        "acceptance",
        "        current = current.__cause__",
        "        current = None",
        "a_refusal_of_the_front_end_says_why_and_where",
    ),
    CompileFault(
        "an explained refusal explained again",
        "messages",
        'if kind == "Refused":',
        'if kind == "CompilationError":',
        "a_refusal_of_the_front_end_says_why_and_where",
    ),
    CompileFault(
        "nothing to launch is fine",
        "plan",
        "if name not in declaring]",
        "if name in declaring]",
        "a_contract_without_anything_to_launch_is_noticed",
    ),
    CompileFault(
        "the last line is the last word",
        "messages",
        "last = said[-1] if said else",
        "last =",
        "a_crash_is_in_the_compilers_words",
    ),
    CompileFault(
        "a stale declaration unnoticed",
        "verdicts",
        '        verdict="STALE",\n        failing=True,',
        '        verdict="STALE",\n        failing=False,',
        "a_declaration_that_is_not_true_fails",
    ),
    CompileFault(
        "any refusal is the expected one",
        "verdicts",
        "if expected.says in found.message:",
        "if expected.says:",
        "a_declaration_that_is_not_true_fails",
    ),
    CompileFault(
        "divisibility hints dropped",
        "recording",
        "compiler.ASTSource(function, signature, constants, attributes)",
        "compiler.ASTSource(function, signature, constants, {})",
        "what_is_launched_is_what_is_compiled",
    ),
    CompileFault(
        "every configuration compiled, pruned ones too",
        "recording",
        "configs = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs",
        "configs = tuner.configs",
        "what_is_launched_is_what_is_compiled",
    ),
    CompileFault(
        "the first configuration stands for all",
        "recording",
        "            for config in configs:",
        "            for config in configs[:1]:",
        "what_is_launched_is_what_is_compiled",
    ),
    CompileFault(
        "the launch not told for which target",
        "recording",
        "pretending(target), physical_from",
        'pretending("sm_90"), physical_from',
        "the_launch_sees_the_target",
    ),
    CompileFault(
        "cache key without the target",
        "naming",
        '        "target": specialisation.target.arch,\n',
        "",
        "a_result_is_kept_under_all_that_it_depends_on",
    ),
    CompileFault(
        "cache key without the options",
        "naming",
        '        "options": {name: repr(value) for name, value in specialisation.options.items()},\n',
        "",
        "a_result_is_kept_under_all_that_it_depends_on",
    ),
    CompileFault(
        "cache key without the Triton version",
        "cache",
        'json.dumps({**parts, "schema": SCHEMA}',
        'json.dumps({**parts, "schema": SCHEMA, "triton": ""}',
        "a_result_is_kept_under_all_that_it_depends_on",
    ),
    CompileFault(
        "cache key without divisibility",
        "naming",
        '"hints": sorted(map(repr, specialisation.source.attrs.items())),',
        '"hints": [],',
        "a_result_is_kept_under_all_that_it_depends_on",
    ),
    CompileFault(
        "cache key from Triton's own hash",
        "naming",
        '"source": digest(specialisation.function),',
        '"source": specialisation.source.hash(),',
        "a_key_is_the_same_whatever_was_hashed_before",
    ),
    CompileFault(
        "what a kernel calls is not in its key",
        "sources",
        "_collect(value, texts)",
        "pass",
        "what_a_kernel_calls_and_reads_is_in_its_key",
    ),
    CompileFault(
        "what a kernel reads is not in its key",
        "sources",
        "constants[dotted] = str(value)",
        "pass",
        "what_a_kernel_calls_and_reads_is_in_its_key",
    ),
    CompileFault(
        "the baseline is blind to shared memory",
        "baseline",
        '"shared": 0.0,',
        '"shared": 1.0,',
        "every_figure_is_compared",
    ),
    CompileFault(
        "registers may grow by half",
        "baseline",
        "REGISTER_SLACK = 0.10",
        "REGISTER_SLACK = 0.50",
        "every_figure_is_compared",
    ),
    CompileFault(
        "a configuration that nobody accepted passes",
        "baseline",
        "set()) - known if known else set()",
        "set()) - configs if known else set()",
        "a_configuration_on_one_side_only_fails",
    ),
    CompileFault(
        "a configuration that is launched no more passes",
        "baseline",
        "known - configs if whole",
        "known - configs if not whole",
        "a_configuration_on_one_side_only_fails",
    ),
    CompileFault(
        "improvements fail",
        "baseline",
        "failing=now > before * (1 + share)",
        "failing=now != before * (1 + share)",
        "every_figure_is_compared",
    ),
    CompileFault(
        "what a called function touches is not seen",
        "early",
        "if inner is not None:",
        "if inner is None:",
        "a_kernel_that_starts_early_waits_before_it_touches_memory",
    ),
    CompileFault(
        "only who waits has to wait first",
        "early",
        "if _CONTROL not in ir:",
        "if _WAIT not in ir.split('private')[0]:",
        "a_kernel_that_starts_early_waits_before_it_touches_memory",
    ),
    CompileFault(
        "grids that nobody accepted pass",
        "grids",
        "(True, set(now[place]) - before[place])",
        "(True, set())",
        "a_grid_on_one_side_only_fails",
    ),
    CompileFault(
        "grids of other implementations are forgotten",
        "grids",
        "if place[0] not in asked or",
        "if not asked or",
        "grids_are_kept_until_they_are_launched_again",
    ),
    CompileFault(
        "a grid that depends on the configuration is not asked",
        "recording",
        "grid = grid({**dict(zip(function.arg_names, args, strict=False)), **kwargs})",
        "grid = (1,)",
        "a_grid_is_recorded_whatever_gives_it",
    ),
    CompileFault(
        "any known spill excuses any spill",
        "baseline",
        "one.result.figures.spilled > row[2]",
        "not row[2]",
        "a_spill_is_excused_by_the_baseline_alone",
    ),
    CompileFault(
        "the baseline excuses everything",
        "baseline",
        """if one.judgement.verdict != "SPILLS" or one.result.figures is None:""",
        """if one.result.figures is None:""",
        "a_spill_is_excused_by_the_baseline_alone",
    ),
    CompileFault(
        "no deadline",
        "workers",
        "self.due = self._began + deadline",
        "self.due = self._began + 60.0",
        "a_crash_or_a_hang_costs_one_task",
    ),
    CompileFault(
        "what the crash was is lost",
        "workers",
        'name = signal.Signals(-code).name if code < 0 else f"exit status {code}"',
        'name = f"exit status {code}"',
        "a_crash_or_a_hang_costs_one_task",
    ),
)
