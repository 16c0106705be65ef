"""Launches that no case makes but a caller may: with strides other than 1, nothing aligned, and other constants.

What a contract never draws must not let a mutant leave the denominator: equal programs for what is launched are no
proof alone.  All constants that a caller may give cannot be enumerated; these are those next to what is launched, and
those that the changed lines name.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import Any

from harness.mutation.frontend import Specialisation

#: Kernels compile in tens of milliseconds, twice for each form: most forms with other constants that are looked at.
MOST_OTHERS = 24
#: Most forms of a kernel that are launched but for strides and alignment.
_EACH = 8
#: Launches around which constants are varied that the changed lines name; around one all others are.
_AROUND = 3
_WORD = re.compile(r"[A-Za-z_]\w*|\b\d+\b")


@dataclass(frozen=True)
class Form:
    """A specialisation that no case launches; ``words`` say in what it differs from those that one does."""

    one: Specialisation
    words: str


def unaligned(launched: Iterable[Specialisation], constants: Mapping[str, frozenset[str]]) -> list[Form]:
    """Return ``launched`` without what Triton knows of a number beyond its type: each value of each constant once.

    ``constants`` maps a kernel to the names of its constexpr parameters: what else is fixed is an integer that is 1.
    """
    found: dict[str, Form] = {}
    for one in launched:
        ones = [name for name in _fixed(one) if name not in constants[one.kernel] and _value(one, name) == 1]
        signature = {name: "i32" if name in ones else kind for name, kind in one.signature.items()}
        fixed = {place: value for place, value in one.constexprs.items() if _name(one, place) not in ones}
        words = f"where {', '.join(ones)} {'is' if len(ones) == 1 else 'are'} not 1" if ones else "with nothing aligned"
        found.setdefault(*_keyed(Form(_with(one, signature, fixed), words)))
    return list(_covering(sorted(found.values(), key=lambda form: len(form.one.constexprs))))


def others(forms: Sequence[Form], constants: Mapping[str, frozenset[str]], numbers: Mapping[str, int]) -> list[Form]:
    """Return ``forms`` with one constant each that none of them has, at most ``MOST_OTHERS``.

    ``numbers`` are the words of the changed lines, those that stand for a whole number with it and others with 0.
    """
    groups: dict[tuple[str, str, str], list[Form]] = {}
    for form in forms:
        kinds = tuple(form.one.signature.values())
        groups.setdefault((form.one.module, form.one.kernel, repr(kinds)), []).append(form)
    found: dict[str, Form] = {}
    for named in (True, False):
        varied = [
            _varied(group, name, numbers if named else {})
            for group in groups.values()
            for name in sorted(constants[group[0].one.kernel])
            if (name in numbers) is named
        ]
        # some of every kernel
        for form in filter(None, chain.from_iterable(zip_longest(*varied))):
            found.setdefault(*_keyed(form))
    known = {form.one.key for form in forms}
    return list(islice((form for key, form in found.items() if key not in known), MOST_OTHERS))


def _covering(forms: Iterable[Form]) -> Iterator[Form]:
    """Yield those of ``forms`` that have a constant, or a way to be called, that none before them has."""
    seen: set[str] = set()
    found: Counter[str] = Counter()
    for form in forms:
        one = form.one
        own = f"{one.module} {one.kernel} {[*one.signature.values()]}"
        has = {own, *(f"{own} {place} {value!r}" for place, value in one.constexprs.items())}
        if not has <= seen and found[one.kernel] < _EACH:
            seen |= has
            found[one.kernel] += 1
            yield form


def numbers(original: str, mutated: str, scope: Mapping[str, Any]) -> dict[str, int]:
    """Return the words of the lines that differ; a word is a number itself, or what ``scope`` has under that name."""
    old, new = original.splitlines(), mutated.splitlines()
    lines: list[str] = []
    for what, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what != "equal":
            lines += old[a:b] + new[c:d]
    return {word: _number(word, scope) for line in lines for word in _WORD.findall(line)}


def _number(word: str, scope: Mapping[str, Any]) -> int:
    if word.isdigit():
        return int(word)
    value = scope.get(word)
    value = getattr(value, "value", value)
    return value if type(value) is int else 0


def _varied(group: Sequence[Form], name: str, numbers: Mapping[str, int]) -> Iterator[Form]:
    """Yield forms of ``group`` with values of ``name`` that none of it has."""
    had = {_value(form.one, name) for form in group}
    known = {value for value in had if type(value) is int}
    if any(isinstance(value, bool) for value in had):
        values: list[Any] = [value for value in (False, True) if value not in had]
    elif known:
        near = [limit + step for limit in dict.fromkeys(numbers.values()) if limit for step in (0, -1, 1)]
        values = [value for value in (*near, 2 * max(known), min(known) // 2) if value > 0 and value not in known]
    else:
        return
    around = list({repr(_value(form.one, name)): form for form in group}.values())
    for form in around[: _AROUND if numbers else 1]:
        for value in dict.fromkeys(values):
            fixed = {place: value if _name(form.one, place) == name else old for place, old in _constants(form.one)}
            yield Form(_with(form.one, dict(form.one.signature), fixed), f"with {name}={value!r}")


def _constants(one: Specialisation) -> Iterable[tuple[Any, Any]]:
    return one.constexprs.items()


def _fixed(one: Specialisation) -> list[str]:
    return [_name(one, place) for place in one.constexprs if len(place) == 1]


def _name(one: Specialisation, place: tuple[int, ...]) -> str:
    return list(one.signature)[place[0]] if len(place) == 1 else ""


def _value(one: Specialisation, name: str) -> Any:
    return one.constexprs.get((list(one.signature).index(name),))


def _with(one: Specialisation, signature: dict[str, Any], fixed: dict[Any, Any]) -> Specialisation:
    key = repr((sorted(one.options.__dict__.items(), key=str), signature, fixed))
    return replace(one, key=key, signature=signature, constexprs=fixed, attributes={})


def _keyed(form: Form) -> tuple[str, Form]:
    return f"{form.one.module} {form.one.kernel} {form.one.key}", form
