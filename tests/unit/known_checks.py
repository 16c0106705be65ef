"""Who is told what the file of ``--known`` excuses: checks for teeth too."""

from types import SimpleNamespace
from unittest.mock import patch

from harness import graphs, known_file
from harness.contract import Implementation
from harness.device import TARGETS
from harness.memcheck import command, lane
from harness.suites import test_graphs, test_memcheck

ENTRY = known_file.Entry(contract="a", issue="#5", check="graph:pool")
CONTRACT = SimpleNamespace(name="a", features=lambda case: frozenset())
OURS = Implementation(contract="a", name="b", launch=None)
TARGET = TARGETS["sm90"]


def request_of(path):
    options = {"known": path, "impl": None}
    config = SimpleNamespace(
        getoption=lambda name, default=None: options.get(name, default), getini=lambda name: [], rootpath="."
    )
    node = SimpleNamespace(config=config, stash={}, callspec=SimpleNamespace(params={"gpu_target": TARGET}))
    return SimpleNamespace(config=config, node=node)


def issues(implementation):
    return [known.issue for known in implementation.known]


def graphs_are_checked_with_what_the_file_excuses():
    told = []
    with (
        patch.object(
            graphs, "check_graphs", lambda contract, implementation: told.append(issues(implementation)) or []
        ),
        patch.object(known_file, "read", lambda path: (ENTRY,)),
    ):
        for path in (None, "known.toml"):
            test_graphs.test_keeps_the_cuda_graph_contract(CONTRACT, OURS, TARGET, request_of(path))
    assert told == [[], ["#5"]]


def tools_are_told_what_the_file_excuses(folder):
    file = folder / "known.toml"
    file.write_text('[[known]]\ncontract = "a"\nissue = "#5"\n')
    told = []
    done = SimpleNamespace(judgement=SimpleNamespace(idle=False), record=lambda: None)
    with (
        patch.object(command, "lacks", lambda implementation, emulated: None),
        patch.object(command, "ToolSummary", lambda records: SimpleNamespace(good=True)),
        patch.object(command, "excused", lambda pairs: told.append(issues(pairs[0][1]))),
        patch.object(lane, "run", lambda jobs, excused: told.append(jobs[0].known) or [done]),
    ):
        for path in (None, file):
            test_memcheck.test_the_tools_find_nothing(request_of(path), CONTRACT, OURS, TARGET)
    assert told == [[], "", ["#5"], str(file.resolve())]
