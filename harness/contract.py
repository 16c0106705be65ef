"""What one operation promises, and one way to compute it: the two objects everything else is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from harness.outcome import ContractError

if TYPE_CHECKING:
    import torch
    from hypothesis.strategies import SearchStrategy

    from harness.known import Known
    from harness.poison import Poison
    from harness.tolerance import Tolerance

CaseT = TypeVar("CaseT")
Inputs = dict[str, Any]
Outputs = Mapping[str, "torch.Tensor"]


@dataclass(frozen=True, kw_only=True)
class Relation(Generic[CaseT]):
    """A metamorphic check: transformed inputs must give outputs related to the first ones, bit for bit.

    ``transform(case, inputs)`` returns new inputs and leaves the old ones alone, or returns None when
    it says nothing about this case.  ``expect(case, outputs)`` maps the outputs of the first run to the
    outputs that the transformed run must give; by default they are the same.
    """

    name: str
    transform: Callable[[CaseT, Inputs], Inputs | None]
    expect: Callable[[CaseT, Outputs], Outputs] = lambda case, outputs: outputs


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """Illegal keyword arguments, and the argument that the error must name.

    ``repr`` is the reproduction.  ``inputs()`` builds the complete keyword arguments.
    """

    label: str
    argument: str
    inputs: Callable[[], Inputs] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Right values of what decides about launches, whatever the case: ``right()`` yields what is wrong.

    ``repr`` is the reproduction.
    """

    name: str
    right: Callable[[], Iterable[str]] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Launched:
    """One launch of a kernel; ``given``: the numbers and words among its keyword arguments, constants and options."""

    kernel: str
    grid: tuple[int, int, int]
    given: Mapping[str, Any]

    @property
    def blocks(self) -> int:
        """Programs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True, kw_only=True)
class Work:
    """The least a case makes any implementation do: floating-point operations, and bytes through device memory.

    A byte that is read by many programs counts once, and so does each byte of an output.
    """

    flops: int
    bytes: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Contract(Generic[CaseT]):
    """One operation: everything a suite needs, and nothing about how a suite runs.

    ``cases()`` is a Hypothesis strategy of legal cases; a case is a small frozen dataclass whose
    ``repr`` reproduces it.  ``inputs(case, device, poison)`` derives the launch keyword arguments from
    it and writes ``poison`` into everything whose content may not matter.  ``oracle(**inputs)`` returns
    ``{output: tensor}`` and runs in whatever floating dtype its floating inputs have, except that
    quantised storage (8-bit floats, uint8) is decoded by the oracle itself.  ``magnitude(**inputs)``
    returns, per output, the float64 sum of the absolute terms each element was accumulated from,
    broadcastable to the output; outputs it leaves out use their own absolute value.  ``features(case)``
    names what is special about a case: two failures of one check whose cases share a minimal feature
    set are one fault.  ``work(case, inputs)`` counts what the drawn inputs need, from their actual ids and lengths.
    ``replays(case)`` are cases whose inputs differ from those of ``case`` in content alone (shapes, strides and numbers
    are the same): other ids, lengths and tables, fewer live rows.  A CUDA graph of ``case`` is replayed with them.
    ``stores_once``: no two programs of a launch store to one element, not even the same value.
    ``any_device``: tensors may be on another device than the current one, so whoever launches makes theirs current.
    ``vast`` are cases whose outputs have more elements than int32 counts.  Of each launch a few programs run, on the
    virtual GPU, and nothing is judged but where they read and write.
    ``launches(case, done)`` says what is wrong with the kernels that were launched for a case, where the operation
    promises something about them: how many, how many blocks.
    ``policies()`` are what must hold of what stands around the launches: how many blocks are resident, what is in force
    afterwards.
    Raises ContractError without an output in ``tolerance``.
    """

    name: str
    cases: Callable[[], SearchStrategy[CaseT]]
    inputs: Callable[[CaseT, torch.device, Poison], Inputs]
    oracle: Callable[..., Outputs]
    tolerance: Mapping[str, Tolerance]
    magnitude: Callable[..., Outputs] | None = None
    features: Callable[[CaseT], frozenset[str]] = lambda case: frozenset()
    relations: tuple[Relation[CaseT], ...] = ()
    rejects: Callable[[], tuple[Rejection, ...]] = tuple
    deterministic: bool = True
    pinned: tuple[CaseT, ...] = ()
    workloads: tuple[CaseT, ...] = ()
    work: Callable[[CaseT, Inputs], Work] | None = None
    replays: Callable[[CaseT], tuple[CaseT, ...]] = lambda case: ()
    launches: Callable[[CaseT, Sequence[Launched]], Iterable[str]] | None = None
    vast: tuple[CaseT, ...] = ()
    stores_once: bool = False
    any_device: bool = False
    policies: Callable[[], tuple[Policy, ...]] = tuple

    def __post_init__(self) -> None:
        if not self.tolerance:
            raise ContractError(f"contract {self.name}: tolerance names no output", contract=self.name)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the declared outputs, in the order a tuple-returning implementation uses."""
        return tuple(self.tolerance)

    def __repr__(self) -> str:
        return f"<contract {self.name}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(frozen=True, kw_only=True)
class Requires:
    """Hardware an implementation needs when it runs on a device, as marker names (``("sm90", "sm120")``).

    Empty means any target.  The virtual GPU ignores it.
    """

    targets: tuple[str, ...] = ()
    gpus: int = 1


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A verdict of the compile lane that is known beforehand, on ``targets`` given as marker names (``("sm90",)``).

    It holds for every kernel that the implementation launches there, or for the one called ``kernel``; ``says`` stands
    in the verdict's message, ``because`` is the reason.  ``triton`` names the versions (``((3, 7),)``) where it holds,
    empty: all.  The implementation is compiled for these targets even where ``Requires`` leaves them out.  One that
    no longer comes true is STALE and fails.
    """

    verdict: Literal["REFUSED", "LOWERED", "SPILLS"]
    targets: tuple[str, ...]
    says: str
    because: str
    kernel: str = ""
    triton: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Compiles:
    """What the compile lane should know about an implementation.

    It launches the contract's workloads and pinned cases; ``cases`` are more, as printed, for configurations that none
    of those reaches.
    """

    cases: tuple[str, ...] = ()
    expected: tuple[Expected, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Interleavings:
    """Launches whose programs take turns, for an implementation whose programs wait for each other.

    ``seeds``: how many, each with another order of turns; ``races``: whether accesses that nothing orders are a fault;
    ``everywhere``: whether turns change at every access to memory, instead of at atomic and volatile ones only;
    ``blocks_per_sm``: how many programs an SM holds at once.
    """

    seeds: int = 2
    races: bool = True
    everywhere: bool = False
    blocks_per_sm: int = 1


@dataclass(frozen=True, kw_only=True)
class Capturable:
    """A promise: after a first call outside, a launch can be recorded in a CUDA graph, whose replay is a launch.

    ``cases``, as printed, hold both sides of every switch by size; without any, two of the contract's pinned cases
    stand for them.
    """

    cases: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class Implementation:
    """One way to compute a contract: ``launch(**inputs)``.

    ``launch`` may return a mapping by output name, a tuple in the contract's output order, or, for a
    contract with one output, a tensor.  One that works in place is registered with ``mutates`` (`implements`): what
    stands here then launches on copies.  ``interleavings`` asks the virtual GPU to run its programs in other orders
    too, ``capturable`` puts it under the checks of ``harness.graphs``.
    """

    contract: str
    name: str
    launch: Callable[..., Any]
    requires: Requires = Requires()
    known: tuple[Known, ...] = ()
    compiles: Compiles = Compiles()
    interleavings: Interleavings | None = None
    capturable: Capturable | None = None

    def __str__(self) -> str:
        return f"{self.contract}-{self.name}"

    def __repr__(self) -> str:
        return f"<implementation {self}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))
