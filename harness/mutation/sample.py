"""A committed sample of mutants, each with what kills it: whoever weakens a check hears of it in a minute."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.discover import SetupError
from harness.mutation.source import Mutant, one_line

#: What draws it anew.
RENEW = "python -m harness mutate --renew"
#: How much of a change a line shows.
_WORDS = 90


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One mutant of ``kernel``, a target's name, and the unit that kills it by ``check``.

    ``case`` is the label of the unit and ``deep`` says that it is about more than values.  ``needs`` are what all units
    that kill it have in common, as far as they were looked for: features of cases, or the check.  ``change`` is for
    readers; ``mark`` finds the mutant.  An entry without a mark says that none of a kernel's was found to be killed.
    """

    kernel: str
    mark: str
    file: str
    function: str
    operator: str
    change: str
    check: str
    case: str
    deep: bool
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.file} {self.function} {self.operator}: {self.change}"


def entry(kernel: str, mutant: Mutant, *, check: str, case: str, deep: bool, needs: Iterable[str]) -> Entry:
    """Return the line of ``mutant``."""
    before, after = (one_line(text)[:_WORDS] for text in (mutant.before, mutant.after))
    return Entry(
        kernel=kernel,
        mark=mutant.mark,
        file=mutant.file,
        function=mutant.function,
        operator=mutant.operator,
        change=f"{before} -> {after}",
        check=check,
        case=case,
        deep=deep,
        needs=tuple(sorted(needs)),
    )


def none(kernel: str, looked_at: int) -> Entry:
    """Return the line of a kernel of which no mutant that was looked at is killed by a unit."""
    change = f"none of {looked_at} mutants was killed"
    return Entry(
        kernel=kernel, mark="", file="", function="", operator="", change=change, check="", case="", deep=False
    )


def read(path: Path) -> list[Entry]:
    """Return the entries of a file, one JSON object a line; an absent file has none.

    Raises SetupError naming the file and the line for anything else.
    """
    found = []
    for number, line in enumerate(path.read_text().splitlines() if path.is_file() else (), start=1):
        try:
            plain = json.loads(line)
            found.append(Entry(**{**plain, "needs": tuple(plain["needs"])}))
        except (ValueError, TypeError, KeyError) as error:
            raise SetupError(f"{path}:{number}: no mutant of a sample: {error}; {RENEW} draws it anew") from error
    return found


def write(path: Path, entries: Iterable[Entry]) -> None:
    """Write ``entries``, sorted; raises SetupError naming the file."""
    ordered = sorted(entries, key=lambda one: (one.kernel, one.file, one.function, one.mark))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in ordered))
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from error


def once(made: Sequence[Mutant]) -> dict[str, Mutant]:
    """Return mark to mutant for those whose mark is no other's: a change that a function has twice is none of them."""
    found: dict[str, Mutant] = {}
    twice = set()
    for mutant in made:
        if mutant.mark in found:
            twice.add(mutant.mark)
        found[mutant.mark] = mutant
    return {mark: mutant for mark, mutant in found.items() if mark not in twice}
