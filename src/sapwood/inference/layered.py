"""A discriminative layer over a forest (`grammar.layer`): from a grammar's posteriors to better ones.

The grammar leaves a forest with a posterior probability for each node and edge. Of its trees `q(tree)`, the product
over the edges of posterior / the parent's posterior, is the distribution without hidden states that is nearest to the
grammar's. The layer multiplies the logarithms by weights of its own and adds weights of features that see the words:

    score(tree) = sum over edges of  a log p(edge) + b log p(parent) + w . f(edge)  +  the same for leaves and the root

and p(tree | sentence) is proportional to exp(score): a conditional random field over the forest (Finkel, Kleeman and
Manning 2008; Hall, Durrett and Klein 2014 for the features). Sums over its trees take one pass each way, and what comes
out, marginals of nodes and edges, is what decoders need to know: they take it as they take a grammar's posteriors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.grammar.layer import NO_WORDS, Layer
from sapwood.grammar.network import Network
from sapwood.inference.chart import Forest, Posteriors, Workspace
from sapwood.inference.compiled import CompiledGrammar
from sapwood.inference.decode import binary_tree, forest_edges
from sapwood.shapes import Array, Float32, Float64, UInt32, UInt64
from sapwood.trees.tree import Tree

_ODD = np.uint64(0x9E3779B97F4A7C15)
# Where nobody else scores nodes.
_NO_SCORES = np.zeros((0, 0), np.float32)


class LayerInput(NamedTuple):
    """What the kernels take of a layer and a sentence: the layer or None, the words' table, scores of a network."""

    native: Any
    words: UInt32[Array, "sentence_words columns"] = NO_WORDS
    spans: Float32[Array, "cells labels"] = _NO_SCORES
    tags: Float32[Array, "tagged_words tags"] = _NO_SCORES


@dataclass(frozen=True, eq=False, repr=False)
class LayeredChart(Posteriors):
    """What a layer makes of the posteriors of one or several grammars.

    Nodes and edges are those that it has looked at. `log_probability` is the grammars' for the sentence; a tree's is
    that times its share of all trees here.

    Attributes
    ----------
    edge_score, leaf_score, root_score
        What a tree's edges, leaves and root add to its score; -inf where a node cannot be a leaf or the root.
    log_total
        Natural logarithm of the sum of `exp(score)` over all trees.
    """

    edge_score: Float64[Array, "edges"]
    leaf_score: Float64[Array, "nodes"]
    root_score: Float64[Array, "nodes"]
    log_total: float

    def sample(self, words: Sequence[str], count: int, rng: np.random.Generator) -> list[Tree]:
        """Draw skeletal trees from the layer's distribution."""
        forest, incoming = self.forest, forest_edges(self.forest)
        top = self.n * (self.n - 1) // 2
        roots = np.arange(forest.node_offsets[top], forest.node_offsets[top + 1])
        # A node's edges are drawn by their marginals, which sum to the node's.
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
            trees.append(binary_tree(events, words))
        return trees


def apply_layer(given: LayerInput, chart: Posteriors, members: int, workspace: Workspace) -> LayeredChart | None:
    """Return what a layer makes of the chart of so many grammars; None if it leaves no tree."""
    logs = chart.log_posteriors() if members > 1 else (None, None)
    found, _, _, edge_score, leaf_score, root_score, nodes, edges, total = kernels.layer_chart(
        given.native, kernels.forest(*chart.forest), chart.node_posterior, chart.edge_posterior, *logs, members,
        given.words, given.spans, given.tags, workspace.native,
    )  # fmt: skip
    if total == -np.inf:
        return None
    forest = Forest(*found.arrays())
    return LayeredChart(
        chart.compiled, forest, chart.log_probability, nodes, edges, edge_score, leaf_score, root_score, total
    )


def native_layer(layer: Layer, compiled: CompiledGrammar, network: Network | None = None) -> Any:
    """Return the layer as the kernels have it, for the symbols and rules of a coarse grammar and another scorer."""
    symbols, tags = symbol_keys(compiled)
    with np.errstate(over="ignore"):
        rules = symbols[compiled.rule_parent]
        for child in (symbols[compiled.rule_left], symbols[compiled.rule_right]):
            rules = (rules ^ child) * _ODD
            rules ^= rules >> np.uint64(29)
    column = np.full(len(symbols), -1, np.int32)
    if network is not None:
        column = network.columns(compiled.coarse.symbols, compiled.coarse.n_interminals)
    shared = kernels.layer_symbols(symbols, tags, rules, compiled.coarse.root, column, compiled.coarse.n_interminals)
    return kernels.layer(layer.weights(), layer.dense, layer.threshold, layer.mask, shared)


def symbol_keys(compiled: CompiledGrammar) -> tuple[UInt64[Array, "coarse"], UInt64[Array, "coarse"]]:
    """Return hashes of the coarse symbols' names, and of the tags of those above words.

    Numbers of symbols differ between grammars of different trees; their names do not.
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
