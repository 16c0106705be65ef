"""Matrix products: what a sum may depend on, and where it overflows."""

import numpy as np
import pytest

from harness.vgpu import numerics
from harness.vgpu.profiles import profile

SHAPES = [(32, 32, 64), (64, 128, 16), (16, 64, 8), (64, 500, 33)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_column_does_not_depend_on_its_place(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    random = np.random.default_rng(0)
    a = random.standard_normal((rows, depth), np.float32)
    b = random.standard_normal((depth, columns), np.float32)
    order = random.permutation(columns)
    np.testing.assert_array_equal(numerics.matmul(a, b)[:, order], numerics.matmul(a, b[:, order]))


def test_a_sum_is_rounded_once() -> None:
    a = np.array([[2.0**30, 1.0, -(2.0**30)]], np.float32)
    assert numerics.matmul(a, np.ones((3, 1), np.float32)) == [[1.0]]


def test_products_past_the_range_of_float32_do_not_cancel() -> None:
    a = np.array([[2.0**100, 2.0**100]], np.float32)
    b = np.array([[2.0**100], [-(2.0**100)]], np.float32)
    assert np.isnan(numerics.dot(a, b, profile=profile("sm_120"), operand="bf16")).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_overflows_changes_no_sum_of_another_row_or_column(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    random = np.random.default_rng(0)
    a = random.standard_normal((3, rows, depth), np.float32)
    b = random.standard_normal((3, depth, columns), np.float32)
    expected = numerics.matmul(a, b)
    a[1, 2], b[2, :, 1] = 2.0**100, -(2.0**100)
    a[2, 3], b[1, :, 0] = 2.0**90, 2.0**60
    products = numerics.matmul(a, b)
    kept = np.ones(products.shape, bool)
    kept[1, 2], kept[2, 3], kept[2, :, 1], kept[1, :, 0] = False, False, False, False
    np.testing.assert_array_equal(products[kept], expected[kept])
    assert products[1, 2, 0] == np.inf
    assert products[2, 3, 1] == -np.inf


def test_zero_times_infinity_is_nan_and_an_infinity_alone_is_itself() -> None:
    b = np.array([[np.inf], [1.0]], np.float32)
    products = numerics.matmul(np.array([[0.0, 1.0], [1.0, 1.0]], np.float32), b)
    assert np.isnan(products[0, 0])
    assert products[1, 0] == np.inf


def test_operands_may_be_broadcast_along_any_axis() -> None:
    random = np.random.default_rng(0)
    a = np.broadcast_to(random.standard_normal((3, 1, 8, 1), np.float32), (3, 2, 8, 16))
    b = np.broadcast_to(random.standard_normal((1, 2, 16, 1), np.float32), (3, 2, 16, 4))
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(numerics.matmul(a, b), expected)
    np.testing.assert_array_equal(numerics.matmul(a[:1], b), np.repeat(expected[:1], 3, axis=0))
