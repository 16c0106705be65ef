"""The two forms of the kernels on words: inline PTX and portable Triton give the same bits on a device."""

import pytest
import torch

from kernels._mxfp4_words_launch import run_words, words_operands

pytestmark = pytest.mark.cuda

HIDDEN, INTER, TOPK = 256, 128, 2


def operands(tokens, experts, scale_bytes):
    """A forward whose scale bytes are drawn from ``scale_bytes``; expert 0 gets most slots."""
    generator = torch.Generator("cuda").manual_seed(tokens)

    def codes(*shape, bytes=(0, 256)):
        return torch.randint(*bytes, shape, dtype=torch.uint8, device="cuda", generator=generator)

    ids = torch.randint(1, experts, (tokens, TOPK), device="cuda", generator=generator)
    ids[: tokens * 3 // 4, 0] = 0
    found = words_operands(
        torch.randn(tokens, HIDDEN, device="cuda", generator=generator).bfloat16(),
        codes(experts, 2 * INTER, HIDDEN // 2),
        codes(experts, 2 * INTER, HIDDEN // 32, bytes=scale_bytes),
        codes(experts, HIDDEN, INTER // 2),
        codes(experts, HIDDEN, INTER // 32, bytes=scale_bytes),
        ids,
        torch.randn(tokens, TOPK, device="cuda", generator=generator),
    )
    assert found is not None
    return found


# With more experts large tiles are taken in turns, too.
@pytest.mark.parametrize(
    ("tokens", "experts", "grouped"), [(2, 4, False), (12, 4, True), (60, 4, True), (60, 16, True)]
)
@pytest.mark.parametrize("scale_bytes", [(118, 124), (0, 129), (100, 140), (0, 256)], ids=str)
def test_both_forms_give_the_same_bits(tokens, experts, grouped, scale_bytes):
    """Experts with few slots and with many, scales that one factor gives and all others, NaN among them."""
    given = operands(tokens, experts, scale_bytes)
    outs = []
    for ptx in (True, False):
        out = torch.zeros(tokens, HIDDEN, dtype=torch.bfloat16, device="cuda")
        run_words(given, out, grouped=grouped, scaling=1.5, limit=None, ptx=ptx)
        outs.append(out)
    assert torch.equal(*(out.view(torch.int16) for out in outs))
