"""Faults planted in ``mega_moe``: barriers, the dealing of tiles, arguments on their way into one launch."""

from tests.teeth.planting import Planted

MEGA = "mega_moe"
BYTES = "_mega_moe_kernel"
WORDS = "_mega_moe_words_kernel"
FEW = "_mega_moe_slots_kernel"
ONE = "_mega_moe_one_loop"
SORTED = "_mxfp4_tiles"
LAUNCH = "_mega_moe_words_launch"
TURNS = "_mxfp4_turns"
SLOTS = "_mxfp4_slot_tiles"


def _mega(name: str, file: str, old: str, new: str, check: str, count: int = 1, impl: str = "auto") -> Planted:
    return Planted(name, file, old, new, check, MEGA, impl, count)


FAULTS = (
    _mega(
        "no barrier between the matrix multiplies, by bytes", BYTES, "grid_barrier(words_ptr, 1, max_polls)",
        "block >= 0", "memory",
    ),
    _mega(
        "every block skips one tile, by bytes", BYTES, "groups * (K // DOWN_BLOCK_N), blocks)",
        "groups * (K // DOWN_BLOCK_N), blocks + 1)", "unwritten",
    ),
    _mega("slots without an expert computed, by bytes", BYTES, "if expert >= 0:", "if expert >= -1:", "memory",
          count=2),
    _mega("limit of blocks ignored, by bytes", MEGA, "wanted = min(wanted, max_blocks)", "pass", "launch"),
    _mega("limit of blocks ignored", LAUNCH, "wanted = min(wanted, max_blocks)", "pass", "launch"),
    _mega(
        "no barrier after the preparation", WORDS, "grid_barrier(words_ptr, 1, max_polls)\n    if turns_ptr",
        "block >= 0\n    if turns_ptr", "memory", impl="grouped",
    ),
    _mega(
        "no barrier between the matrix multiplies", WORDS, "grid_barrier(words_ptr, 2, max_polls)\n        if",
        "block >= 0\n        if", "memory", impl="grouped",
    ),
    _mega(
        "no barrier between the matrix multiplies of a slot", FEW,
        "grid_barrier(words_ptr, 1, max_polls)\n    if passed", "block >= 0\n    if passed", "interleaving",
    ),
    _mega(
        "no barrier before the combination of what was taken in turns", WORDS,
        "grid_barrier(words_ptr, 2, max_polls)\n    elif", "block >= 0\n    elif",
        "interleaving", impl="grouped",
    ),
    _mega("no barrier between the matrix multiplies of one loop", ONE, "grid_barrier(words_ptr, 2, max_polls)",
          "second > 0", "memory", impl="grouped"),
    _mega("up taken for the rows after gate", ONE, "other_half = INTER", "other_half = BLOCK_N", "oracle:out",
          impl="grouped"),
    _mega("rows of both multiplies as long as the first one's", ONE, "columns = INTER", "columns = K", "memory",
          impl="grouped"),
    _mega("the other expert's slots where the first one's are", SORTED, "order_ptr + other_start + (place >> 16) - 1",
          "order_ptr + start + (place >> 16) - 1", "oracle:out", impl="grouped"),
    _mega("down before gate and up", TURNS, "while done < ROW_BLOCKS:", "while done < 0:", "interleaving",
          impl="grouped"),
    _mega("last turn left out", TURNS, "while turn < stop:", "while turn < stop - 1:", "unwritten", impl="grouped"),
    _mega(
        "no barrier before the combination", WORDS, "grid_barrier(words_ptr, 3, max_polls)\n    if passed:",
        "block >= 0\n    if passed:", "interleaving", impl="grouped",
    ),
    _mega(
        "no barrier before the combination, after one loop", WORDS,
        "grid_barrier(words_ptr, 3, max_polls)\n    else:", "block >= 0\n    else:", "interleaving", impl="grouped",
    ),
    _mega(
        "every block skips one tile of one loop", ONE, "tiles, tl.num_programs(0)):",
        "tiles, tl.num_programs(0) + 1):", "unwritten", impl="grouped",
    ),
    _mega("slots taken for tokens in one loop", ONE, "slots_of_row = TOPK", "slots_of_row = 1", "memory",
          impl="grouped"),
    _mega(
        "first tile of the first step dropped", FEW, "range(block, num_slots * (INTER // BLOCK_N), blocks)",
        "range(block + 1, num_slots * (INTER // BLOCK_N), blocks)", "unwritten",
    ),
    _mega(
        "first sorted tile of the first step dropped", WORDS, "range(block, tl.load(used_ptr) * ROW_BLOCKS, blocks)",
        "range(block + 1, tl.load(used_ptr) * ROW_BLOCKS, blocks)", "unwritten", impl="grouped",
    ),
    _mega(
        "as many tiles in the second step as slots", FEW, "range(block, num_tokens * DOWN_ROW_BLOCKS, blocks)",
        "range(block, num_tokens, blocks)", "written",
    ),
    _mega(
        "every block skips one tile", WORDS, "tl.load(used_ptr) * DOWN_ROW_BLOCKS, blocks)",
        "tl.load(used_ptr) * DOWN_ROW_BLOCKS, blocks + 1)", "unwritten",
    ),
    _mega(
        "row blocks taken for tokens", FEW, "tile // DOWN_ROW_BLOCKS, tile % DOWN_ROW_BLOCKS,\n",
        "tile % DOWN_ROW_BLOCKS, tile // DOWN_ROW_BLOCKS,\n", "memory",
    ),
    _mega("last token not combined", WORDS, "num_tokens * columns, blocks)", "(num_tokens - 1) * columns, blocks)",
          "written"),
    _mega("slots without an expert computed", SLOTS, "if (expert >= 0) & (expert < num_experts):",
          "if expert < num_experts:", "memory"),
    _mega("weight of an invalid slot read", SLOTS, "+ choice, mask=valid, other=0.0)",
          "+ choice, mask=choice < TOPK, other=0.0)", "poison:invalid slot weights"),
    _mega("clamp forgotten", LAUNCH, "HAS_CLAMP=limit is not None", "HAS_CLAMP=False", "oracle:out", count=2),
    _mega("routed scaling skipped", LAUNCH, "*operands.w2_arguments, out, scaling,",
          "*operands.w2_arguments, out, 1.0,", "oracle:out"),
    _mega("routed scaling skipped behind sorted tiles", LAUNCH, "device=device), out, scaling,",
          "device=device), out, 1.0,", "oracle:out", impl="grouped"),
    _mega(
        "second matrix with the scale strides of the first", MEGA,
        "forward.w2_scale, forward.w2_scale.stride(0), forward.w2_scale.stride(1),",
        "forward.w2_scale, forward.w13_scale.stride(0), forward.w13_scale.stride(1),", "oracle:out",
    ),
    _mega("most blocks not checked", MEGA, "    _require_blocks(max_blocks)\n", "", "rejects:"),
)  # fmt: skip
