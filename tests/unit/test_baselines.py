"""The checked-in baselines: as they are written, within a block's limits, and without spills where none may be."""

from pathlib import Path

import pytest

from harness.compiling import baseline, grids
from harness.device.capabilities import shared_memory_per_block
from harness.device.targets import TARGETS, target_of

FOLDER = Path(__file__).parents[2] / "ci" / "baselines"
GRIDS = sorted(FOLDER.glob("triton-*-grids.json"))
FILES = sorted({*FOLDER.glob("triton-*.json")} - {*GRIDS})
#: Where a kernel of this repository spills, as it declares.
SPILLS = ("gfx1100",)


def rows(file):
    for kernel, configs in baseline.read(file).items():
        for config, targets in configs.items():
            for target, row in targets.items():
                yield f"{kernel} [{config}] on {target}", target, row


def test_there_is_a_baseline_for_every_target():
    assert {target for file in FILES for _, target, _ in rows(file)} == {target.arch for target in TARGETS.values()}


@pytest.mark.parametrize("file", GRIDS, ids=lambda file: file.stem)
def test_grids_are_those_of_every_target_and_as_they_would_be_written_again(file, tmp_path):
    known = grids.read(file)
    assert {target for _, _, target in known} == {target.arch for target in TARGETS.values()}
    grids.write(tmp_path / "again.json", known)
    assert (tmp_path / "again.json").read_text() == file.read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_is_as_it_would_be_written_again(file, tmp_path):
    baseline.write(tmp_path / "again.json", baseline.read(file))
    assert (tmp_path / "again.json").read_text() == file.read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_nothing_takes_more_shared_memory_than_a_block_has(file):
    over = [
        f"{where}: {shared} of {shared_memory_per_block(target_of(target))}"
        for where, target, (_, shared, _) in rows(file)
        if shared > shared_memory_per_block(target_of(target))
    ]
    assert over == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_nothing_spills_where_it_may_not(file):
    assert [f"{where}: {row[2]}" for where, target, row in rows(file) if target not in SPILLS and row[2]] == []
