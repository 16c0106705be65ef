"""The usual way to test a kernel, as another judge of the same mutants: a few shapes, and a fixed tolerance.

Inputs are drawn once for each of a handful of shapes, the first output is compared with the oracle by
``torch.testing.assert_close``, and that is all: no other content, no corner, no second launch, no illegal call.
Kinds of shapes and tolerances are those of the tests that sglang 0.5.13 and its pull requests have for the same
operations, in our own cases.  Run on the virtual GPU they are better than on a device, where a wrong address may go
unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from harness import cases
from harness.contract import Contract, Implementation
from harness.device.targets import Target
from harness.mutation.judge import Judging
from harness.mutation.plan import Unit
from harness.mutation.targets import Pair
from harness.outcome import CaseResult, Violation, described
from harness.poison import Poison
from harness.trial import normalised

CHECK = "close"

_DENSE = "PagedCache(page_size=64, num_tokens=128, page_order=(0, 1), dtype=torch.float8_e4m3fn)"
_MLA = "Case(num_heads={heads}, main=Part(cache=" + _DENSE + ", lists=IndexLists(num_rows=2, topk=64){lengths}){sink})"
_MOE = (
    "Case(routing=Routing(num_tokens={tokens}, num_experts=4, rows=((0, 1), (2, 3), (1, 2), (3, 0))), hidden_size=128, "
    "intermediate_size=128{more})"
)
_SCATTER = (
    "Case(routing=Routing(num_tokens={tokens}, num_experts=4, rows=((0, 1), (2, 3), (3, 0))), hidden_size=128, "
    "output_size=64, weights='{weights}')"
)
_EP = (
    "Case(routing=Routing(num_tokens=8, num_experts=4, rows=((0, 2), (1, 3), (3, 0), (2, 1))), live=(4, 4), "
    "max_tokens=4, experts_per_rank=2, hidden_size=128, out_size=128{more})"
)
_LOGITS = "Case(num_heads=64, table=BlockTable(seq_lens={lens}, page_size=64, page_order=(0, 1, 2)), max_seq_len=128)"
_MERGE = "Case(num_parts={parts}, empty=((), (), (), ()), head_dim=128{more})"

#: Contract -> cases as printed.
SHAPES: dict[str, tuple[str, ...]] = {
    "sparse_mla_decode": (
        _MLA.format(heads=16, lengths="", sink=""),
        _MLA.format(heads=64, lengths=", lengths=(64, 40)", sink=", sink='plain'"),
    ),
    "paged_mqa_logits": (_LOGITS.format(lens="(128, 64)"), _LOGITS.format(lens="(100, 40)")),
    "merge_attn_states": (_MERGE.format(parts=2, more=""), _MERGE.format(parts=3, more=", dtype=torch.float32")),
    "mxfp4_moe": (
        _MOE.format(tokens=4, more=""),
        _MOE.format(tokens=160, more=""),
        _MOE.format(tokens=4, more=", scale_type='uint8', clamp_limit=7.0"),
    ),
    "mega_moe": (_MOE.format(tokens=4, more=""), _MOE.format(tokens=16, more=", scale_type='uint8'")),
    "moe_scatter": tuple(
        _SCATTER.format(tokens=tokens, weights=weights) for tokens, weights in ((4, "bf16"), (33, "e2m1"))
    ),
    "ep_dispatch_combine": (_EP.format(more=""), _EP.format(more=", out_dtype=torch.float32")),
}
#: Contract -> (relative, absolute) tolerance; of experts, whose results here reach 900, less than upstream's, which
#: are above its largest result.
TOLERANCES = {
    "sparse_mla_decode": (5e-2, 5e-2),
    "paged_mqa_logits": (1e-2, 1e-2),
    "merge_attn_states": (1e-2, 1e-2),
    "mxfp4_moe": (1e-1, 16.0),
    "mega_moe": (1e-1, 16.0),
    "moe_scatter": (1e-1, 3.5e-1),
    "ep_dispatch_combine": (1e-2, 1e-2),
}


def without_shapes(pairs: Sequence[Pair]) -> list[str]:
    """Return the names of the contracts that have no shapes here."""
    return [name for name in dict.fromkeys(contract.name for contract, _ in pairs) if name not in SHAPES]


def units(pairs: Sequence[Pair]) -> list[Unit]:
    """Return every shape of every implementation; raises KeyError for a contract that has none."""
    found: list[Unit] = []
    for contract, implementation in pairs:
        for text in SHAPES[contract.name]:
            found.append(Unit(contract, implementation, cases.parse(contract, text), False, len(found)))
    return found


def difference(contract: Contract[Any], got: Any, expected: Any) -> str:
    """Return how an output differs by more than the tolerance of ``contract``, empty if it does not."""
    relative, absolute = TOLERANCES[contract.name]
    return complaint(lambda: torch.testing.assert_close(got, expected, rtol=relative, atol=absolute, equal_nan=True))


def complaint(call: Callable[[], object]) -> str:
    """Return the first line of what ``call`` asserts in vain, empty if it returns."""
    try:
        call()
    except AssertionError as error:
        return str(error).strip().partition("\n")[0] or "AssertionError"
    return ""


class FixedJudging(Judging):
    """Judges by ``assert_close`` alone."""

    def result(
        self, contract: Contract[Any], implementation: Implementation, case: Any, target: Target | None = None
    ) -> CaseResult:
        """Launch once and compare."""
        found = CaseResult(checks_run={"raises"})
        inputs = contract.inputs(case, self._lane.device, Poison())
        execution = self._lane.run(self._find(implementation).launch, inputs)
        if execution.error is not None:
            found.violations.append(Violation("raises", described(execution.error)))
            return found
        outputs, wrong = normalised(contract, execution.result)
        if wrong:
            found.violations.append(Violation("raises", wrong[0]))
            return found
        self._compare(contract, case, outputs, found)
        return found

    def _compare(self, contract: Contract[Any], case: Any, outputs: Mapping[str, Any], found: CaseResult) -> None:
        """Note in ``found`` what ``differences`` says."""
        for check, difference in self.differences(contract, outputs, self._expected(contract, case)):
            found.checks_run.add(check)
            if difference:
                found.violations.append(Violation(check, difference))

    def differences(
        self, contract: Contract[Any], outputs: Mapping[str, Any], expected: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield a check and what it finds wrong, empty for nothing: of the first output alone, as upstream does."""
        name = contract.outputs[0]
        yield CHECK, difference(contract, outputs[name], expected[name])

    def _violations(self, unit: Unit) -> Iterator[Violation]:
        yield from self.result(unit.contract, unit.implementation, unit.case).violations

    def _expected(self, contract: Contract[Any], case: Any) -> Any:
        inputs = contract.inputs(case, self._lane.device, Poison())
        return self._oracles.once(contract.name, case, lambda: contract.oracle(**inputs))
