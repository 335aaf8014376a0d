"""Figure 1 of Cohen and Collins (2014) from one end to the other: a treebank's statistics in, a grammar out.

From exact statistics (`population`) of a grammar that satisfies the pivot assumption `learn_parameters` gives the
grammar back (Theorem 1), and from those of a sample an estimate that tends to it. `Pivot` is the learner for treebanks,
with many features and smoothing; this is to know what the method itself does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from sapwood.grammar.tensor_grammar import TensorGrammar, plain_emissions
from sapwood.testing.pivot_parameters import PivotParameters, learn_parameters
from sapwood.testing.pivot_statistics import PivotStatistics
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import SymbolTable


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
