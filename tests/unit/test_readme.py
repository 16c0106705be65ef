"""What the README shows can be typed, and the numbers in it are those of the code."""

import re
import shlex
from pathlib import Path

from harness import cases, profiles
from harness.hardware import suite
from tests.unit.contract_cases import contract

TEXT = (Path(__file__).parents[2] / "README.md").read_text()


def test_every_replay_command_holds_a_case_of_its_contract():
    commands = [shlex.split(line) for line in TEXT.splitlines() if line.strip().startswith("python -m harness case ")]
    assert commands
    for _, _, _, _, name, text, *_ in commands:
        case = cases.parse(contract(name), text)
        assert cases.parse(contract(name), repr(case)) == case


def test_a_profile_draws_as_many_cases_as_it_says():
    said = [f"{few}, {some} or {many:,}" for few, some, many in (profiles.EXAMPLES.values(), suite.EXAMPLES.values())]
    assert (
        re.sub(r"\s+", " ", TEXT).count(f"{said[0]} cases a pass for each implementation; {said[1]} on a device") == 1
    )
