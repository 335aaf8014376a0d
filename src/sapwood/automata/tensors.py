"""Transition tensors `T(i, j, k)`, weight of state `i` above `j` and `k`: dense, sparse, or sums of products.

Gram matrices need only one operation on pairs of tensors, `sandwich`:

    Z(i, i') = sum over j, k, j', k' of  T(i, j, k) X(j, j') Y(k, k') T'(i', j', k')

which is `T^(x)(I, x, y)` of the paper with vectors of length `n^2` kept as matrices, so that nothing as large as
`n^2 x n^2` is ever formed. Applied to a tensor with permuted axes it is also the operation's adjoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.grammar.emissions import run_offsets
from sapwood.storage.shapes import Array, Float, Int

# Tensors with a smaller fraction of nonzero weights are kept sparse.
SPARSE = 0.02
# A change of basis: matrices of any kind, or all of them sparse.
Matrix: TypeAlias = "np.ndarray | scipy.sparse.csr_array"


@dataclass(frozen=True, eq=False)
class SparseTensor:
    """A tensor of three axes by its nonzero entries.

    Attributes
    ----------
    shape
        Its size along each axis.
    places
        Positions of the entries, sorted by the first axis, then the second, then the third, without duplicates.
    values
        Values of the entries.
    """

    shape: tuple[int, int, int]
    places: Int[Array, "entries 3"]
    values: Float[Array, "entries"]

    @classmethod
    def from_entries(
        cls, shape: tuple[int, int, int], places: Int[Array, "entries 3"], values: Float[Array, "entries"]
    ) -> SparseTensor:
        """Build from entries in any order; duplicates are added, zeros dropped."""
        places = np.asarray(places, np.int64).reshape(-1, 3)
        if len(places) and (places.min() < 0 or (places >= shape).any()):
            raise UsageError(f"an entry is outside of a tensor of shape {shape}")
        keys, which = np.unique((places[:, 0] * shape[1] + places[:, 1]) * shape[2] + places[:, 2], return_inverse=True)
        sums = np.bincount(which, weights=np.asarray(values, float), minlength=len(keys)).astype(float)
        keys, sums = keys[sums != 0], sums[sums != 0]
        columns = [keys // (shape[1] * shape[2]), keys // shape[2] % shape[1], keys % shape[2]]
        return cls(shape, np.stack(columns, axis=1).astype(np.int32), sums)

    @classmethod
    def from_dense(cls, tensor: Float[Array, "n_a n_b n_c"]) -> SparseTensor:
        """Build from an array."""
        places = np.argwhere(tensor)
        return cls.from_entries(tensor.shape, places, tensor[tuple(places.T)])

    def dense(self) -> Float[Array, "n_a n_b n_c"]:
        """Return the tensor as an array."""
        tensor = np.zeros(self.shape)
        tensor[tuple(self.places.T)] = self.values
        return tensor

    def transpose(self, *axes: int) -> SparseTensor:
        """Return the tensor with its axes in another order."""
        shape = tuple(self.shape[axis] for axis in axes)
        return SparseTensor.from_entries(shape, self.places[:, list(axes)], self.values)  # type: ignore[arg-type]

    def scaled(self, factor: float) -> SparseTensor:
        """Return the tensor times a number."""
        return SparseTensor(self.shape, self.places, self.values * factor)

    @cached_property
    def rows(self) -> Int[Array, "begins"]:
        """`(n_a + 1,)`: where the entries of each index of the first axis begin."""
        return run_offsets(self.places[:, 0], self.shape[0])

    @cached_property
    def pairs(self) -> tuple[Int[Array, "pairs 2"], Int[Array, "entries"]]:
        """The distinct positions along the second and third axes, and each entry's number among them."""
        keys = self.places[:, 1].astype(np.int64) * self.shape[2] + self.places[:, 2]
        distinct, which = np.unique(keys, return_inverse=True)
        return np.stack([distinct // self.shape[2], distinct % self.shape[2]], axis=1), which.astype(np.int64)


@dataclass(frozen=True, eq=False)
class ProductTensor:
    """A sum of products, `T(i, j, k) = sum over r of parent(i, r) left(j, r) right(k, r)` (a CP decomposition)."""

    parent: Float[Array, "n_a products"]
    left: Float[Array, "n_b products"]
    right: Float[Array, "n_c products"]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Its size along each axis."""
        return self.parent.shape[0], self.left.shape[0], self.right.shape[0]

    @property
    def rank(self) -> int:
        """Number of products."""
        return int(self.parent.shape[1])

    def dense(self) -> Float[Array, "n_a n_b n_c"]:
        """Return the tensor as an array."""
        return np.einsum("ir,jr,kr->ijk", self.parent, self.left, self.right, optimize=True)

    def transpose(self, *axes: int) -> ProductTensor:
        """Return the tensor with its axes in another order."""
        factors = (self.parent, self.left, self.right)
        return ProductTensor(*(factors[axis] for axis in axes))

    def scaled(self, factor: float) -> ProductTensor:
        """Return the tensor times a number."""
        return ProductTensor(self.parent * factor, self.left, self.right)


Tensor: TypeAlias = Float[Array, "n_a n_b n_c"] | SparseTensor | ProductTensor


def compact(tensor: Float[Array, "n_a n_b n_c"] | SparseTensor) -> Float[Array, "n_a n_b n_c"] | SparseTensor:
    """Return a sparse tensor if most of it is zero, else an array."""
    entries = len(tensor.values) if isinstance(tensor, SparseTensor) else np.count_nonzero(tensor)
    few = entries < SPARSE * np.prod(tensor.shape, dtype=float)
    return as_sparse(tensor) if few else dense(tensor)


def as_sparse(tensor: Tensor) -> SparseTensor:
    """Return any tensor as a sparse one."""
    return tensor if isinstance(tensor, SparseTensor) else SparseTensor.from_dense(dense(tensor))


def dense(tensor: Tensor) -> Float[Array, "n_a n_b n_c"]:
    """Return any tensor as an array."""
    return tensor if isinstance(tensor, np.ndarray) else tensor.dense()


def scaled(tensor: Tensor, factor: float) -> Tensor:
    """Return any tensor times a number."""
    return tensor * factor if isinstance(tensor, np.ndarray) else tensor.scaled(factor)


def apply(tensor: Tensor, left: Float[Array, "rows n_b"], right: Float[Array, "rows n_c"]) -> Float[Array, "rows n_a"]:
    """Return `T(I, x, y)` for rows `x` of `left` and `y` of `right`."""
    if isinstance(tensor, ProductTensor):
        return np.asarray(((left @ tensor.left) * (right @ tensor.right)) @ tensor.parent.T)
    if isinstance(tensor, SparseTensor):
        result = np.zeros((len(left), tensor.shape[0]))
        kernels.apply_sparse(tensor, np.ascontiguousarray(left, float), np.ascontiguousarray(right, float), result)
        return result
    half = np.tensordot(right, tensor, axes=(1, 2))  # rows, i, j
    return np.asarray(np.matmul(half, left[:, :, None])[:, :, 0])


def change_basis(tensor: Tensor, *matrices: Matrix) -> Tensor:
    """Return `T(M1, M2, M3)`: `(d1, d2, d3)` for matrices `(n_a, d1)`, `(n_b, d2)`, `(n_c, d3)`.

    Sparse matrices keep a sparse tensor sparse.
    """
    sparse = [matrix for matrix in matrices if not isinstance(matrix, np.ndarray)]
    if isinstance(tensor, SparseTensor) and len(sparse) == 3:
        return _change_sparse_basis(tensor, sparse)
    first, second, third = (matrix if isinstance(matrix, np.ndarray) else matrix.toarray() for matrix in matrices)
    if isinstance(tensor, ProductTensor):
        return ProductTensor(first.T @ tensor.parent, second.T @ tensor.left, third.T @ tensor.right)
    if isinstance(tensor, SparseTensor):
        # Contract the third axis first: entries times d3, summed into (i, j) pairs.
        half = np.zeros((tensor.shape[0], tensor.shape[1], third.shape[1]))
        kernels.contract_sparse(tensor, np.ascontiguousarray(third, float), half)
    else:
        half = np.tensordot(tensor, third, axes=(2, 0))
    half = np.tensordot(first, half, axes=(0, 0))  # d1, n_b, d3
    return np.ascontiguousarray(np.moveaxis(np.tensordot(second, half, axes=(0, 1)), 0, 1))


def _change_sparse_basis(tensor: SparseTensor, matrices: Sequence[scipy.sparse.csr_array]) -> SparseTensor:
    """Do `change_basis` with sparse matrices, one axis at a time: always the last, which becomes the first."""
    for matrix in reversed(matrices):
        a, b, c = tensor.shape
        rows = tensor.places[:, 0].astype(np.int64) * b + tensor.places[:, 1]
        flat = scipy.sparse.csr_array((tensor.values, (rows, tensor.places[:, 2])), shape=(a * b, c))
        found = (flat @ matrix).tocoo()
        places = np.stack([found.col, found.row // b, found.row % b], axis=1)
        tensor = SparseTensor.from_entries((matrix.shape[1], a, b), places, found.data)
    return tensor


def sandwich(
    one: Tensor, left: Float[Array, "n_b other_b"], right: Float[Array, "n_c other_c"], other: Tensor
) -> Float[Array, "n_a other_a"]:
    """Return `Z`, see the module docstring, with `X` and `Y` as `left` and `right`."""
    if isinstance(one, ProductTensor) and isinstance(other, ProductTensor):
        middle = (one.left.T @ left @ other.left) * (one.right.T @ right @ other.right)
        return np.asarray(one.parent @ middle @ other.parent.T)
    if isinstance(one, SparseTensor) and isinstance(other, SparseTensor):
        result = np.zeros((one.shape[0], other.shape[0]))
        pairs, which = other.pairs
        x, y = np.ascontiguousarray(left, float), np.ascontiguousarray(right, float)
        kernels.sandwich_sparse(one, one.rows, x, y, other, pairs, which, result)
        return result
    if not isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return sandwich(other, left.T, right.T, one).T
    if isinstance(other, SparseTensor) and isinstance(one, np.ndarray):
        half = np.tensordot(one, left, axes=(1, 0))  # i, k, j'
        result = np.zeros((one.shape[0], other.shape[0]))
        kernels.half_sandwich_sparse(half, np.ascontiguousarray(right, float), other, result)
        return result
    if isinstance(other, ProductTensor) or isinstance(one, ProductTensor):
        return _mixed_sandwich(one, left, right, other)
    half = np.tensordot(np.tensordot(dense(one), left, axes=(1, 0)), right, axes=(1, 0))  # i, j', k'
    return np.asarray(np.tensordot(half, dense(other), axes=((1, 2), (1, 2))))


def _mixed_sandwich(one: Tensor, left: np.ndarray, right: np.ndarray, other: Tensor) -> np.ndarray:
    """Return the `sandwich` of a sum of products and another kind, which is applied to each product."""
    if isinstance(one, ProductTensor):
        return _mixed_sandwich(other, left.T, right.T, one).T
    assert isinstance(other, ProductTensor)
    applied = apply(one, (left @ other.left).T, (right @ other.right).T)  # R, i
    return np.asarray(applied.T @ other.parent.T)
