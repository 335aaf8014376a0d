"""Decoders: choose a tree from a chart.

`max-rule`
    The tree whose product of rule posteriors is largest (Petrov and Klein 2007), rules taken between base symbols.
`max-rule-sum`
    The same with the sum of rule posteriors: the largest expected number of correct rules.
`recall`
    The tree licensed by the grammar with the largest expected number of correct nodes, intermediate ones
    included (labelled recall, Goodman 1996; used in the papers on spectral learning).
`f1`
    The tree with the largest expected number of correct phrases, less 0.45 per phrase: a phrase raises the expected F1
    if its probability exceeds half of that F1 (Lipton et al. 2014). Phrases are those of the treebank: intermediate
    nodes do not count, unary chains count several times.
`max-rule-absolute`
    `max-rule` on the absolute values of posteriors, for real-valued grammars.
`viterbi`
    The single most probable derivation, including states; with a CRF, which has no states, its best tree.

Posteriors of real-valued grammars can be negative: `max-rule` ignores such rules, `max-rule-absolute` takes their
absolute value, the others count them as zero. With several grammars (`sapwood.inference.ensemble`), `max-rule` takes
the product of their posteriors, `max-rule-sum`, `recall` and `f1` their mean; `max-rule-absolute` and `viterbi` require
a single grammar.

Other packages can add decoders: functions like those here, `(chart, words) -> skeletal tree`, as entry points of the
group `sapwood.decoders`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from sapwood import kernels
from sapwood.inference.chart.posteriors import Forest, Posteriors
from sapwood.inference.forest.kbest import KBestList
from sapwood.runtime.registry import named
from sapwood.storage.shapes import Array, Float64
from sapwood.trees.tree import Tree, binary_from_preorder


@runtime_checkable
class ParseDistribution(Protocol):
    """Distribution over the parses of a sentence.

    `Chart` is that of a grammar, `ProductChart` that of several, `CRFChart` that of a CRF over the forest of either.
    """

    @property
    def log_probability(self) -> float:
        """Natural logarithm of the sentence's probability under the grammars."""

    @property
    def log_partition(self) -> float:
        """Natural logarithm of the sum of the weights of all trees."""

    def label_posteriors(self) -> dict[tuple[int, int, str], float]:
        """Return the marginal probability of each phrase `(start, end, label)`."""

    def best(self, words: Sequence[str]) -> Tree | None:
        """Return the best skeletal tree, None if there is none."""

    def k_best(self, words: Sequence[str], count: int) -> KBestList:
        """Return the most probable skeletal trees, the best first."""

    def sample(self, words: Sequence[str], count: int, rng: np.random.Generator) -> list[Tree]:
        """Sample skeletal trees."""

    def entropy(self) -> float:
        """Return the entropy of the distribution in nats."""


# Function that chooses a skeletal tree (base symbols; the grammar's own for `viterbi`), or None if there is none.
Decoder: TypeAlias = Callable[[Posteriors, list[str]], Tree | None]
# Decoders that work with several grammars: states of different grammars are unrelated.
PRODUCT_DECODERS = ("max-rule", "max-rule-sum", "recall", "f1")
DECODERS = (*PRODUCT_DECODERS, "max-rule-absolute", "viterbi")
GROUP = "sapwood.decoders"


def find_decoder(name: str) -> Decoder:
    """Return the built-in or plugged-in decoder of that name."""
    own: dict[str, Decoder] = {name: partial(_by_edges, decoder=name) for name in DECODERS if name != "viterbi"}
    return named(name, own | {"viterbi": _viterbi}, GROUP, "decoder")


def _by_edges(chart: Posteriors, words: list[str], decoder: str) -> Tree | None:
    leaf_score, score, gain = edge_scores(chart, decoder)
    return best_tree(chart, words, leaf_score, score, gain)


def best_tree(
    chart: Posteriors,
    words: Sequence[str],
    leaf_score: Float64[Array, "nodes"],
    score: Float64[Array, "edges"],
    gain: Float64[Array, "nodes"],
    root_score: Float64[Array, "nodes"] | None = None,
) -> Tree | None:
    """Return the skeletal tree with the largest score, summed over its leaves, edges, inner nodes and root."""
    forest, coarse = chart.forest, chart.compiled.coarse
    best, choice = kernels.best_by_edges(kernels.forest(*forest), leaf_score, score, gain)
    if root_score is not None:
        best = best + root_score
    top = chart.n * (chart.n - 1) // 2
    roots = range(forest.node_offsets[top], forest.node_offsets[top + 1])
    candidates = [node for node in roots if coarse.root[forest.node_symbol[node]] > 0 and best[node] > -np.inf]
    if not candidates:
        return None

    def children(node: int) -> tuple[int, int] | None:
        edge = choice[node]
        return None if edge < 0 else (int(forest.children[edge, 0]), int(forest.children[edge, 1]))

    root = max(candidates, key=lambda node: best[node])
    return _assemble(root, children, lambda node: coarse.symbols[forest.node_symbol[node]], words)


def edge_scores(
    chart: Posteriors, decoder: str
) -> tuple[Float64[Array, "nodes"], Float64[Array, "edges"], Float64[Array, "nodes"]]:
    """Return the scores of leaves, edges and inner nodes."""
    is_leaf = chart.forest.node_symbol >= chart.compiled.coarse.n_interminals
    if decoder == "max-rule":
        log_nodes, log_edges = chart.log_posteriors()
        return np.where(is_leaf, log_nodes, -np.inf), log_edges, np.zeros(len(log_nodes))
    if decoder == "max-rule-absolute":
        with np.errstate(divide="ignore"):
            log_nodes, log_edges = np.log(np.abs(chart.node_posterior)), np.log(np.abs(chart.edge_posterior))
        return np.where(is_leaf, log_nodes, -np.inf), log_edges, np.zeros(len(log_nodes))
    if decoder == "f1":
        forest, coarse = kernels.forest(*chart.forest), chart.compiled.native_coarse
        leaves, gain = kernels.phrase_scores(forest, coarse, chart.node_posterior)
        return leaves, np.zeros(len(chart.edge_posterior)), gain
    nodes, edges = np.maximum(chart.node_posterior, 0), np.maximum(chart.edge_posterior, 0)
    if decoder == "max-rule-sum":
        return np.where(is_leaf, nodes, -np.inf), edges, np.zeros(len(nodes))
    return np.where(is_leaf, nodes, -np.inf), np.zeros(len(edges)), nodes


def forest_edges(forest: Forest) -> dict[int, list[int]]:
    """Return the edges of each node that has any."""
    found: dict[int, list[int]] = {}
    for group, parent in enumerate(forest.group_parent.tolist()):
        edges = range(forest.group_offsets[group], forest.group_offsets[group + 1])
        found.setdefault(parent, []).extend(edges)
    return found


def _viterbi(chart: Posteriors, words: list[str]) -> Tree | None:
    return chart.best(words)


def _assemble(
    root: int, children: Callable[[int], tuple[int, int] | None], name: Callable[[int], str], words: Sequence[str]
) -> Tree:
    """Build the tree below `root` from its nodes' chosen children."""
    stack = [root]
    order: list[tuple[str, bool]] = []
    while stack:
        node = stack.pop()
        below = children(node)
        order.append((name(node), below is None))
        if below is not None:
            stack += [below[1], below[0]]
    return binary_from_preorder(order, words)
