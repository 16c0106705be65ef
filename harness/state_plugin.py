"""pytest plugin: a test that leaves process-global state changed is an error, and the next test does not suffer for it.

Off unless the ini file says ``state_ledger = true``. What a fixture of a wider scope changes is expected until the
fixture ends, and must be undone then. ``@pytest.mark.leaks_state("why")`` excuses one test.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.state import Snapshot

_INI = "state_ledger"
_MARKER = "leaks_state"
#: pytest itself puts the filters back after each test.
_KEPT_BY_PYTEST = ("warning filters",)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_INI, "a test that leaves process-global state changed is an error", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{_MARKER}(reason): this test may leave process-global state changed, because")
    if config.getini(_INI):
        config.pluginmanager.register(_StateKeeper(), "harness.state_keeper")


class _StateKeeper:
    """Compares around each test, from before its first fixture until after its last."""

    def __init__(self) -> None:
        self._expected: Snapshot | None = None
        # by fixture of a wider scope: what it found and what it left
        self._changes: dict[pytest.FixtureDef[Any], tuple[Snapshot, Snapshot]] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        from harness.state import snapshot

        self._expected = snapshot()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function" or self._expected is None:
            return (yield)
        from harness.state import rebase, snapshot

        before = snapshot()
        result = yield
        after = snapshot()
        self._changes[fixturedef] = before, after
        self._expected = rebase(self._expected, before, after)
        return result

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        if fixturedef in self._changes and self._expected is not None:
            from harness.state import rebase

            before, after = self._changes.pop(fixturedef)
            self._expected = rebase(self._expected, after, before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        try:
            yield
        except BaseException as error:
            if leak := self._leak(item):
                error.add_note(leak)
            raise
        if leak := self._leak(item):
            pytest.fail(leak, pytrace=False)

    def _leak(self, item: pytest.Item) -> str:
        """Put back what ``item`` left changed and return the complaint; none about a test that is excused."""
        from harness.state import diff, restore, snapshot

        expected, self._expected = self._expected, None
        if expected is None:
            return ""
        changed = diff(expected, snapshot(), ignore=_KEPT_BY_PYTEST)
        failed = restore(expected, ignore=_KEPT_BY_PYTEST) if changed else ()
        marker = item.get_closest_marker(_MARKER)
        if marker is not None:
            return "" if _reason(marker) else f"{_MARKER} needs a reason: what changes, and why it has to"
        if not changed:
            return ""
        lines = [f"{item.nodeid} left process-global state changed:", *map(str, changed)]
        if failed:
            lines.append(f"could not be put back: {', '.join(failed)}")
        return "\n  ".join(lines)


def _reason(marker: pytest.Mark) -> str:
    reason = marker.args[0] if marker.args else marker.kwargs.get("reason", "")
    return reason.strip() if isinstance(reason, str) else ""
