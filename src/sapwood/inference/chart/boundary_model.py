"""Boundary model: figure of merit of a span from the words around it (Caraballo and Charniak 1998).

The posterior of a symbol `A` over words `i .. j - 1` is proportional to its inside value times its outside value. The
outside value is unknown until the chart is full; but if it depended only on the tags next to the span, it would be

    sum over t of forward(i, t) left[t, A]   times   sum over u of right[u, A] backward(j, u)

where `forward` and `backward` are those of the hidden Markov model over tags that the grammar implies, `left[t, A]`
is the expected number of symbols `A` that begin after a tag `t`, and `right[u, A]` is the probability that `u` is the
first tag after an `A`. Divided by the sentence's probability under the Markov model, this estimates the posterior. All
tables are expectations under the one-state grammar, so only the grammar is needed. (This is the boundary model of
Caraballo and Charniak 1998, "New figures of merit for best-first probabilistic chart parsing", with both sides summed
over tags.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Float64, Int32

# Weight of the unconditional distribution in all tables, so that no neighbour is impossible.
_CHANCE = 1e-4
# Tolerance and maximum number of steps of sums over chains of rules.
_TOLERANCE = 1e-5
_STEPS = 500


class BoundaryModel(NamedTuple):
    """Tables of a one-state grammar; the last tag is an extra one for either end of the sentence.

    `tag` is the tag of each preterminal (-1 for interminals), `tag_share` its share of the occurrences of that tag, and
    `transitions` are tag transition probabilities.
    """

    tag: Int32[Array, "symbols"]
    tag_share: Float64[Array, "symbols"]
    left: Float64[Array, "tags_and_end symbols"]
    right: Float64[Array, "tags_and_end symbols"]
    transitions: Float64[Array, "tags_and_end tags_and_end"]


def compute_boundary_model(coarse: TensorGrammar) -> BoundaryModel:
    """Compute the boundary model of a one-state grammar."""
    n_symbols, n_inner, n_tags = len(coarse.symbols), coarse.n_interminals, len(coarse.emissions.tags)
    parent, left, right = coarse.rules.astype(np.int64).T
    counts = np.maximum(coarse.tensors * np.maximum(coarse.occupancy, 0)[parent], 1e-12)
    tag = np.full(n_symbols, -1, np.int32)
    tag[n_inner:] = coarse.emissions.tag_of
    leaves = np.zeros((n_symbols, n_tags + 1))
    leaves[np.arange(n_inner, n_symbols), tag[n_inner:]] = 1.0

    def table(weights: np.ndarray, row: np.ndarray, column: np.ndarray) -> scipy.sparse.csr_array:
        return scipy.sparse.coo_array((weights, (row, column)), shape=(n_symbols, n_symbols)).tocsr()

    # The first tag of a symbol is that of its left child, the last tag that of its right child.
    of_parent = counts / np.bincount(parent, weights=counts, minlength=n_symbols)[parent]
    first = _solve(table(of_parent, parent, left), leaves)
    last = _solve(table(of_parent, parent, right), leaves)
    # The left neighbour of a left child is its parent's, that of a right child the last tag of its sibling; likewise on
    # the right.
    children = np.bincount(left, weights=counts, minlength=n_symbols) + np.bincount(
        right, weights=counts, minlength=n_symbols
    )
    trees = max(float(counts.sum()) - float(children[:n_inner].sum()), 1.0)
    roots = trees * coarse.root / max(float(coarse.root.sum()), 1e-300)
    totals = children + roots + 1e-12
    at_root = np.zeros((n_symbols, n_tags + 1))
    at_root[:, n_tags] = roots / totals
    before = _solve(
        table(counts / totals[left], left, parent), at_root + table(counts / totals[right], right, left) @ last
    )
    after = _solve(
        table(counts / totals[right], right, parent), at_root + table(counts / totals[left], left, right) @ first
    )

    tag_totals = np.bincount(tag[n_inner:], weights=totals[n_inner:], minlength=n_tags + 1)
    tag_totals[n_tags] = trees
    chance = np.maximum(tag_totals, 1e-12) / np.maximum(tag_totals, 1e-12).sum()
    before, after = (_mix(neighbours, chance) for neighbours in (before, after))
    share = np.ones(n_symbols)
    share[n_inner:] = totals[n_inner:] / np.maximum(tag_totals[tag[n_inner:]], 1e-300)
    transitions = np.tile(chance, (n_tags + 1, 1))
    transitions[:n_tags] = _mix(leaves.T[:n_tags] @ (share[:, None] * after), chance)
    transitions[n_tags] = _mix((roots / roots.sum()) @ first, chance) if roots.any() else chance
    return BoundaryModel(
        tag=tag,
        tag_share=share,
        left=np.ascontiguousarray(before.T * totals / np.maximum(tag_totals, 1e-12)[:, None]),
        right=np.ascontiguousarray(after.T),
        transitions=transitions,
    )


def _mix(rows: np.ndarray, chance: np.ndarray) -> np.ndarray:
    return (1 - _CHANCE) * rows + _CHANCE * chance


def _solve(chain: scipy.sparse.csr_array, start: np.ndarray) -> np.ndarray:
    """Return `start + chain start + chain^2 start + ...`; the rows of `chain` sum to at most 1."""
    total = start
    for _ in range(_STEPS):
        longer = start + chain @ total
        if np.abs(longer - total).max(initial=0.0) <= _TOLERANCE:
            return longer
        total = longer
    return total
