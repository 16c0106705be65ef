"""Matrix instructions of sm_90 whose left operand is in registers, and assemblers that let those be written too early.

A wgmma runs on while the next step of a loop begins.  PTX ISA, wgmma.wait_group: until it is waited for, registers that
hold its left operand must not be written.  Triton waits for all but the last few, and ptxas before CUDA 13.3, which
every Triton so far brings, has the next step decode weights into registers that those still read (triton-lang/triton,
issue 9433, pull request 11781): on an H200 one tile of 10^5 was wrong.
"""

import triton
import triton.language as tl

from kernels._mxfp4_words import on_nvidia


@triton.jit
def registers_free(WGMMA: tl.constexpr):
    """At the start of a step that writes a left operand: wait for the multiplies of the steps before, if there are any.

    WGMMA: whether the loop multiplies with wgmma.
    """
    if WGMMA and on_nvidia():
        tl.inline_asm_elementwise(
            "wgmma.wait_group.sync.aligned 0;\nmov.b32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )
