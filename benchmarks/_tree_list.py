"""All trees of a sentence, with their probabilities: a listing that shares no code with the search for the best ones.

Skeletal trees are built bottom up, together with the inside vector of each: the probability of its words for each state
of its root. The score of a tree under a CRF follows the documentation of the model: it takes posteriors of nodes and
edges, which are sums over the list, and the hashed features of four groups (`GROUPS`), computed here from their
definition.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

import numpy as np

from sapwood import TensorGrammar
from sapwood.kernels import DenseWeight
from sapwood.model.forest_crf import ForestCRF

# Groups of features that this module knows.
GROUPS = ("words", "lengths", "rules", "splits")
_MASK = (1 << 64) - 1
_OUTSIDE = 0x5BD1E995
_LEAST = 1e-7
_WORD_COLUMN = 0


@dataclass(frozen=True)
class Node:
    """A node of a skeletal tree: a symbol over words `i .. j - 1`; `k` is where its right child begins, -1 of a tag."""

    symbol: int
    i: int
    j: int
    k: int = -1
    children: tuple[Node, ...] = ()

    @property
    def place(self) -> tuple[int, int, int]:
        """Symbol and span."""
        return self.symbol, self.i, self.j

    @property
    def edge(self) -> tuple[int, ...]:
        """Symbol, span, split and symbols of the children."""
        return (*self.place, self.k, *(child.symbol for child in self.children))

    def nodes(self) -> list[Node]:
        """Return the node and all below it."""
        return [self, *(node for child in self.children for node in child.nodes())]

    def text(self, grammar: TensorGrammar, words: list[str]) -> str:
        """Return the tree in brackets."""
        name = grammar.symbols[self.symbol]
        below = [child.text(grammar, words) for child in self.children] or [words[self.i]]
        return f"({name} {' '.join(below)})"


def count_trees(grammar: TensorGrammar, words: list[str]) -> int:
    """Return the number of trees of a sentence."""

    @cache
    def below(a: int, i: int, j: int) -> int:
        if a >= grammar.n_interminals:
            return int(j == i + 1 and grammar.lexical_vector(a, words[i], initial=i == 0).any())
        rules = [(b, c) for parent, b, c in grammar.rules.tolist() if parent == a]
        return sum(below(b, i, k) * below(c, k, j) for b, c in rules for k in range(i + 1, j))

    roots = [a for a in range(len(grammar.symbols)) if grammar.root_vector(a).any()]
    return sum(below(a, 0, len(words)) for a in roots)


def list_trees(grammar: TensorGrammar, words: list[str]) -> dict[Node, float]:
    """Return all trees of a sentence with their probabilities, summed over states."""
    n = len(words)
    trees: dict[tuple[int, int, int], list[Node]] = {}
    vectors: dict[tuple[int, int, int], np.ndarray] = {}
    for i, word in enumerate(words):
        for a in range(grammar.n_interminals, len(grammar.symbols)):
            vector = grammar.lexical_vector(a, word, initial=i == 0)
            if vector.any():
                trees[a, i, i + 1], vectors[a, i, i + 1] = [Node(a, i, i + 1)], vector[None]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length
            found: defaultdict[int, list[Node]] = defaultdict(list)
            inside: defaultdict[int, list[np.ndarray]] = defaultdict(list)
            for rule, (a, b, c) in enumerate(grammar.rules.tolist()):
                for k in range(i + 1, j):
                    if (b, i, k) in trees and (c, k, j) in trees:
                        pairs = [(left, right) for left in trees[b, i, k] for right in trees[c, k, j]]
                        found[a] += [Node(a, i, j, k, pair) for pair in pairs]
                        both = vectors[b, i, k], vectors[c, k, j]
                        weights = np.einsum("xyz,ly,rz->lrx", grammar.tensor(rule).astype(float), *both)
                        inside[a].append(weights.reshape(len(pairs), -1))
            for a, nodes in found.items():
                trees[a, i, j], vectors[a, i, j] = nodes, np.concatenate(inside[a])
    listed = {}
    for a in range(len(grammar.symbols)):
        if (a, 0, n) in trees:
            weights = vectors[a, 0, n] @ grammar.root_vector(a)
            listed |= {tree: weight for tree, weight in zip(trees[a, 0, n], weights.tolist(), strict=True) if weight}
    return listed


class ListedCRF:
    """A CRF over the listed trees of a sentence."""

    def __init__(self, crf: ForestCRF, grammar: TensorGrammar, words: list[str], listed: dict[Node, float]) -> None:
        if set(crf.groups) - {*GROUPS} or crf.threshold > 0:
            raise ValueError(f"the listing knows a threshold of 0 and the features {', '.join(GROUPS)}")
        self._crf, self._n, self._dense = crf, len(words), dict(zip(DenseWeight, crf.dense.tolist(), strict=True))
        self._weights, self._table = crf.weights(), crf.table(words)
        self._names = [
            _key(f"{'t' if symbol >= grammar.n_interminals else 'n'}{name}")
            for symbol, name in enumerate(grammar.symbols)
        ]
        total, sums = sum(listed.values()), defaultdict(float)
        for tree, weight in listed.items():
            for node in tree.nodes():
                sums[node.place] += weight / total
                if node.children:
                    sums[node.edge] += weight / total
        self._logs = {place: math.log(max(value, _LEAST)) for place, value in sums.items()}
        self._scores: dict[tuple[int, ...], float] = {}

    def score(self, tree: Node) -> float:
        """Return the score of a tree."""
        return self._dense[DenseWeight.root] * self._logs[tree.place] + sum(map(self._score, tree.nodes()))

    def _score(self, node: Node) -> float:
        key = node.edge if node.children else node.place
        if key not in self._scores:
            features = sum(float(self._weights[place]) for place in self._features(node))
            if node.children:
                dense = self._dense[DenseWeight.edge] * self._logs[node.edge]
                dense += self._dense[DenseWeight.parent] * self._logs[node.place]
            else:
                dense = self._dense[DenseWeight.leaf] * self._logs[node.place]
            self._scores[key] = features + dense
        return self._scores[key]

    def _word(self, position: int) -> int:
        inside = 0 <= position < self._n
        return int(self._table[position, _WORD_COLUMN]) if inside else _OUTSIDE + (position >= self._n)

    def _features(self, node: Node) -> list[int]:
        symbol, i, j, k = self._names[node.symbol], node.i, node.j, node.k
        words, lengths, rules, splits = (group in self._crf.groups for group in GROUPS)
        found: list[tuple[int, int]] = []
        if not node.children:
            if words:
                found += [(symbol, _seen(number, self._word(i + by))) for number, by in ((64, 0), (65, -1), (66, 1))]
            return self._places(found)
        if words:  # around the beginning and the end
            around = ((1, i), (2, i - 1), (17, j - 1), (18, j))
            found += [(symbol, _seen(number, self._word(position))) for number, position in around]
        size = _length_class(j - i), _length_class(k - i), _length_class(j - k)
        if lengths:
            found += [(symbol, _seen(49, size[0])), (symbol + 1, _seen(112, *size[1:]))]
        split = [(32, k - 1), (33, k)] if words and splits else []
        found += [(symbol + 1, _seen(number, self._word(position))) for number, position in split]
        if rules:
            rule = symbol
            for child in node.children:
                rule = _mix(rule, self._names[child.symbol])
            found.append((rule, 96))
            if words:
                found += [(rule, _seen(97, self._word(i))), (rule, _seen(98, self._word(j - 1)))]
            if lengths:
                found += [(rule, _seen(103, size[0])), (rule + 1, _seen(113, *size[1:]))]
            found += [(rule + 1, _seen(number, self._word(position))) for number, position in split]
        return self._places(found)

    def _places(self, features: list[tuple[int, int]]) -> list[int]:
        shift = 64 - self._crf.bits
        return [(((key ^ value) & _MASK) * 0xD6E8FEB86659FD93 & _MASK) >> shift for key, value in features]


def _key(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def _mix(value: int, other: int) -> int:
    value = (value ^ other) * 0x9E3779B97F4A7C15 & _MASK
    return value ^ (value >> 29)


def _seen(number: int, one: int, other: int = 0) -> int:
    return _mix(_mix(_mix((number * 0x632BE59BD9B4E019 + 1) & _MASK, one), other), 0)


def _length_class(length: int) -> int:
    return length if length <= 6 else 7 + sum(length > most for most in (8, 12, 17, 25, 40))
