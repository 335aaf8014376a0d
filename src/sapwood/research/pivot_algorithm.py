"""Pivot algorithm as figure 1 of Cohen and Collins (2014) prints it: a treebank's statistics in, a grammar out.

There is one inside and one outside feature for each node. With the statistics of infinite data
(`population_statistics`) from an L-PCFG whose states all have pivots, `learn_from_statistics` returns that grammar, up
to the order of each symbol's states (Theorem 1), and from those of a sample an estimate that tends to it. `Pivot` is
the learner for treebanks, with many features and smoothing; this is the method on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.grammar.tensor_grammar import TensorGrammar, plain_emissions
from sapwood.numerics.anchor_nmf import Columns, Decomposition, decompose
from sapwood.numerics.simplex import Optimum, maximise
from sapwood.research.pivot_statistics import PivotStatistics
from sapwood.storage.shapes import Array, Float, Int, Int32
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import SymbolTable

_CHUNK = 256


@dataclass(frozen=True, eq=False)
class PivotParameters:
    """An L-PCFG's own parameters.

    Attributes
    ----------
    states
        How many each symbol has.
    rules
        By rule `t(a -> b c, h2, h3 | a, h1)`.
    words
        By preterminal `q(a -> x | a, h)`.
    root
        By symbol `pi(a, h)`.
    decompositions
        By symbol, those of step 1.
    """

    states: Int32[Array, "symbols"]
    rules: list[Float[Array, "m_a m_b m_c"]]
    words: list[Float[Array, "terminals m_a"]]
    root: list[Float[Array, "m_a"]]
    decompositions: list[Decomposition]


def fit_rule(
    outside: Float[Array, "triples m_a"],
    left: Float[Array, "triples m_b"],
    right: Float[Array, "triples m_c"],
    weights: Float[Array, "triples"],
    *,
    start: Float[Array, "m_a m_b m_c"] | None = None,
    iterations: int = 2000,
    tolerance: float = 1e-10,
) -> Optimum:
    """Maximise `sum w log sum t(h1,h2,h3) outside(h1) left(h2) right(h3)` over distributions `t` (equation 1).

    Parameters
    ----------
    outside, left, right
        `s(g|h1,a)`, `r(f2|h2,b)` and `r(f3|h3,c)` of the triples.
    weights
        How often each triple occurs; divided by their sum.
    start, iterations, tolerance
        See `maximise`; the start is by default uniform.
    """
    shape = outside.shape[1], left.shape[1], right.shape[1]
    own = [np.ascontiguousarray(each, float) for each in (outside, left, right, weights / weights.sum())]
    first = np.full(shape, 1.0 / np.prod(shape)) if start is None else start

    def evaluate(tensor: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.empty((shape[0], shape[1] * shape[2]))
        flat = np.ascontiguousarray(tensor.reshape(gradient.shape))
        value = kernels.rule_pass(own[0], own[1], own[2], own[3], flat, _CHUNK, gradient)
        return value, gradient.reshape(shape)

    return maximise(evaluate, first, iterations=iterations, tolerance=tolerance)


def learn_parameters(
    statistics: PivotStatistics,
    states: int | Sequence[int],
    *,
    columns: Columns = "align",
    least: float = 0.0,
    iterations: int = 2000,
    tolerance: float = 1e-10,
) -> PivotParameters:
    """Run figure 1 and section 6.1.

    Parameters
    ----------
    statistics
        Counts of rules and features, step 0.
    states
        The most states of every symbol, or of each; symbols whose features tell fewer apart get fewer.
    columns, least, iterations, tolerance
        As for `decompose`; the last two hold for equation 1 as well.
    """
    limits = np.broadcast_to(states, (len(statistics.symbols),))
    found = [
        decompose(pairs, int(limit), columns=columns, min_count=least, iterations=iterations, tolerance=tolerance)
        for pairs, limit in zip(statistics.pairs, limits, strict=True)
    ]
    joint = []
    for (a, b, c), (features, counts) in zip(statistics.rules.tolist(), statistics.triples, strict=True):
        optimum = fit_rule(
            found[a].columns[features[:, 0]], found[b].rows[features[:, 1]], found[c].rows[features[:, 2]], counts,
            iterations=iterations, tolerance=tolerance,
        )  # fmt: skip
        joint.append(optimum.weights * counts.sum())
    totals = [np.zeros(each.states) for each in found]
    for (a, _, _), tensor in zip(statistics.rules.tolist(), joint, strict=True):
        totals[a] += tensor.sum(axis=(1, 2))
    rules = [
        tensor / np.where(totals[a] > 0, totals[a], 1.0)[:, None, None]
        for (a, _, _), tensor in zip(statistics.rules.tolist(), joint, strict=True)
    ]
    words = []
    for each, features in zip(found[statistics.n_interminals :], statistics.word_feature, strict=True):
        words.append(np.where(features[:, None] >= 0, each.rows[np.maximum(features, 0)], 0.0))
    root = []
    for each, feature, count in zip(found, statistics.root_feature, statistics.counts, strict=True):
        root.append(each.columns[feature] * each.prior * count if feature >= 0 else np.zeros(each.states))
    whole = sum(float(part.sum()) for part in root)
    return PivotParameters(
        states=np.array([each.states for each in found], np.int32),
        rules=rules,
        words=words,
        root=[part / whole for part in root],
        decompositions=found,
    )


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
    states: int | Sequence[int] | Int[Array, "symbols"],
    **settings: Any,
) -> TensorGrammar:
    """Return the grammar of figure 1; nothing is smoothed.

    Parameters
    ----------
    statistics
        Step 0.
    words
        Names of the terminals.
    states, settings
        As for `learn_parameters`.
    """
    found = learn_parameters(statistics, np.broadcast_to(states, (len(statistics.symbols),)).tolist(), **settings)
    n_inner = statistics.n_interminals
    vectors = {
        (p, int(x)): found.words[p][x]
        for p, feature in enumerate(statistics.word_feature)
        for x in np.flatnonzero(feature >= 0)
    }
    priors = [part.prior for part in found.decompositions]
    tensors = _with_all_states(statistics, found)
    return TensorGrammar(
        symbols=SymbolTable.from_names(statistics.symbols),
        n_interminals=n_inner,
        states=found.states,
        rules=statistics.rules,
        tensors=np.concatenate([tensor.ravel() for tensor in tensors] or [np.zeros(0)]),
        root=np.concatenate(found.root),
        emissions=plain_emissions(list(words), statistics.symbols[n_inner:], found.states[n_inner:], vectors),
        probabilistic=True,
        occupancy=np.concatenate([count * prior for count, prior in zip(statistics.counts, priors, strict=True)]),
        rule_counts=statistics.rule_counts,
        info={"method": "pivot, from statistics"},
    ).validate()


def _with_all_states(statistics: PivotStatistics, found: PivotParameters) -> list[np.ndarray]:
    """Return the rule tensors; a state that no rule leads from gets its symbol's rules, whatever the children's states.

    In a small sample equation 1 may give a state no part in any rule.
    """
    totals = [np.zeros(size) for size in found.states]
    for a, tensor in zip(statistics.rules[:, 0], found.rules, strict=True):
        totals[a] += tensor.sum(axis=(1, 2))
    tensors = []
    for rule, (a, tensor) in enumerate(zip(statistics.rules[:, 0], found.rules, strict=True)):
        usual = statistics.rule_counts[rule] / statistics.counts[a] / (tensor.shape[1] * tensor.shape[2])
        tensors.append(np.where(totals[a][:, None, None] > 0, tensor, usual))
    return tensors
