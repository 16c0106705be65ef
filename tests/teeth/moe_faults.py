"""Faults planted in ``mxfp4_moe``: codes, scales, routing, activation, combination, wrapper."""

from tests.teeth.planting import Planted

MOE = "mxfp4_moe"
BYTES = "_mxfp4_moe_kernels"
WORDS = "_mxfp4_words"
TILES = "_mxfp4_tiles"
SLOTS = "_mxfp4_slot_tiles"


def _moe(name: str, file: str, old: str, new: str, check: str, implementation: str = "slot", count: int = 1) -> Planted:
    return Planted(name, file, old, new, check, MOE, implementation, count)


FAULTS = (
    _moe("nibbles swapped", "_fp4", "return low, high", "return high, low", "oracle:out"),
    _moe("sign lost", "_fp4", "* 0x1040) & 0x81C0", "* 0x1040) & 0x01C0", "oracle:out"),
    _moe(
        "0.5 decoded as 0",
        "_fp4",
        "low = bits.to(tl.uint16)",
        "low = tl.where((bits & 0x0180) == 0, 0, bits).to(tl.uint16)",
        "oracle:out",
    ),
    _moe("NaN scale read as 1", "_fp4", "exponent == 255, 0x7FC0,", "exponent == 255, 0x3F80,", "oracle:out"),
    _moe("scale bias 126", "_fp4", "exponent << 7))", "(exponent + 1) << 7))", "oracle:out"),
    _moe("scale of the first group only", BYTES, "        up_scales += BLOCK_K // _GROUP\n", "", "oracle:out"),
    _moe(
        "codes of a pair swapped", WORDS, "return first * factor, second * factor",
        "return second * factor, first * factor", "oracle:out",
    ),
    _moe("assembly with a factor for every other code", WORDS, "pair = half * 0x10001", "pair = half", "assembly"),
    _moe("assembly that scales twice", WORDS, "{_TIMES_TWO_126}\\n{", "{_TIMES_FACTOR}\\n{", "assembly"),
    _moe("sign of words lost", WORDS, "* 0x1040) & 0x81C081C0", "* 0x1040) & 0x01C001C0", "oracle:out"),
    _moe(
        "scale 2^-127 flushed", WORDS, "half = (exponents + 126) << 7",
        "half = tl.where(exponents == 0, 0, exponents + 126) << 7", "oracle:out",
    ),
    _moe("large scales multiplied once", TILES, "> _LARGEST_FAST_SCALE:", "> 255:", "oracle:out"),
    _moe("large scales of a token multiplied once", SLOTS, "> _LARGEST_FAST_SCALE:", "> 255:", "oracle:out"),
    _moe("one large scale after another of a token", SLOTS, "seen |= tl.reduce", "seen = tl.reduce", "oracle:out"),
    _moe("one large scale after another", TILES, "seen |= tl.reduce", "seen = tl.reduce", "oracle:out", "grouped"),
    _moe("activations in another order", WORDS, "+ pair * 2 + code // 4", "+ pair * 2 + 1 - code // 4", "oracle:out"),
    _moe("hidden states in their own order", TILES,
         "order = to_stored_order(values, TOKENS, BLOCK_K, QUADS, PAIRS)", "order = values", "oracle:out", "grouped"),
    _moe("hidden states of a slot in their own order", TILES,
         "x = to_stored_order(tl.load(x_ptr + x_at)[None, :], 1, BLOCK_K, QUADS, PAIRS)",
         "x = tl.load(x_ptr + x_at)[None, :]", "oracle:out"),
    _moe("hidden states of another token", SLOTS, "(slot // TOPK).to(tl.int64)", "(slot % TOPK).to(tl.int64)",
         "oracle:out"),
    _moe("scales of the first step only", TILES, "        scale_ptr += GROUPS\n", "", "oracle:out"),
    _moe(
        "second matrix with the scales of one row", TILES, "row_starts(row, scale_row_stride, INTER // _GROUP, DENSE)",
        "row_starts(row * 0, scale_row_stride, INTER // _GROUP, DENSE)", "oracle:out", "grouped",
    ),
    _moe("second matrix of a token with the scales of one row", SLOTS, "(row * scale_row_stride + part",
         "(row * 0 + part", "oracle:out"),
    _moe("weights of the first part for all", SLOTS, "+ part * (PART // 8))", "+ part * 0)", "oracle:out"),
    _moe("activations of the first part for all", SLOTS, "column, 0)[:, None] * PART", "column, 0)[:, None] * 0",
         "oracle:out"),
    _moe("columns of other parts counted", SLOTS, "part[:, None] == tl.arange(0, BLOCK_T)[None, :]",
         "part[:, None] >= tl.arange(0, BLOCK_T)[None, :]", "oracle:out"),
    _moe("first step of an expert again and again", SLOTS, "first = step % STEPS * BLOCK_K", "first = step * 0",
         "oracle:out"),
    _moe("activations of a token's first expert", SLOTS, "act_ptr + choice * INTER + first", "act_ptr + first",
         "oracle:out"),
    _moe("activations of the first token", SLOTS, "act_ptr + token * (TOPK * INTER)", "act_ptr",
         "oracle:out", count=2),
    _moe("router weights of a token ignored", SLOTS, "tl.dot(operand, tl.trans(x)) * weight",
         "tl.dot(operand, tl.trans(x))", "oracle:out"),
    _moe("weight of an invalid slot of a token read", SLOTS, "+ choice, mask=valid, other=0.0)",
         "+ choice, mask=choice < TOPK, other=0.0)", "poison:invalid slot weights"),
    _moe("routed scaling of a token skipped", SLOTS, "(SPLIT, BLOCK_N)), 0) * scaling", "(SPLIT, BLOCK_N)), 0)",
         "oracle:out"),
    _moe("last row of slots not written", "_mxfp4_words_launch", "words_token_kernel[(tokens *",
         "words_token_kernel[((tokens - 1) *", "written"),
    _moe(
        "gate and up swapped", BYTES, "gate / (1.0 + tl.exp(-gate)) * up", "up / (1.0 + tl.exp(-up)) * gate",
        "oracle:out",
    ),
    _moe(
        "gate not clamped", BYTES, "gate = tl.where(gate > clamp_limit, clamp_limit, gate)", "gate = gate",
        "oracle:out",
    ),
    _moe("up clamped from above only", BYTES, "tl.where(up < -clamp_limit, -clamp_limit, up))", "up)", "oracle:out"),
    _moe(
        "clamp swallows NaN",
        BYTES,
        "gate = tl.where(gate > clamp_limit, clamp_limit, gate)",
        "gate = tl.minimum(gate, clamp_limit)",
        "oracle:out",
    ),
    _moe("router weights ignored", BYTES, "total += weight * tl.load(", "total += tl.load(", "oracle:out"),
    _moe(
        "weight of an invalid slot read",
        BYTES,
        "tl.load(weights_ptr + slot, mask=valid, other=0.0)",
        "tl.load(weights_ptr + slot)",
        "poison:invalid slot weights",
    ),
    _moe(
        "row of an invalid slot read",
        BYTES,
        "valid = (expert >= 0) & (expert < num_experts)",
        "valid = expert >= 0",
        "unwritten",
    ),
    _moe(
        "expert past the weights", SLOTS, "if (expert >= 0) & (expert < num_experts):", "if expert >= 0:", "memory",
    ),
    _moe("expert past the weights, by bytes", "_moe_routing", "(own >= 0) & (own < num_experts) &", "(own >= 0) &",
         "memory"),
    _moe("routed scaling skipped", BYTES, "(total * scaling)", "(total)", "oracle:out"),
    _moe(
        "token map transposed", TILES, "row_starts(_row_of(slots, BLOCK_T) // TOPK, hidden",
        "row_starts(_row_of(slots, BLOCK_T) % TOPK, hidden", "oracle:out", "grouped",
    ),
    _moe("last slot of a tile dropped", TILES, "row < stop\n", "row < stop - 1\n", "unwritten", "grouped"),
    _moe("columns behind a tile's last slot are of whoever follows", TILES, "tl.minimum(row, stop - 1)", "row",
         "memory", "grouped"),
    _moe("sorted by another expert", TILES, "mine = (ids == own)", "mine = (ids == num_experts - 1 - own)",
         "oracle:out", "grouped"),
    _moe("tiles of one expert under another's", TILES, "tile_start + number) * 3", "tile_start // 2 + number) * 3",
         "memory", "grouped"),
    _moe("large tiles read from the small ones", "_mxfp4_words_launch", "plan.large, small, large)",
         "plan.large, 0, large)", "unwritten", "grouped"),
    _moe("down before gate and up", "_mxfp4_turns", "while done < ROW_BLOCKS:", "while done < 0:", "interleaving",
         "grouped"),
    _moe("rows of gate and up published without release", "_mxfp4_turns", 'number, 1, sem="release"',
         'number, 1, sem="relaxed"', "interleaving", "grouped"),
    _moe("last turn left out", "_mxfp4_turns", "while turn < stop:", "while turn < stop - 1:", "unwritten", "grouped"),
    _moe("last token not written", "_mxfp4_words_launch", "words_combine_kernel[tokens,",
         "words_combine_kernel[tokens - 1,", "written", "grouped"),
    _moe("float16 answered in bfloat16", MOE, "out = torch.empty(tokens, hidden, dtype=hidden_states.dtype",
         "out = torch.empty(tokens, hidden, dtype=torch.bfloat16", "shape"),
    _moe("hidden states overwritten", MOE, "    return out\n", "    hidden_states.zero_()\n    return out\n", "inputs"),
    _moe(
        "last bit at random", MOE, "    return out\n",
        "    noise = torch.randint(2, out.shape, dtype=torch.int16)\n"
        "    return out.view(torch.int16).bitwise_xor(noise).view(out.dtype)\n",
        "repeat",
    ),
    _moe(
        "last bit by position", MOE, "    return out\n",
        "    place = torch.arange(tokens, dtype=torch.int16)[:, None] % 2\n"
        "    return out.view(torch.int16).bitwise_xor(place).view(out.dtype)\n",
        "relation:",
    ),
    _moe(
        "0.4 % too large", BYTES, "(total * scaling)", "(total * scaling * 1.004)", "oracle:out"
    ),
    _moe("K checked for even only", "_mxfp4_arguments", 'require_multiple("hidden_states", "K", hidden, GROUP)',
         'require_multiple("hidden_states", "K", hidden, 2)', "rejects:"),
    _moe("clamp limit not checked", MOE, 'require_number("clamp_limit", clamp_limit, positive=True)',
         'require_number("clamp_limit", clamp_limit)', "rejects:"),
)  # fmt: skip
