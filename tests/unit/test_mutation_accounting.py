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
    compared,
    dead_lanes,
    floors,
    fork,
    frontend,
    generate,
    generic,
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
    unseen,
)
from tests.unit.mutation_policies import CHECKS


class Api:
    argued, arguments, behind, cache = argued, arguments, behind, cache
    campaign, child, command, compared = campaign, child, command, compared
    dead_lanes, floors, fork, frontend = dead_lanes, floors, fork, frontend
    generate, generic, install, ir, judge = generate, generic, install, ir, judge
    original, parts, peers, plan, pool = original, parts, peers, plan, pool
    results, source, styles, table = results, source, styles, table
    targets, unseen = targets, unseen
    worker = _worker


@pytest.mark.parametrize("check", CHECKS)
def test_check(check, tmp_path):
    wants_folder = "folder" in inspect.signature(CHECKS[check]).parameters
    CHECKS[check](Api, *([tmp_path] if wants_folder else []))
