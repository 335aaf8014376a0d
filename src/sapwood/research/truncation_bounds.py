"""Upper bound of the l2 distance of a truncation, from Gram matrices alone, without sums over pairs of automata.

Write `w(t)` for the vectors of an automaton in its singular basis, `v(t)` for those of its truncation, whose first `k`
entries are used (`P` keeps those), and `e = w - v`. A word has `e = (I - P) w`, and a tree with children `t1`, `t2`

    e(t) = (I - P) w(t) + P T(e(t1), w(t2)) + P T(v(t1), e(t2)).

Take any positive definite matrices `M`, one for each sort, and `|e|^2 = sum over trees of e(t)^T M e(t)`. As a pair of
trees is one tree, sums over trees of `T(e(t1), w(t2))` are products of Gram matrices, and by the triangle inequality

    |e| <= tail + (left + right) |e|,       tail^2 = tr M (I - P) G_T (I - P),

where `left^2` is the largest eigenvalue of `T^T (P M P (x) G_T) T` relative to `M`, and `right^2` the same for right
children with the truncation's own `G_T`. By induction over the depth of trees the sums up to any depth are bounded, so
if `left + right < 1`,

    l2 distance <= root |e| <= root tail / (1 - left - right),      root^2 = max alpha^T M^{-1} alpha.

With `M = G_C` the tail is that of the singular values, `sqrt(sum of the squares of those left out)`, the lower bound of
the Hankel distance; but a state that only occurs as a left child then has `left = 1`. So contexts count `theta^depth`
times, where `depth` is that of the hole: `M = sum over j of theta^j (E^T)^j alpha alpha^T` has `E^T M <= M / theta`,
and both `left` and `right` are about `theta^{-1/2}` or less. That is finite if `theta rho < 1`, so there is a bound
wherever sums converge fast (`rho` below about 1/4, as it is for treebank grammars), and the best `theta` is taken.
(For words, that is trees along a line, bounds of this kind are those of Balle, Panangaden and Precup 2015.)
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.gram import gram_matrices
from sapwood.automata.product_operator import Blocks, PairOperator, add, norm
from sapwood.automata.svta import SingularStates, project
from sapwood.storage.shapes import Array, Int

# Values of theta that are tried, as powers of the largest.
_POWERS = np.linspace(0.3, 0.99, 8)
_STEPS = 20_000


def truncation_bound(automaton: TreeAutomaton, states: SingularStates, kept: int | Int[Array, "sorts"]) -> float | None:
    """Return a number that the l2 distance of the truncation to the first `kept` states of each sort cannot exceed.

    `states` are the automaton's own (`singular_states(gram_matrices(automaton))`). None if this way leads to no bound,
    because sums over trees converge too slowly. Raises `DivergenceError` if the truncation has infinite sums.

    Examples
    --------
    >>> from sapwood.automata import l2_distance, singular_states
    >>> automaton = TreeAutomaton.single([1.0, 0.5], np.full((2, 2, 2), 0.05), {"a": [0.5, 0.25], "b": [0.25, 0.1]})
    >>> found = singular_states(gram_matrices(automaton))
    >>> bound = truncation_bound(automaton, found, 1)
    >>> l2_distance(automaton, project(automaton, found.truncated(1))) <= bound < 0.2
    True
    """
    whole = project(automaton, states)
    truncation = states.truncated(kept)
    grams = gram_matrices(whole)
    inner = _padded(gram_matrices(project(automaton, truncation)).trees, whole)
    pairs = PairOperator(whole, whole)
    cut = [len(values) for values in truncation.values]
    bounds = []
    for power in _POWERS:
        theta = max(grams.rate, 1e-6) ** -power
        if (measure := _measure(pairs, grams.trees, theta)) is None:
            continue
        rest = [block[k:, k:] for block, k in zip(grams.trees, cut, strict=True)]
        tail = sum(float(np.vdot(m[k:, k:], block)) for m, block, k in zip(measure, rest, cut, strict=True))
        seen = _padded([m[:k, :k] for m, k in zip(measure, cut, strict=True)], whole)
        left, right = (
            _largest(pairs.to_children(axis, seen, at), measure) for axis, at in ((1, grams.trees), (2, inner))
        )
        root = max(float(a @ np.linalg.solve(m, a)) for a, m in zip(whole.root, measure, strict=True))
        if left + right < 1:
            bounds.append(np.sqrt(max(root, 0.0) * max(tail, 0.0)) / (1 - left - right))
    return float(min(bounds)) if bounds else None


def _measure(pairs: PairOperator, trees: Blocks, theta: float) -> Blocks | None:
    """Return `M`, None if the sum does not end or is not positive definite."""
    term = total = pairs.roots()
    for _ in range(_STEPS):
        term = [theta * block for block in pairs.down(trees, term)]
        total = add(total, term)
        if norm(term) <= 1e-14 * norm(total):
            total = [(block + block.T) / 2 for block in total]
            return total if all(np.linalg.eigvalsh(_one_scale(m, m)).min() > 1e-10 for m in total) else None
    return None


def _largest(blocks: Blocks, measure: Blocks) -> float:
    """Return the root of the largest eigenvalue relative to `M`, of all sorts."""
    values = [
        scipy.linalg.eigh((scaled + scaled.T) / 2, _one_scale(m, m), eigvals_only=True)[-1]
        for scaled, m in ((_one_scale(block, m), m) for block, m in zip(blocks, measure, strict=True))
    ]
    return float(np.sqrt(max(*values, 0.0)))


def _one_scale(block: np.ndarray, measure: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.diagonal(measure))
    return np.asarray(block / np.outer(scale, scale))


def _padded(blocks: Blocks, automaton: TreeAutomaton) -> Blocks:
    found = [np.zeros((n, n)) for n in automaton.sizes.tolist()]
    for large, block in zip(found, blocks, strict=True):
        large[: len(block), : len(block)] = block
    return found
