"""Values of a sparse MLA decode: queries, cached tokens and sinks that make every byte of the format matter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from harness.strategies.formats import ValueKind, float_tensor, sample_codes
from harness.strategies.spec import derived_seed

NOPE, ROPE, GROUP = 448, 64, 64
WIDTH = NOPE + ROPE
ROPE_START, SCALE_START = NOPE, NOPE + 2 * ROPE
TOKEN_BYTES = SCALE_START + 8

#: What the cached tokens hold.  "subnormal_codes" keeps to the E4M3 codes without an exponent; "lowest_scales" starts
#: at byte 0, 2**-127, a float32 subnormal; in "highest_scales" a few hundred tokens still sum without overflow.
TokenKind = Literal["plain", "all_codes", "subnormal_codes", "lowest_scales", "highest_scales"]
#: One value that is not finite, in a token that some row reads or in a query.  "overflow" is 448 * 2**127, infinite
#: in float32, where the query is 0: the score is NaN, and finite only for a kernel that does not overflow.
Special = Literal["nothing", "nan_code", "nan_scale", "nan_rope", "nan_query", "overflow"]
Sink = Literal["none", "plain", "-inf", "+inf", "mixed"]


@dataclass(frozen=True, kw_only=True)
class _Range:
    """Bytes of the scales, and powers of two on rope values and queries that keep scores moderate."""

    scales: tuple[int, int]
    rope: int = 0
    query: int = 0


_RANGES: dict[TokenKind, _Range] = {
    "plain": _Range(scales=(125, 128)),
    "all_codes": _Range(scales=(117, 120)),
    "subnormal_codes": _Range(scales=(132, 135)),
    "lowest_scales": _Range(scales=(0, 4), rope=-125, query=122),
    "highest_scales": _Range(scales=(235, 239), rope=110, query=-112),
}
#: Every fifth token is quieter by this power of two: its row shows whether small values survive.
_QUIET_EVERY, _QUIET_EXPONENT = 5, -9


def queries(*, batch: int, num_heads: int, kind: TokenKind, seed: int) -> torch.Tensor:
    """Return ``q [batch, 1, num_heads, 512]`` bf16 whose scores against tokens of ``kind`` are of order 1."""
    q = float_tensor((batch, 1, num_heads, WIDTH), torch.bfloat16, seed=derived_seed(seed, "q"))
    return q * 2.0 ** _RANGES[kind].query


def token_bytes(num_tokens: int, *, kind: TokenKind, seed: int) -> torch.Tensor:
    """Return uint8 ``[num_tokens, 584]``: 448 E4M3 codes, 64 bf16, 7 scales that differ by group, and a pad byte."""
    nope_shape = (num_tokens, NOPE)
    generator = torch.Generator().manual_seed(derived_seed(seed, "scales"))
    if kind == "subnormal_codes":
        signs = torch.randint(2, nope_shape, generator=generator) << 7
        nope = (signs | torch.randint(8, nope_shape, generator=generator)).to(torch.uint8)
    else:
        every: ValueKind = "all_codes" if kind == "all_codes" else "plain"
        nope = sample_codes("e4m3", nope_shape, seed=derived_seed(seed, "nope"), kind=every)
    lowest, highest = _RANGES[kind].scales
    scales = torch.randint(lowest, highest + 1, (num_tokens, 8), generator=generator)
    quiet = torch.zeros(num_tokens, 1, dtype=torch.int64)
    if kind != "lowest_scales":
        quiet[_QUIET_EVERY - 1 :: _QUIET_EVERY] = _QUIET_EXPONENT
    rope = float_tensor((num_tokens, ROPE), torch.float32, seed=derived_seed(seed, "rope"))
    rope = (rope * torch.exp2(quiet.double() + _RANGES[kind].rope)).to(torch.bfloat16)
    return torch.cat((nope, rope.view(torch.uint8), (scales + quiet).to(torch.uint8)), dim=1)


def sinks(kind: Sink, *, num_heads: int, seed: int) -> torch.Tensor | None:
    """Return ``[num_heads]`` float32 of the size of an lse, infinities as ``kind`` says, or None."""
    if kind == "none":
        return None
    generator = torch.Generator().manual_seed(derived_seed(seed, "attn_sink"))
    sink = torch.rand(num_heads, generator=generator) * 4 - 1
    if kind == "mixed":
        sink[1::3], sink[2::3] = -math.inf, math.inf
    elif kind != "plain":
        sink.fill_(float(kind))
    return sink


def put_special(kind: Special, *, q: torch.Tensor, token: torch.Tensor | None, seed: int) -> None:
    """Write the value ``kind`` into ``token``, uint8 ``[584]``, or into ``q``; without a token only a query can be."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "special"))

    def drawn(limit: int) -> int:
        return int(torch.randint(limit, (), generator=generator))

    if kind == "nan_query":
        q.view(-1)[drawn(q.numel())] = math.nan
    elif token is None:
        return
    elif kind == "nan_code":
        token[drawn(NOPE)] = (0x7F, 0xFF)[drawn(2)]
    elif kind == "nan_scale":
        token[SCALE_START + drawn(NOPE // GROUP)] = 0xFF
    elif kind == "nan_rope":
        token[ROPE_START:SCALE_START].view(torch.bfloat16)[drawn(ROPE)] = math.nan
    elif kind == "overflow":
        group, place = drawn(NOPE // GROUP), drawn(GROUP)
        codes = token[group * GROUP : (group + 1) * GROUP]
        codes.zero_()
        codes[place] = 0x7E
        token[SCALE_START + group] = 254
        q[..., group * GROUP + place] = 0
