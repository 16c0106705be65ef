"""The two forms of what decodes E4M3 words: inline PTX and portable Triton give the same bits on a device."""

import pytest
import torch
import triton
import triton.language as tl

from kernels._e4m3_words import bfloat16_of
from kernels._sparse_mla_rows import _nope
from kernels.paged_mqa_logits import _keys

pytestmark = pytest.mark.cuda

ROWS, WORDS = 64, 16


@triton.jit
def rows_kernel(words_ptr, out_ptr, PTX: tl.constexpr):
    """bf16 [64, 64] of words int32 [64, 16], with the scale byte of the program's number."""
    row, word, column = tl.arange(0, 64)[:, None], tl.arange(0, 16)[None, :], tl.arange(0, 64)[None, :]
    scales = tl.full([64], 0, tl.int64) + tl.program_id(0)
    values = _nope(tl.load(words_ptr + row * 16 + word), scales, 0, 64, PTX)
    tl.store(out_ptr + tl.program_id(0) * 4096 + row * 64 + column, values)


@triton.jit
def keys_kernel(words_ptr, out_ptr, PTX: tl.constexpr):
    """float16 [64, 128] of words int32 [64, 32]."""
    row, word, column = tl.arange(0, 64)[:, None], tl.arange(0, 32)[None, :], tl.arange(0, 128)[None, :]
    tl.store(out_ptr + row * 128 + column, _keys(tl.load(words_ptr + row * 32 + word), PTX))


@triton.jit
def rounding_kernel(values_ptr, out_ptr, PTX: tl.constexpr):
    offset = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    values = tl.load(values_ptr + offset)
    tl.store(out_ptr + offset, bfloat16_of(values) if PTX else values.to(tl.bfloat16))


def both_forms(kernel, grid, given, out):
    """Bits of what ``kernel`` writes with PTX and without, all NaN as one."""
    found = []
    for ptx in (True, False):
        result = torch.empty_like(out)
        kernel[(grid,)](given, result, PTX=ptx)
        found.append(torch.where(result.isnan(), -1, result.view(torch.int16)))
    return found


def words_of_all_codes(rows, words):
    """int32 [rows, words] in which every code is in each of the four bytes."""
    code = torch.arange(rows * words, dtype=torch.int64, device="cuda")
    shifted = ((code * factor + 7 * factor) % 256 << 8 * byte for byte, factor in enumerate((1, 3, 5, 11)))
    return sum(shifted).to(torch.int32).view(rows, words)


def test_rows_have_the_same_bits_for_every_code_and_scale():
    given = words_of_all_codes(ROWS, WORDS)
    assert all((given >> 8 * byte & 255).unique().numel() == 256 for byte in range(4))
    ptx, portable = both_forms(
        rows_kernel, 256, given, torch.empty(256, ROWS, 4 * WORDS, dtype=torch.bfloat16, device="cuda")
    )
    assert torch.equal(ptx, portable)
    assert (portable == -1).any()
    assert portable.unique().numel() > 1000


def test_keys_have_the_same_bits_for_every_code():
    given = words_of_all_codes(64, 32)
    ptx, portable = both_forms(keys_kernel, 1, given, torch.empty(64, 128, dtype=torch.float16, device="cuda"))
    assert torch.equal(ptx, portable)
    # two codes are NaN
    assert portable.unique().numel() == 255


def test_rounding_has_the_same_bits_for_any_float():
    bits = torch.randint(-(2**31), 2**31, (2**20,), device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    bits[:4] = torch.tensor([0x7F800000, 0x7F7FFFFF, 0x00000001, 0x3F808000])
    given = bits.to(torch.int32).view(torch.float32)
    ptx, portable = both_forms(rounding_kernel, 1024, given, torch.empty(2**20, dtype=torch.bfloat16, device="cuda"))
    assert torch.equal(ptx, portable)
