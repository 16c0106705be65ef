"""Compilers' last words, cut down to one line that is the same on every machine."""

from __future__ import annotations

import re

#: Characters of a message; ptxas prints up to 40 kB of them.
LENGTH = 300

_PTXAS = re.compile(r"ptxas[\w-]*\s+(?:\S+,\s*line\s+\d+;\s*)?(?:error|fatal)\s*:\s*(.+)", re.IGNORECASE)
# What Triton says first and ptxas last, whatever the matter is.
_NO_REASON = ("Internal Triton PTX codegen error", "Ptx assembly aborted")
_MLIR = re.compile(r"(?:^|\s)error:\s*(.+)")
_ABORT = re.compile(r"(LLVM ERROR:.+|.*\bAssertion .+ failed.*|terminate called.+|.*\bUNREACHABLE executed.*)")
_PATH = re.compile(r"(?<![\w.])(?:/[\w.+@~-]+)+/([\w.+@~-]+)")
_TEMPORARY = re.compile(r"\btmp\w{6,}")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")
_LINE = re.compile(r"\.ptx, line \d+")


def refusal(error: tuple[str, str], output: str) -> str:
    """Return why the compiler refused: ptxas's own words, else MLIR's errors, else the exception (type, text).

    What the front end refused is explained already.
    """
    kind, text = error
    if kind == "Refused":
        return one_line(text)
    for pattern, where in ((_PTXAS, text), (_PTXAS, output), (_MLIR, output)):
        found = list(dict.fromkeys(match[1].strip() for match in pattern.finditer(where)))
        words = [line for line in found if not line.startswith(_NO_REASON)]
        if words:
            return one_line("; ".join(words))
    return one_line(f"{kind}: {text}")


def crash(signal: str, output: str) -> str:
    """Return what killed the compiler and the last thing it said."""
    said = [match[1] for match in _ABORT.finditer(output)]
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = said[-1] if said else lines[-1] if lines else "nothing was printed"
    return one_line(f"{signal}: {last.strip()}")


def one_line(text: str) -> str:
    """Return ``text`` without line breaks, folders, temporary names and addresses, at most ``LENGTH`` characters."""
    text = _PATH.sub(r"\1", " ".join(text.split()))
    text = _LINE.sub(".ptx", _ADDRESS.sub("0x...", _TEMPORARY.sub("tmp", text)))
    return text if len(text) <= LENGTH else f"{text[: LENGTH - 3]}..."
