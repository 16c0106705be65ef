"""Which cases of a contract are captured, and what else their graphs are replayed with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch

from harness import cases
from harness.arguments import tensors, whole_storage
from harness.contract import Capturable, Contract, Implementation, Inputs
from harness.outcome import ContractError
from harness.poison import NAN, QUIET, Pattern, Poison

#: Pinned cases that stand for an implementation that declares none.
PINNED = 2
#: Letters of a case in a label.
SHOWN = 300
#: Inputs with a larger storage are not copied in place: a far pool is address space, and a copy would commit it.
COPY_BYTES = 256 * 2**20


def graph_cases(contract: Contract[Any], implementation: Implementation) -> tuple[Any, ...]:
    """Return the cases that ``implementation`` is captured with; empty unless it says that it can be.

    Raises ContractError for a declared text that is no case of the contract.
    """
    promise: Capturable | None = implementation.capturable
    if promise is None:
        return ()
    if not promise.cases:
        return contract.pinned[:PINNED]
    try:
        return tuple(cases.parse(contract, text) for text in promise.cases)
    except ValueError as error:
        raise ContractError(f"capturable cases of {implementation}: {error}") from error


def other_size(cases: tuple[Any, ...], case: Any) -> tuple[Any, ...]:
    """Return the one of ``cases`` that is launched between capture and replay of ``case``, or nothing."""
    following = (*cases[cases.index(case) + 1 :], *cases) if case in cases else cases
    return tuple(other for other in following if other != case)[:1]


@dataclass(frozen=True)
class Again:
    """Other inputs of the shapes of a case: ``quiet`` ones, and the same with ``junk`` where content may be anything.

    ``label`` says where they come from.
    """

    label: str
    quiet: Inputs
    junk: Inputs


def replays(contract: Contract[Any], case: Any, device: torch.device) -> Iterator[Again]:
    """Yield what a graph of ``case`` is replayed with, each built anew on ``device``.

    What the contract's ``replays`` says; then another seed, if a case has one, and the contract's relations, as far as
    they leave shapes, strides and numbers alone.  Raises ContractError where ``replays`` does not, and where there is
    nothing to yield: then no replay could show a graph that does not read its inputs.
    """
    nothing = True

    def built(of: Any, pattern: Pattern) -> Inputs:
        return contract.inputs(of, device, Poison(pattern))

    def named(other: Any) -> str:
        text = repr(other)
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."

    first = built(case, QUIET)
    for other in contract.replays(case):
        again = Again(f"the inputs of {named(other)}", built(other, QUIET), built(other, NAN))
        if (difference := unlike(first, again.junk)) is not None:
            raise ContractError(f"replays of {contract.name} for {case!r}: {other!r} differs in {difference}")
        nothing = False
        yield again
    if is_dataclass(case) and any(one.name == "seed" for one in fields(case)):
        known: Any = case
        seed = (known.seed + 1) % 2**16
        other = replace(known, seed=seed)
        if unlike(first, built(other, NAN)) is None:
            nothing = False
            yield Again(f"seed {seed}", built(other, QUIET), built(other, NAN))
    for relation in contract.relations:
        quiet, junk = (relation.transform(case, built(case, pattern)) for pattern in (QUIET, NAN))
        if quiet is not None and junk is not None and unlike(first, junk) is None:
            nothing = False
            yield Again(f"the relation {relation.name!r}", quiet, junk)
    if nothing:
        raise ContractError(
            f"{contract.name}: nothing to replay a graph of {named(case)} with: no other case in replays, no seed, no "
            "relation that keeps the shapes"
        )


def unlike(first: Inputs, second: Inputs) -> str | None:
    """Return in what other than content two sets of arguments differ, or None."""
    ours, theirs = tensors(first), tensors(second)
    for name in sorted(ours.keys() ^ theirs.keys()):
        return f"{name}, a tensor in one alone"
    for name, tensor in ours.items():
        if _kind(tensor) != _kind(theirs[name]):
            return f"the shape, strides, offset, size or dtype of {name}"
    for name in sorted(first.keys() | second.keys()):
        if name not in first or name not in second:
            return f"{name}, an argument of one alone"
        one, other = first[name], second[name]
        if not any(path == name or path.startswith(f"{name}[") for path in ours) and one != other:
            return f"{name}, a number"
    return None


def _kind(tensor: torch.Tensor) -> tuple[Any, ...]:
    size = tensor.untyped_storage().nbytes()
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), size


def put(into: Inputs, content: Inputs) -> None:
    """Copy every byte of ``content``'s memory into that of ``into``, between the elements too; they are alike."""
    theirs = tensors(content)
    for name, tensor in tensors(into).items():
        if tensor.untyped_storage().nbytes() <= COPY_BYTES:
            whole_storage(tensor).copy_(whole_storage(theirs[name]))
        else:
            tensor.copy_(theirs[name])
