"""Figure 1 of Cohen and Collins (2014) as it stands: one inside and one outside feature a node, no smoothing.

From exact statistics (`population`) of a grammar that satisfies the pivot assumption this gives the grammar back
(Theorem 1), and from those of a sample an estimate that tends to it. `Pivot` is the learner for treebanks, with many
features and smoothing; this is to know what the method itself does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import scipy.sparse

from sapwood.grammar.tensor_grammar import TensorGrammar, plain_emissions
from sapwood.learn.pivot import _rule_kernels as kernels
from sapwood.learn.pivot.concave import Optimum, maximise
from sapwood.learn.pivot.decomposition import Columns, Decomposition, Representation, decompose
from sapwood.learn.pivot.statistics import PivotStatistics
from sapwood.trees.corpus import Corpus

_CHUNK = 256


def observed_statistics(corpus: Corpus) -> PivotStatistics:
    """Return the statistics of a treebank with the features of `population`: expansions, and rules above."""
    parent, n_words = corpus.parent, len(corpus.words)
    is_right = (parent >= 0) & (corpus.right[parent] == np.arange(corpus.n_nodes))
    expansion = np.where(corpus.word >= 0, corpus.word, corpus.rule).astype(np.int64)
    attachment = np.where(parent >= 0, 1 + 2 * corpus.rule[parent].astype(np.int64) + is_right, 0)
    n_symbols = len(corpus.symbols)
    # Numbers of features within each symbol, and which expansions and attachments they are.
    inside, outside = np.zeros(corpus.n_nodes, np.int64), np.zeros(corpus.n_nodes, np.int64)
    pairs, word_feature = [], []
    root_feature = np.full(n_symbols, -1, np.int64)
    for a in range(n_symbols):
        nodes = np.flatnonzero(corpus.symbol == a)
        below, inside[nodes] = np.unique(expansion[nodes], return_inverse=True)
        above, outside[nodes] = np.unique(attachment[nodes], return_inverse=True)
        ones = np.ones(len(nodes))
        shape = len(below), len(above)
        pairs.append(scipy.sparse.coo_array((ones, (inside[nodes], outside[nodes])), shape=shape).tocsr())
        root_feature[a] = 0 if len(above) and above[0] == 0 else -1
        if a >= corpus.n_interminals:
            feature = np.full(n_words, -1, np.int64)
            feature[below] = np.arange(len(below))
            word_feature.append(feature)
    triples = []
    for rule in range(len(corpus.rules)):
        nodes = np.flatnonzero(corpus.rule == rule)
        around = np.stack([outside[nodes], inside[corpus.left[nodes]], inside[corpus.right[nodes]]], axis=1)
        distinct, counts = np.unique(around, axis=0, return_counts=True)
        triples.append((distinct, counts.astype(float)))
    return PivotStatistics(
        symbols=corpus.symbols,
        n_interminals=corpus.n_interminals,
        rules=corpus.rules,
        counts=np.bincount(corpus.symbol, minlength=n_symbols).astype(float),
        rule_counts=np.bincount(corpus.rule[corpus.rule >= 0], minlength=len(corpus.rules)).astype(float),
        pairs=pairs,
        triples=triples,
        word_feature=word_feature,
        root_feature=root_feature,
    )


def learn_from_statistics(
    statistics: PivotStatistics,
    words: Sequence[str],
    states: int | Sequence[int] | np.ndarray,
    *,
    columns: Columns = "align",
    representation: Representation = "cca",
    least: float = 0.0,
    iterations: int = 2000,
    tolerance: float = 1e-10,
    random_state: int = 0,
) -> TensorGrammar:
    """Return the grammar of figure 1.

    Parameters
    ----------
    statistics
        Step 0.
    words
        Names of the terminals.
    states
        The most states of all symbols, or of each.
    columns, representation, least, iterations, tolerance, random_state
        As for `decompose`; the last but one also of equation 1.
    """
    limits = np.broadcast_to(states, (len(statistics.symbols),))
    one = partial(
        decompose, columns=columns, representation=representation, least=least, iterations=iterations,
        tolerance=tolerance, random_state=random_state,
    )  # fmt: skip
    found = [one(pairs, int(limit)) for pairs, limit in zip(statistics.pairs, limits, strict=True)]
    sizes = np.array([part.states for part in found], np.int32)
    joint = [
        statistics.rule_counts[rule] * solve_rule(statistics, found, rule, iterations, tolerance).weights
        for rule in range(len(statistics.rules))
    ]
    n_inner = statistics.n_interminals
    vectors = {
        (p, int(x)): found[n_inner + p].rows[feature[x]]
        for p, feature in enumerate(statistics.word_feature)
        for x in np.flatnonzero(feature >= 0)
    }
    root = [np.zeros(size) for size in sizes]
    for a, feature in enumerate(statistics.root_feature):
        if feature >= 0:
            root[a] = statistics.counts[a] * found[a].prior * found[a].columns[feature]
    tensors = _given_parent(statistics, joint, sizes)
    occupancy = [count * part.prior for count, part in zip(statistics.counts, found, strict=True)]
    tags = list(statistics.symbols[n_inner:])
    return TensorGrammar(
        symbols=list(statistics.symbols),
        n_interminals=n_inner,
        states=sizes,
        rules=statistics.rules,
        tensors=np.concatenate([tensor.ravel() for tensor in tensors] or [np.zeros(0)]),
        root=np.concatenate(root) / sum(row.sum() for row in root),
        emissions=plain_emissions(list(words), tags, sizes[n_inner:], vectors),
        probabilistic=True,
        occupancy=np.concatenate(occupancy),
        rule_counts=statistics.rule_counts,
        info={"method": "pivot, from statistics"},
    ).validate()


def solve_rule(
    statistics: PivotStatistics,
    found: Sequence[Decomposition],
    rule: int,
    iterations: int,
    tolerance: float,
) -> Optimum:
    """Return `t(h1, h2, h3 | a -> b c)`, `(m_a, m_b, m_c)`, that maximises equation 1.

    Triples that no `t` explains are left out; without any other all states are equally probable.
    """
    a, b, c = statistics.rules[rule].tolist()
    triples, counts = statistics.triples[rule]
    parts = [found[a].columns[triples[:, 0]], found[b].rows[triples[:, 1]], found[c].rows[triples[:, 2]]]
    shape = tuple(part.shape[1] for part in parts)
    known = np.logical_and.reduce([part.any(axis=1) for part in parts])
    outside, left, right = (np.ascontiguousarray(part[known]) for part in parts)
    weights = counts[known] / counts[known].sum() if known.any() else counts[known]
    gradient = np.empty((shape[0], shape[1] * shape[2]))

    def evaluate(t: np.ndarray) -> tuple[float, np.ndarray]:
        tensor = np.ascontiguousarray(t.reshape(gradient.shape))
        value = kernels.rule_pass(outside, left, right, weights, tensor, _CHUNK, gradient)
        return float(value), gradient.reshape(shape).copy()

    start = np.full(shape, 1.0 / np.prod(shape))
    if not known.any():
        return Optimum(start, [0.0], True)
    return maximise(evaluate, start, iterations=iterations, tolerance=tolerance)


def _given_parent(statistics: PivotStatistics, joint: list[np.ndarray], sizes: np.ndarray) -> list[np.ndarray]:
    """Step 3: normalise for each state of the parent; a state that nothing leads to gets what all have on average."""
    totals = [np.zeros(size) for size in sizes]
    for (a, _, _), weights in zip(statistics.rules.tolist(), joint, strict=True):
        totals[a] += weights.sum(axis=(1, 2))
    tensors = []
    for (a, _, _), weights in zip(statistics.rules.tolist(), joint, strict=True):
        own = totals[a][:, None, None]
        mean = np.broadcast_to(weights.sum(axis=0) / totals[a].sum(), weights.shape)
        tensors.append(np.where(own > 0, weights / np.where(own > 0, own, 1.0), mean))
    return tensors
