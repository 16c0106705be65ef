"""Runs ``tests/vgpu`` under other Triton releases than the installed one.

``python ci/triton_matrix.py [--folder FOLDER] [VERSION ...]`` uses the Python it is run by.  Each release is
installed once into ``FOLDER/VERSION`` and put in front of the installed one.  Prints one line per version; exits 1
if any fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

VERSIONS = ("3.8.0", "3.9.0")
ROOT = Path(__file__).resolve().parent.parent


def install(version: str, folder: Path) -> Path:
    """Return the folder that holds Triton ``version``, fetched with pip if it is not there.

    Raises RuntimeError with pip's last line if the release cannot be installed.
    """
    target = folder / version
    if (target / "triton" / "__init__.py").exists():
        return target
    # beside the target and then renamed: an interrupted installation is never taken for a complete one
    partial = folder / f"{version}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(partial)]
    done = subprocess.run([*command, f"triton=={version}"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip() or "pip failed").splitlines()[-1])
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    return target


def run(version: str, folder: Path, arguments: list[str]) -> tuple[bool, str]:
    """Run the suite under Triton ``version``; return whether it passed and what to say about it."""
    try:
        location = install(version, folder)
    except RuntimeError as error:
        return False, f"not installed: {error}"
    path = os.pathsep.join(filter(None, [str(location), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path}
    check = f"import sys, triton; sys.exit(triton.__version__ != {version!r})"
    if subprocess.run([sys.executable, "-c", check], cwd=ROOT, env=environment, check=False).returncode:
        return False, f"{location} does not hold Triton {version}"
    command = [sys.executable, "-m", "pytest", "tests/vgpu", "-q", "-p", "no:cacheprovider", *arguments]
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""]
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
    return done.returncode == 0, f"{lines[-1].strip('= ')} ({time.monotonic() - started:.0f} s)"


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"default: {' '.join(VERSIONS)}")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".cache" / "triton", help="keeps the releases between runs"
    )
    parser.add_argument("--pytest", action="append", default=[], metavar="ARG", help="one more argument for pytest")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for version in options.versions or VERSIONS:
        passed, message = run(version, options.folder.resolve(), options.pytest)
        sys.stdout.write(f"triton {version}: {'pass' if passed else 'FAIL'}: {message}\n")
        sys.stdout.flush()
        failed |= not passed
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
