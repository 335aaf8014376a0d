"""Chart of a sentence: prune with the coarse grammar, then run inside-outside with the fine one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sapwood import kernels
from sapwood.errors import GrammarError
from sapwood.inference.chart.compiled import CompiledGrammar, Leaf
from sapwood.inference.chart.posteriors import Forest, Posteriors, Workspace
from sapwood.inference.constraints import Constraints, compile_constraints
from sapwood.inference.forest.kbest import KBestList, k_best, tree_log_probability
from sapwood.storage.shapes import Array, Float, Int, Int64
from sapwood.trees.tree import Tree, binary_from_preorder

# Posterior that is negligible in the fine pass, as a multiple of the threshold.
NEGLIGIBLE = 0.01
# Threshold of finer levels as a multiple of that of the coarse grammar: their posteriors are better.
LEVEL_THRESHOLD_FACTOR = 5.0


@dataclass(frozen=True, eq=False, repr=False)
class Chart(Posteriors):
    """Chart of a sentence under one grammar.

    Attributes
    ----------
    vector_offsets, inside, outside, exponent
        Scaled state vectors of the nodes, and the exponents of the cells.
    leaves, row
        Lexical weights of the words; those of this grammar are in row `row`.
    """

    vector_offsets: Int64[Array, "node_bounds"]
    inside: Float[Array, "node_states"]
    outside: Float[Array, "node_states"]
    exponent: Int[Array, "cells"]
    leaves: Sequence[Leaf]
    row: int

    def symbol_posteriors(self) -> tuple[Int[Array, "found"], Int[Array, "found"], Float[Array, "found"]]:
        """Return node index, symbol index and posterior of every fine symbol at every node."""
        compiled = self.compiled
        sizes = np.diff(self.vector_offsets)
        node = np.repeat(np.arange(len(sizes)), sizes)
        within = np.arange(len(node)) - self.vector_offsets[node]
        symbol = compiled.symbol_of_place[compiled.symbol_offsets[self.forest.node_symbol[node]] + within]
        keys, which = np.unique(node * len(compiled.grammar.symbols) + symbol, return_inverse=True)
        posterior = np.bincount(which, weights=self.inside.astype(float) * self.outside)
        return keys // len(compiled.grammar.symbols), keys % len(compiled.grammar.symbols), posterior

    def best(self, words: Sequence[str]) -> Tree | None:
        """Return the most probable derivation, including states, over the grammar's own symbols."""
        compiled = self.compiled
        places, leaves = kernels.viterbi(
            compiled.native, kernels.forest(*self.forest), compiled.coarse.n_interminals, self.vector_offsets,
            self.inside,
        )  # fmt: skip
        names = compiled.grammar.symbols
        symbols = [names[symbol] for symbol in compiled.symbol_of_place[places].tolist()]
        return binary_from_preorder(list(zip(symbols, leaves.tolist(), strict=True)), words) if symbols else None

    def tree_log_probability(self, tree: Tree) -> float:
        """Return `log p(tree)` of a skeletal tree over base symbols, summed over states."""
        return tree_log_probability(self.compiled, self.leaves, tree, self.row)

    def k_best(self, words: Sequence[str], count: int, workspace: Workspace | None = None) -> KBestList:
        """Return the most probable skeletal trees, summed over states: see `sapwood.inference.forest.kbest.k_best`."""
        charts = [self] if self.compiled.grammar.probabilistic else []
        return k_best(self, words, count, self.tree_log_probability, workspace, charts=charts)

    def sample(self, words: Sequence[str], count: int, rng: np.random.Generator) -> list[Tree]:
        """Sample skeletal trees over base symbols from the chart of a probabilistic grammar."""
        forest, compiled = self.forest, self.compiled
        if not compiled.grammar.probabilistic:
            raise GrammarError(
                "trees can be sampled from a probabilistic grammar only; this one has real-valued weights"
            )
        incoming: dict[int, list[int]] = {}
        for group, parent in enumerate(forest.group_parent):
            incoming.setdefault(int(parent), []).append(group)
        inside = np.maximum(self.inside.astype(float), 0)
        tables: dict[int, tuple[np.ndarray, list[tuple[int, int]]]] = {}

        def expansions(place: int, node: int) -> tuple[np.ndarray, list[tuple[int, int]]]:
            """Return cumulative weights of all expansions of a node's state, and the positions of the child states."""
            if place in tables:
                return tables[place]
            weights: list[float] = []
            targets: list[tuple[int, int]] = []
            state = place - self.vector_offsets[node]
            for group in incoming[node]:
                rule = forest.group_rule[group]
                for fine in range(compiled.fine_offsets[rule], compiled.fine_offsets[rule + 1]):
                    (at, place_b, place_c), (m_a, m_b, m_c) = compiled.fine_places[fine], compiled.fine_states[fine]
                    if not at <= state < at + m_a:
                        continue
                    begin = compiled.tensor_offsets[fine] + (state - at) * m_b * m_c
                    tensor = compiled.tensors[begin : begin + m_b * m_c].reshape(m_b, m_c)
                    for edge in range(forest.group_offsets[group], forest.group_offsets[group + 1]):
                        left = self.vector_offsets[forest.children[edge, 0]] + place_b
                        right = self.vector_offsets[forest.children[edge, 1]] + place_c
                        exponent = self.exponent[forest.node_cell[forest.children[edge]]].sum()
                        shift = 2.0 ** float(exponent - self.exponent[forest.node_cell[node]])
                        for y, z in itertools.product(range(m_b), range(m_c)):
                            weight = shift * float(tensor[y, z]) * inside[left + y] * inside[right + z]
                            if weight > 0:
                                weights.append(weight)
                                targets.append((left + y, right + z))
            tables[place] = np.cumsum(weights), targets
            return tables[place]

        node_of_place = np.repeat(np.arange(len(forest.node_symbol)), np.diff(self.vector_offsets))
        top = self.n * (self.n - 1) // 2
        first, last = self.vector_offsets[[forest.node_offsets[top], forest.node_offsets[top + 1]]]
        roots = np.cumsum(inside[first:last] * np.maximum(self.outside[first:last], 0))
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
            trees.append(binary_from_preorder(events, words))
        return trees


def build_chart(
    compiled: CompiledGrammar,
    leaves: Sequence[Leaf],
    *,
    threshold: float,
    workspace: Workspace | None = None,
    constraints: Constraints | None = None,
) -> Chart | None:
    """Return the chart of a sentence given the lexical weights of its words; None if nothing survives pruning.

    Parameters
    ----------
    compiled
        The grammar.
    leaves
        The lexical weights of each word (`compiled.leaf`).
    threshold
        Edges with a smaller posterior under the coarse grammar are pruned; 0 prunes only edges that no parse uses.
    workspace
        Buffers to work in, best reused from sentence to sentence.
    constraints
        Constraints on cells (`sapwood.inference.constraints`).
    """
    workspace = workspace or Workspace()
    forest = coarse_forest(compiled, leaves, threshold, workspace, constraints)
    if forest is None:
        return None
    forest = refine_forest(compiled, leaves, forest, threshold, workspace)
    return fine_chart(compiled, leaves, forest, workspace, NEGLIGIBLE * threshold)


def refine_forest(
    compiled: CompiledGrammar,
    leaves: Sequence[Leaf],
    forest: Forest,
    threshold: float,
    workspace: Workspace,
    members: int = 1,
) -> Forest:
    """Prune a forest with the levels between the coarse grammar and the full grammar.

    Their rows in the leaves follow those of the `members`.
    """
    if threshold == 0:
        return forest
    for row, level in enumerate(compiled.levels, members):
        chart = fine_chart(level.compiled, leaves, forest, workspace, NEGLIGIBLE * threshold, row)
        if chart is not None:
            smaller = kernels.filter_forest(
                kernels.forest(*forest), compiled.coarse.n_interminals, LEVEL_THRESHOLD_FACTOR * threshold,
                chart.edge_posterior, workspace.native,
            )  # fmt: skip
            forest = forest if smaller is None else Forest(*smaller.arrays())
    return forest


def fine_chart(
    compiled: CompiledGrammar,
    leaves: Sequence[Leaf],
    forest: Forest,
    workspace: Workspace,
    negligible: float = 0.0,
    row: int = 0,
) -> Chart | None:
    """Run the fine grammar over a forest; None if it has no parse in it.

    Nodes whose posterior is `negligible` or less are not expanded further. The lexical weights of the grammar are in
    row `row` of the leaves.
    """
    total, nodes, edges, offsets, inside, outside, exponents = kernels.fine_chart(
        compiled.native, leaves, row, kernels.forest(*forest), negligible, workspace.native
    )
    if total == 0:
        return None
    exponent = exponents[forest.n * (forest.n - 1) // 2]
    log_probability = float(np.log(total) + exponent * np.log(2.0)) if total > 0 else float("nan")
    vectors = offsets, inside, outside, exponents
    return Chart(compiled, forest, log_probability, nodes, edges, *vectors, leaves, row)


def coarse_forest(
    compiled: CompiledGrammar,
    leaves: Sequence[Leaf],
    threshold: float,
    workspace: Workspace,
    constraints: Constraints | None = None,
) -> Forest | None:
    """Return the edges whose posterior under the coarse grammar exceeds the threshold; None without a parse."""
    if constraints is None:
        constraints = compile_constraints((), len(leaves), compiled.coarse)
    found = kernels.coarse_forest(compiled.native_coarse, leaves, threshold, *constraints, workspace.native)
    return None if found is None else Forest(*found.arrays())


def _draw(cumulative: np.ndarray, rng: np.random.Generator) -> int:
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
