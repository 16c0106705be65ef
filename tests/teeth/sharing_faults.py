"""Faults planted in what the compile lane does once for several targets or launches."""

from tests.teeth.compile_faults import CompileFault

FAULTS = (
    CompileFault(
        "a launch lends to one that specialises otherwise",
        "sharing",
        'if name not in ("target", "backend")}',
        'if name not in ("target", "backend", "hints")}',
        "the_same_launch_lends_to_a_like_target",
    ),
    CompileFault(
        "options do not count between targets",
        "sharing",
        '"options": options, "kernel"',
        '"options": "", "kernel"',
        "the_same_launch_lends_to_a_like_target",
    ),
    CompileFault(
        "the names of targets count between targets",
        "sharing",
        """_BY_TARGET = frozenset({"arch", "supported_fp8_dtypes",""",
        """_BY_TARGET = frozenset({"supported_fp8_dtypes",""",
        "the_same_launch_lends_to_a_like_target",
    ),
    CompileFault(
        "another target's PTX is good enough",
        "sharing",
        "own.ptx == retargeted(lent.ptx, arch)",
        "len(own.ptx) == len(lent.ptx)",
        "targets_are_alike_where_all_but_the_name_is_the_same",
    ),
    CompileFault(
        "a trial that was refused is a pass",
        "sharing",
        "return own is not None and",
        "return own is None or",
        "targets_are_alike_where_all_but_the_name_is_the_same",
    ),
    CompileFault(
        "the target's name replaced wherever it stands",
        "sharing",
        """re.compile(r"^(\\.target\\s+sm_)\\d+", re.MULTILINE)""",
        """re.compile(r"()\\b120(?=;)")""",
        "targets_are_alike_where_all_but_the_name_is_the_same",
    ),
    CompileFault(
        "a borrower's own Triton IR is not looked at",
        "compiler",
        "(module, metadata))) != lent.ttir:",
        "(module, metadata))) == 0:",
        "what_is_borrowed_is_what_would_have_been_compiled",
    ),
    CompileFault(
        "the lender's registers are the borrower's",
        "compiler",
        "asdict(replace(figures, **_assembled(log.getvalue())))",
        "asdict(figures)",
        "what_is_borrowed_is_what_would_have_been_compiled",
    ),
    CompileFault(
        "lent without a trial",
        "lane",
        " and sharing.place_of(one) in alike",
        "",
        "a_kernel_lends_only_after_a_trial",
    ),
    CompileFault(
        "targets share although told not to",
        "lane",
        "if share else {}",
        "",
        "a_kernel_lends_only_after_a_trial",
    ),
    CompileFault(
        "nobody remembers that it was lent",
        "lane",
        " and (share or not result.lent)",
        "",
        "what_was_lent_is_no_answer_where_nothing_may_be",
    ),
    CompileFault(
        "sources are read once a process",
        "plan",
        "digest = cache(sources.digest)",
        """digest = make.__dict__.setdefault("digest", cache(sources.digest))""",
        "sources_are_read_again_for_every_plan",
    ),
    CompileFault(
        "lines of LDS are not looked at",
        "instructions",
        "matrix|lds|ds_|tensor_",
        "matrix|ds_(?!from)|tensor_",
        "every_instruction_of_note_is_counted",
    ),
)
