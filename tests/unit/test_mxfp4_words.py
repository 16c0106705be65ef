"""Every E2M1 code times every E8M0 scale, decoded from 32-bit words, and the order in which columns are stored."""

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import VirtualGPU
from kernels._mxfp4_words import LARGEST_FAST_SCALE, stored_position, to_stored_order, weights_of
from reference._formats import MX_GROUP, apply_scale, decode_e2m1_pairs, decode_scale

BYTES = 256


@triton.jit
def _decode_kernel(
    words_ptr, scale_ptr, values_ptr, decoded_ptr, stored_ptr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, QUADS: tl.constexpr, PAIRS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    words = tl.load(words_ptr + row * (COLUMNS // 8) + tl.arange(0, COLUMNS // 8)[None, :])
    scales = tl.load(scale_ptr + row * (COLUMNS // 32) + tl.arange(0, COLUMNS // 32)[None, :]).to(tl.int32)
    weights = weights_of(words, scales, ROWS, COLUMNS, QUADS, PAIRS, EXACT, True)
    tl.store(decoded_ptr + row * COLUMNS + column, weights)
    values = tl.load(values_ptr + row * COLUMNS + column)
    place = stored_position(column, QUADS, PAIRS)
    # Both ways to put values into stored order: by reshaping them, and by where they are stored.
    tl.store(stored_ptr + row * COLUMNS + column, to_stored_order(values, ROWS, COLUMNS, QUADS, PAIRS))
    tl.store(stored_ptr + (ROWS + row) * COLUMNS + place, values)


@pytest.mark.parametrize("pairs", [1, 4])
@pytest.mark.parametrize("quads", [1, 4])
@pytest.mark.parametrize("exact", [False, True])
def test_weights_are_exact_and_in_the_order_of_activations(exact, quads, pairs):
    columns = MX_GROUP * quads
    codes = torch.arange(columns // 2, dtype=torch.uint8) * 0x1F + 0x10
    packed = codes.repeat(BYTES, 1)
    scale = torch.arange(BYTES, dtype=torch.uint8)[:, None].repeat(1, quads)
    assert {int(code) for byte in codes for code in (byte & 15, byte >> 4)} == set(range(16))
    wanted = apply_scale(decode_e2m1_pairs(packed), decode_scale(scale), MX_GROUP).to(torch.bfloat16)
    decoded = torch.empty_like(wanted)
    stored = torch.empty(2, BYTES, columns, dtype=torch.bfloat16)
    with VirtualGPU():
        _decode_kernel[(1,)](
            packed.view(torch.int32), scale, wanted, decoded, stored,
            ROWS=BYTES, COLUMNS=columns, QUADS=quads, PAIRS=pairs, EXACT=exact,
        )  # fmt: skip
    known = BYTES if exact else LARGEST_FAST_SCALE + 1
    assert torch.equal(stored[0].view(torch.int16), stored[1].view(torch.int16))
    torch.testing.assert_close(decoded[:known], stored[0, :known], rtol=0, atol=0, equal_nan=True)
    assert decoded[:known].isnan().any() == exact
