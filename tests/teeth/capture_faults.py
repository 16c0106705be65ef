"""Faults planted in what the capture lint knows of torch: one change of source each."""

from tests.teeth.rooms import RoomFault


def fault(name, file, old, new, check):
    return RoomFault(name, "graphs", file, old, new, check)


FAULTS = (
    fault("allclose is computed", "rules", '"aten::allclose"', '"aten::isclose"', "comparisons_of_values_wait"),
    fault(
        "whatever is compared waits",
        "rules",
        "return first.shape == second.shape and first.numel() > 0 and not same",
        "return True",
        "comparisons_of_values_wait",
    ),
    fault(
        "a tensor and itself are compared",
        "rules",
        "and first.numel() > 0 and not same",
        "and first.numel() > 0",
        "comparisons_of_values_wait",
    ),
    fault(
        "questions inside of an operation go unseen",
        "rules",
        'if name == "aten::equal" and not any(on_host(tensor) for tensor in given):',
        'if name == "aten::equal" and not given:',
        "comparisons_of_values_wait",
    ),
    fault(
        "a number to fill in is passed by value",
        "rules",
        'case "masked_fill" | "index_fill" if is_read("value"):',
        'case "masked_fill" if is_read("mask"):',
        "numbers_of_the_device_are_read_where_the_host_needs_them",
    ),
    fault(
        "every range waits",
        "rules",
        "isinstance(named.get(argument), torch.Tensor) and on_device(named[argument])",
        "argument in named",
        "numbers_of_the_device_are_read_where_the_host_needs_them",
    ),
    fault(
        "a range is always known",
        "rules",
        'named.get("min", 0) == named.get("max", 0)',
        'named.get("min", 0) > named.get("max", 0)',
        "arguments_decide_whether_the_host_looks",
    ),
    fault(
        "few are sorted like many",
        "rules",
        "_ISIN_TIMES, _ISIN_POWER = 10, 0.145",
        "_ISIN_TIMES, _ISIN_POWER = 0, 0.145",
        "arguments_decide_whether_the_host_looks",
    ),
    fault(
        "unchecked lengths are checked",
        "rules",
        'if not named.get("unsafe", False):',
        "if named:",
        "arguments_decide_whether_the_host_looks",
    ),
    fault(
        "singular values are the device's",
        "rules",
        '"aten::_linalg_svd"',
        '"aten::_linalg_qr"',
        "decompositions_need_the_host",
    ),
    fault(
        "the seed that it has is another one",
        "generators",
        "and int(value) != generator.initial_seed():",
        "and value is not None:",
        "a_graph_keeps_its_seed_and_knows_one_generator",
    ),
    fault(
        "any seed is kept",
        "generators",
        "and int(value) != generator.initial_seed():",
        "and value is None:",
        "a_graph_keeps_its_seed_and_knows_one_generator",
    ),
    fault(
        "a graph knows every generator",
        "generators",
        "generator._cdata != default._cdata",
        "generator is default",
        "a_graph_keeps_its_seed_and_knows_one_generator",
    ),
    fault(
        "a generator of the host is the device's",
        "generators",
        '        if is_on_device(generator):\n            add("makes',
        '        if generator:\n            add("makes',
        "a_graph_keeps_its_seed_and_knows_one_generator",
    ),
    fault(
        "what torch makes by itself is the host's",
        "rules",
        "if on_device(source) and on_host(target):",
        "if on_device(source) and not on_device(target):",
        "what_torch_makes_inside_of_an_operation_is_where_the_rest_is",
    ),
    fault(
        "graphs are checked on whatever device is current",
        "suite",
        "    with torch.cuda.device(where):",
        '    with torch.cuda.device(torch.device("cuda", torch.cuda.current_device())):',
        "graphs_are_checked_on_the_device_that_is_named",
    ),
    fault(
        "a graph that is replayed with nothing else passes",
        "cases",
        "    if nothing:\n",
        "    if not case:\n",
        "a_graph_is_replayed_with_something_else",
    ),
    fault(
        "a relation is no other input",
        "cases",
        '            nothing = False\n            yield Again(f"the relation',
        '            yield Again(f"the relation',
        "a_graph_is_replayed_with_something_else",
    ),
    fault(
        "known failures of graphs count",
        "suite",
        "if not known.tolerates(wrong.check, case)]",
        "if wrong]",
        "known_failures_are_left_out_and_what_is_in_quarantine_does_not_run",
    ),
    fault(
        "what is in quarantine is captured",
        "suite",
        "if not known.quarantines(case))",
        "if case)",
        "known_failures_are_left_out_and_what_is_in_quarantine_does_not_run",
    ),
    fault(
        "every constant is a way of its own",
        "reach",
        "if _TILE in name or isinstance(value, bool)}",
        "}",
        "a_size_alone_is_no_way",
    ),
    fault(
        "tiles make no difference",
        "reach",
        "if _TILE in name or isinstance(value, bool)}",
        "if isinstance(value, bool)}",
        "another_tile_is_another_way",
    ),
    fault(
        "switches make no difference",
        "reach",
        "if _TILE in name or isinstance(value, bool)}",
        "if _TILE in name}",
        "a_switch_of_the_kernel_is_another_way",
    ),
    fault(
        "options make no difference",
        "reach",
        '_OPTIONS = ("num_warps", "num_stages", "maxnreg")',
        '_OPTIONS = ("num_warps", "num_stages")',
        "other_options_are_another_way",
    ),
    fault(
        "one kernel of a launch stands for it",
        "reach",
        "for one in record(implementation.launch, inputs, target)",
        "for one in record(implementation.launch, inputs, target)[:1]",
        "another_kernel_is_another_way",
    ),
    fault(
        "one target stands for all",
        "reach",
        "            taken.setdefault(place, set()).add(way)\n    missing",
        '            for arch in ("sm_90", "sm_120"):\n'
        "                taken.setdefault((arch, place[1]), set()).add(way)\n    missing",
        "every_target_counts_by_itself",
    ),
)
