"""Inside-outside on observed trees: likelihoods and expected counts of a whole corpus, the E-step of EM.

In a treebank the rule at each node is known and only the states are hidden, so each tree takes one pass up (figures 2
and 4 of Cohen et al. 2014) and one down. The work per inner node of rule `a -> b c` is three products with the tensor
`(m_a, m_b, m_c)`: inside, outside and the sum of posteriors; nodes of the same rule and height are batched.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep._backends import ShardSpec
from sapwood.inference.estep._shard_estep import NodeVectors as NodeVectors  # re-exported
from sapwood.inference.estep._shard_estep import prepare
from sapwood.inference.estep.base import EStep, Pairs, TreeWeights
from sapwood.inference.estep.base import Expectations as Expectations
from sapwood.inference.estep.base import InsidePass as InsidePass
from sapwood.runtime.executor import LOCAL, Executor
from sapwood.storage.shapes import Array, Float64, Int
from sapwood.trees.corpus import Corpus

# Columns of the shards besides the height of each node.
_COLUMNS = ("symbol", "rule", "left", "right", "word", "parent")


class TreeEStep(EStep):
    """E-step over the trees of a corpus, with any grammar that has its symbols and rules, for any number of states.

    Parameters
    ----------
    corpus
        The trees.
    pairs
        Pairs of preterminal and word, if more than those at the leaves of the trees.
    shards
        Number of shards; by default it follows from the number of nodes. Results depend on it in the last bits.
    workers
        Executor of the shards.

    Examples
    --------
    >>> from sapwood.learn.lpcfg.pcfg import PCFG
    >>> from sapwood.trees import Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 3)
    >>> TreeEStep(corpus).expectations(PCFG().fit(corpus), dtype=np.float64).tensors
    array([3.])
    """

    certain = True

    def __init__(
        self, corpus: Corpus, *, pairs: Pairs | None = None, shards: int | None = None, workers: Executor = LOCAL
    ) -> None:
        counts = corpus.rule_counts(), corpus.symbol_counts()
        super().__init__(corpus, pairs or Pairs(*corpus.lexical_counts()[:2]), *counts, workers)
        self._spans = [[tuple(corpus.offsets[list(trees)].tolist())] for trees in self._cut(corpus.offsets, shards)]
        self.n_shards = len(self._spans)

    @cached_property
    def _shard_spec(self) -> ShardSpec:
        corpus = self.corpus
        height = np.empty(corpus.n_nodes, np.int32)
        kernels.node_heights(corpus.left, corpus.right, height)
        columns = {name: getattr(corpus, name) for name in _COLUMNS} | {"height": height}
        keys = self.pair_symbol * len(corpus.words) + self.pair_word
        sizes = len(corpus.words), len(corpus.rules)
        return ShardSpec(prepare, [columns], self._spans, sizes, keys, self._rule_counts)

    def _lexical_table(self, grammar: TreeWeights) -> np.ndarray:
        if not isinstance(grammar, TensorGrammar):
            return super()._lexical_table(grammar)
        return lexical_table(grammar, self.corpus)


def lexical_table(
    grammar: TensorGrammar, corpus: Corpus, symbols: Int[Array, "symbols"] | None = None
) -> Float64[Array, "lexical_entries"]:
    """Return `q(a -> x)` for all pairs of preterminal and word at the corpus' leaves, concatenated.

    Words are looked up as in the middle of a sentence, which matters only for unknown ones. `symbols` are the
    indices in the grammar of the corpus' symbols, if they differ.
    """
    symbol, word, _ = corpus.lexical_counts()
    symbol = symbol if symbols is None else symbols[symbol]
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
    """Likelihood of held-out trees under a grammar.

    Attributes
    ----------
    log_likelihood
        Per word, over the trees that have a probability.
    built
        Number of trees that the grammar can build.
    negative
        Number of these without a probability: a real-valued grammar gives them a weight that is not positive.
    """

    log_likelihood: float
    built: int
    negative: int


def held_out_trees(grammar: TensorGrammar, corpus: Corpus, *, workers: Executor = LOCAL) -> HeldOutTrees:
    """Evaluate a grammar on held-out trees, skipping those that it cannot build."""
    known, _ = corpus.renumbered(grammar.symbols, grammar.n_interminals, grammar.rules)
    logs = TreeEStep(known, workers=workers).inside(grammar).log_likelihoods
    possible = np.isfinite(logs)
    leaves = np.add.reduceat(known.word >= 0, known.offsets[:-1], dtype=np.int64)
    mean = float(logs[possible].sum() / max(leaves[possible].sum(), 1))
    return HeldOutTrees(mean, len(logs), int(np.isnan(logs).sum()))
