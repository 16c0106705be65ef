"""E2M1 weights chosen so that a wrong scale cannot hide."""

from __future__ import annotations

import torch

GROUP = 32


def one_sign_(row: torch.Tensor, activations: torch.Tensor, group: int) -> None:
    """Let every product of a group of a weight row be positive: uint8 ``row [K / 2]`` changes, ``activations [K]`` say.

    A scale that is NaN and read as an infinity gives infinity then.  With products of both signs, or one that is zero,
    it would give NaN all the same.
    """
    codes = row[group * GROUP // 2 : (group + 1) * GROUP // 2]
    negative = (activations[group * GROUP : (group + 1) * GROUP] < 0).to(torch.uint8) << 3
    # the odd codes of each sign are 0.5, 1.5, 3 and 6
    codes.copy_(codes & 0x66 | 0x11 | negative[0::2] | negative[1::2] << 4)


def nan_at_(target: torch.Tensor, place: int) -> None:
    """Let element ``place`` of contiguous ``target`` be NaN; of E8M0 scales, uint8 or not, and of E4M3 that is 0xFF."""
    if target.element_size() == 1:
        target.view(torch.uint8).view(-1)[place] = 0xFF
    else:
        target.view(-1)[place] = torch.nan
