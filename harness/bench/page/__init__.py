"""One self-contained HTML page about a run: no script, no font and no library from anywhere else."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from harness.bench import history
from harness.bench.comparison import Comparison, Row
from harness.bench.page import changes, kernels, plots, tables, verification
from harness.bench.page.html import document, section
from harness.bench.store import Run, read
from harness.bench.verdicts import Rules, Verdict
from harness.compiling import baseline
from harness.discover import SetupError
from harness.receipts import record
from harness.receipts.record import Receipt
from harness.report import jsonl
from harness.report.summary import Summary


def render(
    head: Run,
    *,
    comparison: Comparison | None = None,
    earlier: Sequence[Run] = (),
    resources: baseline.Table | None = None,
    verified: Sequence[Summary] = (),
    receipt: Receipt | None = None,
) -> str:
    """Return the page of ``head``; ``earlier`` are runs of any device, of which the same one's are drawn."""
    runs = sorted(
        {run.when: run for run in (*earlier, head) if run.when <= head.when}.values(), key=lambda run: run.when
    )
    courses = history.courses(runs)
    parts = [
        section("changes", "What changed", changes.render(comparison)),
        section("kernels", "Kernels and their floor", kernels.render(head)),
        section("roofline", "Roofline", plots.roofline(head)),
        section("history", "History", plots.histories(courses, comparison)),
        section("resources", "Resources", tables.resources(resources or {}, str(head.device.get("arch", "")))),
        section("verification", "Verification", verification.render(verified, receipt)),
        section("conditions", "Conditions", tables.conditions(head)),
    ]
    chips = [*verification.status(verified, receipt, head), *changes.status(comparison)]
    return document(head, chips, "\n".join(parts))


def of_files(options: argparse.Namespace) -> str:
    """Return the page that the options of ``bench page`` name the parts of; raises SetupError for what is none."""
    try:
        resources = {} if options.resources is None else baseline.read(options.resources)
        verified = [jsonl.parse(path.read_text().splitlines()) for path in options.records]
        comparison = None if options.comparison is None else read_comparison(options.comparison)
        receipt = None if options.receipt is None else record.read(options.receipt)
    except OSError as error:
        raise SetupError(f"{error.filename}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(f"a part of the page does not read: {type(error).__name__}: {error}") from error
    return render(
        read(options.head),
        comparison=comparison,
        earlier=history.runs(options.history),
        resources=resources,
        verified=verified,
        receipt=receipt,
    )


def write_comparison(path: Path, comparison: Comparison) -> None:
    """Write ``comparison`` for ``read_comparison``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(comparison), indent=1) + "\n")


def read_comparison(path: Path) -> Comparison:
    """Read what ``write_comparison`` wrote; raises ValueError, KeyError or TypeError for anything else."""
    content = json.loads(path.read_text())
    rows = tuple(Row(**{**row, "verdict": Verdict(row["verdict"])}) for row in content.pop("rows"))
    read_back = Comparison(**{**content, "rules": Rules(**content["rules"]), "rows": rows})
    return replace(read_back, refused=tuple(read_back.refused), notes=tuple(read_back.notes))
