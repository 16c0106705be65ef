"""The frame of the page, and the few elements that its parts are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from harness.bench.page.style import CSS
from harness.bench.store import Run

#: Sections in their order, for the line of links.
_LINKS = ("changes", "kernels", "roofline", "history", "resources", "verification", "conditions")


def document(head: Run, status: Sequence[str], body: str) -> str:
    """Return the whole page; ``status`` is the line below the title, in parts."""
    device = escape(str(head.device.get("name", "an unknown device")))
    commit = escape(str(head.commit.get("id", ""))[:12]) + (" with changes" if head.commit.get("dirty") else "")
    when = escape(head.when[:16].replace("T", " "))
    links = "".join(f'<a href="#{name}">{name}</a>' for name in _LINKS)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Benchmarks, {device}, {when}</title>
<style>
{CSS}
</style>
</head>
<body>
<header>
<h1>Kernel benchmarks</h1>
<p class="facts"><span>{device}</span><span>{commit}</span><span>{when} UTC</span></p>
<p class="status">{"".join(status)}</p>
<nav aria-label="Sections">{links}</nav>
</header>
<main>
{body}
</main>
</body>
</html>
"""


def breakable(text: str) -> str:
    """Return ``text`` escaped, with places where a narrow column may break it."""
    return re.sub(r"([,\[_=-])(?=.)", r"\1<wbr>", escape(text))


def section(name: str, title: str, content: str) -> str:
    """Return a section with its heading."""
    return f'<section id="{name}"><h2>{escape(title)}</h2>\n{content}\n</section>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = (), label: str = "") -> str:
    """Return a table that scrolls inside itself; cells are HTML, ``numbers`` the columns that align to the right.

    A row of one cell is the heading of those below it.
    """

    def row(tag: str, cells: Sequence[str]) -> str:
        if len(cells) == 1:
            return f'<tr><th class="group" colspan="{len(head)}" scope="rowgroup">{cells[0]}</th></tr>'
        parts = []
        for place, cell in enumerate(cells):
            kind = ' class="n"' if place in numbers else ""
            # the first cell names its row
            name, scope = (
                ("th", ' scope="row"') if tag == "td" and place == 0 else (tag, ' scope="col"' * (tag == "th"))
            )
            parts.append(f"<{name}{kind}{scope}>{cell}</{name}>")
        return f"<tr>{''.join(parts)}</tr>"

    body = "\n".join(row("td", cells) for cells in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}"><table><thead>{row("th", head)}'
        f"</thead><tbody>\n{body}\n</tbody></table></div>"
    )


def note(text: str) -> str:
    """Return a paragraph of small print; ``text`` is plain."""
    return f'<p class="note">{escape(text)}</p>'


def chip(text: str, kind: str) -> str:
    """Return a word in a frame; ``kind`` is ``bad``, ``good``, ``doubt`` or ``plain``."""
    return f'<span class="chip {kind}">{escape(text)}</span>'
