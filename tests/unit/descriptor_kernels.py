"""One kernel for each operation of a tensor descriptor: copies a block of rows, the other side by pointers."""

import triton
import triton.language as tl


@triton.jit
def _pointers(base_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    return base_ptr + rows[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]


@triton.jit
def load(in_ptr, out_ptr, num_rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    source = tl.make_tensor_descriptor(in_ptr, [num_rows, COLUMNS], [COLUMNS, 1], [ROWS, COLUMNS])
    tl.store(_pointers(out_ptr, ROWS, COLUMNS), source.load([tl.program_id(0) * ROWS, 0]))


@triton.jit
def store(in_ptr, out_ptr, num_rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    target = tl.make_tensor_descriptor(out_ptr, [num_rows, COLUMNS], [COLUMNS, 1], [ROWS, COLUMNS])
    target.store([tl.program_id(0) * ROWS, 0], tl.load(_pointers(in_ptr, ROWS, COLUMNS)))


@triton.jit
def gather(in_ptr, out_ptr, rows_ptr, num_rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    source = tl.make_tensor_descriptor(in_ptr, [num_rows, COLUMNS], [COLUMNS, 1], [1, COLUMNS])
    rows = tl.load(rows_ptr + tl.program_id(0) * ROWS + tl.arange(0, ROWS))
    tl.store(_pointers(out_ptr, ROWS, COLUMNS), source.gather(rows, 0))


@triton.jit
def scatter(in_ptr, out_ptr, rows_ptr, num_rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    target = tl.make_tensor_descriptor(out_ptr, [num_rows, COLUMNS], [COLUMNS, 1], [1, COLUMNS])
    rows = tl.load(rows_ptr + tl.program_id(0) * ROWS + tl.arange(0, ROWS))
    target.scatter(tl.load(_pointers(in_ptr, ROWS, COLUMNS)), rows, 0)
