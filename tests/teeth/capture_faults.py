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
)
