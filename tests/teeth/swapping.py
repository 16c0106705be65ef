"""A fault planted in a module that is imported already: the code of its functions changes places for a while."""

import importlib
import inspect
import sys
import types
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path


def _functions(owner, prefix=""):
    """Yield (qualified name, function) for what a module or class defines itself, decorators taken off."""
    for name, value in list(vars(owner).items()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif isinstance(value, cached_property):
            value = value.func
        if inspect.isclass(value) and value.__module__ == owner.__dict__.get("__module__", owner.__name__):
            yield from _functions(value, f"{prefix}{name}.")
        while hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        if isinstance(value, types.FunctionType):
            yield f"{prefix}{name}", value


@contextmanager
def swapped(dotted, old, new):
    """Let module ``dotted`` run with ``old``, which stands once in its source, replaced by ``new`` in its functions."""
    module = importlib.import_module(dotted)
    source = Path(module.__file__).read_text()
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {dotted}"
    planted = types.ModuleType(f"{dotted}_planted")
    sys.modules[planted.__name__] = planted
    changed = []
    try:
        exec(compile(source.replace(old, new), module.__file__, "exec"), planted.__dict__)
        others = dict(_functions(planted))
        for name, function in _functions(module):
            other = others.get(name)
            if other is not None and function.__code__ != other.__code__:
                changed.append((function, function.__code__))
                function.__code__ = other.__code__
        assert changed, f"the fault changes no function of {dotted}"
        yield
    finally:
        for function, code in changed:
            function.__code__ = code
        del sys.modules[planted.__name__]
