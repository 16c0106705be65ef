"""What can be wrong in a kernel or in the host code around it: one function a kind of fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from harness.mutation.operators import arithmetic, flow, masks, memory
from harness.mutation.source import Edit, Region

Operator = Callable[[Region], Iterator[Edit]]

#: Name -> operator, in the order in which tables show them.
OPERATORS: Mapping[str, Operator] = {
    "comparison": masks.comparison,
    "bound": masks.bound,
    "mask": masks.mask,
    "other": masks.other,
    "select": masks.select,
    "sentinel": masks.sentinel,
    "index": arithmetic.index,
    "stride": arithmetic.stride,
    "axis": arithmetic.axis,
    "division": arithmetic.division,
    "bits": arithmetic.bits,
    "constant": arithmetic.constant,
    "rescale": arithmetic.rescale,
    "sign": arithmetic.sign,
    "accumulate": flow.accumulate,
    "loop": flow.loop,
    "order": flow.order,
    "guard": flow.guard,
    "one path": flow.one_path,
    "restore": flow.restore,
    "validation": flow.validation,
    "clamp": memory.clamp,
    "function": memory.function,
    "width": memory.width,
    "dtype": memory.dtype,
    "copy": memory.copy,
    "atomic": memory.atomic,
    "semantics": memory.semantics,
    "barrier": memory.barrier,
}
