"""Dense tensors, sparse ones and sums of products do the same, as einsum says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.automata.tensors import (
    ProductTensor,
    SparseTensor,
    Tensor,
    apply,
    change_basis,
    compact,
    dense,
    sandwich,
    scaled,
)
from sapwood.errors import UsageError

KINDS = ["dense", "sparse", "product"]


def make(kind: str, rng: np.random.Generator, shape: tuple[int, int, int]) -> Tensor:
    if kind == "product":
        return ProductTensor(*(rng.normal(size=(n, 4)) for n in shape))
    tensor = rng.normal(size=shape) * (rng.random(shape) < (0.3 if kind == "sparse" else 1.0))
    return SparseTensor.from_dense(tensor) if kind == "sparse" else tensor


def close(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


shapes = st.tuples(*[st.integers(1, 5)] * 3)
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds, shape=shapes)
def test_one_tensor(kind, seed, shape):
    rng = np.random.default_rng(seed)
    tensor = make(kind, rng, shape)
    full = dense(tensor)
    assert tensor.shape == full.shape == shape
    close(dense(scaled(tensor, -2.5)), -2.5 * full)
    for axes in [(0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1), (1, 2, 0), (2, 1, 0)]:
        close(dense(tensor.transpose(*axes)), full.transpose(axes))
    for rows in (1, 7):
        left, right = rng.normal(size=(rows, shape[1])), rng.normal(size=(rows, shape[2]))
        close(apply(tensor, left, right), np.einsum("ijk,rj,rk->ri", full, left, right))
        turned = np.asfortranarray(left), right[:, ::-1][:, ::-1]
        close(apply(tensor, *turned), np.einsum("ijk,rj,rk->ri", full, left, right))
    matrices = [rng.normal(size=(n, d)) for n, d in zip(shape, rng.integers(1, 6, size=3), strict=True)]
    changed = change_basis(tensor, *matrices)
    close(dense(changed), np.einsum("ijk,ia,jb,kc->abc", full, *matrices))
    assert isinstance(changed, ProductTensor) == (kind == "product")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other_kind", KINDS)
@given(seed=seeds, shape=shapes, other_shape=shapes)
def test_sandwich(kind, other_kind, seed, shape, other_shape):
    rng = np.random.default_rng(seed)
    one, other = make(kind, rng, shape), make(other_kind, rng, other_shape)
    left = rng.normal(size=(shape[1], other_shape[1]))
    right = rng.normal(size=(shape[2], other_shape[2]))
    expected = np.einsum("ijk,jJ,kK,IJK->iI", dense(one), left, right, dense(other))
    close(sandwich(one, left, right, other), expected)
    close(sandwich(one, np.asfortranarray(left), right[::-1][::-1], other), expected)


def test_sandwich_in_several_chunks():
    """Sparse tensors with more pairs of children than are taken together."""
    rng = np.random.default_rng(0)
    one, other = (SparseTensor.from_dense(rng.normal(size=(3, 40, 40)) * (rng.random((3, 40, 40)) < 0.5)) for _ in "ab")
    assert len(other.pairs[0]) > 1024
    left, right = rng.normal(size=(2, 40, 40))
    expected = np.einsum("ijk,jJ,kK,IJK->iI", one.dense(), left, right, other.dense(), optimize=True)
    np.testing.assert_allclose(sandwich(one, left, right, other), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_sandwich_of_a_tensor_and_itself_is_its_own_adjoint_with_axes_turned(kind):
    rng = np.random.default_rng(3)
    tensor = make(kind, rng, (3, 4, 2))
    x, y, z = rng.normal(size=(4, 4)), rng.normal(size=(2, 2)), rng.normal(size=(3, 3))
    up = np.vdot(z, sandwich(tensor, x, y, tensor))
    turned, other = tensor.transpose(1, 0, 2), tensor.transpose(2, 0, 1)
    assert np.vdot(x, sandwich(turned, z, y, turned)) == pytest.approx(up, rel=1e-12)
    assert np.vdot(y, sandwich(other, z, x, other)) == pytest.approx(up, rel=1e-12)


def test_sparse_entries_are_sorted_added_and_without_zeros():
    places = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1], [0, 0, 0], [0, 0, 1]])
    tensor = SparseTensor.from_entries((2, 2, 2), places, np.array([2.0, 3.0, 0.5, 0.0, 1.0]))
    assert tensor.places.tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 1]]
    assert tensor.values.tolist() == [1.0, 3.0, 2.5]
    assert tensor.rows.tolist() == [0, 2, 3]
    pairs, which = tensor.pairs
    assert pairs[which].tolist() == [[0, 1], [1, 0], [0, 1]]
    cancelled = SparseTensor.from_entries((2, 2, 2), places[:1].repeat(2, axis=0), np.array([1.0, -1.0]))
    assert len(cancelled.values) == 0
    assert not cancelled.dense().any()


@pytest.mark.parametrize("place", [[2, 0, 0], [0, -1, 0], [0, 0, 2]])
def test_entries_outside(place):
    with pytest.raises(UsageError, match="outside"):
        SparseTensor.from_entries((2, 2, 2), np.array([place]), np.ones(1))


def test_compact():
    few = np.zeros((10, 10, 10))
    few[3, 4, 5] = 2.0
    assert isinstance(compact(few), SparseTensor)
    np.testing.assert_array_equal(dense(compact(few)), few)
    many = np.ones((3, 3, 3))
    assert compact(many) is many


def test_rank():
    assert ProductTensor(np.ones((2, 5)), np.ones((3, 5)), np.ones((4, 5))).rank == 5
