"""Minimal automata: as few states of each sort as the ranks of the Hankel matrices (Theorem 1).

As in Kiefer, Marusic and Worrell (2015): the *forward* space of a sort is the span of `omega(t)` over its trees, the
*backward* space that of `alpha(c)` over the contexts with a hole of that sort. Both are the least spaces that contain
leaves or roots and are closed under the rules' tensors. Restricting the states to the forward space and then removing
the part that the backward space does not see leaves a minimal automaton.

Here the bases are orthonormal and grown by random sketches. With a basis `B` of each sort so far, columns
`T(I, B u, B v)` for random `u`, `v` are candidates for more; slightly more of them than there are dimensions left
contain, with probability one, all products of basis vectors, and a sort is done when they add nothing.

A direction is new if the residual of a candidate is large relative to the candidate. Treebank grammars have weights
many orders of magnitude apart, and a state that only few trees reach, each with a tiny weight, would look like a
rounding error next to the others. So states are first brought to one scale, each divided by its weight in small trees
(for the backward spaces: small contexts); candidates of each rule and each word are judged by their own size, and are
also made from single basis vectors, each with few states; and basis vectors have length one whatever the weight of the
trees that led to them, so that small weights do not multiply from one level to the next. For the same reason states are
not mixed: in a space of `r` dimensions some `r` states determine all the others, and those are kept unchanged, with the
rest folded into them. So scales are preserved, and sparse tensors stay sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse

from sapwood.automata.algebra import absolute, change_states
from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.tensors import SparseTensor, Tensor, apply
from sapwood.storage.shapes import Array, Float, Int

_Matrix: TypeAlias = scipy.sparse.csr_array

# Candidates beyond the number of dimensions left.
_MORE = 10
_SMALLEST = np.finfo(float).tiny
# Smaller coefficients, for states of one scale, are rounding errors.
_ROUNDING = 1e-12
# Weights of a dense tensor applied to several rows at once.
_BATCH = 1 << 24
# Permutation of a tensor's axes that puts each child first, then its parent, then its sibling.
_CHILD_FIRST = {1: (1, 0, 2), 2: (2, 0, 1)}


@dataclass(frozen=True, eq=False)
class Minimal:
    """A minimal automaton and its derivation.

    Attributes
    ----------
    automaton
        The same function. If nothing was redundant it is the given automaton; a sort of rank 0 keeps one state without
        weights.
    ranks
        The ranks of the Hankel matrices.
    forward, backward
        Dimensions of the forward and backward spaces of the given automaton.
    inside, outside
        Maps to the new states of each sort: `omega(t)` times the one, `alpha(c)` times the other.
    """

    automaton: TreeAutomaton
    ranks: Int[Array, "sorts"]
    forward: Int[Array, "sorts"]
    backward: Int[Array, "sorts"]
    inside: list[Float[Array, "states new_states"]]
    outside: list[Float[Array, "states new_states"]]


def minimal(automaton: TreeAutomaton, *, tolerance: float = 1e-10, random_state: int = 0) -> Minimal:
    """Return an automaton of the same function with as few states as possible for each sort.

    Parameters
    ----------
    automaton
        Any automaton; its sums over all trees need not be finite.
    tolerance
        Minimum relative residual of a candidate that counts as another dimension.
    random_state
        Seed of the sketches.

    Examples
    --------
    >>> automaton = TreeAutomaton.single([1.0, 1.0], np.full((2, 2, 2), 0.1), {"a": [0.5, 0.5], "b": [0.2, 0.2]})
    >>> minimal(automaton).ranks
    array([1])
    """
    rng = np.random.default_rng(random_state)
    forward = _forward(automaton, tolerance, rng)
    dimensions = np.array([space.dimension for space in forward])
    backward = _backward(automaton, forward, tolerance, rng)
    seen = np.array([space.dimension for space in backward])
    reduced = automaton
    inside = [scipy.sparse.eye_array(int(n), format="csr") for n in automaton.sizes]
    outside = list(inside)
    if (dimensions < automaton.sizes).any():
        chosen = [space.states() for space in forward]
        inside, outside = [kept for kept, _ in chosen], [others for _, others in chosen]
        reduced = _fold(automaton, inside, outside)
        # All remaining states are reachable; which of them are observable is decided anew.
        whole = [space.restricted(kept) for space, (kept, _) in zip(forward, chosen, strict=True)]
        backward = _backward(reduced, whole, tolerance, rng)
    ranks = np.array([space.dimension for space in backward])
    if (ranks < reduced.sizes).any():
        chosen = [space.states() for space in backward]
        reduced = _fold(reduced, [others for _, others in chosen], [kept for kept, _ in chosen])
        inside = [before @ others for before, (_, others) in zip(inside, chosen, strict=True)]
        outside = [before @ kept for before, (kept, _) in zip(outside, chosen, strict=True)]
    return Minimal(
        reduced, ranks, dimensions, seen, [matrix.toarray() for matrix in inside], [m.toarray() for m in outside]
    )


class _Space:
    """A growing space of vectors over `n` states, each with a scale; the basis is orthonormal in scaled vectors."""

    def __init__(self, scale: np.ndarray, tolerance: float) -> None:
        # A state that nothing reaches has scale zero: its entries are zero in all vectors. Any other has an inverse.
        self.scale, self.tolerance = np.where(scale > 0, np.maximum(scale, _SMALLEST), 0.0), tolerance
        self.inverse = np.divide(1.0, self.scale, out=np.zeros_like(scale), where=scale > 0)
        self.basis = np.zeros((len(scale), 0))

    @property
    def dimension(self) -> int:
        """Number of dimensions."""
        return int(self.basis.shape[1])

    @property
    def missing(self) -> int:
        """Maximum number of further dimensions."""
        return int(np.count_nonzero(self.scale)) - self.dimension

    def states(self) -> tuple[_Matrix, _Matrix]:
        """Return matrices `(n, k)`: the states to keep, and the map from their entries to vectors of the space.

        With these as `S` and `C`, `v = C S^T v` for all vectors of the space, and `S^T C = I`. Without dimensions, one
        state of no weight.
        """
        n, k = self.basis.shape
        if k == n:
            whole = scipy.sparse.eye_array(n, format="csr")
            return whole, whole
        if k == 0:
            nothing = scipy.sparse.csr_array((n, 1))
            return nothing, nothing
        triangle, order = scipy.linalg.qr(self.basis.T, mode="r", pivoting=True)
        kept = np.sort(order[:k])
        place = np.searchsorted(kept, order[:k])
        follow = np.zeros((n, k))
        follow[np.ix_(order[k:], place)] = scipy.linalg.solve_triangular(triangle[:, :k], triangle[:, k:]).T
        follow[np.abs(follow) < _ROUNDING] = 0.0
        follow *= self.scale[:, None] * self.inverse[kept]
        follow[kept, np.arange(k)] = 1.0
        chosen = scipy.sparse.csr_array((np.ones(k), (kept, np.arange(k))), shape=(n, k))
        return chosen, scipy.sparse.csr_array(follow)

    def restricted(self, kept: _Matrix) -> _Space:
        """Return the whole space over the kept states."""
        space = _Space(kept.T @ self.scale, self.tolerance)
        space.basis = np.eye(len(space.scale))[:, space.scale > 0]
        return space

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return random vectors of the space, `(count, n)`."""
        return np.asarray((rng.normal(size=(count, self.dimension)) @ self.basis.T) * self.scale)

    def separate(self) -> np.ndarray:
        """Return vectors with few states each that span the space, `(dimension, n)`."""
        if not self.dimension:
            return np.zeros((0, len(self.scale)))
        _, follow = self.states()
        return np.asarray(follow.toarray().T)

    def extend(self, rows: np.ndarray) -> bool:
        """Add the span of vectors, `(count, n)`; return whether it was new."""
        candidates = _evened(_evened(rows) * self.inverse)  # neither they nor their squares overflow
        candidates /= np.linalg.norm(candidates, axis=1)[:, None]
        if not len(candidates) or not self.missing:
            return False
        rest = self._without(self._without(candidates))
        if len(rest) > rest.shape[1]:
            rest = np.asarray(np.linalg.qr(rest, mode="r"))
        _, values, vectors = np.linalg.svd(rest, full_matrices=False)
        new = vectors[values > self.tolerance * np.sqrt(len(candidates))][: self.missing]
        if not len(new):
            return False
        directions, _ = np.linalg.qr(self._without(new).T)
        self.basis = np.concatenate([self.basis, directions], axis=1)
        return True

    def _without(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows - (rows @ self.basis) @ self.basis.T)


def _evened(rows: np.ndarray) -> np.ndarray:
    """Return the rows that are not zero, each divided by its largest entry."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    return np.asarray(rows[largest > 0] / largest[largest > 0, None])


# A map of vectors of two sorts to one: the source sorts, the target sort, and the map of rows.
_Step = tuple[int, int, int, Callable[[np.ndarray, np.ndarray], np.ndarray]]


def _forward(automaton: TreeAutomaton, tolerance: float, rng: np.random.Generator) -> list[_Space]:
    """Return the spans of `omega(t)`."""
    spaces = [_Space(scale, tolerance) for scale in _sizes_of_trees(absolute(automaton))]
    started = {sort for sort, space in enumerate(spaces) if space.extend(automaton.leaves[sort])}
    steps: list[_Step] = [
        (b, c, a, _applied(tensor))
        for (a, b, c), tensor in zip(automaton.rules.tolist(), automaton.transitions, strict=True)
    ]
    _close(spaces, spaces, spaces, steps, started, rng)
    return spaces


def _backward(
    automaton: TreeAutomaton, forward: Sequence[_Space], tolerance: float, rng: np.random.Generator
) -> list[_Space]:
    """Return the spans of `alpha(c)`, given those of `omega(t)`."""
    scales = _sizes_of_contexts(absolute(automaton), [space.scale for space in forward])
    spaces = [_Space(scale, tolerance) for scale in scales]
    started = {sort for sort, space in enumerate(spaces) if space.extend(automaton.root[sort][None])}
    steps: list[_Step] = []
    for (a, b, c), tensor in zip(automaton.rules.tolist(), automaton.transitions, strict=True):
        steps.append((a, c, b, _applied(tensor.transpose(*_CHILD_FIRST[1]))))
        steps.append((a, b, c, _applied(tensor.transpose(*_CHILD_FIRST[2]))))
    _close(spaces, spaces, forward, steps, started, rng)
    return spaces


def _close(
    spaces: Sequence[_Space],
    first: Sequence[_Space],
    second: Sequence[_Space],
    steps: Sequence[_Step],
    changed: set[int],
    rng: np.random.Generator,
) -> None:
    """Extend spaces until they contain the result of every step on vectors of `first` and `second`."""
    moving = second is spaces
    while changed:
        now = set()
        for one, other, target, function in steps:
            space = spaces[target]
            is_new = one in changed or (moving and other in changed)
            if not is_new or not space.missing or not first[one].dimension or not second[other].dimension:
                continue
            count = space.missing + _MORE
            mine, its = first[one].separate(), second[other].separate()
            left = np.concatenate([first[one].draw(rng, count + len(its)), mine])
            right = np.concatenate([second[other].draw(rng, count), its, second[other].draw(rng, len(mine))])
            if space.extend(function(left, right)):
                now.add(target)
        changed = now


def _applied(tensor: Tensor) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return the map of rows `x`, `y` to `T(I, x, y)`, applied in batches."""
    if isinstance(tensor, np.ndarray):
        tensor = np.ascontiguousarray(tensor)
        step = max(1, _BATCH // max(1, tensor.shape[0] * tensor.shape[1]))
    else:
        step = 1 << 30

    def function(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        parts: Iterable[slice] = (slice(begin, begin + step) for begin in range(0, len(left), step))
        return np.concatenate([apply(tensor, left[part], right[part]) for part in parts])

    return function


def _fold(automaton: TreeAutomaton, inside: Sequence[_Matrix], outside: Sequence[_Matrix]) -> TreeAutomaton:
    """Return the automaton over other states.

    Weights that cancel up to rounding become zero, because later steps could not distinguish them from small ones.
    """
    found = change_states(automaton, inside, outside)
    bounds = change_states(absolute(automaton), [abs(matrix) for matrix in inside], [abs(matrix) for matrix in outside])
    return replace(
        found,
        root=tuple(_cleaned(*pair) for pair in zip(found.root, bounds.root, strict=True)),
        transitions=tuple(_cleaned_tensor(*pair) for pair in zip(found.transitions, bounds.transitions, strict=True)),
        leaves=tuple(_cleaned(*pair) for pair in zip(found.leaves, bounds.leaves, strict=True)),
    )


def _cleaned(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) > _ROUNDING * bounds, values, 0.0)


def _cleaned_tensor(tensor: Tensor, bounds: Tensor) -> Tensor:
    if isinstance(tensor, SparseTensor) and isinstance(bounds, SparseTensor):
        keys, known = (np.ravel_multi_index(tuple(part.places.T), tensor.shape) for part in (tensor, bounds))
        values = _cleaned(tensor.values, bounds.values[np.searchsorted(known, keys)])
        return SparseTensor.from_entries(tensor.shape, tensor.places, values)
    if isinstance(tensor, np.ndarray) and isinstance(bounds, np.ndarray):
        return _cleaned(tensor, bounds)
    return tensor


def _sizes_of_trees(positive: TreeAutomaton) -> list[np.ndarray]:
    """Return for each state the weight that the smallest trees that reach it, or the next larger ones, give it.

    All weights must be positive or zero. The next larger ones are included because a single weight can be small by
    chance.
    """

    def larger(sizes: list[np.ndarray]) -> list[np.ndarray]:
        found = [np.zeros(len(size)) for size in sizes]
        for (a, b, c), tensor in zip(positive.rules.tolist(), positive.transitions, strict=True):
            found[a] += apply(tensor, sizes[b][None], sizes[c][None])[0]
        return found

    return _smallest([rows.max(axis=0, initial=0.0) for rows in positive.leaves], larger)


def _sizes_of_contexts(positive: TreeAutomaton, trees: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return for each state the weight that the smallest contexts with a hole there, or the next larger, give it."""
    turned = [[tensor.transpose(*_CHILD_FIRST[axis]) for axis in (1, 2)] for tensor in positive.transitions]

    def larger(sizes: list[np.ndarray]) -> list[np.ndarray]:
        found = [np.zeros(len(size)) for size in sizes]
        for (a, b, c), (left, right) in zip(positive.rules.tolist(), turned, strict=True):
            found[b] += apply(left, sizes[a][None], trees[c][None])[0]
            found[c] += apply(right, sizes[a][None], trees[b][None])[0]
        return found

    return _smallest(list(positive.root), larger)


def _smallest(sizes: list[np.ndarray], larger: Callable[[list[np.ndarray]], list[np.ndarray]]) -> list[np.ndarray]:
    """Fill sizes that are zero from those that are not, until nothing changes; then let all grow once."""
    while True:
        found = larger(sizes)
        if all((size > 0).sum() == ((size > 0) | (new > 0)).sum() for size, new in zip(sizes, found, strict=True)):
            return [np.maximum(size, new) for size, new in zip(sizes, found, strict=True)]
        sizes = [np.where(size > 0, size, new) for size, new in zip(sizes, found, strict=True)]
