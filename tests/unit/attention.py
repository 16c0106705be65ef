"""A bf16 attention row as a tensor-core kernel computes it, for measuring tolerances on honest rounding errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

BF16 = torch.bfloat16


@dataclass(frozen=True, kw_only=True)
class Rows:
    """``scores [rows, tokens]`` float32 and ``values [rows, tokens, width]`` bf16."""

    scores: torch.Tensor
    values: torch.Tensor

    @classmethod
    def random(
        cls, seed: int, *, rows: int = 16, tokens: int = 64, width: int = 64, spread: float = 1.0, bias: float = 0.0
    ) -> Rows:
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(rows, tokens, generator=generator) * spread
        values = torch.randn(rows, tokens, width, generator=generator) + bias
        return cls(scores=scores, values=values.to(BF16))

    def oracle(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Return out and lse with the roundings of ``dtype``: weights and output."""
        wide = torch.promote_types(dtype, torch.float32)
        scores = self.scores.to(wide)
        top = scores.amax(dim=1, keepdim=True)
        p = torch.exp(scores - top)
        total = p.sum(dim=1, keepdim=True)
        average = torch.einsum("rn,rnd->rd", p.to(dtype).to(wide), self.values.to(wide)) / total
        return {"out": average.to(dtype), "lse": (top + total.log())[:, 0]}

    def magnitude(self) -> dict[str, torch.Tensor]:
        p = torch.softmax(self.scores.double(), dim=1)
        out = torch.einsum("rn,rnd->rd", p, self.values.double().abs())
        return {"out": out, "lse": self.scores.double().abs().amax(dim=1).clamp(min=1)}

    def kernel(self, *, tile: int = 16, splits: int = 1) -> dict[str, torch.Tensor]:
        """Online softmax over tiles, weights in bf16, one float32 addition a token, splits merged by their lse."""
        parts = [self._part(index, tile) for index in torch.chunk(torch.arange(self.scores.shape[1]), splits)]
        lses = torch.stack([lse for _, lse in parts])
        top = lses.amax(dim=0)
        weights = torch.exp(lses - top)
        total = weights.sum(dim=0)
        merged = sum(weight[:, None] * out for weight, (out, _) in zip(weights, parts, strict=True)) / total[:, None]
        return {"out": merged.to(BF16), "lse": top + total.log()}

    def _part(self, index: torch.Tensor, tile: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows, width = self.values.shape[0], self.values.shape[2]
        top, total, acc = torch.full((rows,), -math.inf), torch.zeros(rows), torch.zeros(rows, width)
        for tokens in torch.split(index, tile):
            scores = self.scores[:, tokens]
            new = torch.maximum(top, scores.amax(dim=1))
            scale, p = torch.exp(top - new), torch.exp(scores - new[:, None])
            total, acc, top = total * scale + p.sum(dim=1), acc * scale[:, None], new
            for column, token in enumerate(tokens):
                acc = acc + p[:, column, None].to(BF16).float() * self.values[:, token].float()
        return acc / total[:, None], top + total.log()
