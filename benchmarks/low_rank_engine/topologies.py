"""Parsing with an automaton: charts over all binary trees of a sentence.

An automaton of one sort has a `root` vector `(n,)`, a tensor of `transitions` `(n, n, n)` and a vector for each word;
its trees have no labels, only a *topology*. The inside vector of a span is the sum of `omega(t)` over all trees `t`
over it, the outside vector the same for contexts, so their product is the weight of all trees with a node there.
Dividing by the weight of the sentence gives the node's *marginal*, and the tree with the largest sum of marginals is
what minimum Bayes risk decoding chooses (Goodman 1996; section 4.2 of Rabusseau, Balle and Cohen 2016).

With `N` words a chart takes `N^2 n^3 + N^3 n^2` steps if the tensor is dense, `N^3` times the pairs of states that
occur as children if it is sparse, and `N^3 R + N^2 n R` if it is a sum of `R` products, for which inside vectors are
projected once and then a split costs `R` (Cohen, Satta and Collins 2013). Weights are any real numbers, so a marginal
may be negative or above one. Every vector carries a power of two of its own, so that long sentences neither over- nor
underflow; what is lost are weights below 1e-300 of the largest one in the same vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from low_rank_engine import _topology_kernels as kernels
from low_rank_engine.shapes import Topology, best_topology
from sapwood.automata.tensors import ProductTensor, SparseTensor, Tensor, apply
from sapwood.errors import UsageError
from sapwood.grammar.emissions import offsets_of, run_offsets

# How many numbers a buffer of matrices has.
_BUFFER = 1 << 22
# Words of sentences whose charts are filled together with a dense tensor: more do not make it faster.
_WORDS = 160
# Dense tensors are used as they are unless their largest weight is beyond these powers of two.
_MODERATE = 100


@dataclass(frozen=True, eq=False)
class ScaledVectors:
    """A vector for each span of a sentence, `values[cell] * 2.0 ** exponents[cell]`.

    Attributes
    ----------
    values
        `(N (N + 1) / 2, n)`; span `(i, j)` is cell `j (j - 1) / 2 + i`.
    exponents
        One for each span, int64; very low where the vector is zero.
    """

    values: np.ndarray
    exponents: np.ndarray

    def of(self, start: int, end: int) -> tuple[np.ndarray, int]:
        """Return the vector and the exponent of a span."""
        if not 0 <= start < end or end * (end + 1) // 2 > len(self.values):
            raise UsageError(f"({start}, {end}) is no span of this sentence")
        cell = end * (end - 1) // 2 + start
        return self.values[cell], int(self.exponents[cell])


class Prepared(ABC):
    """Transitions made ready for parsing many sentences, see `prepare`: a tensor times `2 ** power`."""

    # Words of sentences that are best parsed together.
    words_at_once = 1

    def __init__(self, states: int, power: int) -> None:
        self.states = states
        self.power = power

    @abstractmethod
    def apply(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return `T(I, x, y)` for rows of vectors, without the power."""

    @abstractmethod
    def _inside(self, batch: _Batch) -> tuple[np.ndarray, ...]:
        """Fill the batch's inside vectors; returns what `_outside` needs as well."""

    @abstractmethod
    def _outside(self, batch: _Batch, outside: ScaledVectors) -> None:
        """Fill the outside vectors, where all but those of the roots are zero."""


class _Dense(Prepared):
    words_at_once = _WORDS

    def __init__(self, tensor: np.ndarray) -> None:
        power = _exponent(tensor)
        super().__init__(len(tensor), power if abs(power) > _MODERATE else 0)
        tensor = np.ldexp(tensor, -self.power) if self.power else tensor
        self.tensor = np.ascontiguousarray(tensor, float).reshape(self.states, -1)
        self.rows = max(16, _BUFFER // self.states**2)

    def apply(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        result = np.empty((len(left), self.states))
        for begin in range(0, len(left), self.rows):
            part = slice(begin, begin + self.rows)
            products = left[part, :, None] * right[part, None, :]
            np.matmul(products.reshape(len(products), -1), self.tensor.T, out=result[part])
        return result

    def _inside(self, batch: _Batch) -> tuple[np.ndarray, ...]:
        starts = np.empty_like(batch.inside.values)
        block = min(self.rows, int(batch.lengths.sum()))
        kernels.dense_inside(batch.lengths, batch.offsets, self.tensor, self.power, block, *batch.filled, starts)
        return (starts,)

    def _outside(self, batch: _Batch, outside: ScaledVectors) -> None:
        block = min(self.rows, int(batch.lengths.sum()))
        kernels.dense_outside(
            batch.lengths, batch.offsets, self.tensor, self.power, block, *batch.filled, batch.kept[0],
            outside.values, outside.exponents,
        )  # fmt: skip


class _Sparse(Prepared):
    def __init__(self, tensor: SparseTensor) -> None:
        super().__init__(tensor.shape[0], _exponent(tensor.values))
        self.tensor = SparseTensor(tensor.shape, tensor.places, np.ldexp(tensor.values, -self.power))
        pairs, which = tensor.pairs
        order = np.argsort(which, kind="stable")
        groups, first = np.unique(pairs[:, 0], return_index=True)
        self.rules = (
            groups, np.append(first, len(pairs)), pairs[:, 1].astype(np.int32), run_offsets(which[order], len(pairs)),
            tensor.places[order, 0], self.tensor.values[order],
        )  # fmt: skip

    def apply(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return apply(self.tensor, left, right)

    def _inside(self, batch: _Batch) -> tuple[np.ndarray, ...]:
        kernels.sparse_inside(batch.lengths, batch.offsets, *self.rules, self.power, *batch.filled)
        return ()

    def _outside(self, batch: _Batch, outside: ScaledVectors) -> None:
        kernels.sparse_outside(
            batch.lengths, batch.offsets, *self.rules, self.power, *batch.filled, outside.values, outside.exponents
        )


class _Product(Prepared):
    def __init__(self, tensor: ProductTensor) -> None:
        # Only the product of three factors has a size that means something: each factor's column is brought near one.
        columns = (tensor.parent, tensor.left, tensor.right)
        sizes = np.array([[_exponent(column) for column in factor.T] for factor in columns], np.int64)
        used = np.all([factor.any(axis=0) for factor in columns], axis=0)
        powers = np.where(used, sizes.sum(axis=0), kernels.NOTHING)
        super().__init__(tensor.shape[0], int(powers.max()) if used.any() else 0)
        parent, left, right = (np.ldexp(factor, -size) for factor, size in zip(columns, sizes, strict=True))
        parent = np.ldexp(parent, np.maximum(powers - self.power, -(1 << 12)))
        self.tensor = ProductTensor(np.ascontiguousarray(parent), left, right)
        self.both = np.ascontiguousarray(np.concatenate([left, right], axis=1))
        self.rows = max(16, _BUFFER // (self.states + 3 * tensor.rank))

    def apply(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return apply(self.tensor, left, right)

    def _inside(self, batch: _Batch) -> tuple[np.ndarray, ...]:
        lefts, rights = (np.empty((len(batch.inside.values), self.tensor.rank)) for _ in range(2))
        kernels.product_inside(
            batch.lengths, batch.offsets, self.tensor.parent, self.both, self.power,
            min(self.rows, int(batch.lengths.sum())), *batch.filled, lefts, rights,
        )  # fmt: skip
        return lefts, rights

    def _outside(self, batch: _Batch, outside: ScaledVectors) -> None:
        kernels.product_outside(
            batch.lengths, batch.offsets, self.tensor.parent, self.both, self.power,
            min(self.rows, int(batch.lengths.sum())), batch.inside.exponents, batch.kept[0], batch.kept[1],
            outside.values, outside.exponents,
        )  # fmt: skip


def prepare(transitions: Tensor | Prepared) -> Prepared:
    """Check a tensor of transitions and lay it out for parsing: do this once if there are many sentences."""
    if isinstance(transitions, Prepared):
        return transitions
    if len(transitions.shape) != 3 or len(set(transitions.shape)) != 1 or not transitions.shape[0]:
        raise UsageError(f"transitions must be of shape (n, n, n), not {transitions.shape}")
    if isinstance(transitions, ProductTensor):
        finite = all(np.isfinite(factor).all() for factor in (transitions.parent, transitions.left, transitions.right))
    else:
        finite = bool(np.isfinite(transitions.values if isinstance(transitions, SparseTensor) else transitions).all())
    if not finite:
        raise UsageError("transitions must be finite numbers")
    if isinstance(transitions, ProductTensor):
        return _Product(transitions)
    return _Sparse(transitions) if isinstance(transitions, SparseTensor) else _Dense(transitions)


class _Batch:
    """Charts of several sentences, filled together."""

    def __init__(self, root: np.ndarray, transitions: Prepared, sentences: Sequence[np.ndarray]) -> None:
        self.root, self.transitions = checked(root, (transitions.states,), "root"), transitions
        leaves = [checked(words, (len(words), transitions.states), "leaves") for words in sentences]
        if not all(len(words) for words in leaves):
            raise UsageError("an empty sentence has no tree")
        self.lengths = np.array([len(words) for words in leaves], np.int64)
        self.offsets = offsets_of(self.lengths * (self.lengths + 1) // 2)
        size = int(self.offsets[-1])
        self.inside = ScaledVectors(np.empty((size, transitions.states)), np.empty(size, np.int64))
        for first, words in zip(self.offsets, leaves, strict=False):
            ends = np.arange(1, len(words) + 1)
            cells = first + ends * (ends + 1) // 2 - 1
            exponents = np.empty(len(words), np.int64)
            kernels.rescale_rows(words, exponents)
            self.inside.values[cells], self.inside.exponents[cells] = words, exponents
        self.kept = transitions._inside(self)
        # The weight of each sentence is a number times a power of two.
        self.tops = self.offsets[:-1] + self.lengths * (self.lengths - 1) // 2
        self.root_exponent = int(kernels.rescale(self.root))
        self.totals, shifts = np.frexp(self.inside.values[self.tops] @ self.root)
        self.powers = self.inside.exponents[self.tops] + self.root_exponent + shifts

    @property
    def filled(self) -> tuple[np.ndarray, np.ndarray]:
        return self.inside.values, self.inside.exponents

    @cached_property
    def outside(self) -> ScaledVectors:
        values, exponents = np.zeros_like(self.inside.values), np.full(len(self.inside.values), kernels.NOTHING)
        values[self.tops], exponents[self.tops] = self.root, self.root_exponent
        outside = ScaledVectors(values, exponents)
        self.transitions._outside(self, outside)
        return outside


class TopologyChart:
    """Inside and outside vectors of all spans of one sentence, summed over all its binary trees.

    Outside vectors and marginals are found when they are first asked for.

    Parameters
    ----------
    root
        `(n,)`: the weight of each state at the root, `alpha`.
    transitions
        The tensor, `(n, n, n)`, or what `prepare` made of it.
    leaves
        `(N, n)`: the vector of each word of the sentence.

    Attributes
    ----------
    sign
        Of the sentence's weight: -1, 0 or 1.
    log_weight
        The logarithm of its absolute value, nan if it is zero.
    """

    def __init__(self, root: np.ndarray, transitions: Tensor | Prepared, leaves: np.ndarray) -> None:
        self._set(_Batch(root, prepare(transitions), [leaves]), 0)

    def _set(self, batch: _Batch, number: int) -> TopologyChart:
        self._batch, self._number = batch, number
        self._cells = slice(batch.offsets[number], batch.offsets[number + 1])
        total = float(batch.totals[number])
        self.sign = int(np.sign(total))
        self.log_weight = float(np.log(abs(total)) + batch.powers[number] * np.log(2)) if total else float("nan")
        return self

    @property
    def length(self) -> int:
        """The number of words."""
        return int(self._batch.lengths[self._number])

    @property
    def inside(self) -> ScaledVectors:
        """The sum of `omega(t)` over the trees `t` over each span."""
        return ScaledVectors(self._batch.inside.values[self._cells], self._batch.inside.exponents[self._cells])

    @property
    def outside(self) -> ScaledVectors:
        """The sum of `alpha(c)` over the contexts `c` around each span."""
        return ScaledVectors(self._batch.outside.values[self._cells], self._batch.outside.exponents[self._cells])

    @cached_property
    def marginals(self) -> np.ndarray:
        """`(N, N + 1)`: at `[i, j]` the part of the sentence's weight that trees with a node over `i .. j - 1` have.

        Marginals of one word are 1 but for rounding, those with `j <= i` are 0. If the sentence's weight is zero, no
        tree is better than another and all marginals are 0.
        """
        result = np.zeros((self.length, self.length + 1))
        if self.sign:
            batch = self._batch
            kernels.marginals(
                self.length, self._cells.start, *batch.filled, batch.outside.values, batch.outside.exponents,
                batch.totals[self._number], batch.powers[self._number], result,
            )  # fmt: skip
        return result

    def best(self) -> Topology:
        """Return the tree with the largest sum of marginals."""
        return best_topology(self.marginals)


def topology_charts(
    root: np.ndarray, transitions: Tensor | Prepared, sentences: Iterable[np.ndarray]
) -> Iterator[TopologyChart]:
    """Yield the chart of each sentence, in order.

    With a dense tensor several are filled together, up to twice as fast as one by one: then the time goes into large
    matrix products instead of reading the tensor again and again. Figures may differ in their last bits. The matrix
    products of a chart are small: keep them to one thread each (`sapwood.run.parallel.one_blas_thread`).
    """
    prepared = prepare(transitions)
    batch: list[np.ndarray] = []
    words = 0
    for leaves in sentences:
        if batch and words + len(leaves) > prepared.words_at_once:
            yield from _charts(_Batch(root, prepared, batch))
            batch, words = [], 0
        batch.append(leaves)
        words += len(leaves)
    if batch:
        yield from _charts(_Batch(root, prepared, batch))


def _charts(batch: _Batch) -> Iterator[TopologyChart]:
    return (TopologyChart.__new__(TopologyChart)._set(batch, number) for number in range(len(batch.lengths)))


def checked(array: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return a copy of the array in double precision."""
    array = np.array(array, float, order="C")
    if array.shape != shape or not np.isfinite(array).all():
        raise UsageError(f"{name} must be finite numbers of shape {shape}, not {array.shape}")
    return array


def _exponent(array: np.ndarray) -> int:
    """Return the power of two of the largest absolute value, 0 if there is none but zero."""
    return int(np.frexp(max(array.max(initial=0.0), -array.min(initial=0.0)))[1])
