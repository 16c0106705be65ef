"""Illegal arguments, each a legal set with a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness.contract import Inputs, Rejection

Change = Callable[[Any], Any]


class Illegal:
    """Makes rejections out of the arguments that ``legal()`` builds."""

    def __init__(self, legal: Callable[[], Inputs]) -> None:
        self._legal = legal

    def __call__(self, label: str, argument: str, **changes: Change) -> Rejection:
        """Return the rejection whose error must name ``argument``; each change maps a legal value to another.

        An argument that the contract leaves at its default is None before.
        """

        def build() -> Inputs:
            legal = self._legal()
            return legal | {name: change(legal.get(name)) for name, change in changes.items()}

        return Rejection(label=label, argument=argument, inputs=build)


def value(replacement: object) -> Change:
    """Return the change that puts ``replacement`` in the place of any value."""
    return lambda _: replacement


def shorter(dim: int, count: int = 1) -> Change:
    """Return the change that takes ``count`` elements off the end of ``dim``."""
    return lambda tensor: tensor.narrow(dim, 0, tensor.shape[dim] - count).contiguous()


def apart(tensor: torch.Tensor) -> torch.Tensor:
    """Return zeros of the shape of ``tensor`` whose neighbours in the last axis are two elements apart."""
    pairs = torch.zeros((*tensor.shape, 2), dtype=torch.uint8 if tensor.element_size() == 1 else tensor.dtype)
    return pairs[..., 0].view(tensor.dtype) if tensor.element_size() == 1 else pairs[..., 0]


def strided(*strides: int) -> Change:
    """Return the change to zeros of the same shape with ``strides``, of a dtype of one byte."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        last = sum(stride * (size - 1) for stride, size in zip(strides, tensor.shape, strict=True))
        return torch.zeros(last + 1, dtype=torch.uint8).as_strided(tensor.shape, strides).view(tensor.dtype)

    return change


def on_another_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return ``tensor`` on the one device that every machine has besides its own; it has no content there."""
    return tensor.to("meta")


def zeros(*shape: int) -> Change:
    """Return the change to zeros of ``shape``, the dtype kept."""
    return lambda tensor: torch.zeros(shape, dtype=tensor.dtype)
