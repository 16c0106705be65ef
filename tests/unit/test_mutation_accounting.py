"""What counts as a kill, what counts at all, what is proved, and how parts of a campaign are put together."""

import inspect

import pytest

from harness.mutation import (
    _worker,
    argued,
    arguments,
    behind,
    cache,
    campaign,
    child,
    command,
    dead_lanes,
    floors,
    frontend,
    generate,
    install,
    ir,
    judge,
    original,
    parts,
    peers,
    plan,
    pool,
    results,
    source,
    styles,
    table,
    targets,
)
from tests.unit.mutation_gates import CHECKS


class Api:
    argued, arguments, behind, cache = argued, arguments, behind, cache
    campaign, child, command = campaign, child, command
    dead_lanes, floors, frontend = dead_lanes, floors, frontend
    generate, install, ir, judge = generate, install, ir, judge
    original, parts, peers, plan, pool = original, parts, peers, plan, pool
    results, source, styles, table, targets = results, source, styles, table, targets
    worker = _worker


@pytest.mark.parametrize("check", CHECKS)
def test_check(check, tmp_path):
    wants_folder = "folder" in inspect.signature(CHECKS[check]).parameters
    CHECKS[check](Api, *([tmp_path] if wants_folder else []))
