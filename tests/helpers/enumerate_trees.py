"""Brute force: all skeletal trees of a sentence, and for each the joint weight of all state assignments.

Nothing here is shared with the algorithms under test: trees are listed one by one, and for a tree with N
nodes an array with N axes, one per node, holds the weight of every assignment of states.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.trees.tree import Tree


@dataclass(frozen=True)
class Enumerated:
    """One tree: its nodes in preorder as (symbol, i, j, split or -1), and the joint of its states."""

    tree: Tree
    nodes: list[tuple[int, int, int, int]]
    joint: np.ndarray

    @property
    def weight(self) -> float:
        return float(self.joint.sum())

    def state_weights(self, node: int) -> np.ndarray:
        return self.joint.sum(axis=tuple(axis for axis in range(self.joint.ndim) if axis != node))


@dataclass
class Summary:
    """What all trees of a sentence add up to."""

    probability: float = 0.0
    marginals: dict[tuple[int, int, int], float] = field(default_factory=dict)
    rules: dict[tuple[int, int, int, int], float] = field(default_factory=dict)
    states: dict[tuple[int, int, int], np.ndarray] = field(default_factory=dict)
    best: float = 0.0


def all_trees(grammar: TensorGrammar, sentence: list[str]) -> list[Enumerated]:
    """Return every tree that the grammar's rules, tags and roots allow."""
    by_parent: dict[int, list[tuple[int, int]]] = {}
    for a, b, c in grammar.rules.tolist():
        by_parent.setdefault(a, []).append((b, c))
    n = len(sentence)

    def lexical(a: int, i: int) -> np.ndarray:
        return grammar.lexical_vector(a, sentence[i], initial=i == 0)

    @cache
    def below(a: int, i: int, j: int) -> list[tuple[Tree, tuple[tuple[int, int, int, int], ...]]]:
        name = grammar.symbols[a]
        if a >= grammar.n_interminals:
            if j != i + 1 or not lexical(a, i).any():
                return []
            return [(Tree(name, word=sentence[i]), ((a, i, j, -1),))]
        return [
            (Tree(name, (left, right)), ((a, i, j, k), *left_nodes, *right_nodes))
            for b, c in by_parent.get(a, [])
            for k in range(i + 1, j)
            for left, left_nodes in below(b, i, k)
            for right, right_nodes in below(c, k, j)
        ]

    return [
        Enumerated(tree, list(nodes), joint_weights(grammar, sentence, list(nodes)))
        for a in range(len(grammar.symbols))
        if grammar.root_vector(a).any()
        for tree, nodes in below(a, 0, n)
    ]


def children(nodes: list[tuple[int, int, int, int]], node: int) -> tuple[int, int]:
    """Return the children of an inner node of a preorder list: the left one follows its parent."""
    _, _, j, k = nodes[node]
    right = next(x for x in range(node + 2, len(nodes)) if nodes[x][1] == k and nodes[x][2] == j)
    return node + 1, right


def rule_number(grammar: TensorGrammar, a: int, b: int, c: int) -> int:
    return grammar.rules.tolist().index([a, b, c])


def joint_weights(grammar: TensorGrammar, sentence: list[str], nodes: list[tuple[int, int, int, int]]) -> np.ndarray:
    """Return p(r_1 ... r_N, h_1 ... h_N) for all states, one axis per node."""
    operands: list[object] = [grammar.root_vector(nodes[0][0]), [0]]
    for index, (a, i, _, k) in enumerate(nodes):
        if k < 0:
            operands += [grammar.lexical_vector(a, sentence[i], initial=i == 0), [index]]
        else:
            left, right = children(nodes, index)
            tensor = grammar.tensor(rule_number(grammar, a, nodes[left][0], nodes[right][0]))
            operands += [tensor, [index, left, right]]
    return np.einsum(*operands, list(range(len(nodes))))


def summarise(grammar: TensorGrammar, trees: list[Enumerated]) -> Summary:
    """Add up sentence probability, marginals of constituents, rules and states, and the best derivation."""
    total = Summary()
    for item in trees:
        weight = item.weight
        total.probability += weight
        total.best = max(total.best, float(item.joint.max()))
        for index, (a, i, j, k) in enumerate(item.nodes):
            total.marginals[a, i, j] = total.marginals.get((a, i, j), 0.0) + weight
            total.states[a, i, j] = total.states.get((a, i, j), 0.0) + item.state_weights(index)
            if k >= 0:
                left, right = children(item.nodes, index)
                rule = rule_number(grammar, a, item.nodes[left][0], item.nodes[right][0])
                total.rules[rule, i, k, j] = total.rules.get((rule, i, k, j), 0.0) + weight
    return total
