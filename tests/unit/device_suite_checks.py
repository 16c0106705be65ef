"""What must hold for the device suite without a device: how much a profile runs, how long, and what is excused."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import torch

from harness import known_file
from harness.device import TARGETS
from harness.known import Known
from tests.unit.device_lane_checks import lane_of
from tests.unit.pooling import CASE, CONTRACT, RIGHT, changed

REAL = replace(CONTRACT, workloads=(CASE, replace(CASE, slots=5), replace(CASE, slots=6)))


def config_of(profile=None, known=None):
    options = {"hypothesis_profile": profile, "known": known}
    return SimpleNamespace(getoption=lambda name, default=None: options.get(name) or default)


def a_longer_profile_runs_more_and_may_take_longer(api):
    few, some, many = (config_of(name) for name in ("quick", "ci", "nightly"))
    for figures in (api.suite.EXAMPLES, api.suite.SECONDS):
        assert 0 < figures["quick"] < figures["ci"] < figures["nightly"]
    assert api.suite.deadline(few) < api.suite.deadline(some) < api.suite.deadline(many)
    # the last case of a search may begin at the end of its seconds
    assert all(api.suite.deadline(config_of(name)) >= seconds + 60 for name, seconds in api.suite.SECONDS.items())
    assert api.suite.deadline(config_of()) == api.suite.deadline(config_of("theirs")) == api.suite.deadline(few)


def the_profile_bounds_a_search(api):
    asked = {}

    def search(contract, implementation, **options):
        asked[options["examples"]] = options["deadline"], options["rare"]
        return SimpleNamespace(records=list)

    lane = SimpleNamespace(refused=(), passed_over=())
    with patch.multiple(api.suite, search=search, device_lane=lambda target: lane):
        for name in ("quick", "ci", "nightly"):
            api.suite.searched(CONTRACT, RIGHT, TARGETS["sm90"], config_of(name))
    examples, seconds = api.suite.EXAMPLES, api.suite.SECONDS
    assert asked == {examples[name]: (seconds[name], name != "quick") for name in examples}


def a_quick_profile_runs_what_is_chosen_and_others_all(api):
    first = replace(RIGHT, name="first")
    with patch.dict(api.sizes.FIRST, {("pooling", "first"): (0, 2)}):
        assert api.suite.workloads(REAL, first, config_of("quick")) == [0, 2]
        assert api.suite.workloads(REAL, RIGHT, config_of()) == [0]
        # a contract that lost a workload has fewer, not another
        assert api.suite.workloads(replace(REAL, workloads=REAL.workloads[:2]), first, config_of()) == [0]
        for name in ("ci", "nightly"):
            assert api.suite.workloads(REAL, first, config_of(name)) == [0, 1, 2]
    more = {"pooling": lambda workloads: (replace(CASE, slots=9),)}
    with patch.dict(api.sizes._MORE, more):
        assert api.suite.workloads(REAL, RIGHT, config_of()) == [0, 3]


def a_tests_own_deadline_may_depend_on_the_run(api):
    def item(**marks):
        marker = SimpleNamespace(kwargs=marks)
        config = SimpleNamespace(getoption=lambda name: 7.0)
        return SimpleNamespace(nodeid="a", path="a.py", config=config, get_closest_marker=lambda name: marker)

    assert api.isolation._test(item(deadline=3)).deadline == 3.0
    assert api.isolation._test(item()).deadline == 7.0
    assert api.isolation._test(item(deadline=lambda config: config.getoption("x") + 1)).deadline == 8.0


def known_failures_of_a_file_are_excused_at_real_sizes(api):
    spoiled = changed(lambda outputs: outputs | {"lse": outputs["lse"] + 1})
    entry = known_file.Entry(contract="pooling", issue="#5", check="oracle:lse")
    properties = SimpleNamespace(total_memory=2**40, uuid="x")

    def judged(implementation, *entries):
        with (
            patch.object(torch.cuda, "get_device_properties", lambda device: properties),
            patch.object(known_file, "read", lambda path: entries),
            lane_of(api) as lane,
            patch.object(api.suite, "device_lane", lambda target: lane),
        ):
            config = config_of(known="a.toml" if entries else None)
            return api.suite.at_real_size(REAL, implementation, TARGETS["sm90"], 0, config)

    assert judged(spoiled).problem.startswith("pooling-torch on ")
    assert judged(spoiled, entry) == api.suite.Judged()
    assert judged(spoiled, replace(entry, check="oracle:out")).problem
    fatal = replace(entry, kind="quarantine")
    for implementation, entries in (
        (replace(spoiled, known=(Known(match=lambda case: True, issue="#5", kind="quarantine"),)), ()),
        (spoiled, (fatal,)),
    ):
        assert judged(implementation, *entries) == api.suite.Judged(passed_over=("in quarantine",))


def an_expression_leaves_out_what_it_can_select_no_test_of(api):
    said = {
        "": True,
        "sm90": True,
        "not sm90": False,
        "cuda and not (sm90 or sm100)": False,
        "sm120": True,
        "sm120 and not sm90": False,
        "slow or not sm90": True,
    }
    assert {expression: api.marks.admits(expression, "sm90") for expression in said} == said


CHECKS = {
    check.__name__: check
    for check in (
        a_longer_profile_runs_more_and_may_take_longer,
        the_profile_bounds_a_search,
        a_quick_profile_runs_what_is_chosen_and_others_all,
        a_tests_own_deadline_may_depend_on_the_run,
        known_failures_of_a_file_are_excused_at_real_sizes,
        an_expression_leaves_out_what_it_can_select_no_test_of,
    )
}
