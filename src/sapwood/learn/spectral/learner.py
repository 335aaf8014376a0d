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
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from sapwood.errors import UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lexical import LexicalSettings
from sapwood.learn.spectral.matrices import Chosen
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import (
    ProjectedNodes,
    check_feature_settings,
    diagnostics,
    feature_settings,
    project_nodes,
    wanted_states,
)
from sapwood.learn.training import Evaluate, LatentProblem, Unaries, figure_of
from sapwood.run.log import Log, NoLog
from sapwood.run.parallel import map_in_order, one_blas_thread
from sapwood.run.progress import Progress, Silent, track
from sapwood.trees.corpus import Corpus

Scheme = Literal["all", "one"]
# Nodes whose products are made at a time.
_CHUNK = 2048


@dataclass(frozen=True, eq=False)
class RuleMoments:
    """Means of products of projected vectors over the nodes with one rule `a -> b c`.

    `third (m_a, m_b, m_c)` of `Z (x) Y_left (x) Y_right`; `second` of its three pairs, `(a, b)`, `(a, c)`, `(b, c)`;
    `first` of the three vectors; `count` nodes, whose weights are `weight` in all (`count`, if all nodes are used).
    """

    count: int
    weight: float
    first: tuple[np.ndarray, np.ndarray, np.ndarray]
    second: tuple[np.ndarray, np.ndarray, np.ndarray]
    third: np.ndarray


class Spectral:
    """Learns a real-valued L-PCFG from projected features.

    Parameters
    ----------
    states
        The most states of each symbol: one number for all, or by name (others get one). With `"auto"` each symbol gets
        as many as its singular values support, up to 32; where to cut them is chosen by `evaluate`, if there is one.
    inside, outside, least
        Features: the name of a set, or names of features (see `learn.spectral.features`); those seen less often than
        `least` with a symbol are dropped.
    kappa
        Scaling of features: the larger, the less rare features count.
    dropout
        The part of all features that is left out at random, by the seed: for ensembles, whose members would hardly
        differ otherwise.
    smoothing
        `C`, or several values of which the best by `evaluate` is taken (the first, if there is none).
    tolerance
        Singular values below this part of a symbol's largest are cut off.
    support
        A symbol gets no more than one state for so many occurrences.
    nodes
        Nodes that moments are estimated on: `all`, or `one` of each tree, picked at random, as the paper's analysis has
        it (section 8), and weighted by the number of nodes of its tree.
    unaries, rare, lexical, threads, executor
        See `LatentProblem`.
    random_state
        Seed of the decompositions and of picking nodes.

    Examples
    --------
    >>> from sapwood.trees import Corpus, Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9)
    >>> Spectral(states=4).fit(corpus)
    <TensorGrammar: 3 symbols (1 states), 1 rules, 2 words>
    """

    def __init__(
        self,
        *,
        states: int | Mapping[str, int] | Literal["auto"] = 16,
        inside: Chosen = "rich",
        outside: Chosen = "rich",
        least: int = 2,
        kappa: float = 5.0,
        dropout: float = 0.0,
        smoothing: float | Sequence[float] = 20.0,
        tolerance: float = 0.03,
        support: int = 30,
        nodes: Scheme = "all",
        unaries: Unaries = "steps",
        rare: int = 5,
        lexical: LexicalSettings | None = None,
        random_state: int = 0,
        threads: int = 1,
        executor: Executor | None = None,
    ) -> None:
        if isinstance(states, str) and states != "auto":
            raise UsageError(f'states are a number, numbers by name or "auto", not {states!r}')
        values = [smoothing] if isinstance(smoothing, int | float) else list(smoothing)
        if not values or not all(0 <= value < float("inf") for value in values):
            raise UsageError(f"smoothing must be 0 or more, not {smoothing}")
        check_feature_settings(least=least, support=support, kappa=kappa, tolerance=tolerance)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout must be at least 0 and below 1, not {dropout}")
        if nodes not in get_args(Scheme):
            raise UsageError(f"nodes are {' or '.join(get_args(Scheme))}, not {nodes!r}")
        self.states = states
        self.inside, self.outside, self.least = inside, outside, least
        self.kappa = kappa
        self.dropout = dropout
        self.smoothing = [float(value) for value in values]
        self.tolerance = tolerance
        self.support = support
        self.nodes: Scheme = nodes
        self.unaries: Unaries = unaries
        self.rare = rare
        self.lexical = lexical or LexicalSettings(state_strength=5.0, signature_state_strength=5.0)
        self.random_state = random_state
        self.threads = threads
        self.executor = executor

    def settings(self) -> dict[str, Any]:
        """Return what the result depends on beside the trees, as JSON values."""
        names = (
            "least", "kappa", "dropout", "smoothing", "tolerance", "support", "nodes", "unaries", "rare",
            "random_state",
        )  # fmt: skip
        return feature_settings(self, names)

    def fit(
        self,
        corpus: Corpus,
        *,
        evaluate: Evaluate | None = None,
        progress: Progress | None = None,
        log: Log | None = None,
    ) -> TensorGrammar:
        """Return the grammar; `evaluate` chooses between values of `smoothing` (and cuts of `"auto"`) by `f1`."""
        progress, log = progress or Silent(), log or NoLog()
        problem = LatentProblem.of(self, corpus)
        table = NodeTable(problem.trees.corpus, problem.word_classes)
        weights = self._weights(problem.trees.corpus)
        best: tuple[float, TensorGrammar] | None = None
        step = 0
        for tolerance in self._tolerances(evaluate):
            with one_blas_thread():
                projected, info = self._project(problem, table, weights, tolerance, progress)
                moments = list(rule_moments(projected, weights, self.threads, self.executor, progress))
            for smoothing in self.smoothing if evaluate is not None else self.smoothing[:1]:
                grammar = self._grammar(problem, projected, weights, moments, smoothing, info)
                step += 1
                if evaluate is None:
                    return grammar
                figures = evaluate(grammar)
                log.write("dev", step=step, smoothing=smoothing, tolerance=tolerance, **figures)
                score = figure_of(figures, "f1")
                if best is None or score > best[0]:
                    best = (score, grammar)
        assert best is not None
        return best[1]

    def _tolerances(self, evaluate: Evaluate | None) -> list[float]:
        if self.states != "auto" or evaluate is None:
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
        corpus = problem.trees.corpus
        most = wanted_states(32 if self.states == "auto" else self.states, corpus, self.support)
        wanted = np.where(problem.splittable(), most, 1)
        projected = project_nodes(
            table, wanted, inside=self.inside, outside=self.outside, least=self.least, kappa=self.kappa,
            dropout=self.dropout,
            tolerance=tolerance, weights=weights, seed=self.random_state, threads=self.threads,
            executor=self.executor, progress=progress,
        )  # fmt: skip
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
        smoothing: float,
        info: Mapping[str, Any],
    ) -> TensorGrammar:
        corpus = projected.corpus
        totals = np.bincount(corpus.symbol, weights=weights, minlength=len(corpus.symbols))
        mean_inside = [_mean(y, weights, projected, a) for a, y in enumerate(projected.inside)]
        mean_outside = [_mean(z, weights, projected, a) for a, z in enumerate(projected.outside)]
        tensors = [
            smoothed(moment, smoothing, mean_outside[a], mean_inside[b], mean_inside[c])
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
            {"method": "spectral", "settings": {**self.settings(), "smoothing": smoothing}, "spectral": dict(info)},
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
    corpus, observed = projected.corpus, problem.trees.observed
    keys = observed.pair_symbol.astype(np.int64) * len(corpus.words) + observed.pair_word
    leaves = np.flatnonzero(corpus.word >= 0)
    pair = np.searchsorted(keys, corpus.symbol[leaves].astype(np.int64) * len(corpus.words) + corpus.word[leaves])
    offsets = offsets_of(projected.states[observed.pair_symbol])
    sums = np.zeros(int(offsets[-1]))
    for a in range(corpus.n_interminals, len(corpus.symbols)):
        first, last = np.searchsorted(observed.pair_symbol, [a, a + 1])
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
    weights: np.ndarray | None,
    threads: int,
    executor: Executor | None,
    progress: Progress,
) -> Iterator[RuleMoments]:
    """Yield the moments of each rule, over the nodes with weight; `weights` are `(nodes,)`, None if all are 1."""
    corpus = projected.corpus
    order = np.argsort(corpus.rule, kind="stable")
    order = order[corpus.rule[order] >= 0]
    if weights is not None:
        order = order[weights[order] > 0]
    bounds = np.searchsorted(corpus.rule[order], np.arange(len(corpus.rules) + 1))
    parts = (order[first:last] for first, last in pairwise(bounds))
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
    found = map_in_order(_moments_of_rule, items, threads=threads, executor=executor)
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
    moments: RuleMoments, strength: float, outside: np.ndarray, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
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
