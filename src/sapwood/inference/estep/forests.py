"""Inside-outside on packed forests: the E-step of EM for unlabelled or partially annotated sentences.

The counterpart of `TreeEStep` for packed sets of trees (`sapwood.inference.forest.packed`): likelihoods are sums
over all trees of a sentence, and expected counts are averages over them by their posteriors. Passes, shards and sums
are the same, and so is the result if each forest has one tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sapwood.inference.estep._backends import ShardSpec
from sapwood.inference.estep.base import EStep, Pairs
from sapwood.runtime.dask.array_store import Part
from sapwood.runtime.executor import LOCAL, Executor
from sapwood.storage.shapes import Array, Bool, Float32, Float64, Int32, Int64
from sapwood.trees.corpus import Corpus


@dataclass(frozen=True, eq=False)
class ForestArrays:
    """Forests over the symbols and rules of a corpus, laid out for the E-step.

    Attributes
    ----------
    symbol, word
        Symbol and word of each node, grouped by sentence with children before their parents; -1 without a word.
    edges
        Rule, parent, left and right child as node indices, sorted by parent; the second child of a unary step is -1.
    factor
        Factor by which each edge multiplies its trees.
    edge_posterior
        Expected count of each edge under the model that built the forest.
    roots, root_factor, root_posterior
        Possible root nodes, sentence by sentence.
    offsets, edge_offsets, root_offsets
        Offsets of the nodes, edges and roots of each sentence.
    """

    symbol: Int32[Array, "nodes"]
    word: Int32[Array, "nodes"]
    edges: Int32[Array, "edges 4"]
    factor: Float32[Array, "edges"]
    edge_posterior: Float64[Array, "edges"]
    roots: Int32[Array, "roots"]
    root_factor: Float32[Array, "roots"]
    root_posterior: Float64[Array, "roots"]
    offsets: Int64[Array, "bounds"]
    edge_offsets: Int64[Array, "bounds"]
    root_offsets: Int64[Array, "bounds"]

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.offsets) - 1


class LeafCounts(NamedTuple):
    """Expected number of words with preterminals, and whether they are sentence-initial."""

    symbol: Int32[Array, "leaves"]
    word: Int32[Array, "leaves"]
    initial: Bool[Array, "leaves"]
    times: Float64[Array, "leaves"]


@dataclass(frozen=True, eq=False)
class TrainingForests:
    """Weighted forests to learn from, with the posteriors of the model that built them.

    Attributes
    ----------
    trees
        The forests.
    weight
        Weight of each sentence, where a tree has weight 1. All counts here are multiplied by it.
    posterior
        Expected count of each node.
    initial
        True if the node begins its sentence.
    lost
        Number of sentences without a tree.
    """

    trees: ForestArrays
    weight: float
    posterior: Float64[Array, "nodes"]
    initial: Bool[Array, "nodes"]
    lost: int = 0

    @cached_property
    def leaves(self) -> LeafCounts:
        """Expected counts at the leaves."""
        leaf = self.trees.word >= 0
        times = self.weight * self.posterior[leaf]
        return LeafCounts(self.trees.symbol[leaf], self.trees.word[leaf], self.initial[leaf], times)

    def rule_counts(self, n_rules: int) -> Float64[Array, "rules"]:
        """Return the expected count of each rule."""
        return self.weight * np.bincount(self.trees.edges[:, 0], self.trees.edge_posterior, n_rules)

    def symbol_counts(self, n_symbols: int) -> Float64[Array, "symbols"]:
        """Return the expected count of each symbol."""
        return self.weight * np.bincount(self.trees.symbol, self.posterior, n_symbols)

    def root_counts(self, n_symbols: int) -> Float64[Array, "symbols"]:
        """Return the expected count of each symbol at the root."""
        return self.weight * np.bincount(self.trees.symbol[self.trees.roots], self.trees.root_posterior, n_symbols)


class ForestEStep(EStep):
    """E-step over forests, with any grammar that has a corpus' symbols and rules, for any number of states.

    Parameters
    ----------
    packed
        The forests.
    corpus
        Corpus that defines their symbols and rules.
    pairs
        All pairs of preterminal and word that occur, here or in trees used for training as well.
    shards, workers
        As for `TreeEStep`.
    """

    certain = False

    def __init__(
        self,
        packed: ForestArrays,
        corpus: Corpus,
        pairs: Pairs,
        *,
        shards: int | None = None,
        workers: Executor = LOCAL,
    ) -> None:
        n_rules = max(len(corpus.rules), 1)
        groups = np.unique(packed.edges[:, 1].astype(np.int64) * n_rules + packed.edges[:, 0])
        counts = np.bincount(groups % n_rules, minlength=len(corpus.rules))
        symbols = np.bincount(packed.symbol, minlength=len(corpus.symbols))
        super().__init__(corpus, pairs, counts, symbols, workers)
        self._packed, self._cuts = packed, self._cut(packed.offsets, shards)
        self.n_shards = len(self._cuts)

    @cached_property
    def _shard_spec(self) -> ShardSpec:
        packed, corpus = self._packed, self.corpus
        tables: list[dict[str, np.ndarray]] = [
            {"symbol": packed.symbol, "word": packed.word},
            {"edges": packed.edges, "factor": packed.factor},
            {"roots": packed.roots, "factor": packed.root_factor},
            {"roots": packed.root_offsets},
        ]
        spans = []
        for first, last in self._cuts:
            starts = [int(offsets[first]) for offsets in (packed.offsets, packed.edge_offsets, packed.root_offsets)]
            ends = [int(offsets[last]) for offsets in (packed.offsets, packed.edge_offsets, packed.root_offsets)]
            spans.append([*zip(starts, ends, strict=True), (first, last + 1)])
        keys = self.pair_symbol * len(corpus.words) + self.pair_word
        return ShardSpec(prepare_forests, tables, spans, (len(corpus.words),), keys, self._rule_counts)


@dataclass(frozen=True, eq=False)
class ForestShard:
    """Consecutive sentences, laid out; see `native/estep/forests.cpp` for the order of the nodes."""

    nodes: Int64[Array, "nodes"]
    symbol: Int32[Array, "nodes"]
    n_leaves: int
    pairs: Int64[Array, "pairs"]
    pair_nodes: Int64[Array, "pair_bounds"]
    node_groups: Int64[Array, "inner_bounds"]
    group_rule: Int32[Array, "groups"]
    group_parent: Int32[Array, "groups"]
    group_edges: Int64[Array, "group_bounds"]
    children: Int32[Array, "edges 2"]
    factor: Float32[Array, "edges"]
    rules: Int32[Array, "rules"]
    rule_groups: Int64[Array, "rule_bounds"]
    members: Int64[Array, "groups"]
    roots: Int32[Array, "roots"]
    root_offsets: Int64[Array, "sentence_bounds"]
    root_factor: Float32[Array, "roots"]

    @property
    def n_sentences(self) -> int:
        """Number of forests."""
        return len(self.root_offsets) - 1


def prepare_forests(
    parts: tuple[Part, Part, Part, Part], first: int, n_words: int, pair_keys: Int64[Array, "all_pairs"]
) -> ForestShard:
    """Lay out the nodes of whole sentences; `first` is the index of the first node."""
    nodes, edges, roots, sentences = parts
    columns, links, tops = nodes.load(), edges.load(), roots.load()
    symbol, word = columns["symbol"], columns["word"]
    leaf = word >= 0
    pair = np.searchsorted(pair_keys, symbol.astype(np.int64) * n_words + word)
    order = np.lexsort((np.where(leaf, pair, np.arange(len(symbol))), ~leaf))
    place = np.full(len(symbol) + 1, -1, np.int32)  # the last is for a missing child
    place[order] = np.arange(len(symbol), dtype=np.int32)
    n_leaves = int(leaf.sum())
    pairs, pair_starts = np.unique(pair[order[:n_leaves]], return_index=True)
    rule, parent, left, right = links["edges"].astype(np.int64).T
    parent = place[parent - first].astype(np.int64)
    by_group = np.lexsort((rule, parent))
    rule, parent = rule[by_group], parent[by_group]
    starts = np.flatnonzero(np.r_[True, (rule[1:] != rule[:-1]) | (parent[1:] != parent[:-1])][: len(rule)])
    group_rule, group_parent = rule[starts], parent[starts]
    children = np.stack([place[left - first], place[np.where(right < 0, -1, right - first)]], axis=1)[by_group]
    members = np.argsort(group_rule, kind="stable")
    rules, rule_starts = np.unique(group_rule[members], return_index=True)
    root_offsets = sentences.load()["roots"]
    return ForestShard(
        nodes=first + order,
        symbol=symbol[order],
        n_leaves=n_leaves,
        pairs=pairs,
        pair_nodes=np.append(pair_starts, n_leaves),
        node_groups=np.searchsorted(group_parent, np.arange(n_leaves, len(symbol) + 1)),
        group_rule=group_rule.astype(np.int32),
        group_parent=group_parent.astype(np.int32),
        group_edges=np.append(starts, len(rule)),
        children=children.astype(np.int32),
        factor=np.ascontiguousarray(links["factor"][by_group]),
        rules=rules.astype(np.int32),
        rule_groups=np.append(rule_starts, len(members)),
        members=members,
        roots=place[tops["roots"] - first],
        root_offsets=root_offsets - root_offsets[0],
        root_factor=np.ascontiguousarray(tops["factor"]),
    )
