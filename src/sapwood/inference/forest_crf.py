"""Forest CRF: a discriminative model that improves a grammar's posteriors over its forest (`sapwood.model.forest_crf`).

The grammar provides a forest with a posterior for each node and edge. The distribution over its trees `q(tree)`, the
product over the edges of posterior / the parent's posterior, is the one without hidden states that is closest to the
grammar's. The CRF multiplies the logarithms by its own weights and adds the weights of features of the words:

    score(tree) = sum over edges of  a log p(edge) + b log p(parent) + w . f(edge)  +  the same for leaves and the root

and p(tree | sentence) is proportional to exp(score): a conditional random field over the forest (Finkel, Kleeman and
Manning 2008; Hall, Durrett and Klein 2014 for the features). Sums over its trees take one inside and one outside pass.
Decoders use the resulting marginals of nodes and edges in place of a grammar's posteriors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.inference.chart.compiled import CompiledGrammar
from sapwood.inference.chart.posteriors import Forest, Posteriors, Workspace
from sapwood.inference.decode import best_tree, forest_edges
from sapwood.inference.forest.kbest import KBestList, k_best_by_scores
from sapwood.inference.span_scorer import AnySpanScorer
from sapwood.model.forest_crf import NO_WORDS, ForestCRF
from sapwood.storage.shapes import Array, Float32, Float64, UInt32, UInt64
from sapwood.trees.tree import Tree, binary_from_preorder

_ODD = np.uint64(0x9E3779B97F4A7C15)
# Used without another scorer of nodes.
_NO_SCORES = np.zeros((0, 0), np.float32)


class CRFInput(NamedTuple):
    """Kernel input: the CRF or None, the feature table of the words, scores of the span scorer."""

    native: Any
    words: UInt32[Array, "sentence_words columns"] = NO_WORDS
    spans: Float32[Array, "cells labels"] = _NO_SCORES
    tags: Float32[Array, "tagged_words tags"] = _NO_SCORES


@dataclass(frozen=True, eq=False, repr=False)
class CRFChart(Posteriors):
    """Marginals of a CRF on top of the posteriors of one or several grammars.

    Nodes and edges are those that the CRF has scored. `log_probability` of the sentence is the grammars'; that of a
    tree is this plus the log of its share of all trees.

    Attributes
    ----------
    edge_score, leaf_score, root_score
        Contribution of edges, leaves and root to the score of a tree; -inf where a node cannot be a leaf or the root.
    log_total
        Natural logarithm of the sum of `exp(score)` over all trees.
    """

    edge_score: Float64[Array, "edges"]
    leaf_score: Float64[Array, "nodes"]
    root_score: Float64[Array, "nodes"]
    log_total: float

    @property
    def log_partition(self) -> float:
        """Natural logarithm of the sum of `exp(score)` over all trees."""
        return self.log_total

    def best(self, words: Sequence[str]) -> Tree | None:
        """Return the tree with the highest score."""
        gain = np.zeros(len(self.leaf_score))
        return best_tree(self, words, self.leaf_score, self.edge_score, gain, self.root_score)

    def k_best(self, words: Sequence[str], count: int, workspace: Workspace | None = None) -> KBestList:
        """Return the trees with the highest scores, exactly.

        A tree has the probability of the sentence times that of the tree under the CRF; none has any if the sentence
        has none under the grammars.
        """
        scores = self.leaf_score, self.edge_score, self.root_score
        return k_best_by_scores(self, words, count, scores, self.log_probability - self.log_total, workspace)

    def sample(self, words: Sequence[str], count: int, rng: np.random.Generator) -> list[Tree]:
        """Sample skeletal trees from the CRF."""
        forest, incoming = self.forest, forest_edges(self.forest)
        top = self.n * (self.n - 1) // 2
        roots = np.arange(forest.node_offsets[top], forest.node_offsets[top + 1])
        # The edges of a node are sampled by their marginals, which sum to the node's.
        shares = {node: _normal(self.edge_posterior[edges]) for node, edges in incoming.items()}
        symbols = self.compiled.coarse.symbols
        trees = []
        for _ in range(count):
            stack = [int(rng.choice(roots, p=_normal(self.node_posterior[roots])))]
            events: list[tuple[str, bool]] = []
            while stack:
                node = stack.pop()
                leaf = node not in incoming
                events.append((symbols[forest.node_symbol[node]], leaf))
                if not leaf:
                    left, right = forest.children[int(rng.choice(incoming[node], p=shares[node]))].tolist()
                    stack += [right, left]
            trees.append(binary_from_preorder(events, words))
        return trees


def rescore(given: CRFInput, chart: Posteriors, members: int, workspace: Workspace) -> CRFChart | None:
    """Rescore the chart of `members` grammars with a CRF; None if no tree is left."""
    log_nodes, log_edges = chart.log_posteriors() if members > 1 else (None, None)
    found, _, _, edge_score, leaf_score, root_score, nodes, edges, total = kernels.crf_chart(
        given.native, kernels.forest(*chart.forest), chart.node_posterior, chart.edge_posterior, log_nodes, log_edges,
        members, given.words, given.spans, given.tags, workspace.native,
    )  # fmt: skip
    if total == -np.inf:
        return None
    forest = Forest(*found.arrays())
    return CRFChart(
        chart.compiled, forest, chart.log_probability, nodes, edges, edge_score, leaf_score, root_score, total
    )


def native_crf(
    crf: ForestCRF, compiled: CompiledGrammar, span_scorer: AnySpanScorer | None = None
) -> kernels.ForestCRF:
    """Return the CRF as a kernel object for the symbols and rules of a coarse grammar and an optional span scorer."""
    symbols, tags = symbol_keys(compiled)
    with np.errstate(over="ignore"):
        rules = symbols[compiled.rule_parent]
        for child in (symbols[compiled.rule_left], symbols[compiled.rule_right]):
            rules = (rules ^ child) * _ODD
            rules ^= rules >> np.uint64(29)
    column = np.full(len(symbols), -1, np.int32)
    if span_scorer is not None:
        column = span_scorer.columns(compiled.coarse.symbols, compiled.coarse.n_interminals)
    shared = kernels.crf_symbols(symbols, tags, rules, compiled.coarse.root, column, compiled.coarse.n_interminals)
    return kernels.crf(crf.weights(), crf.dense, crf.threshold, crf.mask, shared)


def symbol_keys(compiled: CompiledGrammar) -> tuple[UInt64[Array, "coarse"], UInt64[Array, "coarse"]]:
    """Return hashes of the names of coarse symbols, and of the tags of preterminals.

    Symbol indices differ between grammars of different trees; names do not.
    """
    coarse = compiled.coarse
    names = [f"{'t' if s >= coarse.n_interminals else 'n'}{name}" for s, name in enumerate(coarse.symbols)]
    return _keys(names), _keys([f"tag {tag}" for tag in coarse.symbols.tags])


def _keys(names: Sequence[str]) -> np.ndarray:
    texts = (name.encode("utf-8", "surrogatepass") for name in names)
    return np.array(
        [int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts], np.uint64
    )


def _normal(weights: np.ndarray) -> np.ndarray:
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1 / len(weights))
