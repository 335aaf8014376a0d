"""Inside-outside on observed trees: likelihoods and expected counts of a whole corpus, the E-step of EM.

A treebank says which rule stands at each node and only the states are hidden, so each tree is one pass up (figures 2
and 4 of the long paper) and one down. Per inner node of rule `a -> b c` the work is three products with the tensor
`(m_a, m_b, m_c)`: inside, outside and the sum of posteriors; nodes of the same rule and height are done together.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference._passes import NodeVectors as NodeVectors  # for others as well
from sapwood.inference._places import Recipe
from sapwood.inference._shards import prepare
from sapwood.inference.observations import Expectations as Expectations
from sapwood.inference.observations import InsidePass as InsidePass
from sapwood.inference.observations import Observed, Pairs, TreeWeights
from sapwood.run.workers import HERE, Workers
from sapwood.shapes import Array, Float64
from sapwood.trees.corpus import Corpus

# What shards are made from, beside the height of each node.
_COLUMNS = ("symbol", "rule", "left", "right", "word", "parent")


class ObservedTrees(Observed):
    """A corpus prepared for passes with any grammar that has its symbols and rules, whatever the states.

    Parameters
    ----------
    corpus
        The trees.
    pairs
        Pairs of preterminal and word, if there are more than those at the trees' leaves.
    shards
        Into how many parts to cut them; by default a number that follows from the number of nodes. Results depend
        on it in the last bits.
    workers
        Where the trees are worked on, part by part.

    Examples
    --------
    >>> from sapwood.learn.pcfg import PCFG
    >>> from sapwood.trees import Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 3)
    >>> ObservedTrees(corpus).expectations(PCFG().fit(corpus), dtype=np.float64).tensors
    array([3.])
    """

    certain = True

    def __init__(
        self, corpus: Corpus, *, pairs: Pairs | None = None, shards: int | None = None, workers: Workers = HERE
    ) -> None:
        counts = corpus.rule_counts(), corpus.symbol_counts()
        super().__init__(corpus, pairs or Pairs(*corpus.lexical_counts()[:2]), *counts, workers)
        self._spans = [[tuple(corpus.offsets[list(trees)].tolist())] for trees in self._cut(corpus.offsets, shards)]
        self.n_shards = len(self._spans)

    @cached_property
    def _recipe(self) -> Recipe:
        corpus = self.corpus
        height = np.empty(corpus.n_nodes, np.int32)
        kernels.node_heights(corpus.left, corpus.right, height)
        columns = {name: getattr(corpus, name) for name in _COLUMNS} | {"height": height}
        keys = self.pair_symbol * len(corpus.words) + self.pair_word
        sizes = len(corpus.words), len(corpus.rules)
        return Recipe(prepare, [columns], self._spans, sizes, keys, self._rule_counts)

    def _lexical_table(self, grammar: TreeWeights) -> np.ndarray:
        if not isinstance(grammar, TensorGrammar):
            return super()._lexical_table(grammar)
        return lexical_table(grammar, self.corpus)


def lexical_table(grammar: TensorGrammar, corpus: Corpus) -> Float64[Array, "lexical_entries"]:
    """Return `q(a -> x)` for all pairs of preterminal and word at the corpus' leaves, one after another.

    Words are looked up as they are in the middle of a sentence, which makes a difference for unknown ones only.
    """
    symbol, word, _ = corpus.lexical_counts()
    offsets = offsets_of(grammar.states[symbol])
    row_offsets = grammar.emissions.state_offsets
    table = np.empty(offsets[-1])
    order = np.argsort(word, kind="stable")
    known, row = -1, np.zeros(0)
    for pair in order.tolist():
        if word[pair] != known:
            known = word[pair]
            row = grammar.emissions.row(grammar.lexicon.terminal(corpus.words[known], False))
        preterminal = symbol[pair] - grammar.n_interminals
        table[offsets[pair] : offsets[pair + 1]] = row[row_offsets[preterminal] : row_offsets[preterminal + 1]]
    return table


class HeldOutTrees(NamedTuple):
    """What a grammar makes of other trees.

    Attributes
    ----------
    log_likelihood
        Per word, over the trees that have a probability.
    built
        How many trees the grammar has the rules for.
    negative
        How many of these have none: a real-valued grammar gives them a weight that is not positive.
    """

    log_likelihood: float
    built: int
    negative: int


def held_out_trees(grammar: TensorGrammar, corpus: Corpus, *, workers: Workers = HERE) -> HeldOutTrees:
    """Return how probable a grammar makes other trees, those that it cannot build left out."""
    known, _ = corpus.renumbered(grammar.symbols, grammar.n_interminals, grammar.rules)
    logs = ObservedTrees(known, workers=workers).inside(grammar).log_likelihoods
    possible = np.isfinite(logs)
    leaves = np.add.reduceat(known.word >= 0, known.offsets[:-1], dtype=np.int64)
    mean = float(logs[possible].sum() / max(leaves[possible].sum(), 1))
    return HeldOutTrees(mean, len(logs), int(np.isnan(logs).sum()))


def held_out_log_likelihood(grammar: TensorGrammar, corpus: Corpus, *, workers: Workers = HERE) -> float:
    """Return the log-likelihood per word of other trees, those without a probability left out."""
    return held_out_trees(grammar, corpus, workers=workers).log_likelihood
