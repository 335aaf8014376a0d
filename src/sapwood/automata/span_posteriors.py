"""Span posteriors of an automaton of one sort, and unlabelled parsing by minimum Bayes risk.

An automaton of one sort has a root vector, a tensor of transitions and a vector for each word; its trees have no
labels. The posterior of a span is the share of a sentence's weight that trees with a node there have. The tree with the
largest sum of posteriors is what minimum Bayes risk chooses (Goodman 1996; section 4.2 of Rabusseau, Balle and Cohen
2016). Weights are any real numbers, so a posterior can be negative or above one.

With `N` words and `n` states a sentence takes `N^2 n^3 + N^3 n^2` steps if the tensor is dense, `N^3` times the pairs
of states that occur as children if it is sparse, and `N^3 R + N^2 n R` if it is a sum of `R` products (Cohen, Satta and
Collins 2013).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.automata.tensors import ProductTensor, SparseTensor, Tensor
from sapwood.errors import UsageError
from sapwood.grammar.emissions import run_offsets
from sapwood.inference.cp_decomposition import CPFactors
from sapwood.storage.shapes import Array, Float, Float64


class SpanPosteriors(NamedTuple):
    """Posteriors of all spans of a sentence.

    `posteriors` are in the order of the spans' starts, then of their ends. `sign` is that of the sentence's weight (-1,
    0 or 1), `log_weight` the logarithm of its absolute value. A sentence of weight zero has posteriors of zero.
    """

    posteriors: Float64[Array, "spans"]
    sign: int
    log_weight: float

    @property
    def length(self) -> int:
        """Number of words."""
        return (math.isqrt(8 * len(self.posteriors) + 1) - 1) // 2

    def best(self) -> tuple[tuple[int, int], ...]:
        """Return the spans of two words and more of the tree with the largest sum of posteriors, parents first.

        Where trees are equally good, the one that divides further left is taken.
        """
        offsets = np.array([0, self.length], np.int64)
        return tuple((start, end) for start, end in kernels.best_spans(offsets, self.posteriors).tolist())


@dataclass(frozen=True, eq=False)
class _Dense:
    tensor: Float64[Array, "states pairs"]
    tensor_t: Float64[Array, "pairs states"]

    @classmethod
    def of(cls, tensor: np.ndarray) -> _Dense:
        flat = np.ascontiguousarray(tensor, float).reshape(len(tensor), -1)
        return cls(flat, np.ascontiguousarray(flat.T))


@dataclass(frozen=True, eq=False)
class _Sparse:
    groups: np.ndarray
    group_offsets: np.ndarray
    others: np.ndarray
    pair_offsets: np.ndarray
    parents: np.ndarray
    values: np.ndarray
    states: np.ndarray

    @classmethod
    def of(cls, tensor: SparseTensor) -> _Sparse:
        pairs, which = tensor.pairs
        order = np.argsort(which, kind="stable")
        groups, first = np.unique(pairs[:, 0], return_index=True)
        return cls(
            groups.astype(np.int32),
            np.append(first, len(pairs)).astype(np.int64),
            pairs[:, 1].astype(np.int32),
            run_offsets(which[order], len(pairs)).astype(np.int64),
            np.ascontiguousarray(tensor.places[order, 0], np.int32),
            np.ascontiguousarray(tensor.values[order], float),
            np.zeros(tensor.shape[0]),
        )


class SpanParser:
    """Span posteriors under one automaton, its transitions laid out for the kernels.

    Parameters
    ----------
    root
        Weight of each state at the root.
    transitions
        The tensor `(n, n, n)`: dense, sparse, or a sum of products.

    Examples
    --------
    >>> parser = SpanParser(np.ones(1), np.full((1, 1, 1), 0.25))
    >>> found = parser(np.full((3, 1), 0.5))
    >>> found.posteriors
    array([1. , 0.5, 1. , 1. , 0.5, 1. ])
    >>> found.best()
    ((0, 3), (1, 3))
    """

    def __init__(self, root: Float[Array, "states"], transitions: Tensor) -> None:
        if len(transitions.shape) != 3 or set(transitions.shape) != {len(root)}:
            raise UsageError(f"transitions of {len(root)} states have three axes of that size, not {transitions.shape}")
        self.root = np.ascontiguousarray(root, float)
        self._groups = np.zeros(len(root), np.int32)
        arrays: tuple[np.ndarray, ...]
        if isinstance(transitions, ProductTensor):
            arrays = transitions.parent, transitions.left, transitions.right
        else:
            arrays = (transitions.values if isinstance(transitions, SparseTensor) else transitions,)
        if not all(np.isfinite(array).all() for array in (*arrays, self.root)):
            raise UsageError("root and transitions must be finite numbers")
        self._rules: CPFactors | _Sparse | _Dense
        if isinstance(transitions, ProductTensor):
            self._rules, self._kernel = CPFactors.from_arrays(*arrays), kernels.cp_span_posteriors
        elif isinstance(transitions, SparseTensor):
            self._rules, self._kernel = _Sparse.of(transitions), kernels.sparse_span_posteriors
        else:
            self._rules, self._kernel = _Dense.of(transitions), kernels.dense_span_posteriors

    def __call__(self, leaves: Float[Array, "words states"]) -> SpanPosteriors:
        """Return the posteriors of a sentence, given the vectors of its words."""
        leaves = np.ascontiguousarray(leaves, float)
        if leaves.ndim != 2 or leaves.shape[1] != len(self.root) or not np.isfinite(leaves).all():
            raise UsageError(f"leaves are finite numbers, {len(self.root)} for each word, not of shape {leaves.shape}")
        found = np.empty((len(leaves) * (len(leaves) + 1) // 2, 1))
        sign, log_weight = self._kernel(self._rules, self.root, leaves, self._groups, math.inf, found)
        return SpanPosteriors(found[:, 0], sign, log_weight)
