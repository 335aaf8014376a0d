"""Slow twins for forests: their trees one by one."""

from __future__ import annotations

from itertools import product

import numpy as np

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.forest.packed import SentenceForest
from sapwood.trees.tree import Tree


def derivations(forest: SentenceForest) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Return all trees of a forest: each a list of its nodes in preorder, with their children."""
    edges: dict[int, list[tuple[int, int]]] = {}
    for parent, left, right in forest.edges.tolist():
        edges.setdefault(parent, []).append((left, right))

    def below(node: int) -> list[list[tuple[int, tuple[int, ...]]]]:
        if node not in edges:
            return [[(node, ())]]
        return [
            [(node, pair), *left, *right]
            for pair in edges[node]
            for left, right in product(below(pair[0]), below(pair[1]))
        ]

    return [tree for root in np.flatnonzero(forest.root).tolist() for tree in below(root)]


def skeleton(forest: SentenceForest, grammar: TensorGrammar, nodes: list[tuple[int, tuple[int, ...]]]) -> Tree:
    """Return a skeletal tree of a forest."""
    remaining = iter(nodes)

    def build() -> Tree:
        node, children = next(remaining)
        name = grammar.symbols[forest.symbol[node]]
        if not children:
            return Tree(name, word=forest.words[forest.start[node]])
        left = build()
        return Tree(name, (left, build()))

    return build()


def trees_of(forest: SentenceForest, grammar: TensorGrammar) -> dict[str, Tree]:
    """Return the trees that a forest's skeletal ones stand for, by their text."""
    clean = [grammar.transform.invert(skeleton(forest, grammar, nodes)) for nodes in derivations(forest)]
    return {str(tree): tree for tree in clean}
