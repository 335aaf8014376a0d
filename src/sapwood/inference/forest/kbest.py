"""k-best trees, and the exact probability of a tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.inference.chart.compiled import CompiledGrammar, Leaf
from sapwood.inference.chart.posteriors import Posteriors, Workspace
from sapwood.storage.shapes import Array, Float64, Int32
from sapwood.trees.transform import base_tree
from sapwood.trees.tree import Tree, binary_from_preorder


class Derivation(NamedTuple):
    """A tree and the logarithm of its probability, summed over states."""

    tree: Tree
    log_probability: float


# Number of partial trees that the search may score before it settles for a bound.
LIMIT = 200_000
# Tolerance in comparing bounds with probabilities: charts may be in single precision.
_TOLERANCE = 1e-4


class KBestList(list[Derivation]):
    """k-best trees, the most probable first.

    Attributes
    ----------
    bound
        Upper bound on the `log_probability` of all trees that are not in the list: -inf if there are no others, inf if
        nothing is known about them. Pruned trees are excluded; a threshold of 0 prunes none, except those that have no
        probability under the CRF because of its own threshold.
    """

    def __init__(self, trees: Iterable[Derivation] = (), bound: float = -math.inf) -> None:
        super().__init__(trees)
        self.bound = bound

    @property
    def exact(self) -> bool:
        """True if no other tree is more probable than those in the list."""
        return self.bound <= (self[-1].log_probability if self else -math.inf) + _TOLERANCE


def tree_log_probability(compiled: CompiledGrammar, leaves: Sequence[Leaf], tree: Tree, row: int = 0) -> float:
    """Return `log p(tree)` of a skeletal tree over base symbols, summed over all finer symbols and states.

    This is figure 4 of the long paper with a running scale; -inf if the grammar cannot build the tree, NaN if a
    real-valued grammar gives it a negative weight.
    """
    rules, offsets = compiled.rule_numbers, compiled.symbol_offsets
    remaining = iter(leaves)
    scale = 0.0
    coarse = compiled.coarse

    def visit(node: Tree, below: list[tuple[int, np.ndarray]]) -> tuple[int, np.ndarray]:
        nonlocal scale
        try:
            symbol = coarse.symbol_number(node.label, preterminal=node.word is not None)
        except KeyError:
            symbol = -1
        if node.word is not None:
            vector = next(remaining).vector(row, symbol)
            if not len(vector):
                vector = np.zeros(compiled.vector_sizes[symbol] if symbol >= 0 else 0)
        else:
            (b, left), (c, right) = below
            rule = rules.get((symbol, b, c))
            vector = np.zeros(compiled.vector_sizes[symbol] if symbol >= 0 else 0)
            if rule is not None:
                for fine in range(compiled.fine_offsets[rule], compiled.fine_offsets[rule + 1]):
                    (at, place_b, place_c), (m_a, m_b, m_c) = compiled.fine_places[fine], compiled.fine_states[fine]
                    begin = compiled.tensor_offsets[fine]
                    tensor = compiled.tensors[begin : begin + m_a * m_b * m_c].reshape(m_a, m_b, m_c)
                    y, z = left[place_b : place_b + m_b], right[place_c : place_c + m_c]
                    vector[at : at + m_a] += np.einsum("abc,b,c->a", tensor.astype(float), y, z)
        largest = float(np.abs(vector).max(initial=0.0))
        if largest == 0:
            scale = -math.inf
            return symbol, vector
        scale += math.log(largest)
        return symbol, vector / largest

    symbol, vector = tree.fold(visit)
    if scale == -math.inf or symbol < 0:
        return -math.inf
    total = float(vector @ compiled.root[offsets[symbol] : offsets[symbol + 1]].astype(float))
    return math.log(total) + scale if total > 0 else (-math.inf if total == 0 else math.nan)


def k_best(
    chart: Posteriors,
    words: Sequence[str],
    count: int,
    log_probability: Callable[[Tree], float],
    workspace: Workspace | None = None,
    *,
    charts: Sequence[Posteriors] = (),
    n_grammars: int = 1,
    limit: int = LIMIT,
) -> KBestList:
    """Return the `count` most probable trees of a forest under grammars.

    The search is lazy (Huang and Chiang 2005, "Better k-best parsing"). The trees of a grammar with one state per
    symbol are exact. Finding the most probable trees of a grammar with hidden states is NP-hard in general;
    here the search ranks partial trees by an upper bound of their probability, given the state of their root, and
    ends when no unseen tree can be more probable than those found. If that takes more than `limit` partial trees, the
    list holds the best trees so far, among them that of the Viterbi derivation or better ones; `KBestList.bound` limits
    the probability of all others. Nothing is known about the others under a real-valued grammar.

    Parameters
    ----------
    chart
        Posteriors of the sentence under a grammar or several.
    words
        Words of the sentence.
    count
        Number of trees.
    log_probability
        Function that returns `log p(tree)` of a skeletal tree over base symbols.
    workspace
        Workspace with the limits of time and memory.
    charts
        Charts of the probabilistic grammars that make up the mixture; the trees of a mixture are ranked by its
        probability. Empty if all grammars are real-valued.
    n_grammars
        Number of grammars of the mixture, including those without a parse.
    limit
        Number of partial trees to score at most.
    """
    if count == 0:
        return KBestList(bound=math.inf)
    native = (workspace or Workspace()).native
    forest, n_interminals = kernels.forest(*chart.forest), chart.compiled.coarse.n_interminals
    if charts:
        logs = np.array([one.log_probability for one in charts])
        total = float(np.logaddexp.reduce(logs))
        share = np.exp(logs - total)
        with np.errstate(divide="ignore"):
            log_nodes = np.log(np.maximum(sum(w * one.node_posterior for w, one in zip(share, charts, strict=True)), 0))
            log_edges = np.log(np.maximum(sum(w * one.edge_posterior for w, one in zip(share, charts, strict=True)), 0))
        nodes, _, bound = kernels.k_best_of_grammars(
            forest, n_interminals, [one.compiled.native for one in charts], charts, log_nodes, log_edges, total, count,
            limit, native,
        )  # fmt: skip
        bound, total = bound - math.log(n_grammars), total - math.log(n_grammars)
    else:
        # Some of the best by posteriors have no positive weight: take more than requested.
        leaf_score, edge_score, root_score = conditional_scores(chart)
        nodes, _, _ = kernels.k_best_by_scores(
            forest, n_interminals, leaf_score, edge_score, root_score, 2 * count + 10, native
        )
        bound = math.inf
    score = partial(_scored, log_probability, native)
    best = KBestList(_sorted(map(score, _trees(chart, nodes, words)))[:count], bound)
    return best if best.exact or not charts else _settled(best, count, charts, words, score, total)


def _scored(log_probability: Callable[[Tree], float], native: kernels.Workspace, tree: Tree) -> Derivation:
    native.check_time()
    return Derivation(tree, log_probability(tree))


def _sorted(trees: Iterable[Derivation]) -> list[Derivation]:
    """Return the possible trees, the most probable first."""
    return sorted((one for one in trees if one.log_probability > -math.inf), key=lambda one: -one.log_probability)


def _settled(
    found: KBestList,
    count: int,
    charts: Sequence[Posteriors],
    words: Sequence[str],
    score: Callable[[Tree], Derivation],
    total: float,
) -> KBestList:
    """Return the list of a search that ended early, with the trees of Viterbi derivations and a bound that is finite.

    A tree that is not in the list has at most the probability that the list leaves of the sentence's, `total`.
    """
    known = {one.tree for one in found}
    others = {base_tree(tree) for tree in (one.best(words) for one in charts) if tree is not None} - known
    ranked = _sorted([*found, *map(score, others)])
    best, dropped = ranked[:count], ranked[count:]
    taken = float(np.exp(np.logaddexp.reduce([one.log_probability for one in best]) - total)) if best else 0.0
    bound = max([found.bound, *(one.log_probability for one in dropped)])
    return KBestList(best, min(bound, total + math.log(max(1 - taken, 0.0) + _TOLERANCE)))


def k_best_by_scores(
    chart: Posteriors,
    words: Sequence[str],
    count: int,
    scores: tuple[Float64[Array, "nodes"], Float64[Array, "edges"], Float64[Array, "nodes"]],
    offset: float,
    workspace: Workspace | None = None,
) -> KBestList:
    """Return the `count` trees with the largest sums of the scores of leaves, edges and root, and of `offset`."""
    if count == 0 or math.isnan(offset):
        return KBestList(bound=math.inf)
    native = (workspace or Workspace()).native
    nodes, sums, bound = kernels.k_best_by_scores(
        kernels.forest(*chart.forest), chart.compiled.coarse.n_interminals, *scores, count, native
    )
    return KBestList(map(Derivation, _trees(chart, nodes, words), (sums + offset).tolist()), bound + offset)


def conditional_scores(
    chart: Posteriors,
) -> tuple[Float64[Array, "nodes"], Float64[Array, "edges"], Float64[Array, "nodes"]]:
    """Return scores of leaves, edges and roots whose sums are logarithms of the probabilities of trees without states.

    An edge scores the logarithm of its posterior, given its parent; a root that of its posterior. For a grammar with
    one state per symbol the sums are the log posteriors of trees. For others they are those of the closest distribution
    without states (Matsuzaki et al. 2005, "Probabilistic CFG with latent annotations").
    """
    log_nodes, log_edges = chart.log_posteriors()
    parent = np.repeat(chart.forest.group_parent, np.diff(chart.forest.group_offsets))
    known = log_nodes[parent] > -np.inf
    return (
        np.zeros(len(log_nodes)),
        np.where(known, log_edges - np.where(known, log_nodes[parent], 0.0), -np.inf),
        np.where(chart.compiled.coarse.root[chart.forest.node_symbol] > 0, log_nodes, -np.inf),
    )


def _trees(chart: Posteriors, nodes: Int32[Array, "trees tree_nodes"], words: Sequence[str]) -> list[Tree]:
    """Return skeletal trees given by their nodes in preorder."""
    symbols = chart.forest.node_symbol[nodes]
    names, n_interminals = chart.compiled.coarse.symbols, chart.compiled.coarse.n_interminals
    return [
        binary_from_preorder([(names[symbol], symbol >= n_interminals) for symbol in tree], words)
        for tree in symbols.tolist()
    ]
