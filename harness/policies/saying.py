"""Words for what is not as it must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from harness.outcome import described


def differs(what: str, got: Any, wanted: Any) -> Iterator[str]:
    """Yield a line unless ``got`` is ``wanted``."""
    if got != wanted:
        yield f"{what}: {got!r}, wanted {wanted!r}"


def accepts(what: str, kind: type[Exception], words: str, call: Callable[[], object]) -> Iterator[str]:
    """Yield a line unless ``call`` raises an error of the name of ``kind``, with ``words`` in its message."""
    try:
        result = call()
    except Exception as error:
        # the class may have been made again since it was named here
        if type(error).__qualname__ != kind.__qualname__ or words not in str(error):
            yield f"{what}: raised {described(error)}, wanted {kind.__name__} with {words!r}"
    else:
        yield f"{what}: {result!r}, wanted {kind.__name__} with {words!r}"


@contextmanager
def standing_in(module: Any, **values: Any) -> Iterator[None]:
    """Give names of ``module`` other values for a block."""
    before = {name: vars(module)[name] for name in values}
    vars(module).update(values)
    try:
        yield
    finally:
        vars(module).update(before)
