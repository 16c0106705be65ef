"""Bits compared with bits, and the message that says what differs, where, how far and what was allowed."""

from __future__ import annotations

from collections.abc import Mapping

import torch

#: Bytes of an element -> the dtype that holds its bits; indexing is not implemented for every 8-bit float.
INTEGER_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of ``tensor`` as integers of the same size, contiguous, in the same shape."""
    return tensor.detach().contiguous().view(INTEGER_OF_SIZE[tensor.element_size()])


def is_nan(tensor: torch.Tensor) -> torch.Tensor:
    """Return where ``tensor`` is NaN, for every dtype (8-bit floats included); integers are never NaN."""
    if not tensor.is_floating_point():
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    return (tensor if tensor.element_size() > 1 else tensor.float()).isnan()


def differing(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return where two tensors of one shape and dtype differ in their bits; any two NaN are the same."""
    return (bits(actual) != bits(expected)) & ~(is_nan(actual) & is_nan(expected))


def kind_error(name: str, actual: object, expected: torch.Tensor) -> str | None:
    """Return what is wrong with the type, dtype or shape of output ``name``, or None."""
    if not isinstance(actual, torch.Tensor):
        return f"{name}: got {type(actual).__name__}, expected {expected.dtype} {tuple(expected.shape)}"
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{name}: got {actual.dtype} {tuple(actual.shape)}, expected {expected.dtype} {tuple(expected.shape)}"
    return None


def bit_error(name: str, actual: torch.Tensor, expected: torch.Tensor, rule: str) -> str | None:
    """Return a message if two tensors differ in kind or in any bit (NaN payloads aside), or None."""
    if error := kind_error(name, actual, expected):
        return error
    if torch.equal(bits(actual), bits(expected)):
        return None
    return breaking(name, differing(actual, expected), actual, expected, rule)


def first_bit_error(actual: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], rule: str) -> str | None:
    """Return the message of the first of ``expected``'s outputs that differs in ``actual``, or None."""
    for name, tensor in expected.items():
        if name not in actual:
            return f"{name}: missing from the outputs {sorted(actual)}"
        if error := bit_error(name, actual[name], tensor, rule):
            return error
    return None


def breaking(
    name: str,
    bad: torch.Tensor,
    actual: torch.Tensor,
    expected: torch.Tensor,
    rule: str,
    allowed: torch.Tensor | None = None,
) -> str | None:
    """Return the message for the elements where ``bad``, or None where there are none.

    All tensors have one shape; ``allowed`` is the distance that ``rule`` permits at each element.
    """
    count = int(bad.sum())
    if count == 0:
        return None
    first = tuple(int(i) for i in bad.nonzero()[0])
    within = "" if allowed is None else f" within {allowed[first].item():.2g}"
    place = f"first at {first}: " if first else ""
    got, wanted = distinct(actual[first], expected[first])
    return f"{name}: {count} of {bad.numel()} elements break '{rule}'; {place}got {got}, expected {wanted}{within}"


def distinct(left: torch.Tensor, right: torch.Tensor) -> tuple[str, str]:
    """Return two elements as text that tells them apart: with more digits than six, or with their bits."""
    shown = number(left), number(right)
    for digits in (9, 17):
        if shown[0] != shown[1]:
            return shown
        shown = number(left, digits), number(right, digits)
    if shown[0] != shown[1]:
        return shown
    return f"{shown[0]} ({_hexadecimal(left)})", f"{shown[1]} ({_hexadecimal(right)})"


def number(element: torch.Tensor, digits: int = 6) -> str:
    """Return one element as text: so many significant digits, or all digits of an integer."""
    value = element.double().item() if element.is_floating_point() else element.item()
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _hexadecimal(element: torch.Tensor) -> str:
    size = element.element_size()
    return f"0x{int(bits(element).item()) % 256**size:0{2 * size}x}"
