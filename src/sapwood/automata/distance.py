"""Exact distances between the functions of two automata, from sums over all trees of their products.

`sum over t of (f(t) - g(t))^2 = <f, f> - 2 <f, g> + <g, g>`, and each inner product is `alpha^T X alpha'` with `X` the
sum over trees of `omega(t) omega'(t)^T`. The *Hankel distance* counts each tree once for each of its nodes: it is the
Frobenius norm of the difference of the Hankel matrices, `sqrt(sum over t of |t| (f(t) - g(t))^2)`. By the theorem of
Eckart and Young no automaton with `k_a` states of each sort has a smaller one than the root of the sum of squares of
the singular values beyond the first `k_a`, so together they bound how far an approximation is from the best possible.

Differences of nearly equal numbers lose digits: distances below about 1e-7 of the norm are rounding errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.gram import pair_sums
from sapwood.automata.product_operator import inner


@dataclass(frozen=True)
class Distances:
    """Distances between two automata.

    Attributes
    ----------
    l2, hankel
        The distances.
    l2_norm, hankel_norm
        Distances of the first automaton to zero.
    """

    l2: float
    hankel: float
    l2_norm: float
    hankel_norm: float

    @property
    def relative(self) -> float:
        """The l2 distance relative to the first automaton's norm."""
        return self.l2 / self.l2_norm if self.l2_norm > 0 else float(self.l2 > 0)


def inner_product(one: TreeAutomaton, other: TreeAutomaton) -> float:
    """Return `sum over t of f(t) g(t)`; raises `DivergenceError` if it is not finite."""
    return _products(one, other)[0]


def l2_norm(automaton: TreeAutomaton) -> float:
    """Return `sqrt(sum over t of f(t)^2)`."""
    return float(np.sqrt(max(inner_product(automaton, automaton), 0.0)))


def l2_distance(one: TreeAutomaton, other: TreeAutomaton) -> float:
    """Return `sqrt(sum over t of (f(t) - g(t))^2)`."""
    return compare(one, other).l2


def compare(one: TreeAutomaton, other: TreeAutomaton) -> Distances:
    """Return both distances of two automata over the same sorts and words.

    Raises
    ------
    DivergenceError
        If one of them has no finite norm, as can happen with a truncation.
    UsageError
        If their sorts or words differ.

    Examples
    --------
    >>> automaton = TreeAutomaton.single([1.0], [[[0.5]]], {"a": [0.5]})
    >>> double = TreeAutomaton.single([2.0], [[[0.5]]], {"a": [0.5]})
    >>> compare(automaton, double).relative
    1.0
    """
    ours, both, theirs = _products(one, one), _products(one, other), _products(other, other)
    l2, hankel = (
        float(np.sqrt(max(mine - 2 * shared + its, 0.0))) for mine, shared, its in zip(ours, both, theirs, strict=True)
    )
    return Distances(l2, hankel, *(float(np.sqrt(max(product, 0.0))) for product in ours))


def _products(one: TreeAutomaton, other: TreeAutomaton) -> tuple[float, float]:
    """Return the sums over trees of `f(t) g(t)` and of `|t| f(t) g(t)`."""
    trees, contexts = pair_sums(one, other)
    plain = sum(float(a @ block @ b) for a, block, b in zip(one.root, trees, other.root, strict=True))
    return plain, inner(contexts, trees)
