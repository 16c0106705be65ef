"""A printed case reads back as the same case, and nothing else reads at all."""

import enum
import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness import cases
from harness.contract import Contract
from harness.strategies.layouts import Layout, layouts
from harness.tolerance import Exact


class Kind(enum.Enum):
    PLAIN = 1
    ODD = 2


@dataclass(frozen=True, kw_only=True)
class Case:
    sizes: tuple[int, ...] = (1,)
    dtype: torch.dtype = torch.float32
    scale: float | None = None
    layout: Layout = Layout()
    names: frozenset[str] = frozenset()

    def __post_init__(self):
        if 13 in self.sizes:
            raise ValueError("sizes: wanted anything but 13")


def drawn():
    return st.builds(
        Case,
        sizes=st.lists(st.integers(-3, 3)).map(tuple),
        dtype=st.sampled_from([torch.bfloat16, torch.float8_e4m3fn, torch.int32]),
        scale=st.none() | st.floats(allow_nan=False),
        layout=layouts(rank=2),
        names=st.frozensets(st.sampled_from(["a", "it's"])),
    )


CONTRACT = Contract(
    name="toy", cases=drawn, inputs=lambda case, device, poison: {}, oracle=dict, tolerance={"out": Exact()}
)


@given(drawn())
def test_a_printed_case_reads_back_equal(case):
    assert cases.parse(CONTRACT, repr(case)) == case


def test_nan_reads_back():
    assert math.isnan(cases.parse(CONTRACT, "Case(scale=nan)").scale)


def test_enum_members_read_back():
    assert cases.parse(CONTRACT, "Case(names=frozenset({Kind.ODD}))").names == {Kind.ODD}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Case(sizes=", "not a case"),
        ("(1, 2)", "of type tuple"),
        ("Case(sizes=__import__('os'))", "knows no class __import__"),
        ("Case(scale=Case.sizes)", "not an enum member or a torch dtype"),
        ("Case(dtype=torch.load)", "not a torch dtype: torch.load"),
        ("Case(scale=open('x').read())", "knows no class open"),
        ("Case(scale=[x for x in ()])", "not part of a case"),
        ("Case(scale=1 + 1)", "not part of a case: 1 \\+ 1"),
        ("Case(**{})", "not part of a case"),
        ("Nope()", "contract toy knows no class Nope"),
        ("Case(colour=1)", "colour"),
        ("Case(sizes=(13,))", "wanted anything but 13"),
        ("Kind('PLAIN')", "only dataclasses are called"),
    ],
)
def test_anything_else_is_refused_with_what_was_wrong(text, message):
    with pytest.raises(ValueError, match=message):
        cases.parse(CONTRACT, text)
