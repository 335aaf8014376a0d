"""Moments of projected vectors: all that a spectral grammar is made of.

Sums and means are over all nodes, or over those with weight. The vectors of a symbol come by falling singular value, so
the first `m` coordinates of any moment are the same moment with `m` states: what was computed once with many states
serves for all smaller numbers of them (`Statistics.truncated`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sapwood.learn.latent import nodes_by_rule
from sapwood.learn.problem import LatentProblem
from sapwood.learn.spectral.projection import ProjectedNodes
from sapwood.run.progress import Progress, track
from sapwood.run.workers import Workers
from sapwood.shapes import Array, Float, Float64, Int, Int32, Num

# Nodes whose products are made at a time.
_CHUNK = 2048


@dataclass(frozen=True, eq=False)
class RuleMoments:
    """Means of products of projected vectors over the nodes with one rule `a -> b c`.

    `third` of `Z (x) Y_left (x) Y_right`; `second` of its three pairs; `first` of the three vectors; `count` nodes,
    whose weights are `weight` in all (`count`, if all nodes are used).
    """

    count: int
    weight: float
    first: tuple[Float64[Array, "m_a"], Float64[Array, "m_b"], Float64[Array, "m_c"]]
    second: tuple[Float64[Array, "m_a m_b"], Float64[Array, "m_a m_c"], Float64[Array, "m_b m_c"]]
    third: Float64[Array, "m_a m_b m_c"]

    def truncated(self, a: int, b: int, c: int) -> RuleMoments:
        """Return the moments with so many states of the three symbols."""
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
        The states of each symbol.
    totals
        What the nodes of each symbol weigh in all.
    inside, outside
        By symbol, the means of inside and outside vectors.
    rules
        By rule, its moments.
    root
        By symbol, the sum of inside vectors over the trees whose root it is.
    words
        By preterminal, a row for each word: the sum of outside vectors over its leaves.
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
        problem: LatentProblem,
        workers: Workers,
        progress: Progress,
    ) -> Statistics:
        """Compute all of them; without `weights` all nodes have one of 1."""
        corpus, roots = projected.corpus, projected.corpus.roots
        root = [np.zeros(int(size)) for size in projected.states]
        for a in np.unique(corpus.symbol[roots]).tolist():
            at = roots[corpus.symbol[roots] == a]
            root[a] = projected.inside[a][projected.place[at]].sum(axis=0)
        return cls(
            states=projected.states,
            totals=np.bincount(corpus.symbol, weights=weights, minlength=len(corpus.symbols)),
            inside=[_mean(y, weights, projected, a) for a, y in enumerate(projected.inside)],
            outside=[_mean(z, weights, projected, a) for a, z in enumerate(projected.outside)],
            rules=list(rule_moments(projected, weights, workers, progress)),
            root=root,
            words=_word_sums(projected, weights, problem),
        )

    def truncated(self, states: Int[Array, "symbols"], rules: Int[Array, "rules 3"]) -> Statistics:
        """Return the statistics with fewer states: the first ones of each symbol."""
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
        """Return the weights of the rules, smoothed (`backoff` is the strength of `smoothed`)."""
        return [
            smoothed(moment, backoff, self.outside[a], self.inside[b], self.inside[c])
            * (moment.weight / self.totals[a] if self.totals[a] else 0.0)
            for moment, (a, b, c) in zip(self.rules, rules.tolist(), strict=True)
        ]

    def word_sums(self) -> Float64[Array, "word_weights"]:
        """Return the rows of all words, one after another."""
        return np.concatenate([np.zeros(0), *(rows.ravel() for rows in self.words)])


def _cut(arrays: Sequence[np.ndarray], sizes: np.ndarray) -> list[np.ndarray]:
    """Return the first coordinates of the last axis."""
    return [array[..., :size] for array, size in zip(arrays, sizes.tolist(), strict=True)]


def _mean(vectors: np.ndarray, weights: np.ndarray | None, projected: ProjectedNodes, symbol: int) -> np.ndarray:
    """Return the weighted mean over a symbol's nodes (the plain one, if none has weight)."""
    if weights is None:
        return vectors.mean(axis=0)
    nodes = np.flatnonzero((projected.corpus.symbol == symbol) & (weights > 0))
    if not len(nodes):
        return vectors.mean(axis=0)
    return np.average(vectors[projected.place[nodes]], axis=0, weights=weights[nodes])


def _word_sums(projected: ProjectedNodes, weights: np.ndarray | None, problem: LatentProblem) -> list[np.ndarray]:
    """Return the sums of `Z` over the leaves of each pair of preterminal and word, by preterminal.

    With weights they are scaled by one factor for each preterminal, so that its leaves have a weight of 1 on average.
    A preterminal none of whose leaves has weight gets the sums over all.
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
    workers: Workers,
    progress: Progress,
) -> Iterator[RuleMoments]:
    """Yield the moments of each rule, over the nodes with weight; without `weights` all have one of 1."""
    corpus = projected.corpus
    parts = nodes_by_rule(corpus)
    if weights is not None:
        parts = [nodes[weights[nodes] > 0] for nodes in parts]
    # Each rule's vectors alone: they can be sent to other processes.
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
    """Return the means over the nodes of one rule, given `Z`, both `Y` and weights of all."""
    z, left, right, weights = item
    count = len(z)
    weight = float(count)
    # Weights go to one factor of each product.
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
    """Return the smoothed third-order mean of a rule; the vectors are the means of its symbols."""
    if strength == 0 or moments.count == 0:
        return moments.third
    own = np.sqrt(moments.count) / (strength + np.sqrt(moments.count))
    z, b, c = (own * mean + (1 - own) * wide for mean, wide in zip(moments.first, (outside, left, right), strict=True))
    ab, ac, bc = moments.second
    mean_z, mean_b, mean_c = moments.first
    pairs = ab[:, :, None] * mean_c + ac[:, None, :] * mean_b[:, None] + mean_z[:, None, None] * bc
    alone = z[:, None, None] * b[:, None] * c
    return own * moments.third + (1 - own) * (own * pairs / 3 + (1 - own) * alone)
