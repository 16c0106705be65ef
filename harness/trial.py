"""One case of one implementation, launched as often as its checks need."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch

from harness.arguments import Snapshot, widened
from harness.blame import blamed_on, check_magnitude, check_oracle, check_repeatable, mistake
from harness.compare import first_bit_error, kind_error
from harness.contract import Contract, Implementation, Inputs, Outputs, Relation
from harness.copies import copied, is_copied, storage_bytes
from harness.in_place import InPlace, returned
from harness.lanes import Execution, Lane, VirtualLane
from harness.leaks import watched
from harness.outcome import CaseResult, Violation, described, site
from harness.poison import QUIET, Pattern, Poison

if TYPE_CHECKING:
    from harness.compiling.acceptance import Acceptance
    from harness.traffic.record import Moved

UNCHANGED = "unchanged by content that may hold anything"
#: Arguments up to this size are made once a case and copied for each launch.
KEPT_BYTES = 16 * 2**20
#: Programs of one case up to which a race is looked for unasked: what they touch is remembered, element by element.
MOST_RACING = 512


@dataclass
class Trial:
    """Launches and judges; each method adds to ``result`` what it finds.  ``only`` is the one check id wanted.

    ``asks`` says whether Triton compiles what is launched; nobody asks without it.
    """

    contract: Contract[Any]
    implementation: Implementation
    case: Any
    lane: Lane
    only: str | None = None
    asks: Acceptance | None = None
    result: CaseResult = field(default_factory=CaseResult)
    low: Outputs = field(default_factory=dict)
    high: Outputs = field(default_factory=dict)
    magnitude: Outputs = field(default_factory=dict)
    _first: Snapshot | None = field(default=None, init=False)
    _quiet: Inputs | None = field(default=None, init=False)

    def first_launch(self, config: int) -> Execution | None:
        """Launch on quiet inputs and check that they are left alone; None if the launch did not return."""
        inputs = self.inputs(Poison())
        before = Snapshot.take(inputs)
        if self.lane.device.type == "cpu":
            # a device has no room for a copy that stays: its memory is counted
            self._first = before
        execution = self.launch(inputs, config=config, lane=self._asking(counts=self._recorded(config) is not None))
        self.result.configs = execution.configs
        self.judge_compilation(execution, config)
        if not self._returned(execution, config):
            self._first = None
            return None
        self.result.checks_run.add("inputs")
        written = execution.result.outside(inputs) if isinstance(execution.result, InPlace) else []
        for message in (*before.changes(), *written):
            self.add("inputs", message, config)
        self.judge_device(execution, config)
        self.judge_launches(execution, config)
        self.judge_traffic(execution, config)
        return execution

    def judge_device(self, execution: Execution, config: int) -> None:
        """Check that every kernel was launched with the tensors' device current, where that may be another."""
        if not self.contract.any_device or execution.stray is None:
            return
        self.result.checks_run.add("device")
        if execution.stray:
            what = f"{', '.join(execution.stray)} launched on the current device, whatever the tensors are on"
            self.add("device", f"{what}: launch inside `with torch.cuda.device_of(tensor):`", config, "device")

    def judge_launches(self, execution: Execution, config: int) -> None:
        """Check what the contract promises about the launches themselves, where the lane saw them."""
        if self.contract.launches is None or execution.launched is None:
            return
        self.result.checks_run.add("launch")
        with blamed_on(self.contract, "launches", self.case):
            wrong = list(self.contract.launches(self.case, execution.launched))
        for message in wrong:
            self.add("launch", message, config)

    def judge_traffic(self, execution: Execution, config: int) -> None:
        """Check that the launches move what is recorded of this case, where something is."""
        recorded = self._recorded(config)
        if recorded is None or execution.moved is None:
            return
        from harness.traffic.record import differences

        self.result.checks_run.add("traffic")
        for message in differences(recorded, execution.moved):
            self.add("traffic", message, config)

    def judge_compilation(self, execution: Execution, config: int) -> None:
        """Check that Triton compiles what was launched, where it was asked and the refusal is not declared."""
        if execution.refusals is None or self.asks is None:
            return
        self.result.checks_run.add("compiles")
        for refusal in execution.refusals:
            if not self.asks.is_expected(self.implementation, refusal):
                self.add("compiles", refusal.message, config, refusal.site)

    def check_race(self, first: Execution, config: int) -> None:
        """Launch the same inputs again and check that no two programs touch an element with nothing to order them."""
        if not self._wants("race") or not 1 < _most_programs(first) <= MOST_RACING:
            return
        self.result.checks_run.add("race")
        if (fault := self.race(config)) is not None:
            self.add("race", fault.message, config, fault.site)

    def race(self, config: int) -> Change | None:
        """Return the first race of a launch, None if there is none or the lane cannot tell."""
        if not isinstance(self.lane, VirtualLane):
            return None
        races: bool | Literal["strict"] = "strict" if self.contract.stores_once else True
        execution = self.launch(self.inputs(Poison()), config=config, lane=replace(self.lane, races=races))
        if execution.error is None or execution.unsupported is not None:
            return None
        return Change(_said(execution, execution.error), site(execution.error))

    def run_oracles(self) -> None:
        """Compute what the outputs must be, on inputs that no kernel has seen."""
        inputs = self.inputs(Poison(), oracle=True)
        before = Snapshot.take(inputs)
        if self._first is not None:
            check_repeatable(self.contract, self.case, self._first, before)
            self._first = None
        with blamed_on(self.contract, "the oracle", self.case):
            wide = widened(inputs)
            low, high = self.contract.oracle(**inputs), self.contract.oracle(**wide)
        with blamed_on(self.contract, "magnitude", self.case):
            magnitude = {} if self.contract.magnitude is None else dict(self.contract.magnitude(**wide))
        if changes := before.changes():
            raise mistake(self.contract, f"the oracle writes to its inputs: {changes[0]}", self.case)
        check_oracle(self.contract, self.case, low, high)
        check_magnitude(self.contract, self.case, magnitude, low)
        self.low, self.high, self.magnitude = dict(low), dict(high), magnitude

    def judge(self, execution: Execution, config: int = 0) -> dict[str, torch.Tensor] | None:
        """Check kind, completeness and values of one launch; return its outputs if they can be compared further."""
        self._first = None
        outputs, wrong = normalised(self.contract, execution.result)
        wrong += [error for name in outputs if (error := kind_error(name, outputs[name], self.low[name]))]
        self.result.checks_run.add("shape")
        for message in wrong:
            self.add("shape", message, config)
        sound = {name: tensor for name, tensor in outputs.items() if kind_error(name, tensor, self.low[name]) is None}
        for name, tensor in sound.items():
            self._judge_output(execution, name, tensor, config)
        return None if wrong else sound

    def _judge_output(self, execution: Execution, name: str, tensor: torch.Tensor, config: int) -> None:
        self.result.checks_run |= {"written", f"oracle:{name}"}
        if missed := execution.unwritten(tensor):
            where = f"first at {missed.first_index}"
            self.add("written", f"{name}: {missed.count} of {missed.total} elements never written; {where}", config)
        low = self.low[name]
        with blamed_on(self.contract, f"the tolerance of {name}", self.case):
            error = self.contract.tolerance[name].compare(
                name, tensor.to(low.device), low, self.high[name], self.magnitude.get(name)
            )
        if error:
            self.add(f"oracle:{name}", error, config)

    def other_configs(self, first: Execution, *, fixed: bool, every: bool) -> Iterator[int]:
        """Yield the autotune configurations still to run, unless one is ``fixed``."""
        if fixed or first.configs < 2:
            return
        others = range(1, first.configs)
        yield from others if every else [others[zlib.crc32(repr(self.case).encode()) % len(others)]]

    def judge_config(self, config: int) -> None:
        """Launch with another configuration and judge that launch."""
        execution = self.launch(self.inputs(Poison()), config=config, lane=self._asking())
        self.judge_compilation(execution, config)
        if self._returned(execution, config):
            self.judge_device(execution, config)
            self.judge(execution, config)

    def check_content(self, outputs: Outputs, pattern: Pattern) -> None:
        """Relaunch with ``pattern`` wherever content may be anything, and trace a difference to its region."""
        if not self._wants("poison", "unwritten"):
            return
        # an output that was not written shows what its memory held: that is reported as written
        fill = QUIET if self.result.of("written") else pattern
        poison = Poison(pattern)
        combined = self._difference(self.inputs(poison), outputs, fill)
        regions = {f"poison:{region}": region for region in sorted(poison.regions)}
        self.result.checks_run |= {*regions, *(["unwritten"] if fill is pattern else [])}
        if combined is None:
            return
        explained = bool(self.result.of("unwritten"))
        if fill is pattern and self._wants("unwritten") and not explained:
            explained = self.check_memory(outputs, pattern)
        for check, region in regions.items():
            if self.result.of(check):
                explained = True
            elif self._wants("poison") and (
                change := self._difference(self.inputs(Poison(pattern, only=region)), outputs)
            ):
                explained = True
                # the region is the cause: more of the same on other cases is the same fault
                self.add(check, f"with {pattern.name} content in {region!r}: {change}", site=check)
        if not explained and not self.result.of("poison:several"):
            held = ", ".join(repr(region) for region in regions.values()) or "no region"
            self.add("poison:several", f"with {pattern.name} content in {held} and in new memory together: {combined}")

    def check_memory(self, outputs: Outputs, pattern: Pattern) -> bool:
        """Check that ``pattern`` in memory nobody wrote changes nothing, all else quiet; whether it did."""
        inputs = self.inputs(Poison())
        execution = self.launch(inputs, fill=pattern)
        change = self._changed(execution, outputs)
        if change is None:
            return False
        read = f"; read in {execution.suspects[0]}" if execution.suspects else ""
        self.add("unwritten", f"with {pattern.name} content in new memory: {change}{read}", site=change.site)
        return True

    def check_assembly(self, first: Execution, outputs: Outputs) -> None:
        """Launch the same inputs with the forms that kernels have for the target: every bit must be the same."""
        if not first.forms or not isinstance(self.lane, VirtualLane) or not self._wants("assembly"):
            return
        execution = self.launch(self.inputs(Poison()), lane=replace(self.lane, native=True))
        if execution.unsupported is not None:
            return
        self.result.checks_run.add("assembly")
        if change := self._changed(execution, outputs, "same in the form with assembly"):
            self.add("assembly", str(change), site=change.site)

    def check_repeat(self, outputs: Outputs) -> None:
        """Launch the same inputs again: every bit must be the same."""
        if not self._wants("repeat"):
            return
        self.result.checks_run.add("repeat")
        if change := self._changed(self.launch(self.inputs(Poison())), outputs, "same in a second run"):
            self.add("repeat", str(change), site=change.site)

    def check_interleaving(self, outputs: Outputs, seed: int) -> None:
        """Launch the same inputs with programs that take turns: no fault, and the same bits if any order gives them."""
        wanted = self.implementation.interleavings
        if wanted is None or not isinstance(self.lane, VirtualLane) or not self._wants("interleaving"):
            return
        self.result.checks_run.add("interleaving")
        execution = self.launch(self.inputs(Poison()), lane=self.lane.interleaved(wanted, seed))
        if execution.error is not None and execution.unsupported is None:
            change: Change | None = Change(_said(execution, execution.error), site(execution.error))
        elif self.contract.deterministic:
            change = self._changed(execution, outputs, "same in every order of programs")
        else:
            change = None
        if change:
            self.add("interleaving", f"[seed {seed}] {change}", site=change.site)

    def check_relation(self, outputs: Outputs, relation: Relation[Any]) -> None:
        """Launch the transformed inputs: the outputs must be what the relation makes of the first ones."""
        check = f"relation:{relation.name}"
        if not self._wants(check):
            return
        with blamed_on(self.contract, check, self.case):
            inputs = relation.transform(self.case, self.inputs(Poison()))
            expected = relation.expect(self.case, outputs)
        if inputs is None:
            return
        self.result.checks_run.add(check)
        if change := self._changed(self.launch(inputs), expected, relation.name):
            self.add(check, str(change), site=change.site)

    def inputs(self, poison: Poison, *, oracle: bool = False) -> Inputs:
        """Return launch arguments, or those of the oracle, where it runs."""
        quiet = poison.pattern is QUIET and not oracle and self.lane.device.type == "cpu"
        if quiet and self._quiet is not None:
            return copied(self._quiet)
        with blamed_on(self.contract, "inputs", self.case):
            made = self.contract.inputs(self.case, self.lane.oracle_device if oracle else self.lane.device, poison)
        if not isinstance(made, dict):
            what = f"inputs returned {type(made).__name__}, wanted a dict of keyword arguments"
            raise mistake(self.contract, what, self.case)
        if quiet and is_copied(made) and storage_bytes(made) <= KEPT_BYTES:
            # copying bytes costs less than making them again, and a launch may write to its own
            self._quiet = copied(made)
        return made

    def launch(self, inputs: Inputs, *, config: int = 0, fill: Pattern = QUIET, lane: Lane | None = None) -> Execution:
        """Launch once, see that the process is left as it was, and remember what cannot be trusted about it."""
        # a device's runtime sets up state of its own at its first use
        leaked = watched() if isinstance(self.lane, VirtualLane) else None
        execution = (lane or self.lane).run(self.implementation.launch, inputs, config=config, fill=fill)
        if leaked is not None:
            self.result.checks_run.add("state")
            if (changes := leaked()) and not self.result.of("state"):
                # the same for every case: one fault
                where = ", ".join(what for what, _ in changes)
                self.add("state", f"the launch leaves {'; '.join(text for _, text in changes)}", config, where)
        self.result.untrusted |= execution.untrusted
        if execution.unsupported is not None:
            self.result.untrusted.add(execution.unsupported)
        return execution

    def add(self, check: str, message: str, config: int = 0, site: str = "") -> None:
        """Record a violation."""
        if self.result.configs > 1 and config:
            message = f"[configuration {config} of {self.result.configs}] {message}"
        self.result.violations.append(Violation(check, message, config, site))

    def _asking(self, *, counts: bool = False) -> Lane:
        if not isinstance(self.lane, VirtualLane) or (self.asks is None and not counts):
            return self.lane
        return replace(self.lane, asks=self.asks, counts=counts)

    def _recorded(self, config: int) -> Moved | None:
        """Return what is recorded of this case: of its first configuration, launched as for no other target."""
        if config or not isinstance(self.lane, VirtualLane) or self.lane.record is None or self.lane.target:
            return None
        return self.lane.record.get(str(self.implementation), {}).get(repr(self.case))

    def _returned(self, execution: Execution, config: int) -> bool:
        """Whether the launch returned; if not, say why."""
        if execution.unsupported is not None:
            return False
        if execution.error is None:
            self.result.checks_run |= {"memory", "raises"}
            return True
        # what ended early says nothing about the other
        check = "memory" if execution.fault else "raises"
        self.result.checks_run.add(check)
        self.add(check, _said(execution, execution.error), config, site(execution.error))
        return False

    def _difference(self, inputs: Inputs, outputs: Outputs, fill: Pattern = QUIET) -> Change | None:
        return self._changed(self.launch(inputs, fill=fill), outputs)

    def _changed(self, execution: Execution, expected: Outputs, rule: str = UNCHANGED) -> Change | None:
        """Return how a launch differs from ``expected``; a launch that the lane cannot model differs in nothing."""
        if execution.unsupported is not None:
            return None
        if execution.error is not None:
            return Change(_said(execution, execution.error), site(execution.error))
        outputs, wrong = normalised(self.contract, execution.result)
        message = wrong[0] if wrong else first_bit_error(outputs, expected, rule)
        return None if message is None else Change(message)

    def _wants(self, *checks: str) -> bool:
        return self.only is None or any(self.only == check or self.only.startswith(f"{check}:") for check in checks)


@dataclass(frozen=True)
class Change:
    """How a launch differs from what was expected; ``site`` where an exception came from."""

    message: str
    site: str = ""

    def __str__(self) -> str:
        return self.message


def _most_programs(execution: Execution) -> int:
    """The programs of the largest launch."""
    return max((one.blocks for one in execution.launched or ()), default=0)


def _said(execution: Execution, error: Exception | SystemExit) -> str:
    return str(error) if execution.fault else described(error)


def normalised(contract: Contract[Any], result: Any) -> tuple[dict[str, Any], list[str]]:
    """Return a launch's outputs by name, and what is wrong with their number or names."""
    outputs, names, result = returned(result, contract.outputs)
    besides = f" beside its arguments {list(outputs)}" if outputs else ""
    if isinstance(result, Mapping):
        outputs |= {name: value for name, value in result.items() if name not in outputs}
    elif isinstance(result, torch.Tensor) and names:
        outputs[names[0]] = result
    elif isinstance(result, list | tuple):
        if len(result) != len(names):
            return {}, [f"returned {len(result)} outputs{besides}, the contract declares {list(contract.outputs)}"]
        outputs |= dict(zip(names, result, strict=True))
    else:
        return {}, [f"returned {type(result).__name__}{besides}, the contract declares {list(contract.outputs)}"]
    if set(outputs) != set(contract.outputs):
        wrong = [f"outputs are {sorted(outputs)}, the contract declares {sorted(contract.outputs)}"]
        return {name: outputs[name] for name in contract.outputs if name in outputs}, wrong
    return outputs, []
