"""The file that is kept in the tree: every result, bit for bit, as its difference from what numpy computes.

A checksum of the decoded bits says whether this machine's numpy computes the same as the one that packed.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tests.vgpu.conformance.cases import bits_of, numbers
from tests.vgpu.conformance.recorder import read, write
from tests.vgpu.conformance.values import TYPES

H200 = Path(__file__).parent.parent / "recordings" / "conformance_h200.npz.xz"


class Undecodable(ValueError):
    """This machine's numpy and torch do not compute what those that packed the recording did."""


@dataclass(frozen=True)
class Recording:
    """``about``: the machine.  ``refused``: why, by name.  ``digests``: what was asked.  Results are bits by name."""

    about: dict[str, str]
    refused: dict[str, str]
    digests: dict[str, str]
    checksums: dict[str, list[int]]
    stored: dict[str, list[np.ndarray]]

    def known(self):
        """Digests of the cases that have results, by name."""
        return {id: self.digests[id] for id in self.stored}

    def results(self, case):
        """The bits that the GPU gave; raises Undecodable if this machine cannot decode them."""
        found = []
        kept = zip(self.stored[case.id], self.checksums[case.id], predicted(case), strict=True)
        for stored, checksum, guess in kept:
            bits = stored if guess is None else (stored + guess).astype(stored.dtype)
            if zlib.crc32(bits.tobytes()) != checksum:
                raise Undecodable(f"{case.id}: numpy or torch gives other float64 results than where this was packed")
            found.append(bits)
        return found


def predicted(case):
    """The bits that numpy gives for each result, or None where nothing predicts them."""
    if case.predict is None:
        return [None] * len(case.outputs)
    with np.errstate(all="ignore"):
        guesses = case.predict(*(numbers(operand) for operand in case.operands if operand.bits is not None))
    guesses = guesses if isinstance(guesses, tuple) else (guesses,)
    return [_cast(guess, out) for guess, out in zip(guesses, case.outputs, strict=True)]


def _cast(values, out):
    dtype, _ = TYPES[out.type]
    values = np.asarray(values)
    if dtype.is_floating_point:
        return bits_of(torch.from_numpy(np.ascontiguousarray(values)).to(dtype)).reshape(out.shape)
    whole = values
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            whole = np.nan_to_num(np.trunc(values), nan=0.0).clip(-(2.0**63), 2.0**63 - 1024).astype(np.int64)
    width = TYPES[out.type][1]
    return whole.astype(f"i{width}").view(f"u{width}").reshape(out.shape)


def pack(raw, path, cases):
    """Put a raw recording into ``path``, over what it holds of the same cases; return its size in bytes.

    Raises ValueError if what ``path`` holds was recorded elsewhere.
    """
    header, results = read(raw)
    refused, digests = header["refused"], header["digests"]
    if path.exists():
        before = load(path)
        if any(before.about[key] != header["about"][key] for key in ("gpu", "triton", "ptxas")):
            raise ValueError(f"{path.name} was made on {before.about}, {raw.name} on {header['about']}")
        kept = {id for id in before.stored if id in cases and id not in digests}
        results |= {id: before.results(cases[id]) for id in kept}
        refused = {**{id: why for id, why in before.refused.items() if id not in digests}, **refused}
        digests = {**before.digests, **digests}
    results = {id: results[id] for id in cases if id in results}
    stored = {
        id: [
            bits if guess is None else (bits - guess).astype(bits.dtype)
            for bits, guess in zip(found, predicted(cases[id]), strict=True)
        ]
        for id, found in results.items()
    }
    whole = {
        "about": header["about"],
        "refused": {id: why for id, why in refused.items() if id in cases},
        "digests": {id: digest for id, digest in digests.items() if id in cases},
        "checksums": {id: [zlib.crc32(bits.tobytes()) for bits in found] for id, found in results.items()},
    }
    write(path, whole, stored, preset=9)
    return path.stat().st_size


def load(path=H200):
    """Return the recording in ``path``."""
    header, stored = read(path)
    return Recording(header["about"], header["refused"], header["digests"], header["checksums"], stored)
