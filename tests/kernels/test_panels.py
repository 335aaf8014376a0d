"""Matrix products in panels: those of NumPy, and the same bytes from vectors of 32 and of 64 bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sapwood import kernels


def product(a, b, *, transpose_a=False, transpose_b=False, add=False, wide=True):
    rows, columns = a.shape[transpose_a], b.shape[not transpose_b]
    out = np.full((rows, columns), 7.0 if add else np.nan, np.float32)
    kernels.matrix_product(a, transpose_a, b, transpose_b, out, add, wide)
    return out


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 32, 33, 50, 96])
@pytest.mark.parametrize("depth", [1, 7, 64])
def test_products_are_those_of_numpy(columns: int, depth: int) -> None:
    rng = np.random.default_rng(columns)
    for rows, *how in itertools.product((*range(1, 20), 40), (False, True), (False, True), (False, True)):
        transpose_a, transpose_b, add = how
        a = rng.normal(size=(depth, rows) if transpose_a else (rows, depth)).astype(np.float32)
        b = rng.normal(size=(columns, depth) if transpose_b else (depth, columns)).astype(np.float32)
        expected = (a.T if transpose_a else a).astype(float) @ (b.T if transpose_b else b) + 7.0 * add
        settings = {"transpose_a": transpose_a, "transpose_b": transpose_b, "add": add}
        found = product(a, b, **settings, wide=False)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(found, product(a, b, **settings, wide=True))


def test_sums_go_from_the_first_term_to_the_last() -> None:
    """Whatever the width of vectors: a large term, one that is lost next to it, and the large one again."""
    a = np.array([[1.0, 1.0, -1.0, 1.0]], np.float32)
    b = np.repeat(np.array([[2.0**30], [1.0], [2.0**30], [0.25]], np.float32), 40, axis=1)
    for wide in (False, True):
        assert (product(a, b, wide=wide) == 0.25).all()


def test_shapes_are_checked() -> None:
    a, b, out = (np.ones(shape, np.float32) for shape in ((2, 3), (4, 5), (2, 5)))
    with pytest.raises(ValueError, match=r"^b has the shape"):
        kernels.matrix_product(a, False, b, False, out, False, True)
    with pytest.raises(ValueError, match=r"^b has the shape"):
        kernels.matrix_product(a, False, b, True, out, False, True)
    with pytest.raises(ValueError, match=r"^out has the shape"):
        kernels.matrix_product(a, False, b[:3], False, out[:, :4].copy(), False, True)
