"""Choosing a tree from a chart.

`max-rule`
    The tree whose product of rule posteriors is largest (Petrov and Klein 2007), rules taken between base symbols.
`recall`
    The tree of the grammar's rules with the largest expected number of correct nodes, intermediate ones
    included (labelled recall, Goodman 1996; what the spectral papers use).
`viterbi`
    The single most probable derivation, states included.

Posteriors of real-valued grammars can be negative: `max-rule` ignores such rules, `recall` counts them as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar, get_args

import numpy as np

from sapwood.inference._decode_kernels import best_by_edges, project_edges, sum_nodes, viterbi_states
from sapwood.inference.chart import Chart
from sapwood.inference.compiled import CompiledGrammar
from sapwood.trees.tree import Tree

N = TypeVar("N")
Decoder = Literal["max-rule", "recall", "viterbi"]
DECODERS: tuple[str, ...] = get_args(Decoder)


def decode(compiled: CompiledGrammar, chart: Chart, words: list[str], decoder: Decoder) -> Tree | None:
    """Return the chosen skeletal tree (base symbols; the grammar's own for `viterbi`), None if there is none."""
    if decoder == "viterbi":
        return _viterbi(compiled, chart, words)
    edges, posterior = project_edges(chart.edges, chart.edge_posterior, chart.node_of)
    n_nodes = len(chart.node_symbol)
    totals = np.zeros(n_nodes)
    sum_nodes(chart.entry_posterior, chart.node_of, totals)
    is_leaf = chart.node_symbol >= compiled.coarse.n_interminals
    with np.errstate(divide="ignore", invalid="ignore"):
        if decoder == "max-rule":
            leaf_score = np.where(is_leaf, np.log(np.maximum(totals, 0)), -np.inf)
            score, gain = np.log(np.maximum(posterior, 0)), np.zeros(n_nodes)
        else:
            gain = np.maximum(totals, 0)
            leaf_score, score = np.where(is_leaf, gain, -np.inf), np.zeros(len(posterior))
    best, choice = best_by_edges(n_nodes, leaf_score, edges, score, gain)
    top = chart.n * (chart.n - 1) // 2
    roots = range(chart.node_offsets[top], chart.node_offsets[top + 1])
    candidates = [node for node in roots if compiled.coarse.root[chart.node_symbol[node]] > 0 and best[node] > -np.inf]
    if not candidates:
        return None
    root = max(candidates, key=lambda node: best[node])
    names, symbols = compiled.coarse.symbols, chart.node_symbol

    def children(node: int) -> tuple[int, int] | None:
        edge = choice[node]
        return None if edge < 0 else (int(edges[edge, 1]), int(edges[edge, 2]))

    return _assemble(root, children, lambda node: names[symbols[node]], words)


def _viterbi(compiled: CompiledGrammar, chart: Chart, words: list[str]) -> Tree | None:
    is_leaf = chart.entry_symbol >= compiled.grammar.n_interminals
    sizes = compiled.states[chart.entry_symbol]
    with np.errstate(divide="ignore", invalid="ignore"):
        leaf_log = np.where(np.repeat(is_leaf, sizes), np.log(np.maximum(chart.inside, 0).astype(float)), -np.inf)
    best, choice, left_state, right_state = viterbi_states(
        compiled.states,
        chart.entry_symbol,
        chart.vector_offsets,
        leaf_log,
        chart.edges,
        compiled.tensor_offsets,
        compiled.log_tensors,
    )
    top = chart.n * (chart.n - 1) // 2
    score, entry, state = -np.inf, 0, 0
    for candidate in range(chart.entry_offsets[top], chart.entry_offsets[top + 1]):
        symbol = chart.entry_symbol[candidate]
        for x in range(compiled.states[symbol]):
            value = best[chart.vector_offsets[candidate] + x] + compiled.log_root[compiled.root_offsets[symbol] + x]
            if value > score:
                score, entry, state = value, candidate, x
    if score == -np.inf:
        return None
    symbols = compiled.grammar.symbols

    def children(node: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]] | None:
        at = chart.vector_offsets[node[0]] + node[1]
        edge = choice[at]
        if edge < 0:
            return None
        left, right = int(chart.edges[edge, 1]), int(chart.edges[edge, 2])
        return (left, int(left_state[at])), (right, int(right_state[at]))

    return _assemble((entry, state), children, lambda node: symbols[chart.entry_symbol[node[0]]], words)


def _assemble(root: N, children: Callable[[N], tuple[N, N] | None], name: Callable[[N], str], words: list[str]) -> Tree:
    """Build the tree below `root` from its nodes' chosen children."""
    stack = [root]
    order: list[tuple[str, bool]] = []
    while stack:
        node = stack.pop()
        below = children(node)
        order.append((name(node), below is None))
        if below is not None:
            stack += [below[1], below[0]]
    waiting: list[Tree] = []
    remaining = list(words)
    for label, leaf in reversed(order):
        if leaf:
            waiting.append(Tree(label, word=remaining.pop()))
        else:
            waiting.append(Tree(label, (waiting.pop(), waiting.pop())))
    return waiting[0]
