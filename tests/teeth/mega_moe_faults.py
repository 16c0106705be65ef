"""Faults planted in ``mega_moe``: barriers, the dealing of tiles, arguments on their way into one launch."""

from tests.teeth.planting import Planted

MEGA = "mega_moe"
DEVICE = "_mega_moe_kernel"


def _mega(name: str, file: str, old: str, new: str, check: str, count: int = 1) -> Planted:
    return Planted(name, file, old, new, check, MEGA, "auto", count)


FAULTS = (
    _mega(
        "no barrier between the matrix multiplies", DEVICE, "grid_barrier(words_ptr, 1, max_polls)", "block >= 0",
        "memory",
    ),
    _mega(
        "both barriers of the first phase", DEVICE, "grid_barrier(words_ptr, 2, max_polls)",
        "grid_barrier(words_ptr, 1, max_polls)", "relation:another grid",
    ),
    _mega(
        "first tile of the first step dropped", DEVICE, "range(block, groups * (INTER // BLOCK_N), blocks)",
        "range(block + 1, groups * (INTER // BLOCK_N), blocks)", "unwritten",
    ),
    _mega(
        "as many tiles in the second step as in the first", DEVICE, "groups * (K // DOWN_BLOCK_N), blocks)",
        "groups * (INTER // BLOCK_N), blocks)", "unwritten",
    ),
    _mega(
        "every block skips one tile", DEVICE, "groups * (K // DOWN_BLOCK_N), blocks)",
        "groups * (K // DOWN_BLOCK_N), blocks + 1)", "unwritten",
    ),
    _mega(
        "row blocks taken for groups", DEVICE, "tile // (K // DOWN_BLOCK_N), tile % (K // DOWN_BLOCK_N)",
        "tile % (K // DOWN_BLOCK_N), tile // (K // DOWN_BLOCK_N)", "memory",
    ),
    _mega("last token not combined", DEVICE, "num_tokens * columns, blocks)", "(num_tokens - 1) * columns, blocks)",
          "written"),
    _mega("slots without an expert computed", DEVICE, "if expert >= 0:", "if expert >= -1:", "memory", count=2),
    _mega("clamp forgotten", MEGA, "HAS_CLAMP=limit is not None", "HAS_CLAMP=False", "oracle:out"),
    _mega(
        "second matrix with the scale strides of the first", MEGA,
        "forward.w2_scale, forward.w2_scale.stride(0), forward.w2_scale.stride(1),",
        "forward.w2_scale, forward.w13_scale.stride(0), forward.w13_scale.stride(1),", "oracle:out",
    ),
    _mega("routed scaling skipped", MEGA, "forward.weights, out, scaling,", "forward.weights, out, 1.0,", "oracle:out"),
    _mega("most blocks not checked", MEGA, "    _require_blocks(max_blocks)\n", "", "rejects:"),
)  # fmt: skip
