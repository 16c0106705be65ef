"""What the kernels take when compiled, and under which conditions times were taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from harness.bench.page.html import breakable, chip, note, table
from harness.bench.store import Run
from harness.compiling.baseline import Table


def resources(kernels: Table, arch: str) -> str:
    """Return the most that each kernel takes on each target, over its configurations; that of ``arch`` first."""
    if not kernels:
        return note("No baseline of the targets lane was given.")
    targets = sorted(
        {target for configs in kernels.values() for rows in configs.values() for target in rows},
        key=lambda target: (target != arch, not target.startswith("sm_"), len(target), target),
    )
    rows = []
    for kernel, configs in sorted(kernels.items()):
        cells = [breakable(kernel.removeprefix("kernels.")), str(len(configs))]
        for target in targets:
            found = [by_target[target] for by_target in configs.values() if target in by_target]
            if not found:
                cells.append("")
                continue
            registers, shared, spilled = (max(row[place] for row in found) for place in range(3))
            spills = f" {chip(f'spills {spilled} B', 'bad')}" if spilled else ""
            cells.append(f"{registers} · {f'{shared / 1024:.1f} KiB' if shared else '0'}{spills}")
        rows.append(cells)
    head = ("kernel", "configurations", *map(escape, targets))
    return table(head, rows, numbers=range(1, 2 + len(targets)), label="resources") + note(
        "Most registers a thread and most shared memory a block, over a kernel's configurations, as compiled."
    )


def conditions(head: Run) -> str:
    """Return the device, the versions, the measured rates, and what the device said of itself meanwhile."""
    rows = [[escape(name), breakable(value)] for name, value in _facts(head)]
    refused = head.document.get("harness", {}).get("refused", [])
    left_out = "".join(f"<li>{escape(item['name'])}: {escape(item['reason'])}</li>" for item in refused)
    missing = f"<h3>Not timed</h3><ul>{left_out}</ul>" if refused else ""
    return f'<div class="wraps">{table(("fact", "value"), rows, label="conditions")}</div>{missing}'


def _facts(head: Run) -> Iterator[tuple[str, str]]:
    device = head.device
    yield "device", str(device.get("name", "unknown"))
    for name, said in (("arch", "architecture"), ("sms", "SMs"), ("driver", "driver"), ("uuid", "UUID")):
        if device.get(name) is not None:
            yield said, str(device[name])
    for name, version in device.get("versions", {}).items():
        yield name, str(version)
    rates = head.document.get("harness", {}).get("rates") or {}
    if rates:
        yield "copy", f"{rates['copy'] / 1e9:.0f} GB/s, read and written"
        yield "bf16 matmul", f"{rates['matmul'] / 1e12:.0f} TFLOP/s"
    yield from _meanwhile([row["extra_info"] for row in head.document["benchmarks"]])


def _meanwhile(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    readings = [row[when] for row in rows for when in ("before", "after") if row.get(when)]
    for name, said in (
        ("sm_mhz", "SM clock, MHz"),
        ("memory_mhz", "memory clock, MHz"),
        ("celsius", "temperature, °C"),
        ("watts", "power, W"),
    ):
        values = [reading[name] for reading in readings if name in reading]
        if values:
            yield said, f"{min(values):g} to {max(values):g}"
    reasons = sorted({reason for reading in readings for reason in reading.get("throttled", ())})
    if readings:
        yield "slowed down by", ", ".join(reasons) or "nothing"
