"""More than the one best tree: the k best, samples, and the exact probability of a given tree."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from sapwood.errors import GrammarError
from sapwood.inference.chart import Chart, Posteriors
from sapwood.inference.compiled import CompiledGrammar, Leaf
from sapwood.inference.decode import binary_tree, edge_scores, forest_edges
from sapwood.inference.layered import LayeredChart
from sapwood.trees.tree import Tree


class Derivation(NamedTuple):
    """A tree and the logarithm of its probability, summed over states."""

    tree: Tree
    log_probability: float


def tree_log_probability(compiled: CompiledGrammar, leaves: Sequence[Leaf], tree: Tree, row: int = 0) -> float:
    """Return `log p(tree)` of a skeletal tree over base symbols, summed over all finer symbols and states.

    This is figure 4 of the long paper with a running scale; -inf if the grammar does not have the tree, NaN if a
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
    check_time: Callable[[], None] = lambda: None,
) -> list[Derivation]:
    """Return up to `count` different trees with the largest products of rule posteriors, most probable first.

    The search is Huang and Chiang's lazy one (2005) over the chart's edges. With one state per symbol and no finer
    symbols the order is exact; otherwise finding the most probable trees is NP-hard, and these are the best by
    posteriors, ordered by their exact probabilities (`log_probability` of a skeletal tree over base symbols).
    A layer scores edges, not states: its best trees are found exactly, and have probabilities of their own.
    `check_time` is called now and then, and can put an end to it.
    """
    forest, compiled = chart.forest, chart.compiled
    # Some candidates turn out less probable than others behind them, or impossible: take more than are asked for.
    wanted, count = count, count if isinstance(chart, LayeredChart) else 2 * count + 10
    root_score = np.zeros(len(forest.node_symbol))
    if isinstance(chart, LayeredChart):
        leaf_score, score, root_score = chart.leaf_score, chart.edge_score, chart.root_score
    else:
        leaf_score, score, _ = edge_scores(chart, "max-rule")
    incoming = forest_edges(forest)
    done: dict[int, list[tuple[float, int, int, int]]] = {}
    heaps: dict[int, list[tuple[float, int, int, int]]] = {}
    seen: dict[int, set[tuple[int, int, int]]] = {}
    is_leaf = forest.node_symbol >= compiled.coarse.n_interminals

    def best(node: int, rank: int) -> float:
        """Return the score of the node's `rank`-th best derivation, -inf if there are fewer."""
        if is_leaf[node]:
            return float(leaf_score[node]) if rank == 0 else -math.inf
        found = done.get(node, ())  # a node whose edges were all pruned has none
        return -found[rank][0] if rank < len(found) else -math.inf

    def push(node: int, edge: int, left: int, right: int) -> None:
        b, c = (int(child) for child in forest.children[edge])
        if (edge, left, right) in seen[node]:
            return
        seen[node].add((edge, left, right))
        value = float(score[edge]) + best(b, left) + best(c, right)
        if value > -math.inf:
            heapq.heappush(heaps[node], (-value, edge, left, right))

    # Bottom-up by cell each inner node gets its best derivations, as many as could be asked for.
    spans = chart.spans()
    order = sorted(incoming, key=lambda node: (spans[node, 1], -spans[node, 0]))
    for node in order:
        check_time()
        done[node], heaps[node], seen[node] = [], [], set()
        for edge in incoming[node]:
            push(node, edge, 0, 0)
        while heaps[node] and len(done[node]) < count:
            item = heapq.heappop(heaps[node])
            done[node].append(item)
            _, edge, left, right = item
            push(node, edge, left + 1, right)
            push(node, edge, left, right + 1)

    def build(node: int, rank: int) -> Tree:
        stack: list[tuple[int, int]] = [(node, rank)]
        events: list[tuple[str, bool]] = []
        while stack:
            at, place = stack.pop()
            events.append((compiled.coarse.symbols[forest.node_symbol[at]], bool(is_leaf[at])))
            if not is_leaf[at]:
                _, edge, left, right = done[at][place]
                b, c = (int(child) for child in forest.children[edge])
                stack += [(c, right), (b, left)]
        return binary_tree(events, words)

    top = chart.n * (chart.n - 1) // 2
    roots = range(forest.node_offsets[top], forest.node_offsets[top + 1])
    candidates = [
        (-best(node, rank) - root_score[node], node, rank)
        for node in roots
        if compiled.coarse.root[forest.node_symbol[node]] > 0
        for rank in range(1 if is_leaf[node] else len(done.get(node, ())))
    ]
    nearest = heapq.nsmallest(count, candidates)
    if isinstance(chart, LayeredChart):
        offset = chart.log_probability - chart.log_total
        if math.isnan(offset):  # the grammar gives the sentence no probability, so its trees have none
            return []
        return [Derivation(build(node, rank), float(offset - value)) for value, node, rank in nearest]
    chosen = [build(node, rank) for _, node, rank in nearest]
    scored = []
    for tree in chosen:
        check_time()
        scored.append(Derivation(tree, log_probability(tree)))
    possible = [found for found in scored if found.log_probability > -math.inf]
    return sorted(possible, key=lambda found: -found.log_probability)[:wanted]


def sample(chart: Chart, words: Sequence[str], count: int, rng: np.random.Generator) -> list[Tree]:
    """Draw skeletal trees over base symbols from the posterior of a probabilistic grammar's chart."""
    forest, compiled = chart.forest, chart.compiled
    if not compiled.grammar.probabilistic:
        raise GrammarError("trees can be sampled from a probabilistic grammar only; this one has real-valued weights")
    incoming: dict[int, list[int]] = {}
    for group, parent in enumerate(forest.group_parent):
        incoming.setdefault(int(parent), []).append(group)
    inside = np.maximum(chart.inside.astype(float), 0)
    tables: dict[int, tuple[np.ndarray, list[tuple[int, int]]]] = {}

    def expansions(place: int, node: int) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """Return cumulative weights of all ways to expand a state of a node, and the places of the child states."""
        if place in tables:
            return tables[place]
        weights: list[float] = []
        targets: list[tuple[int, int]] = []
        state = place - chart.vector_offsets[node]
        for group in incoming[node]:
            rule = forest.group_rule[group]
            for fine in range(compiled.fine_offsets[rule], compiled.fine_offsets[rule + 1]):
                (at, place_b, place_c), (m_a, m_b, m_c) = compiled.fine_places[fine], compiled.fine_states[fine]
                if not at <= state < at + m_a:
                    continue
                begin = compiled.tensor_offsets[fine] + (state - at) * m_b * m_c
                tensor = compiled.tensors[begin : begin + m_b * m_c].reshape(m_b, m_c)
                for edge in range(forest.group_offsets[group], forest.group_offsets[group + 1]):
                    left = chart.vector_offsets[forest.children[edge, 0]] + place_b
                    right = chart.vector_offsets[forest.children[edge, 1]] + place_c
                    exponent = chart.exponent[forest.node_cell[forest.children[edge]]].sum()
                    shift = 2.0 ** float(exponent - chart.exponent[forest.node_cell[node]])
                    for y, z in itertools.product(range(m_b), range(m_c)):
                        weight = shift * float(tensor[y, z]) * inside[left + y] * inside[right + z]
                        if weight > 0:
                            weights.append(weight)
                            targets.append((left + y, right + z))
        tables[place] = np.cumsum(weights), targets
        return tables[place]

    node_of_place = np.repeat(np.arange(len(forest.node_symbol)), np.diff(chart.vector_offsets))
    top = chart.n * (chart.n - 1) // 2
    first, last = chart.vector_offsets[[forest.node_offsets[top], forest.node_offsets[top + 1]]]
    roots = np.cumsum(inside[first:last] * np.maximum(chart.outside[first:last], 0))
    trees = []
    for _ in range(count):
        stack = [int(first) + _draw(roots, rng)]
        events: list[tuple[str, bool]] = []
        while stack:
            place = stack.pop()
            node = int(node_of_place[place])
            leaf = bool(forest.node_symbol[node] >= compiled.coarse.n_interminals)
            events.append((compiled.coarse.symbols[forest.node_symbol[node]], leaf))
            if not leaf:
                cumulative, targets = expansions(place, node)
                left, right = targets[_draw(cumulative, rng)]
                stack += [int(right), int(left)]
        trees.append(binary_tree(events, words))
    return trees


def _draw(cumulative: np.ndarray, rng: np.random.Generator) -> int:
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
