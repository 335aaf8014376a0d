"""Spectral learning of L-PCFGs (Cohen, Stratos, Collins, Foster and Ungar 2012, 2014): no iteration, no local optima.

Inside and outside features of every node are projected by one singular value decomposition for each symbol
(`projection`); then rule tensors, lexical and root vectors are means of products of projected vectors:

    C^{a -> b c} = (1 / M_a) sum of Z (x) Y_left (x) Y_right over the nodes with that rule
    c^inf_{a -> x} = (1 / M_a) sum of Z over the leaves with that word
    c^1_a = (1 / trees) sum of Y over the roots

(figure 7 of the long paper with `Sigma^a` the identity; `M_a` is how often `a` occurs). The result is the grammar up to
an invertible matrix for each symbol, so its weights can be negative; tree probabilities and posteriors are right in
the limit, and only nearly so on a sample: negative posteriors are taken for zero by the decoders.

**Which nodes.** Means are over all nodes of the treebank, or over one of each tree, picked from its `N` nodes with
probability `1 / N` each: the terms of a mean are independent then, as trees are (section 8). A picked node counts `N`
times, which the paper leaves out: without it nodes of small trees count for too much, inside and outside tree of a
node depend on each other through `N` even when its state is known, and the result does not tend to the grammar (see
`population`); with it each sum has the expectation of the sum over all nodes. Roots, one a tree, are all used.

A rule seen n times gets `lambda = sqrt(n) / (C + sqrt(n))` of its own third-order mean; the rest comes from products of
its second- and first-order means, and of first-order means drawn towards those of the symbols (after Cohen et al.
2013).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from sapwood.evaluate.held_out import Evaluate
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.forecast import Phase
from sapwood.learn.latent import nodes_by_rule
from sapwood.learn.problem import LatentProblem
from sapwood.learn.settings import choice, integer, number, numbers
from sapwood.learn.spectral.feature_learner import FeatureLearner
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import ProjectedNodes, diagnostics
from sapwood.learn.training import figure_of
from sapwood.run.log import Log
from sapwood.run.parallel import one_blas_thread
from sapwood.run.progress import Progress, track
from sapwood.run.workers import Workers
from sapwood.shapes import Array, Float, Float64, Int64
from sapwood.trees.corpus import Corpus

Scheme = Literal["all", "one"]
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


@dataclass(frozen=True, kw_only=True, repr=False)
class Spectral(FeatureLearner):
    """Learns a real-valued L-PCFG from projected features.

    Parameters
    ----------
    states
        The most states of each symbol: one number for all, or by name (others get one). With `"auto"` each symbol gets
        as many as its singular values support, up to 32; where to cut them is chosen by `dev`, if there is one.
    inside, outside, least, kappa, tolerance, support
        See `FeatureLearner`.
    dropout
        The part of all features that is left out at random, by the seed: for ensembles, whose members would hardly
        differ otherwise.
    backoff
        `C`, the weight of simpler moments beside a rule's own; or several values of which the best by `dev` is taken
        (the first, if there is none).
    nodes
        Nodes that moments are estimated on: `all`, or `one` of each tree, picked at random, as the paper's analysis has
        it (section 8), and weighted by the number of nodes of its tree.
    unaries, rare, lexical, random_state, threads, workers
        See `LatentLearner`.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> Spectral(states=4).fit(corpus)
    <TensorGrammar: 3 symbols (1 states), 1 rules, 2 words>
    """

    method: ClassVar[str] = "spectral"

    states: int | Mapping[str, int] | Literal["auto"] = integer(  # type: ignore[assignment]
        16,
        "The most hidden states of each symbol; auto: as many as its singular values support.",
        low=1,
        words=("auto",),
    )
    dropout: float = number(0.0, "Part of the features left out at random, for ensembles.", below=1)
    backoff: float | Sequence[float] = numbers(
        (20.0, 10.0, 30.0), "The weight of simpler moments beside a rule's own; the best of several by --dev."
    )
    nodes: Scheme = choice("all", "Moments over all nodes, or over one of each tree.", get_args(Scheme))
    rare: int = integer(5, "Words seen no more often show their form only.")

    def _learn(
        self, corpus: Corpus, dev: Evaluate | None, progress: Progress, log: Log, checkpoint: str | Path | None
    ) -> TensorGrammar:
        problem = self.problem(corpus)
        self._foretell(problem, dev, progress)
        table = NodeTable(problem.trees.corpus, problem.word_classes)
        weights = self._weights(problem.trees.corpus)
        best: tuple[float, TensorGrammar] | None = None
        step = 0
        for tolerance in self._tolerances(dev):
            with one_blas_thread():
                projected, info = self._project(problem, table, weights, tolerance, progress)
                moments = list(rule_moments(projected, weights, self.where, progress))
            for backoff in self._backoffs():
                grammar = self._grammar(problem, projected, weights, moments, backoff, info)
                step += 1
                if dev is None:
                    return grammar
                figures = dev(grammar)
                log.write("dev", step=step, backoff=backoff, tolerance=tolerance, **figures)
                score = figure_of(figures, "f1", dev)
                if best is None or score > best[0]:
                    # Of other figures that come with them these are the ones that tell what the weights are worth.
                    told = {name: round(value, 2) for name, value in figures.items() if name.startswith("negative_")}
                    best = (score, grammar.with_info(held_out=told) if told else grammar)
        assert best is not None
        return best[1]

    def _phases(self, problem: LatentProblem) -> list[Phase]:
        return [replace(phase, looks=len(self._backoffs())) for phase in super()._phases(problem)]

    def _wanted(self, problem: LatentProblem) -> Int64[Array, "symbols"]:
        return problem.wanted_states(32 if self.states == "auto" else self.states, self.support)

    def _backoffs(self) -> Sequence[float]:
        return [self.backoff] if isinstance(self.backoff, int | float) else self.backoff

    def _tolerances(self, dev: Evaluate | None) -> list[float]:
        if self.states != "auto" or dev is None:
            return [self.tolerance]
        return sorted({min(factor * self.tolerance, 0.8) for factor in (1, 3, 10, 20)})

    def _weights(self, corpus: Corpus) -> np.ndarray | None:
        """Return what each node counts in moments, `(nodes,)` and mostly 0; None if all count the same."""
        if self.nodes == "all":
            return None
        rng = np.random.default_rng([self.random_state, 1])
        sizes = np.diff(corpus.offsets)
        picked = corpus.offsets[:-1] + (rng.random(corpus.n_trees) * sizes).astype(np.int64)
        weights = np.zeros(corpus.n_nodes)
        weights[picked] = sizes
        return weights

    def _project(
        self,
        problem: LatentProblem,
        table: NodeTable,
        weights: np.ndarray | None,
        tolerance: float,
        progress: Progress,
    ) -> tuple[ProjectedNodes, dict[str, Any]]:
        wanted = self._wanted(problem)
        projected = self._project_nodes(
            table, wanted, progress, dropout=self.dropout, tolerance=tolerance, weights=weights
        )
        records, remarks = diagnostics(projected, wanted)
        if remarks and self.states != "auto":
            shown = "; ".join(remarks[:3]) + (f"; and {len(remarks) - 3} other symbols" if len(remarks) > 3 else "")
            progress.note(f"fewer states than asked for: {shown}")
        return projected, {"tolerance": tolerance, "symbols": records, "remarks": remarks}

    def _grammar(
        self,
        problem: LatentProblem,
        projected: ProjectedNodes,
        weights: np.ndarray | None,
        moments: Sequence[RuleMoments],
        backoff: float,
        info: Mapping[str, Any],
    ) -> TensorGrammar:
        corpus = projected.corpus
        totals = np.bincount(corpus.symbol, weights=weights, minlength=len(corpus.symbols))
        mean_inside = [_mean(y, weights, projected, a) for a, y in enumerate(projected.inside)]
        mean_outside = [_mean(z, weights, projected, a) for a, z in enumerate(projected.outside)]
        tensors = [
            smoothed(moment, backoff, mean_outside[a], mean_inside[b], mean_inside[c])
            * _ratio(moment.weight, totals[a])
            for moment, (a, b, c) in zip(moments, corpus.rules.tolist(), strict=True)
        ]
        root = [np.zeros(int(size)) for size in projected.states]
        roots = corpus.roots
        for a in np.unique(corpus.symbol[roots]).tolist():
            at = roots[corpus.symbol[roots] == a]
            root[a] = projected.inside[a][projected.place[at]].sum(axis=0) / corpus.n_trees
        words = _word_sums(projected, weights, problem)
        return problem.real_grammar(
            projected.states, tensors, root, words, mean_inside,
            {"method": self.method, "settings": self.settings(), "spectral": {"backoff": backoff, **info}},
        )  # fmt: skip


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _mean(vectors: np.ndarray, weights: np.ndarray | None, projected: ProjectedNodes, symbol: int) -> np.ndarray:
    """Return the weighted mean over a symbol's nodes (the plain one, if none has weight)."""
    if weights is None:
        return vectors.mean(axis=0)
    nodes = np.flatnonzero((projected.corpus.symbol == symbol) & (weights > 0))
    if not len(nodes):
        return vectors.mean(axis=0)
    return np.average(vectors[projected.place[nodes]], axis=0, weights=weights[nodes])


def _word_sums(projected: ProjectedNodes, weights: np.ndarray | None, problem: LatentProblem) -> np.ndarray:
    """Return the sums of `Z` over the leaves of each pair of preterminal and word, one vector behind the other.

    With weights they are scaled by one factor for each preterminal, so that its leaves have a weight of 1 on average.
    A preterminal none of whose leaves has weight gets the sums over all.
    """
    corpus, pair_symbol, pair = projected.corpus, problem.trees.word_symbol, problem.trees.pair_of_leaf
    leaves = np.flatnonzero(corpus.word >= 0)
    offsets = offsets_of(projected.states[pair_symbol])
    sums = np.zeros(int(offsets[-1]))
    for a in range(corpus.n_interminals, len(corpus.symbols)):
        first, last = np.searchsorted(pair_symbol, [a, a + 1])
        mine = corpus.symbol[leaves] == a
        total = np.zeros((last - first, int(projected.states[a])))
        vectors = projected.outside[a][projected.place[leaves[mine]]]
        if weights is not None and weights[leaves[mine]].any():
            own = weights[leaves[mine]]
            vectors = vectors * (own / own.mean())[:, None]
        np.add.at(total, pair[mine] - first, vectors)
        sums[offsets[first] : offsets[last]] = total.ravel()
    return sums


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
