"""Relations that many contracts share: what may be reordered, renamed or stored otherwise without a bit changing."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import torch

from harness.compare import INTEGER_OF_SIZE
from harness.contract import Inputs, Outputs, Relation

#: Caches above this size are left alone: a copy of a lazily committed pool would commit it.
COPY_BYTES = 64 * 2**20


def permuted_rows(name: str, *, arguments: Iterable[str], outputs: Iterable[str]) -> Relation[Any]:
    """Return the relation "permuting axis 0 of ``arguments`` permutes axis 0 of ``outputs``".

    The permutation follows from the case and is never the identity.  Arguments that are None stay None; other
    outputs must not change.  Says nothing about cases with fewer than two rows.
    """
    permuted, followers = tuple(arguments), frozenset(outputs)

    def transform(case: Any, inputs: Inputs) -> Inputs | None:
        given = [inputs[argument] for argument in permuted if inputs[argument] is not None]
        if not given or len(given[0]) < 2:
            return None
        order = _permutation(case, len(given[0]), given[0].device)
        moved = {key: _rows(inputs[key], order) for key in permuted if inputs[key] is not None}
        return {**inputs, **moved}

    def expect(case: Any, first: Outputs) -> Outputs:
        return {
            key: _rows(tensor, _permutation(case, len(tensor), tensor.device)) if key in followers else tensor
            for key, tensor in first.items()
        }

    return Relation(name=name, transform=transform, expect=expect)


def renamed_pages(name: str, *, cache: str, ids: str, tokens: bool) -> Relation[Any]:
    """Return the relation "giving the pages of a cache other numbers changes no output".

    ``cache`` names an argument ``[num_pages, page_size, ...]`` with any strides, ``ids`` one of integers: token ids,
    page * page_size + offset, if ``tokens``, else page ids.  Ids outside the pool stay as they are.  Says nothing
    about a missing cache, one of fewer than two pages, or one above 64 MiB.
    """

    def transform(case: Any, inputs: Inputs) -> Inputs | None:
        pages = inputs[cache]
        if pages is None or len(pages) < 2 or _span(pages) > COPY_BYTES:
            return None
        order = _permutation(case, len(pages), pages.device)
        # whole pages, padding included, also for the last one: an allocation has no shorter page
        size = max(len(pages) * pages.stride(0) * pages.element_size(), _span(pages))
        storage = torch.zeros(size, dtype=torch.uint8, device=pages.device)
        moved = storage.view(pages.dtype).as_strided(pages.shape, pages.stride())
        integer = INTEGER_OF_SIZE[pages.element_size()]
        moved.view(integer)[order] = pages.view(integer)
        unit = pages.shape[1] if tokens else 1
        old = inputs[ids].long()
        valid = (old >= 0) & (old < len(pages) * unit)
        safe = old.where(valid, 0)
        new = (order[safe // unit] * unit + safe % unit).where(valid, old)
        return {**inputs, cache: moved, ids: new.to(inputs[ids].dtype)}

    return Relation(name=name, transform=transform)


def retyped(name: str, *, argument: str, dtype: torch.dtype) -> Relation[Any]:
    """Return the relation "the same numbers as another dtype give the same outputs", such as int64 ids for int32.

    Says nothing where the argument is missing or has that dtype already.
    """

    def transform(case: Any, inputs: Inputs) -> Inputs | None:
        value = inputs[argument]
        if value is None or value.dtype == dtype:
            return None
        return {**inputs, argument: value.to(dtype)}

    return Relation(name=name, transform=transform)


def _rows(tensor: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    return tensor.view(INTEGER_OF_SIZE[tensor.element_size()])[order].view(tensor.dtype)


def _permutation(case: Any, length: int, device: torch.device) -> torch.Tensor:
    """Return a permutation of ``length`` that the case decides, without a fixed order."""
    generator = torch.Generator().manual_seed(zlib.crc32(repr(case).encode()))
    order = torch.randperm(length, generator=generator)
    if torch.equal(order, torch.arange(length)):
        order = order.roll(1)
    return order.to(device)


def _span(tensor: torch.Tensor) -> int:
    """Bytes from the first to the last element of a view."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (reach + 1) * tensor.element_size()
