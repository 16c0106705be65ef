"""Every E2M1 code times every E8M0 scale, decoded from 32-bit words, and the order in which columns are stored."""

import pytest
import torch
import triton
import triton.language as tl

from harness.launch.current import pretending
from harness.vgpu import VirtualGPU
from kernels._mxfp4_words import LARGEST_FAST_SCALE, stored_position, to_stored_order, weights_of
from kernels._mxfp4_words_launch import Operands, run_words, words_operands
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


EXPERTS, HIDDEN, INTER = 2, 64, 32


def operands(padding):
    """A forward of three tokens; ``padding``: bytes between the rows of weights and of scales."""
    generator = torch.Generator().manual_seed(0)

    def rows(count, columns, low=0, high=256):
        codes = torch.randint(low, high, (EXPERTS, count, columns), dtype=torch.uint8, generator=generator)
        apart = torch.full((EXPERTS, count, columns + padding), 255, dtype=torch.uint8)
        apart[:, :, :columns] = codes
        return apart[:, :, :columns]

    return words_operands(
        torch.randn(3, HIDDEN, generator=generator).bfloat16(),
        rows(2 * INTER, HIDDEN // 2),
        rows(2 * INTER, HIDDEN // 32, 120, 126),
        rows(HIDDEN, INTER // 2),
        rows(HIDDEN, INTER // 32, 120, 126),
        torch.tensor([[0, 1], [1, 0], [1, 1]]),
        torch.ones(3, 2),
    )


@pytest.mark.parametrize("grouped", [False, True])
def test_rows_that_are_apart_are_the_rows_that_follow_one_another(grouped):
    outs = []
    for padding in (0, 16):
        given = operands(padding)
        assert given.dense == (padding == 0)
        outs.append(torch.zeros(3, HIDDEN, dtype=torch.bfloat16))
        with VirtualGPU():
            run_words(given, outs[-1], grouped=grouped, scaling=1.0, limit=None)
    assert outs[0].isfinite().all()
    assert torch.equal(*outs)


@pytest.mark.parametrize(
    ("experts", "kernels"), [(16, ["experts", "experts"]), (4, ["gate_up", "gate_up", "down", "down"])]
)
def test_large_tiles_of_wgmma_give_what_others_give(experts, kernels):
    """Two steps of columns; one expert has a large tile.  With more experts both kinds of tiles are taken in turns."""
    generator = torch.Generator().manual_seed(0)

    def codes(*shape, low=0, high=256):
        return torch.randint(low, high, shape, dtype=torch.uint8, generator=generator)

    ids = torch.randint(1, experts, (40, 2), generator=generator)
    ids[:36, 0] = 0
    given = words_operands(
        torch.randn(40, 256, generator=generator).bfloat16(),
        codes(experts, 128, 128),
        codes(experts, 128, 8, low=118, high=124),
        codes(experts, 256, 32),
        codes(experts, 256, 2, low=118, high=124),
        ids,
        torch.ones(40, 2),
    )
    outs = torch.zeros(2, 40, 256, dtype=torch.bfloat16)
    with VirtualGPU():
        run_words(given, outs[0], grouped=True, scaling=1.0, limit=None)
    with VirtualGPU() as gpu, pretending("sm_90"):
        run_words(given, outs[1], grouped=True, scaling=1.0, limit=None)
    launched = [launch.kernel.removeprefix("words_").removesuffix("_kernel") for launch in gpu.launches]
    assert launched == ["prepare", *kernels, "combine"]
    assert outs[0].isfinite().all()
    torch.testing.assert_close(outs[1], outs[0])


@pytest.mark.parametrize(("tokens", "dense"), [((1 << 25) - 1, True), (1 << 25, False)])
def test_what_32_bits_do_not_reach_is_not_dense(tokens, dense):
    def empty(*shape, dtype=torch.uint8):
        return torch.empty(*shape, dtype=dtype, device="meta")

    given = Operands(
        x=empty(tokens, 64, dtype=torch.bfloat16),
        w13=empty(1, 64, 8, dtype=torch.int32),
        w13_scale=empty(1, 64, 2),
        w2=empty(1, 64, 4, dtype=torch.int32),
        w2_scale=empty(1, 64, 1),
        ids=empty(tokens, 1, dtype=torch.int32),
        weights=empty(tokens, 1, dtype=torch.float32),
    )
    assert given.dense == dense
