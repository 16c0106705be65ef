"""Hypothesis strategies for kernel inputs: small specs that shrink, and builders that derive tensors from them."""

from harness.strategies.block_tables import BlockTable, block_table_tensor, block_tables, build_block_cache
from harness.strategies.formats import (
    FORMATS,
    FloatKind,
    Format,
    FormatName,
    ValueKind,
    codes,
    float_kinds,
    float_tensor,
    sample_codes,
    value_kinds,
)
from harness.strategies.ids import invalid_ids
from harness.strategies.indices import (
    IndexLists,
    Lengths,
    index_lists,
    index_tensor,
    length_tensor,
    lengths,
    logical_ids,
    referenced_tokens,
)
from harness.strategies.launches import Budgets, Launch, budgets, launches
from harness.strategies.layouts import Layout, LayoutKind, layouts, materialise
from harness.strategies.moe import Routing, routing_tensors, routings, unrouted_experts
from harness.strategies.paged import (
    MLA_TOKEN,
    PAGE_SIZES,
    PagedCache,
    TokenLayout,
    build_cache,
    paged_caches,
    row_layout,
    write_slots,
)
from harness.strategies.sizes import sizes
from harness.strategies.spec import Spec, derived_seed
from harness.strategies.topologies import CapabilityRow, Topology, capability_rows, topologies

__all__ = [
    "FORMATS",
    "MLA_TOKEN",
    "PAGE_SIZES",
    "BlockTable",
    "Budgets",
    "CapabilityRow",
    "FloatKind",
    "Format",
    "FormatName",
    "IndexLists",
    "Launch",
    "Layout",
    "LayoutKind",
    "Lengths",
    "PagedCache",
    "Routing",
    "Spec",
    "TokenLayout",
    "Topology",
    "ValueKind",
    "block_table_tensor",
    "block_tables",
    "budgets",
    "build_block_cache",
    "build_cache",
    "capability_rows",
    "codes",
    "derived_seed",
    "float_kinds",
    "float_tensor",
    "index_lists",
    "index_tensor",
    "invalid_ids",
    "launches",
    "layouts",
    "length_tensor",
    "lengths",
    "logical_ids",
    "materialise",
    "paged_caches",
    "referenced_tokens",
    "routing_tensors",
    "routings",
    "row_layout",
    "sample_codes",
    "sizes",
    "topologies",
    "unrouted_experts",
    "value_kinds",
    "write_slots",
]
