"""Device code of ``sparse_mla_decode``: the bytes of cached tokens, and the rows of K that they hold.

A row of K (and of V: they are the same 512 numbers) is eight groups of 64: seven are dequantised, the last is the
bfloat16 "rope" part. All eight come from 32-bit words of one tensor, so that one product covers the row.
"""

import triton
import triton.language as tl

from kernels._e4m3_words import converts_e4m3, scaled

#: 32-bit words of a token's data.
TOKEN_WORDS = tl.constexpr(144)


@triton.jit
def _e8m0(code):
    """Return 2^(code - 127) as float32; NaN for code 255.

    Built from the bits because ``exp2`` flushes code 0 (2^-127, a subnormal) to zero on NVIDIA.
    """
    bits = tl.where(code == 0, 0x00400000, code << 23)
    bits = tl.where(code == 255, 0x7FC00000, bits)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def load_rows(word_ptr, scale_ptr, page_bytes, token, PAGE_SIZE: tl.constexpr):
    """Load the bytes of ``token`` [BLOCK_T], zeros where it is -1.

    Returns the eight scale bytes int64 [BLOCK_T] (the eighth is padding) and nine tensors of words int32 [BLOCK_T, 16]:
    the codes of the seven groups, and the even and the odd quads of the 32 words of rope. A thread has the same rows
    and columns of all of them.
    """
    valid = token >= 0
    place = tl.where(valid, token, 0)
    page = (place // PAGE_SIZE).to(tl.int64) * page_bytes
    offset = place % PAGE_SIZE
    scales = tl.load(scale_ptr + ((page >> 3) + PAGE_SIZE * 72 + offset), mask=valid, other=0)
    row_ptr = (word_ptr + ((page >> 2) + offset * TOKEN_WORDS))[:, None]
    word = tl.arange(0, 16)[None, :]
    mask = valid[:, None]
    w0 = tl.load(row_ptr + word, mask=mask, other=0)
    w1 = tl.load(row_ptr + 16 + word, mask=mask, other=0)
    w2 = tl.load(row_ptr + 32 + word, mask=mask, other=0)
    w3 = tl.load(row_ptr + 48 + word, mask=mask, other=0)
    w4 = tl.load(row_ptr + 64 + word, mask=mask, other=0)
    w5 = tl.load(row_ptr + 80 + word, mask=mask, other=0)
    w6 = tl.load(row_ptr + 96 + word, mask=mask, other=0)
    quads = row_ptr + 112 + (word + word // 4 * 4)
    even = tl.load(quads, mask=mask, other=0)
    odd = tl.load(quads + 4, mask=mask, other=0)
    return scales, w0, w1, w2, w3, w4, w5, w6, even, odd


@triton.jit
def _nope(words, scales, GROUP: tl.constexpr, BLOCK_T: tl.constexpr, PTX: tl.constexpr):
    """Dequantise one group of 64 e4m3 codes of every token: bf16 [BLOCK_T, 64].

    An e4m3 value has 4 significant bits and bfloat16 has float32's exponents, so the last cast is exact and overflows
    where float32 does. Only scale bytes 0 to 2 can leave bits below 2^-133, half the last place of the smallest output.
    """
    exponent = ((scales >> (8 * GROUP)) & 255).to(tl.int32)
    if PTX and converts_e4m3():
        values = tl.reshape(scaled(words, exponent[:, None]), (BLOCK_T, 64))
    else:
        half = tl.join(words & 0xFFFF, words >> 16).to(tl.uint16)
        code = tl.reshape(tl.join(half & 255, half >> 8), (BLOCK_T, 64)).to(tl.uint8)
        value = code.to(tl.float8e4nv, bitcast=True).to(tl.float32)
        values = (value * _e8m0(exponent)[:, None]).to(tl.bfloat16)
    return values


@triton.jit
def _halves(words):
    """Return the two bfloat16 numbers of every word, in a new last dimension."""
    return tl.join(words & 0xFFFF, words >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)


@triton.jit
def _rope(even, odd, BLOCK_T: tl.constexpr):
    # [token, eight words, word of the quad, half of the word, quad] to the order in memory
    halves = tl.reshape(tl.join(_halves(even), _halves(odd)), (BLOCK_T, 4, 4, 2, 2))
    return tl.reshape(tl.permute(halves, (0, 1, 4, 2, 3)), (BLOCK_T, 64))


@triton.jit
def _beside(left, right):
    both = tl.permute(tl.join(left, right), (0, 2, 1))
    return tl.reshape(both, (left.shape[0], 2 * left.shape[1]))


@triton.jit
def rows_of(scales, w0, w1, w2, w3, w4, w5, w6, even, odd, BLOCK_T: tl.constexpr, PTX: tl.constexpr):
    """Return bf16 [BLOCK_T, 512] from what ``load_rows`` returned."""
    a = _beside(_nope(w0, scales, 0, BLOCK_T, PTX), _nope(w1, scales, 1, BLOCK_T, PTX))
    b = _beside(_nope(w2, scales, 2, BLOCK_T, PTX), _nope(w3, scales, 3, BLOCK_T, PTX))
    c = _beside(_nope(w4, scales, 4, BLOCK_T, PTX), _nope(w5, scales, 5, BLOCK_T, PTX))
    d = _beside(_nope(w6, scales, 6, BLOCK_T, PTX), _rope(even, odd, BLOCK_T))
    return _beside(_beside(a, b), _beside(c, d))
