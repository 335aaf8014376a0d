"""Moments of projected vectors: the sufficient statistics of a spectral grammar.

Sums and means are over all nodes, or over those with weight. The coordinates of a symbol's vectors are sorted by
decreasing singular value, so the first `m` coordinates of any moment are the same moment with `m` states: moments
computed once with many states serve for all smaller numbers (`Statistics.truncated`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.weights import nodes_by_rule
from sapwood.learn.spectral.projection import ProjectedNodes
from sapwood.runtime.executor import Executor
from sapwood.runtime.progress import Progress, track
from sapwood.storage.shapes import Array, Float, Float64, Int, Int32, Num

# Nodes per batch of products.
_CHUNK = 2048


@dataclass(frozen=True, eq=False)
class RuleMoments:
    """Means of products of projected vectors over the nodes with one rule `a -> b c`.

    `third` is the mean of `Z (x) Y_left (x) Y_right`, `second` of its three pairs, `first` of the three vectors.
    `count` is the number of nodes, `weight` their total weight (`count`, if all nodes are used).
    """

    count: int
    weight: float
    first: tuple[Float64[Array, "m_a"], Float64[Array, "m_b"], Float64[Array, "m_c"]]
    second: tuple[Float64[Array, "m_a m_b"], Float64[Array, "m_a m_c"], Float64[Array, "m_b m_c"]]
    third: Float64[Array, "m_a m_b m_c"]

    def truncated(self, a: int, b: int, c: int) -> RuleMoments:
        """Return the moments with `a`, `b` and `c` states of the three symbols."""
        z, left, right = self.first
        ab, ac, bc = self.second
        first, second = (z[:a], left[:b], right[:c]), (ab[:a, :b], ac[:a, :c], bc[:b, :c])
        return replace(self, first=first, second=second, third=self.third[:a, :b, :c])


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums and means over the nodes of a corpus.

    Attributes
    ----------
    states
        Number of states of each symbol.
    totals
        Total weight of the nodes of each symbol.
    inside, outside
        Means of inside and outside vectors, by symbol.
    rules
        Moments, by rule.
    root
        Sums of inside vectors over trees, by root symbol.
    words
        Sums of outside vectors over leaves, by preterminal, with a row for each word.
    """

    states: Int32[Array, "symbols"]
    totals: Num[Array, "symbols"]
    inside: list[Float64[Array, "m_a"]]
    outside: list[Float64[Array, "m_a"]]
    rules: list[RuleMoments]
    root: list[Float64[Array, "m_a"]]
    words: list[Float64[Array, "words_of_symbol m_a"]]

    @classmethod
    def of(
        cls,
        projected: ProjectedNodes,
        weights: Float[Array, "nodes"] | None,
        problem: LPCFGProblem,
        workers: Executor,
        progress: Progress,
    ) -> Statistics:
        """Compute all statistics; without `weights` all nodes have weight 1."""
        corpus = projected.corpus
        return cls(
            states=projected.states,
            totals=np.bincount(corpus.symbol, weights=weights, minlength=len(corpus.symbols)),
            inside=[_mean(y, weights, projected, a) for a, y in enumerate(projected.inside)],
            outside=[_mean(z, weights, projected, a) for a, z in enumerate(projected.outside)],
            rules=list(rule_moments(projected, weights, workers, progress)),
            root=root_sums(projected),
            words=word_sums(projected, weights, problem),
        )

    def truncated(self, states: Int[Array, "symbols"], rules: Int[Array, "rules 3"]) -> Statistics:
        """Return the statistics with fewer states: the first of each symbol."""
        sizes = np.minimum(states, self.states).astype(np.int32)
        inner = len(sizes) - len(self.words)
        return Statistics(
            states=sizes,
            totals=self.totals,
            inside=_cut(self.inside, sizes),
            outside=_cut(self.outside, sizes),
            rules=[moment.truncated(*sizes[rule].tolist()) for moment, rule in zip(self.rules, rules, strict=True)],
            root=_cut(self.root, sizes),
            words=_cut(self.words, sizes[inner:]),
        )

    def tensors(self, rules: Int[Array, "rules 3"], backoff: float) -> list[Float64[Array, "m_a m_b m_c"]]:
        """Return the smoothed weights of the rules (`backoff` is the strength of `smoothed`)."""
        return [
            smoothed(moment, backoff, self.outside[a], self.inside[b], self.inside[c])
            * (moment.weight / self.totals[a] if self.totals[a] else 0.0)
            for moment, (a, b, c) in zip(self.rules, rules.tolist(), strict=True)
        ]

    def word_sums(self) -> Float64[Array, "word_weights"]:
        """Return the rows of all words, concatenated."""
        return np.concatenate([np.zeros(0), *(rows.ravel() for rows in self.words)])


def _cut(arrays: Sequence[np.ndarray], sizes: np.ndarray) -> list[np.ndarray]:
    """Return the first coordinates of the last axis."""
    return [array[..., :size] for array, size in zip(arrays, sizes.tolist(), strict=True)]


def _mean(vectors: np.ndarray, weights: np.ndarray | None, projected: ProjectedNodes, symbol: int) -> np.ndarray:
    """Return the weighted mean over a symbol's nodes (the unweighted mean, if none has weight)."""
    if weights is None:
        return vectors.mean(axis=0)
    nodes = np.flatnonzero((projected.corpus.symbol == symbol) & (weights > 0))
    if not len(nodes):
        return vectors.mean(axis=0)
    return np.average(vectors[projected.place[nodes]], axis=0, weights=weights[nodes])


def root_sums(projected: ProjectedNodes) -> list[Float64[Array, "m_a"]]:
    """Return the sums of inside vectors over trees, by root symbol."""
    corpus, roots = projected.corpus, projected.corpus.roots
    found = [np.zeros(int(size)) for size in projected.states]
    for a in np.unique(corpus.symbol[roots]).tolist():
        at = roots[corpus.symbol[roots] == a]
        found[a] = projected.inside[a][projected.place[at]].sum(axis=0)
    return found


def word_sums(
    projected: ProjectedNodes, weights: Float[Array, "nodes"] | None, problem: LPCFGProblem
) -> list[Float64[Array, "words_of_symbol m_a"]]:
    """Return the sums of `Z` over the leaves of each pair of preterminal and word, by preterminal.

    Weights are scaled by one factor per preterminal, so that its leaves have a mean weight of 1. If no leaf of a
    preterminal has weight, the sums are over all its leaves.
    """
    corpus, pair_symbol, pair = projected.corpus, problem.trees.word_symbol, problem.trees.pair_of_leaf
    leaves = np.flatnonzero(corpus.word >= 0)
    found = []
    for a in range(corpus.n_interminals, len(corpus.symbols)):
        first, last = np.searchsorted(pair_symbol, [a, a + 1])
        mine = corpus.symbol[leaves] == a
        total = np.zeros((last - first, int(projected.states[a])))
        vectors = projected.outside[a][projected.place[leaves[mine]]]
        if weights is not None and weights[leaves[mine]].any():
            own = weights[leaves[mine]]
            vectors = vectors * (own / own.mean())[:, None]
        np.add.at(total, pair[mine] - first, vectors)
        found.append(total)
    return found


def rule_moments(
    projected: ProjectedNodes,
    weights: Float[Array, "nodes"] | None,
    workers: Executor,
    progress: Progress,
) -> Iterator[RuleMoments]:
    """Yield the moments of each rule over the nodes with weight; without `weights` all have weight 1."""
    corpus = projected.corpus
    parts = nodes_by_rule(corpus)
    if weights is not None:
        parts = [nodes[weights[nodes] > 0] for nodes in parts]
    # Items hold only the vectors of one rule, to be cheap to send to other processes.
    items = (
        (
            projected.outside[a][projected.place[nodes]],
            projected.inside[b][projected.place[corpus.left[nodes]]],
            projected.inside[c][projected.place[corpus.right[nodes]]],
            None if weights is None else weights[nodes],
        )
        for (a, b, c), nodes in zip(corpus.rules.tolist(), parts, strict=True)
    )
    found = workers.map(_moments_of_rule, items)
    return track(found, progress, "moments", total=len(corpus.rules), unit="rules")


def _moments_of_rule(item: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]) -> RuleMoments:
    """Return the means over the nodes of one rule, given their `Z`, both `Y` and weights."""
    z, left, right, weights = item
    count = len(z)
    weight = float(count)
    # Apply weights to one factor of each product.
    lefts, rights = left, right
    if weights is not None:
        own = weights[:, None]
        weight = float(own.sum())
        z, lefts, rights = z * own, left * own, right * own
    sizes = z.shape[1], left.shape[1], right.shape[1]
    third = np.zeros((sizes[0], sizes[1] * sizes[2]))
    for begin in range(0, count, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        pairs = left[part][:, :, None] * right[part][:, None, :]
        third += z[part].T @ pairs.reshape(len(pairs), -1)
    n = weight or 1.0
    return RuleMoments(
        count,
        weight,
        (z.sum(axis=0) / n, lefts.sum(axis=0) / n, rights.sum(axis=0) / n),
        (z.T @ left / n, z.T @ right / n, lefts.T @ right / n),
        third.reshape(sizes) / n,
    )


def smoothed(
    moments: RuleMoments,
    strength: float,
    outside: Float[Array, "m_a"],
    left: Float[Array, "m_b"],
    right: Float[Array, "m_c"],
) -> Float[Array, "m_a m_b m_c"]:
    """Return the smoothed third-order mean of a rule; the vectors are the means of its three symbols."""
    if strength == 0 or moments.count == 0:
        return moments.third
    own = np.sqrt(moments.count) / (strength + np.sqrt(moments.count))
    z, b, c = (own * mean + (1 - own) * wide for mean, wide in zip(moments.first, (outside, left, right), strict=True))
    ab, ac, bc = moments.second
    mean_z, mean_b, mean_c = moments.first
    pairs = ab[:, :, None] * mean_c + ac[:, None, :] * mean_b[:, None] + mean_z[:, None, None] * bc
    alone = z[:, None, None] * b[:, None] * c
    return own * moments.third + (1 - own) * (own * pairs / 3 + (1 - own) * alone)
