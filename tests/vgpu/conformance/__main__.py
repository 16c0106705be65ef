"""``record`` runs the cases on a GPU; ``pack`` makes the file that is kept in the tree."""

import argparse
import sys
from pathlib import Path

from tests.vgpu.conformance.cases import every_case
from tests.vgpu.conformance.packing import H200, load, pack
from tests.vgpu.conformance.recorder import record


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.vgpu.conformance", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("--out", type=Path, required=True, help="folder for raw.npz.xz")
    recording.add_argument("--device", default="cuda", help="cuda, or a profile of the virtual GPU")
    recording.add_argument("--workers", type=int, default=14)
    recording.add_argument("--seconds", type=float, default=200, help="after this no further case is begun")
    recording.add_argument("--only", default="", metavar="PREFIX", help="cases whose name begins so")
    recording.add_argument("--missing", action="store_true", help="cases that the tree has no recording of")
    packing = commands.add_parser("pack")
    packing.add_argument("raw", type=Path)
    packing.add_argument("--to", type=Path, default=H200)
    options = parser.parse_args()
    if options.command == "pack":
        sys.stdout.write(f"{pack(options.raw, options.to, every_case())} bytes in {options.to}\n")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "raw.npz.xz"
    known = load().known() if options.missing else {}

    def chosen(id, digest):
        return id.startswith(options.only) and known.get(id) != digest

    recorded, refused, seconds = record(path, options.device, options.workers, options.seconds, chosen)
    size = path.stat().st_size
    sys.stdout.write(f"{recorded} recorded, {refused} refused, {seconds:.0f} s, {size} bytes in {path}\n")


if __name__ == "__main__":
    main()
