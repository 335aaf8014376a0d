"""Operations on automata: change of basis, sums, products, scaling.

Rational functions of trees are closed under all of these (Berstel and Reutenauer 1982): the direct sum of two automata
gives a tree `f(t) + g(t)`, their Kronecker product `f(t) g(t)`. Both automata must have the same sorts. Their words are
matched by name, and a word that one of them lacks has no weight there; if neither has words (`words=None`), the rows of
their leaves are matched by position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg

from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.tensors import (
    SPARSE,
    Matrix,
    ProductTensor,
    SparseTensor,
    Tensor,
    as_sparse,
    change_basis,
    dense,
    scaled,
)
from sapwood.errors import UsageError
from sapwood.storage.shapes import Array, Float


def conjugate(automaton: TreeAutomaton, matrices: Sequence[Float[Array, "states states"]]) -> TreeAutomaton:
    """Return `A^Q = <Q^T alpha, T(Q^{-T}, Q, Q), {Q^{-1} omega_x}>`: the same function in another basis.

    Each sort has an invertible `Q`. Tensors become dense, unless they are sums of products.

    Examples
    --------
    >>> automaton = TreeAutomaton.single([1.0, 0.5], np.full((2, 2, 2), 0.25), {"a": [0.5, 1.0]})
    >>> other = conjugate(automaton, [np.array([[2.0, 1.0], [0.0, 1.0]])])
    >>> automaton.weight(("a", "a")), round(other.weight(("a", "a")), 12)
    (0.84375, 0.84375)
    """
    if [matrix.shape for matrix in matrices] != [(n, n) for n in automaton.sizes.tolist()]:
        raise UsageError("a change of basis takes one square matrix for each sort, as large as it has states")
    try:
        inverses = [np.linalg.inv(matrix).T for matrix in matrices]
    except np.linalg.LinAlgError as error:
        raise UsageError("a change of basis takes invertible matrices, and one of these is singular") from error
    return change_states(automaton, inverses, list(matrices))


def change_states(
    automaton: TreeAutomaton, inside: Sequence[Matrix | None], outside: Sequence[Matrix | None]
) -> TreeAutomaton:
    """Return the automaton over other states: `omega(t)` times `inside[a]`, `alpha(c)` times `outside[a]`.

    Both are `(n_a, k_a)`, or both None for a sort that is unchanged; a tensor of unchanged sorts is kept, and sparse
    matrices keep sparse tensors sparse.
    """
    first, second = _filled(automaton, inside), _filled(automaton, outside)
    kept = [matrix is None for matrix in inside]
    transitions = tuple(
        tensor if kept[a] and kept[b] and kept[c] else change_basis(tensor, first[a], second[b], second[c])
        for (a, b, c), tensor in zip(automaton.rules.tolist(), automaton.transitions, strict=True)
    )
    return replace(
        automaton,
        root=tuple(vector @ matrix for vector, matrix in zip(automaton.root, second, strict=True)),
        transitions=transitions,
        leaves=tuple(rows @ matrix for rows, matrix in zip(automaton.leaves, first, strict=True)),
    )


def scale(automaton: TreeAutomaton, factor: float) -> TreeAutomaton:
    """Return `factor * f(t)`."""
    return replace(automaton, root=tuple(vector * factor for vector in automaton.root))


def scale_by_size(automaton: TreeAutomaton, gamma: float) -> TreeAutomaton:
    """Return `gamma^size(t) f(t)`, where the size of a tree is the number of its inner nodes."""
    return replace(automaton, transitions=tuple(scaled(tensor, gamma) for tensor in automaton.transitions))


def absolute(automaton: TreeAutomaton) -> TreeAutomaton:
    """Return the automaton of absolute weights; it gives a tree at least `|f(t)|`."""
    return replace(
        automaton,
        root=tuple(np.abs(vector) for vector in automaton.root),
        transitions=tuple(_absolute(tensor) for tensor in automaton.transitions),
        leaves=tuple(np.abs(rows) for rows in automaton.leaves),
    )


def add(one: TreeAutomaton, other: TreeAutomaton) -> TreeAutomaton:
    """Return `f(t) + g(t)`: the states of `one`, then those of `other`, for each sort.

    Sums of sparse tensors are sparse, and sums of `ProductTensor`s are `ProductTensor`s.
    """
    words, mine, its = _matched_leaves(one, other)
    rules, tensors = [], []
    for rule, first, second in _matched_rules(one, other):
        shape, other_shape = ([int(sizes[sort]) for sort in rule] for sizes in (one.sizes, other.sizes))
        rules.append(rule)
        tensors.append(_direct_sum(first, second, shape, other_shape))
    return TreeAutomaton(
        list(one.sorts),
        tuple(np.concatenate(pair) for pair in zip(one.root, other.root, strict=True)),
        np.array(rules, np.int32).reshape(-1, 3),
        tuple(tensors),
        tuple(np.concatenate(pair, axis=1) for pair in zip(mine, its, strict=True)),
        words,
    )


def subtract(one: TreeAutomaton, other: TreeAutomaton) -> TreeAutomaton:
    """Return `f(t) - g(t)`, see `add`."""
    return add(one, scale(other, -1.0))


def product(one: TreeAutomaton, other: TreeAutomaton) -> TreeAutomaton:
    """Return `f(t) g(t)`: a state for each pair of states of a sort, `(i, i')` at `i n' + i'`.

    All pairs are written out, so this is for small automata; sums over all trees do not need it
    (`sapwood.automata.gram.pair_sums`).
    """
    words, mine, its = _matched_leaves(one, other)
    found = [
        (rule, _kronecker(first, second))
        for rule, first, second in _matched_rules(one, other)
        if first is not None and second is not None
    ]
    return TreeAutomaton(
        list(one.sorts),
        tuple(np.kron(alpha, beta) for alpha, beta in zip(one.root, other.root, strict=True)),
        np.array([rule for rule, _ in found], np.int32).reshape(-1, 3),
        tuple(tensor for _, tensor in found),
        tuple((a[:, :, None] * b[:, None, :]).reshape(len(a), -1) for a, b in zip(mine, its, strict=True)),
        words,
    )


def _filled(automaton: TreeAutomaton, matrices: Sequence[Matrix | None]) -> list[Matrix]:
    return [
        np.eye(n) if matrix is None else matrix for n, matrix in zip(automaton.sizes.tolist(), matrices, strict=True)
    ]


def _absolute(tensor: Tensor) -> Tensor:
    if isinstance(tensor, SparseTensor):
        return replace(tensor, values=np.abs(tensor.values))
    return np.abs(dense(tensor))


def _matched_leaves(
    one: TreeAutomaton, other: TreeAutomaton
) -> tuple[list[str] | None, list[np.ndarray], list[np.ndarray]]:
    """Return the words of either automaton, and the leaves of both with a row for each of them."""
    if one.sorts != other.sorts:
        raise UsageError("the automata have different sorts; they can only be put together if all are the same")
    if one.words is None or other.words is None:
        rows = [[len(leaves) for leaves in automaton.leaves] for automaton in (one, other)]
        if one.words is not other.words or rows[0] != rows[1]:
            raise UsageError("the automata do not have the same words: make both with words")
        return None, list(one.leaves), list(other.leaves)
    if one.words == other.words:
        return list(one.words), list(one.leaves), list(other.leaves)
    words = list(dict.fromkeys([*one.words, *other.words]))
    return words, _with_rows(one, words), _with_rows(other, words)


def _with_rows(automaton: TreeAutomaton, words: list[str]) -> list[np.ndarray]:
    numbers = {word: number for number, word in enumerate(words)}
    rows = [numbers[word] for word in automaton.words or []]
    found = [np.zeros((len(words), n)) for n in automaton.sizes.tolist()]
    for wide, leaves in zip(found, automaton.leaves, strict=True):
        wide[rows] = leaves
    return found


def _matched_rules(
    one: TreeAutomaton, other: TreeAutomaton
) -> list[tuple[tuple[int, ...], Tensor | None, Tensor | None]]:
    """Return the rules of either automaton, in order, with the tensors of both; None where one lacks a rule."""
    mine, its = (
        {tuple(rule): tensor for rule, tensor in zip(automaton.rules.tolist(), automaton.transitions, strict=True)}
        for automaton in (one, other)
    )
    return [(rule, mine.get(rule), its.get(rule)) for rule in sorted({*mine, *its})]


def _direct_sum(one: Tensor | None, other: Tensor | None, shape: list[int], other_shape: list[int]) -> Tensor:
    """Return the block-diagonal tensor; None stands for zeros."""
    sizes = (shape[0] + other_shape[0], shape[1] + other_shape[1], shape[2] + other_shape[2])
    blocks = [(tensor, begin) for tensor, begin in ((one, [0, 0, 0]), (other, shape)) if tensor is not None]
    kinds = {type(tensor) for tensor, _ in blocks}
    if kinds == {ProductTensor}:
        first = [np.zeros((n, 0)) for n in shape] if one is None else _factors(one)
        second = [np.zeros((n, 0)) for n in other_shape] if other is None else _factors(other)
        return ProductTensor(*(scipy.linalg.block_diag(a, b) for a, b in zip(first, second, strict=True)))
    filled = [len(t.values) if isinstance(t, SparseTensor) else int(np.prod(t.shape)) for t, _ in blocks]
    few = sum(filled) < SPARSE * np.prod(sizes, dtype=float)
    if kinds == {SparseTensor} or (few and kinds != {np.ndarray}):
        entries = [(as_sparse(tensor), begin) for tensor, begin in blocks]
        places = np.concatenate([sparse.places + np.array(begin) for sparse, begin in entries])
        return SparseTensor.from_entries(sizes, places, np.concatenate([sparse.values for sparse, _ in entries]))
    result = np.zeros(sizes)
    for tensor, (i, j, k) in blocks:
        a, b, c = tensor.shape
        result[i : i + a, j : j + b, k : k + c] = dense(tensor)
    return result


def _factors(tensor: Tensor) -> list[np.ndarray]:
    assert isinstance(tensor, ProductTensor)
    return [tensor.parent, tensor.left, tensor.right]


def _kronecker(one: Tensor, other: Tensor) -> Tensor:
    """Return `T (x) T'`."""
    if isinstance(one, ProductTensor) and isinstance(other, ProductTensor):
        return ProductTensor(
            np.kron(one.parent, other.parent), np.kron(one.left, other.left), np.kron(one.right, other.right)
        )
    sizes = (one.shape[0] * other.shape[0], one.shape[1] * other.shape[1], one.shape[2] * other.shape[2])
    if isinstance(one, SparseTensor) and isinstance(other, SparseTensor):
        places = one.places[:, None].astype(np.int64) * np.array(other.shape) + other.places[None]
        values = one.values[:, None] * other.values
        return SparseTensor.from_entries(sizes, places.reshape(-1, 3), values.ravel())
    return np.einsum("ijk,abc->iajbkc", dense(one), dense(other)).reshape(sizes)
