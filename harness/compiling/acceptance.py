"""Whether Triton's own compiler takes a kernel as it is launched: its front end, from Python to Triton IR.

What a kernel may say is decided there: syntax, types, shapes, what is known at compile time.  No GPU is needed, and no
machine code is made: what becomes of the IR on a target is the compile lane's to say.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.compiling import cache, early
from harness.compiling.figures import Result
from harness.compiling.messages import one_line
from harness.compiling.recording import Specialisation, as_driver, gpu_target, quiet, specialised
from harness.compiling.sources import digest
from harness.contract import Implementation
from harness.device.targets import Target

#: Constants of a refused launch that a message names.
SHOWN_CONSTANTS = 8


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A kernel that Triton does not take, or that starts too early: why and where; one cause has one ``site``."""

    message: str
    site: str


class Acceptance:
    """Asks about launches, each specialisation once.

    A specialisation is the types of the arguments and the constants; alignments say nothing about what is accepted.
    ``most``: of each kernel so many are asked about, and only those in which a parameter has a type or value that it
    had in none before; None: all.  Accepted ones are kept on disk, with the compile lane's results, in ``folder``.
    """

    def __init__(self, target: Target, *, most: int | None = None, folder: Path | None = None) -> None:
        self.target = target
        self._most = most
        self._kept = cache.Cache(folder or cache.default_folder())
        self._answers: dict[Any, Refusal | None] = {}
        self._met: set[tuple[Any, str]] = set()
        self._asked: Counter[Any] = Counter()
        self._pending: dict[Any, Specialisation] = {}
        self._noted: dict[Any, None] = {}

    def note(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Remember a launch of a ``@triton.jit`` function until ``refusals``.

        Raises what Triton raises at such a launch for arguments and options that it does not take.
        """
        if not isinstance(function, importlib.import_module("triton.runtime.jit").JITFunction):
            return
        with as_driver(self.target), quiet():
            found = specialised(function, args, kwargs, self.target)
        values = _values(found)
        key = (function, *values)
        self._noted[key] = None
        if key in self._answers or key in self._pending:
            return
        news = {(function, value) for value in values} - self._met
        if self._most is not None and (not news or self._asked[function] >= self._most):
            return
        self._met |= news
        self._asked[function] += 1
        self._pending[key] = found

    def refusals(self) -> list[Refusal] | None:
        """Return those of the launches since the last call that Triton does not take; asks about new ones.

        None where it was asked about none of these.
        """
        for key, found in self._pending.items():
            self._answers[key] = self._ask(found)
        self._pending.clear()
        answers = [self._answers[key] for key in self._noted if key in self._answers]
        self._noted.clear()
        return list(dict.fromkeys(filter(None, answers))) if answers else None

    def is_expected(self, implementation: Implementation, refusal: Refusal) -> bool:
        """Whether ``implementation`` declares a refusal in these words for the target."""
        return any(
            one.verdict == "REFUSED" and self.target.marker in one.targets and one.says in refusal.message
            for one in implementation.compiles.expected
        )

    def _ask(self, found: Specialisation) -> Refusal | None:
        name = cache.key_of(
            {
                "front end": importlib.import_module("triton").__version__,
                "source": digest(found.function),
                "target": self.target.arch,
                "signature": found.source.signature,
                "constants": {str(path): _written(value) for path, value in found.source.constants.items()},
                "options": found.options,
            }
        )
        if self._kept.get(name) is not None:
            return None
        refusal = ask(found)
        if refusal is None:
            # a folder that cannot be written costs time, not a verdict
            with contextlib.suppress(OSError):
                self._kept.put(name, Result(ending="compiled"))
        return refusal


def ask(found: Specialisation) -> Refusal | None:
    """Return why Triton's front end refuses a specialisation, or what this does too early; None if all is well."""
    compiler = importlib.import_module("triton.compiler.compiler")
    ir = importlib.import_module("triton._C.libtriton").ir
    target = gpu_target(found.target)
    backend = compiler.make_backend(target)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    # Triton prints the IR that it finds wrong
    with as_driver(found.target), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            options = backend.parse_options(dict(found.options))
            generators = backend.get_codegen_implementation(options)
            module = found.source.make_ir(target, options, generators, backend.get_module_map(), context)
        except Exception as error:
            return _refusal(found, error)
    text = str(module)
    if early.missing(text, found.target):
        message = f"{found.kernel} has griddepcontrol, and {found.target.arch} has not"
        return Refusal(message=message, site=f"griddepcontrol in {found.kernel}")
    if operation := early.touched(text):
        message = f"{found.kernel} may start early, and comes to {operation} before it waits for the launch before it"
        return Refusal(message=message, site=f"early {operation} in {found.kernel}")
    return None


def _values(found: Specialisation) -> tuple[str, ...]:
    """Everything about a launch that the front end sees, parameter by parameter, then the options."""
    source = found.source
    constants = [f"{path}={_written(value)}" for path, value in source.constants.items()]
    # how many threads run the kernel is nothing to the front end
    options = [f"{name}={value}" for name, value in found.asked.items() if name not in ("num_warps", "num_stages")]
    return (*(f"{name}: {kind}" for name, kind in source.signature.items()), *constants, *options)


def _written(value: Any) -> str:
    """A constant as text; a function is its source, as its name may be given again."""
    return digest(value) if hasattr(value, "cache_key") else repr(value)


def _refusal(found: Specialisation, error: Exception) -> Refusal:
    reason, place = reason_of(error)
    triton = importlib.import_module("triton").__version__
    shown = [f"{name}={value}" for name, value in found.constants.items()][:SHOWN_CONSTANTS]
    constants = f" with {', '.join(shown)}" if shown else ""
    where = f" ({place})" if place else ""
    message = f"Triton {triton} does not compile {found.kernel} for {found.target.arch}{constants}: {reason}{where}"
    return Refusal(message=message, site=f"{type(error).__name__} at {place or found.kernel}")


def reason_of(error: BaseException) -> tuple[str, str]:
    """Return the reason in a compiler's exception, one line, and ``FILE:LINE in FUNCTION`` of the code it is about.

    Triton wraps an error once for each function that it was inlined into; the innermost says why and where.
    """
    reason, place = "", ""
    for one in _chain(error):
        said = getattr(one, "error_message", str(one) if not hasattr(one, "node") else "")
        if said:
            reason = said
        place = _place(one) or place
    return one_line(reason or type(error).__name__), place


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__


def _place(error: BaseException) -> str:
    """Where the code generator stood that raised ``error``, or was the last on its way."""
    found, trace = "", error.__traceback__
    while trace is not None:
        generator: Any = trace.tb_frame.f_locals.get("self")
        if type(generator).__name__ == "CodeGenerator":
            node = getattr(error, "node", None) or generator.cur_node
            line = generator.begin_line + getattr(node, "lineno", 1)
            function = generator.jit_fn.__name__
            found = f"{Path(generator.file_name).name}:{line} in {function}"
        trace = trace.tb_next
    return found
