"""Every registered implementation keeps its contract, as far as a search finds."""

from __future__ import annotations

from typing import Any

import pytest

from harness.contract import Contract, Implementation
from harness.report import table
from harness.report.records import Record
from harness.report.summary import Summary

pytestmark = pytest.mark.conformance


def test_keeps_its_contract(
    contract: Contract[Any], implementation: Implementation, conformance_records: list[Record]
) -> None:
    summary = Summary(records=tuple(conformance_records))
    if not summary.good:
        pytest.fail(table.render(summary), pytrace=False)
