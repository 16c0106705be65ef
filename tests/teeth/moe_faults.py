"""Faults planted in ``mxfp4_moe``: codes, scales, routing, activation, combination, wrapper."""

from tests.teeth.planting import Planted

MOE = "mxfp4_moe"
DEVICE = "_mxfp4_moe_kernels"


def _moe(name: str, file: str, old: str, new: str, check: str, implementation: str = "slot", count: int = 1) -> Planted:
    return Planted(name, file, old, new, check, MOE, implementation, count)


FAULTS = (
    _moe(
        "nibbles swapped",
        "_fp4",
        "return low, high",
        "return high, low",
        "oracle:out",
    ),
    _moe("sign lost", "_fp4", "* 0x1040) & 0x81C0", "* 0x1040) & 0x01C0", "oracle:out"),
    _moe(
        "0.5 decoded as 0",
        "_fp4",
        "low = bits.to(tl.uint16)",
        "low = tl.where((bits & 0x0180) == 0, 0, bits).to(tl.uint16)",
        "oracle:out",
    ),
    _moe("scale 2^-127 flushed", "_fp4", "exponent == 0, 0x0040,", "exponent == 0, 0x0000,", "oracle:out"),
    _moe("NaN scale read as 1", "_fp4", "exponent == 255, 0x7FC0,", "exponent == 255, 0x3F80,", "oracle:out"),
    _moe("scale bias 126", "_fp4", "exponent << 7))", "(exponent + 1) << 7))", "oracle:out"),
    _moe("scale of the first group only", DEVICE, "        up_scales += BLOCK_K // _GROUP\n", "", "oracle:out"),
    _moe(
        "second matrix with the scales of one row",
        DEVICE,
        "\n    scales += (row * scale_row_stride)[:, None]",
        "\n    scales += (row * 0)[:, None]",
        "oracle:out",
    ),
    _moe(
        "gate and up swapped", DEVICE, "gate / (1.0 + tl.exp(-gate)) * up", "up / (1.0 + tl.exp(-up)) * gate",
        "oracle:out",
    ),
    _moe(
        "gate not clamped", DEVICE, "gate = tl.where(gate > clamp_limit, clamp_limit, gate)", "gate = gate",
        "oracle:out",
    ),
    _moe(
        "up clamped from above only", DEVICE, "tl.where(up < -clamp_limit, -clamp_limit, up))", "up)", "oracle:out"
    ),
    _moe(
        "clamp swallows NaN",
        DEVICE,
        "gate = tl.where(gate > clamp_limit, clamp_limit, gate)",
        "gate = tl.minimum(gate, clamp_limit)",
        "oracle:out",
    ),
    _moe("router weights ignored", DEVICE, "total += weight * tl.load(", "total += tl.load(", "oracle:out"),
    _moe(
        "weight of an invalid slot read",
        DEVICE,
        "tl.load(weights_ptr + slot, mask=valid, other=0.0)",
        "tl.load(weights_ptr + slot)",
        "poison:invalid slot weights",
    ),
    _moe(
        "row of an invalid slot read",
        DEVICE,
        "valid = (expert >= 0) & (expert < num_experts)",
        "valid = expert >= 0",
        "unwritten",
    ),
    _moe(
        "expert past the weights", "_moe_routing", "(own >= 0) & (own < num_experts) &", "(own >= 0) &", "memory"
    ),
    _moe("routed scaling skipped", DEVICE, "(total * scaling)", "(total)", "oracle:out"),
    _moe(
        "token map transposed", DEVICE, "(tl.where(live, slots, 0) // TOPK)", "(tl.where(live, slots, 0) % TOPK)",
        "oracle:out", "grouped",
    ),
    _moe(
        "last slot of a tile dropped",
        "_moe_routing",
        "mask=row < tl.load(tile + 2)",
        "mask=row < tl.load(tile + 2) - 1",
        "oracle:out",
        "grouped",
    ),
    _moe("sorted by another expert", "_moe_routing", "keys, order = torch.sort(torch.where(valid, ids, num_experts)",
         "keys, order = torch.sort(torch.where(valid, num_experts - 1 - ids, num_experts)", "oracle:out", "grouped"),
    _moe("last token not written", MOE, "mxfp4_combine_kernel[tokens,", "mxfp4_combine_kernel[tokens - 1,", "written"),
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
        "0.4 % too large", DEVICE, "(total * scaling)", "(total * scaling * 1.004)", "oracle:out"
    ),
    _moe("K checked for even only", "_mxfp4_arguments", 'require_multiple("hidden_states", "K", hidden, GROUP)',
         'require_multiple("hidden_states", "K", hidden, 2)', "rejects:"),
    _moe("clamp limit not checked", MOE, 'require_number("clamp_limit", clamp_limit, positive=True)',
         'require_number("clamp_limit", clamp_limit)', "rejects:"),
)  # fmt: skip
