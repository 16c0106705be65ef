"""Bans that no linter carries, each with its reason."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Name -> (pattern that no line may match, folders it is banned in, files it is allowed in, reason).
BANS = {
    "comparison without assert": (
        r"^\s*torch\.allclose\(",
        ("harness", "kernels", "reference", "tests"),
        (),
        "its result is dropped, so it checks nothing",
    ),
    "block pointers": (
        r"tl\.make_block_ptr",
        ("kernels",),
        (),
        "gone from newer Tritons; use pointers or tensor descriptors",
    ),
    "skip": (
        r"pytest\.skip\(",
        ("harness", "tests"),
        ("harness/plugin.py", "harness/suites"),
        "skips are for missing hardware, and the plugin gives them with needed and found",
    ),
    "print": (r"^\s*print\(", ("harness", "kernels", "reference"), (), "reports go through harness/report"),
    "unfinished": (
        r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError",
        ("harness", "kernels", "reference", "ci"),
        (),
        "an open end belongs in an issue",
    ),
    "device 0": (
        r"""device\("cuda", 0\)|["']cuda:0["']|(set_device|get_device_properties)\(0\)|device_id=0\b""",
        ("harness", "kernels", "tests/device", "tests/bugs", "tests/unit/test_physical.py"),
        ("harness/sanitize",),
        "a test's device may be another one: ask torch.cuda.current_device()",
    ),
    "absolute path": (
        r"""["'](/home|/root|/work|/tmp|/mnt)/""",
        ("harness", "kernels", "reference", "tests", "ci"),
        (),
        "it exists on one machine only",
    ),
}


def offences(pattern, folders, allowed):
    for folder in folders:
        root = ROOT / folder
        for path in [root] if root.is_file() else sorted(root.rglob("*.py")):
            where = path.relative_to(ROOT).as_posix()
            if where.startswith(allowed):
                continue
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                if re.search(pattern, line):
                    yield f"{where}:{number}: {line.strip()}"


@pytest.mark.parametrize("ban", BANS)
def test_no_line_does_what_is_banned(ban):
    pattern, folders, allowed, reason = BANS[ban]
    exempt = (*allowed, "tests/unit/test_style.py")
    assert list(offences(pattern, folders, exempt)) == [], reason


@pytest.mark.parametrize(
    ("ban", "line"),
    [
        ("comparison without assert", "    torch.allclose(actual, expected)"),
        ("block pointers", "block = tl.make_block_ptr(x_ptr)"),
        ("skip", "    pytest.skip('not today')"),
        ("print", "    print(case)"),
        ("unfinished", "# " + "TODO: later"),
        ("device 0", 'DEVICE = torch.device("cuda", 0)'),
        ("device 0", "GreenContext.create(num_sms=8, device_id=0)"),
        ("absolute path", 'open("/tmp/x")'),
    ],
)
def test_each_ban_matches_what_it_is_for(ban, line):
    assert re.search(BANS[ban][0], line)


def test_every_module_begins_with_what_it_is():
    for folder in ("harness", "kernels", "reference"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            assert not text or text.startswith('"""'), path
