"""What counts as a kill, what counts at all, what is proved, and how parts of a campaign are put together."""

import inspect

import pytest

from harness.mutation import (
    _worker,
    argued,
    child,
    command,
    dead_lanes,
    floors,
    generate,
    install,
    ir,
    judge,
    peers,
    plan,
    pool,
    results,
    source,
    table,
)
from tests.unit.mutation_proofs import CHECKS


class Api:
    argued, child, command = argued, child, command
    dead_lanes, floors = dead_lanes, floors
    generate, install, ir, judge = generate, install, ir, judge
    peers, plan, pool = peers, plan, pool
    results, source, table = results, source, table
    worker = _worker


@pytest.mark.parametrize("check", CHECKS)
def test_check(check, tmp_path):
    wants_folder = "folder" in inspect.signature(CHECKS[check]).parameters
    CHECKS[check](Api, *([tmp_path] if wants_folder else []))
