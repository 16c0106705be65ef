"""The page: all there, self-contained, and read by a real browser, wide and narrow, light and dark."""

import html
import inspect
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.bench_page import CHECKS, whole

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: In a frame, because a browser's own window is never as narrow as a phone's.
FRAME = """<!doctype html><body style="margin:0">
<iframe id="page" style="border:0;width:{width}px;height:{height}px" srcdoc="{page}"></iframe><pre id="said"></pre>
<script>page.onload = () => {{
  const inside = page.contentDocument, root = inside.documentElement;
  const small = [...inside.querySelectorAll("a, summary")].filter(e => e.getBoundingClientRect().height < 16).length;
  said.textContent = `width ${{root.scrollWidth}} height ${{root.scrollHeight}} small ${{small}} ` +
    `plots ${{[...inside.querySelectorAll("svg")].filter(e => e.getBoundingClientRect().width > 100).length}} ` +
    `ground ${{inside.defaultView.getComputedStyle(inside.body).backgroundColor}}`;
}}</script>"""


@pytest.mark.parametrize("name", CHECKS)
def test_holds(name, tmp_path):
    check = CHECKS[name]
    check(*[tmp_path] * len(inspect.signature(check).parameters))


@pytest.fixture
def pictures(tmp_path):
    """Where a picture of the page is kept: for who looks at a run of CI in the folder that PICTURES names."""
    folder = Path(os.environ.get("PICTURES") or tmp_path).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def browsed(folder, page, width, *options):
    """Open ``page`` in a frame of that width, keep a picture, and return what the browser measured."""
    file = folder / f"frame{width}.html"
    file.write_text(FRAME.format(width=width, height=2600, page=html.escape(page)))
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", *options]
    picture = f"--screenshot={folder / f'page{width}.png'}"
    drawn = subprocess.run(
        [*command, f"--window-size={max(width, 500)},2600", "--hide-scrollbars", picture, "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    said = re.search(r'<pre id="said">([^<]*)</pre>', drawn.stdout).group(1)
    return dict(re.findall(r"(\w+) (\d+|rgb\([^)]*\))", said)), folder / f"page{width}.png"


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium, found none")
def test_a_browser_shows_it_on_a_phone_and_in_the_dark(pictures):
    facts, picture = browsed(pictures, whole().replace("<details>", "<details open>"), 390, "--force-dark-mode")
    assert int(facts["width"]) <= 390, "the page itself scrolls sideways"
    # the roofline and a course of every workload
    assert int(facts["plots"]) == 7
    assert facts["small"] == "0", "links that a thumb misses"
    assert picture.stat().st_size > 20_000


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium, found none")
def test_a_browser_shows_it_on_a_desk_and_in_the_light(pictures):
    facts, picture = browsed(pictures, whole(), 1280)
    assert (int(facts["width"]), facts["ground"]) == (1280, "rgb(255, 255, 255)")
    assert int(facts["plots"]) == 7
    assert picture.stat().st_size > 20_000
