"""Runs a test suite or a script, written for a GPU, on the emulated one."""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from harness.discover import SetupError
from harness.sanitize.facts import facts

if TYPE_CHECKING:
    from harness.sanitize.emulation import Options


def run(options: argparse.Namespace) -> int:
    """Do what the command line says and return the exit status; raises SetupError if nothing can run."""
    if options.surface:
        from harness import sanitize

        sys.stdout.write(f"{sanitize.__doc__}\n")
        return 0
    if not options.what:
        raise SetupError("sanitize: what is to be run? pytest ARGS..., or SCRIPT.py ARGS...")
    what, *arguments = options.what
    if what != "pytest" and not Path(what).is_file():
        raise SetupError(f"sanitize: no script {what}")
    try:
        facts(options.target)
    except ValueError as error:
        raise SetupError(f"sanitize: {error}") from error
    from harness.sanitize.emulation import Options

    # kernels are decorated as for a GPU, whatever the caller's shell says
    os.environ.pop("TRITON_INTERPRET", None)
    settings = Options(
        target=options.target,
        strict=options.strict,
        allow_untrusted=options.allow_untrusted,
        config=options.config,
        races=options.races,
        loop_seconds=options.loop_seconds,
    )
    return _suite(arguments, settings) if what == "pytest" else _script(Path(what), arguments, settings)


def _suite(arguments: list[str], options: Options) -> int:
    import pytest

    from harness.sanitize.emulation import OPTION

    # as `python -m pytest` has it
    sys.path.insert(0, os.getcwd())
    # by name: pytest wants to import it itself
    ours = ["-p", "harness.sanitize.pytest_plugin", OPTION, json.dumps(asdict(options))]
    # This process has imported the package whose plugin pytest wants to rewrite; last, so that no -W error outranks it.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    quiet = ["-W", "ignore:Module already imported so cannot be rewritten; harness:pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*ours, *arguments[:end], *quiet, *arguments[end:]]))


def _script(path: Path, arguments: list[str], options: Options) -> int:
    from harness.sanitize.emulation import emulate
    from harness.sanitize.traces import shorten

    sys.argv[:] = [str(path), *arguments]
    sys.path.insert(0, str(path.parent.resolve()))
    status = 0
    with emulate(options) as machine:
        machine.renew(path.name)
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                sys.stderr.write(f"{end.code}\n")
        except Exception as error:
            shorten(error)
            traceback.print_exception(error)
            status = 1
    tally = machine.tally
    sys.stdout.flush()
    sys.stderr.writelines(f"sanitize: {line}\n" for line in tally.lines(allow_untrusted=options.allow_untrusted))
    untrusted = bool(tally.untrusted) and not options.allow_untrusted
    return status or int(bool(tally.faults) or untrusted)
