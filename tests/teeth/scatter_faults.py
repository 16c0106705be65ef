"""Faults planted in ``moe_scatter``: what it computes (killed by the contract), and how it chooses and launches."""

from tests.teeth.planting import Planted

SCATTER = "moe_scatter"
DEVICE = "_moe_scatter_kernels"


def _scatter(
    name: str, file: str, old: str, new: str, check: str, implementation: str = "non-persistent", count: int = 1
) -> Planted:
    return Planted(name, file, old, new, check, SCATTER, implementation, count)


def _words(name: str, old: str, new: str, check: str = "oracle:out") -> Planted:
    return _scatter(name, "_moe_scatter_words", old, new, check, "words")


#: Killed by a check of the contract.
FAULTS = (
    _words("assembly with codes in another order", '"0x3424"', '"0x2434"', "assembly"),
    _scatter(
        "gather off by one row",
        DEVICE,
        "tokens = tl.where(live, slots // TOPK, num_tokens)",
        "tokens = tl.where(live, slots // TOPK + 1, num_tokens)",
        "oracle:out",
        "persistent-store",
    ),
    _scatter(
        "slot number split the wrong way round",
        DEVICE,
        "tokens = tl.where(live, slots // TOPK, 0).to(tl.int64)",
        "tokens = tl.where(live, slots % TOPK, 0).to(tl.int64)",
        "oracle:out",
    ),
    _scatter(
        "scatter to the sorted place instead of the slot",
        DEVICE,
        "out.scatter(values, slots, column)",
        "out.scatter(values, tl.arange(0, BLOCK_M), column)",
        "oracle:out",
        "persistent-scatter",
    ),
    _scatter(
        "dead lanes scattered to slot 0",
        DEVICE,
        "mask=live, other=num_slots)",
        "mask=live, other=0)",
        "oracle:out",
        "persistent-scatter",
    ),
    _scatter(
        "mask of dead lanes dropped",
        DEVICE,
        "tl.store(out_ptrs, values, mask=live[:, None] & (row < N)[None, :])",
        "tl.store(out_ptrs, values, mask=(row < N)[None, :])",
        "memory",
    ),
    _scatter(
        "columns past the end stored",
        DEVICE,
        "mask=live[:, None] & (row < N)[None, :])",
        "mask=live[:, None])",
        "memory",
        count=1,
    ),
    _scatter(
        "scale of the first group only",
        DEVICE,
        "group = k // _GROUP + tl.arange(0, BLOCK_K // _GROUP)",
        "group = tl.arange(0, BLOCK_K // _GROUP)",
        "oracle:out",
    ),
    _scatter(
        "scale of the wrong row",
        DEVICE,
        "tl.load(scale_ptrs + row.to(tl.int64) * row_stride, mask=(row < N) & real",
        "tl.load(scale_ptrs + (row ^ 1).to(tl.int64) * row_stride, mask=(row < N) & real",
        "oracle:out",
        "persistent-store",
    ),
    _scatter(
        "factors of far rows in 32 bits",
        DEVICE,
        "tl.load(scale_ptrs + row.to(tl.int64) * row_stride, mask=(row < N) & real",
        "tl.load(scale_ptrs + row * row_stride, mask=(row < N) & real",
        "memory",
    ),
    _scatter(
        "exponents of far rows in 32 bits",
        DEVICE,
        "(row.to(tl.int64) * row_stride)[:, None] + group",
        "(row * row_stride)[:, None] + group",
        "memory",
    ),
    _scatter("nibbles swapped", "_fp4", "return low, high", "return high, low", "oracle:out", "persistent-scatter"),
    _scatter("NaN of e4m3 read as 480", DEVICE, "magnitude == 0x7F,", "magnitude == 0x80,", "oracle:out"),
    _scatter(
        "NaN scale read as infinity", "_fp4", "exponent == 255, 0x7FC0,", "exponent == 255, 0x7F80,", "oracle:out"
    ),
    _scatter("sign of e4m3 lost", DEVICE, "((bits & 0x80) << 8) | ", "", "oracle:out", "persistent-store"),
    _scatter(
        "invalid id not zeroed",
        "moe_scatter",
        "group_by_expert(nobody, experts + 1, form.tile.m)",
        "group_by_expert(nobody, experts, form.tile.m)",
        "written",
    ),
    _scatter(
        "invalid ids multiplied by what stands behind the experts",
        DEVICE,
        "(expert >= 0) & (expert < num_experts)",
        "expert >= 0",
        "memory",
    ),
    _scatter(
        "invalid ids to expert 0",
        "moe_scatter",
        "(ids >= 0) & (ids < experts), ids, experts)",
        "(ids >= 0) & (ids < experts), ids, 0)",
        "oracle:out",
        "auto",
    ),
    _scatter(
        "last program's tiles dropped",
        DEVICE,
        "range(tl.program_id(0), num_tiles * columns, tl.num_programs(0))",
        "range(tl.program_id(0), num_tiles * columns - 1, tl.num_programs(0))",
        "written",
        "persistent-store",
    ),
    _scatter(
        "every program begins with tile 0",
        DEVICE,
        "range(tl.program_id(0), num_tiles",
        "range(0, num_tiles",
        "written",
        "persistent-store",
    ),
    _words("slots without an expert in no tile", "program <= num_experts:", "program < num_experts:", "written"),
    _words("tiles that nobody uses left as they were", "if own == 0:", "if own < 0:", "unwritten"),
    _words(
        "words past K read",
        "inside[:, None] & (word < K // CODES)[None, :]",
        "inside[:, None] & (word >= 0)[None, :]",
        "memory",
    ),
    _words(
        "words of rows past N read",
        "inside[:, None] & (word < K // CODES)[None, :]",
        "(row >= 0)[:, None] & (word < K // CODES)[None, :]",
        "memory",
    ),
    _words("words behind the experts multiplied", "tl.where(real, K, 0)", "K", "memory"),
    _words("rows of words past N stored", "mask=live[None, :] & inside[:, None])", "mask=live[None, :])", "memory"),
    _words(
        "words stored for slots that are not there",
        "mask=live[None, :] & inside[:, None])",
        "mask=inside[:, None])",
        "memory",
    ),
    _scatter(
        "K checked for even only",
        "moe_scatter",
        'require_multiple("hidden_states", "K", depth, GROUP)',
        'require_multiple("hidden_states", "K", depth, 2)',
        "rejects:",
    ),
    _scatter(
        "rows of weights at any address",
        "moe_scatter",
        "    if not _describable(w):\n",
        "    if False:\n",
        "rejects:",
    ),
    _scatter(
        "weights accepted with somebody else's scale",
        "moe_scatter",
        "        if w_scale is not None:\n            raise",
        "        if False:\n            raise",
        "rejects:",
    ),
)

#: Killed by one of ``tests.unit.scatter_checks``.
FORM_FAULTS = (
    _scatter(
        "subnormals of e4m3 flushed",
        DEVICE,
        'return tl.where(magnitude == 0x7F, float("nan"), value)',
        'value = tl.where(magnitude < 8, 0.0, value)\n    return tl.where(magnitude == 0x7F, float("nan"), value)',
        "hard_cases_hold",
    ),
    _scatter(
        "id past 32 bits narrowed first",
        "moe_scatter",
        "ids = topk_ids.reshape(-1)",
        "ids = topk_ids.reshape(-1).to(torch.int32)",
        "hard_cases_hold",
        "auto",
    ),
    _scatter(
        "columns of a hidden view taken as contiguous",
        "moe_scatter",
        "else from_words or hidden_states.stride(1) == 1",
        "else True",
        "hard_cases_hold",
    ),
    _scatter(
        "expert's offset in 32 bits",
        DEVICE,
        "own = expert.to(tl.int64)",
        "own = expert",
        "hard_cases_hold",
    ),
    _scatter(
        "token's offset in 32 bits",
        DEVICE,
        "tokens = tl.where(live, slots // TOPK, 0).to(tl.int64)",
        "tokens = tl.where(live, slots // TOPK, 0)",
        "hard_cases_hold",
    ),
    _scatter(
        "form chosen by the major version",
        "moe_scatter",
        "    return choose_form(target,",
        '    if target.arch.startswith("sm_12"):\n'
        "        limits = replace(limits, is_persistent=False)\n"
        "    return choose_form(target,",
        "each_target_gets_its_form",
    ),
    _scatter(
        "form of the default target for all",
        "moe_scatter",
        "target = current_target(w.device, default=virtual_target)",
        'target = current_target(torch.device("cpu"), default=virtual_target)\n'
        '    target = type(target)(**vars(target) | {"arch": virtual_target})',
        "the_chosen_form_is_launched",
    ),
    _scatter(
        "tile scatter never used",
        "moe_scatter",
        'scatters = form.name == "persistent-scatter"',
        "scatters = False",
        "forced_forms_are_launched",
    ),
    _scatter(
        "whatever the table refuses is launched",
        "moe_scatter",
        "    return _launch(hidden_states, w, topk_ids, w_scale)\n\n\ndef _launch(",
        "    return _launch(hidden_states, w, topk_ids, w_scale, refused=True)\n\n\ndef _launch(",
        "a_scatter_that_the_target_lacks_is_refused_before_the_launch",
    ),
    _scatter(
        "constraints ignored",
        "moe_scatter",
        "    wanted = current_constraints()\n",
        "    wanted = type(current_constraints())()\n",
        "what_does_not_fit_is_refused_before_the_launch",
    ),
    _words(
        "codes of a word in another order",
        "(8 * NUMBER)",
        "(8 * (NUMBER ^ 1))",
        "words_take_as_many_steps_as_there_are",
    ),
    _words(
        "a stride of hidden columns taken as 1",
        "column.to(tl.int64) * column_stride",
        "column.to(tl.int64)",
        "words_take_as_many_steps_as_there_are",
    ),
    _words(
        "chunks of slots on top of each other",
        "place += tl.sum(mine, 0)",
        "place += 0",
        "slots_are_sorted_in_as_many_chunks_as_there_are",
    ),
    _words(
        "slots counted in the first chunk only",
        "counts += tl.histogram(owners, EXPERTS, mask=there)",
        "counts += tl.histogram(owners, EXPERTS, mask=there & (first == 0))",
        "slots_are_sorted_in_as_many_chunks_as_there_are",
    ),
    _words(
        "hidden states in their own order",
        "tl.store(stored_ptr + token * K + column, stored)",
        "tl.store(stored_ptr + token * K + column, values)",
        "words_take_as_many_steps_as_there_are",
    ),
    _words(
        "scale of the first step of words only",
        "group = k // _GROUP + tl.arange(0, BLOCK_K // _GROUP)",
        "group = tl.arange(0, BLOCK_K // _GROUP)",
        "words_take_as_many_steps_as_there_are",
    ),
    _scatter(
        "words of weights on every target",
        "moe_scatter",
        'weights != "bf16" and has_wgmma(target) and',
        'weights != "bf16" and',
        "words_are_for_narrow_weights_on_wgmma",
    ),
    _scatter(
        "words although a persistent form was asked for",
        "moe_scatter",
        "has_wgmma(target) and current_constraints().is_persistent is not True",
        "has_wgmma(target)",
        "words_are_for_narrow_weights_on_wgmma",
    ),
    _scatter(
        "stages not asked for",
        "moe_scatter",
        '"num_stages": form.num_stages,',
        '"num_stages": 5,',
        "the_launch_is_what_the_form_says",
    ),
    _scatter(
        "warps by Triton's default",
        "moe_scatter",
        '"num_warps": form.num_warps, ',
        "",
        "the_launch_is_what_the_form_says",
    ),
    _scatter(
        "one group of a scale not checked",
        "moe_scatter",
        'if weights == "e2m1" and limits.block_k < GROUP:',
        "if False:",
        "constraints_reach_the_launch",
    ),
    _scatter(
        "a constraint set and left",
        "moe_scatter",
        "    with constraints(is_persistent=False):\n",
        "    left = replace(current_constraints(), is_persistent=False)\n"
        '    current_constraints.__globals__["_current"].set(left)\n'
        "    if True:\n",
        "constraints_are_as_before_after_every_launch",
    ),
    _scatter(
        "tiles of decoded weights as deep as others",
        "moe_scatter",
        'if weights != "bf16" and block_m',
        'if weights == "fp64" and block_m',
        "decoded_tiles_and_rdna_tiles_are_small",
    ),
    _scatter(
        "RDNA's tiles as large as others",
        "moe_scatter",
        "LARGEST.get(target.arch, _LARGEST)",
        "_LARGEST",
        "decoded_tiles_and_rdna_tiles_are_small",
    ),
    _scatter(
        "one tile for decode and prefill",
        "moe_scatter",
        "if most is None or mean <= most",
        "if most is None",
        "every_configuration_fits_its_target",
    ),
    _scatter(
        "grid as wide as the device whatever the budget",
        "moe_scatter",
        "else available_sms(device)",
        'else available_sms.__globals__["physical_sms"](0)',
        "a_persistent_grid_is_the_budget",
    ),
    _scatter(
        "ids looked at by the host",
        "moe_scatter",
        "        ids = topk_ids.reshape(-1)\n",
        "        ids = topk_ids.reshape(-1)\n        if not bool((ids >= 0).any()):\n            return None\n",
        "nothing_waits_for_the_device",
    ),
)
