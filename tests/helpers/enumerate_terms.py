"""Brute force: all trees and contexts up to a size, one by one or as matrices of their vectors.

Nothing here is shared with the code under test: terms are listed, and their vectors found by einsum on dense tensors.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sapwood.automata.automaton import HOLE, Term, TreeAutomaton
from sapwood.automata.tensors import dense
from sapwood.trees.tree import Tree

Found = tuple[int, np.ndarray]


def trees_of_size(automaton: TreeAutomaton, size: int) -> list[list[Term]]:
    """Return for each sort all trees with so many inner nodes; of one sort as tuples, of several as `Tree`s."""
    words = automaton.words or []
    plain = len(automaton.sorts) == 1

    @cache
    def of(sort: int, left: int) -> list[Term]:
        label = automaton.sorts[sort]
        if left == 0:
            return list(words) if plain else [Tree(label, word=word) for word in words]
        return [
            (one, other) if plain else Tree(label, (one, other))
            for a, b, c in automaton.rules.tolist()
            if a == sort
            for part in range(left)
            for one in of(b, part)
            for other in of(c, left - 1 - part)
        ]

    return [of(sort, size) for sort in range(len(automaton.sorts))]


def all_trees(automaton: TreeAutomaton, size: int) -> list[list[Term]]:
    """Return for each sort all trees with at most so many inner nodes."""
    by_size = [trees_of_size(automaton, number) for number in range(size + 1)]
    return [[tree for level in by_size for tree in level[sort]] for sort in range(len(automaton.sorts))]


def all_contexts(automaton: TreeAutomaton, size: int) -> list[list[Term]]:
    """Return for each sort of the hole all contexts, of any sort at the root, with at most so many inner nodes."""
    plain = len(automaton.sorts) == 1
    trees = [trees_of_size(automaton, number) for number in range(size)]

    def star(sort: int) -> Term:
        return HOLE if plain else Tree(automaton.sorts[sort], word=HOLE)

    # Contexts grow downwards: the hole is filled with a node that has the new hole below it.
    levels: list[list[list[Term]]] = [[[star(sort)] for sort in range(len(automaton.sorts))]]
    for total in range(1, size + 1):
        level: list[list[Term]] = [[] for _ in automaton.sorts]
        for a, b, c in automaton.rules.tolist():
            label = automaton.sorts[a]
            for above in range(total):
                for context in levels[above][a]:
                    for tree in trees[total - 1 - above][c]:
                        node = (star(b), tree) if plain else Tree(label, (star(b), tree))
                        level[b].append(plug(context, node))
                    for tree in trees[total - 1 - above][b]:
                        node = (tree, star(c)) if plain else Tree(label, (tree, star(c)))
                        level[c].append(plug(context, node))
        levels.append(level)
    return [[context for level in levels for context in level[sort]] for sort in range(len(automaton.sorts))]


def plug(context: Term, tree: Term) -> Term:
    """Return `c[t]`."""
    if isinstance(context, str):
        return tree if context == HOLE else context
    if isinstance(context, Tree):
        if context.word is not None:
            return tree if context.word == HOLE else context
        return Tree(context.label, [plug(child, tree) for child in context.children])
    return plug(context[0], tree), plug(context[1], tree)


def size_of(tree: Term) -> int:
    """Return the number of inner nodes."""
    if isinstance(tree, str) or (isinstance(tree, Tree) and tree.word is not None):
        return 0
    children = tree.children if isinstance(tree, Tree) else tree
    return 1 + sum(size_of(child) for child in children)


def n_nodes(tree: Term) -> int:
    """Return `|t|`, inner nodes and leaves."""
    return 2 * size_of(tree) + 1


def slow_vector(automaton: TreeAutomaton, tree: Term) -> Found:
    """Return the sort of a tree and `omega(t)`."""
    plain = not isinstance(tree, Tree)
    word = tree if isinstance(tree, str) else None if plain else tree.word
    sort = 0 if plain else automaton.sorts.index(tree.label)
    if word is not None:
        return sort, automaton.leaves[sort][automaton.words.index(word)]
    (b, left), (c, right) = (slow_vector(automaton, child) for child in (tree if plain else tree.children))
    for rule, tensor in zip(automaton.rules.tolist(), automaton.transitions, strict=True):
        if rule == [sort, b, c]:
            return sort, np.einsum("ijk,j,k->i", dense(tensor), left, right)
    return sort, np.zeros(automaton.sizes[sort])


def slow_weight(automaton: TreeAutomaton, tree: Term) -> float:
    """Return `f(t)`."""
    sort, vector = slow_vector(automaton, tree)
    return float(automaton.root[sort] @ vector)


def tree_vectors(automaton: TreeAutomaton, size: int) -> list[list[np.ndarray]]:
    """Return for each size up to this one and each sort `omega(t)` of all trees, `(trees, n_a)`, as `all_trees` has."""
    levels = [list(automaton.leaves)]
    for total in range(1, size + 1):
        parts: list[list[np.ndarray]] = [[np.zeros((0, n))] for n in automaton.sizes]
        for (a, b, c), tensor in zip(automaton.rules.tolist(), automaton.transitions, strict=True):
            for left in range(total):
                one, other = levels[left][b], levels[total - 1 - left][c]
                half = np.einsum("ijk,xj->xik", dense(tensor), one)
                parts[a].append(np.einsum("xik,yk->xyi", half, other, optimize=True).reshape(-1, len(half[0])))
        levels.append([np.concatenate(part) for part in parts])
    return levels


def context_vectors(automaton: TreeAutomaton, size: int) -> list[list[np.ndarray]]:
    """Return for each size up to this one and each sort `alpha(c)` of all contexts, `(contexts, n_a)`."""
    trees = tree_vectors(automaton, max(size - 1, 0))
    levels = [[vector[None] for vector in automaton.root]]
    for total in range(1, size + 1):
        parts: list[list[np.ndarray]] = [[np.zeros((0, n))] for n in automaton.sizes]
        for (a, b, c), tensor in zip(automaton.rules.tolist(), automaton.transitions, strict=True):
            for above in range(total):
                half = np.einsum("ijk,xi->xjk", dense(tensor), levels[above][a])
                below = trees[total - 1 - above]
                parts[b].append(np.einsum("xjk,yk->xyj", half, below[c], optimize=True).reshape(-1, half.shape[1]))
                parts[c].append(np.einsum("xjk,yj->xyk", half, below[b], optimize=True).reshape(-1, half.shape[2]))
        levels.append([np.concatenate(part) for part in parts])
    return levels


def stacked(levels: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Return for each sort the vectors of all sizes."""
    return [np.concatenate([level[sort] for level in levels]) for sort in range(len(levels[0]))]


def random_terms(automaton: TreeAutomaton, rng: np.random.Generator, count: int, *, size: int = 6) -> list[Term]:
    """Return random trees with up to so many inner nodes; they need not have any weight."""
    words = automaton.words or []
    plain = len(automaton.sorts) == 1

    def draw(inner: int) -> Term:
        label = automaton.sorts[rng.integers(len(automaton.sorts))]
        if inner == 0:
            word = words[rng.integers(len(words))]
            return word if plain else Tree(label, word=word)
        left = int(rng.integers(inner))
        children = draw(left), draw(inner - 1 - left)
        return children if plain else Tree(label, children)

    return [draw(int(rng.integers(size + 1))) for _ in range(count)]
