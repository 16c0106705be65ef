"""What a marker expression (``-m``) says about single markers, whichever way it says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from _pytest.mark.expression import Expression


def wants(expression: str, marker: str) -> bool:
    """Whether there are tests that ``expression`` selects for having ``marker``, and would not without it.

    False for an expression that is none: pytest says what is wrong with it.
    """
    return any(with_it and not without for with_it, without in _sides(expression, marker))


def admits(expression: str, marker: str) -> bool:
    """Whether ``expression`` selects any test that has ``marker``; no expression selects all."""
    return any(with_it for with_it, _ in _sides(expression, marker)) if expression else True


class _Asked(Exception):
    """The expression depends on a marker of which nothing is assumed."""


def _sides(expression: str, marker: str) -> Iterator[tuple[bool, bool]]:
    """Yield what the expression says of a test with and without ``marker``, for all that matters of its others."""
    try:
        compiled = Expression.compile(expression)
    # pytest 8 and 9 have an exception of their own each
    except Exception:
        return
    waiting: list[Mapping[str, bool]] = [{}]
    while waiting:
        assumed = waiting.pop()
        try:
            yield _says(compiled, {**assumed, marker: True}), _says(compiled, {**assumed, marker: False})
        except _Asked as other:
            waiting += [{**assumed, str(other): value} for value in (True, False)]


def _says(compiled: Expression, assumed: Mapping[str, bool]) -> bool:
    def has(name: str, /, **arguments: object) -> bool:
        if name not in assumed:
            raise _Asked(name)
        return assumed[name]

    return compiled.evaluate(has)
