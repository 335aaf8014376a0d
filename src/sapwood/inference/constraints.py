"""Constraints on parses: phrases that must be there, or must not, and parts of which the whole tree is known.

A required phrase `(start, end, label)` forbids every span that crosses it, and over its own span allows only symbols
that stand for a phrase (of that label, if one is given). As skeletal trees are binary, that is enough: a tree in
which nothing crosses a span has a node over it. A phrase that must be absent, `(start, end, label, True)`, allows over
its span only symbols that do not stand for it: without a label, intermediate ones and bare tags.

A `Subtree` is all that stands over its words: of the spans inside only those of its skeletal tree are allowed, each
with its own symbol. Above it unary labels may be added, unless it is the tree of the whole sentence.

`requirements` reads these off a partial tree (`sapwood.trees.partial`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.shapes import Array, Bool, Int32
from sapwood.trees.partial import UNKNOWN
from sapwood.trees.symbols import as_symbol
from sapwood.trees.tree import Tree

FREE, FORBIDDEN = -1, -2


class Phrase(NamedTuple):
    """A phrase over words `start .. end - 1` that must be there or, if `absent`, must not; None is any label."""

    start: int
    end: int
    label: str | None = None
    absent: bool = False


class Subtree(NamedTuple):
    """The tree over the words from `start` on, all of it."""

    start: int
    tree: Tree


Requirement: TypeAlias = Phrase | Subtree


class Constraints(NamedTuple):
    """What each cell may hold: `cells` is FREE, FORBIDDEN or a row of `allowed`; empty if all are free.

    `close` is whether the grammar may close others (`sapwood.grammar.closing`).
    """

    cells: Int32[Array, "cells_or_none"]
    allowed: Bool[Array, "rows symbols"]
    close: bool = True


def as_requirements(given: Iterable[Requirement | tuple[int, int, str | None]]) -> list[Requirement]:
    """Return what must hold of a parse: plain tuples are phrases."""
    return [one if isinstance(one, Subtree) else Phrase(*one) for one in given]


def requirements(tree: Tree, root: str) -> tuple[list[tuple[str, str | None]], list[Requirement]]:
    """Return the words of a clean partial tree with their tags, None where they are unknown, and what else must hold.

    The label `root` at the top says nothing, for all trees have it.
    """
    words = [(node.word or "", None if node.label == UNKNOWN else node.label) for node in tree.preterminals()]
    found: list[Requirement] = []
    is_whole: dict[int, bool] = {}

    def visit(node: Tree, below: list[bool]) -> bool:
        return is_whole.setdefault(id(node), node.label != UNKNOWN and all(below))

    tree.fold(visit)
    stack = [(tree, 0)]
    while stack:
        node, start = stack.pop()
        if node.word is not None:
            continue
        if is_whole[id(node)]:
            found.append(Subtree(start, node))
            continue
        size = len(node)
        if node.label != UNKNOWN and not (node is tree and node.label == root):
            found.append(Phrase(start, start + size, node.label))
        elif node.label == UNKNOWN and size > 1:
            found.append(Phrase(start, start + size))
        begins = np.cumsum([start, *(len(child) for child in node.children)]).tolist()
        stack.extend(reversed(list(zip(node.children, begins[:-1], strict=True))))
    return words, found


def compile_constraints(
    given: Sequence[Requirement | tuple[int, int, str | None]], n: int, coarse: TensorGrammar, *, close: bool = True
) -> Constraints:
    """Turn what must hold into tables for the coarse pass over a sentence of `n` words."""
    if not given:
        return Constraints(np.zeros(0, np.int32), np.zeros((0, len(coarse.symbols)), bool), close)
    table = _Table(n, coarse)
    for one in as_requirements(given):
        if isinstance(one, Subtree):
            table.add_subtree(one)
        else:
            table.add_phrase(one)
    allowed = np.array(table.rows) if table.rows else np.zeros((0, len(coarse.symbols)), bool)
    return Constraints(table.cells, allowed, close)


class _Table:
    """What each cell of a chart may hold, one requirement after the other."""

    def __init__(self, n: int, coarse: TensorGrammar) -> None:
        self.n, self.coarse = n, coarse
        self.cells = np.full(n * (n + 1) // 2, FREE, np.int32)
        self.rows: list[np.ndarray] = []
        self.leaf = np.arange(len(coarse.symbols)) >= coarse.n_interminals
        # A preterminal's lowest label is its tag, no phrase.
        self.chains = [
            chain[:-1] if leaf else chain for chain, leaf in zip(coarse.symbols.chain, self.leaf, strict=True)
        ]
        self.ends = np.repeat(np.arange(1, n + 1), np.arange(1, n + 1))
        self.starts = np.concatenate([np.arange(j) for j in range(1, n + 1)])

    def add_phrase(self, phrase: Phrase) -> None:
        start, end, label, absent = phrase
        start, end = self._checked(start, end)
        allowed = np.array([bool(chain) if label is None else label in chain for chain in self.chains])
        if absent:
            allowed = ~allowed
        else:
            self._forbid_crossing(start, end)
            if end - start == 1 and label is None:
                allowed[:] = True  # every word is a phrase of its own, or may be
        self._allow(start, end, allowed)

    def add_subtree(self, part: Subtree) -> None:
        first, last = self._checked(part.start, part.start + len(part.tree))
        self._forbid_crossing(first, last)
        kept = (self.starts < first) | (self.ends > last)
        skeleton = self.coarse.transform(part.tree)
        begin = first
        stack = [skeleton]
        while stack:
            node = stack.pop()
            size = len(node)
            kept |= (self.starts == begin) & (self.ends == begin + size)
            self._allow(begin, begin + size, self._like(node, above=node is skeleton and last - first < self.n))
            if node.word is not None:
                begin += 1
            stack.extend(reversed(node.children))
        self.cells[~kept] = FORBIDDEN

    def _like(self, node: Tree, *, above: bool) -> np.ndarray:
        """Return which symbols stand for a node of a skeletal tree; with `above`, also those with more labels above."""
        labels, intermediate = as_symbol(node.label).parts.labels, as_symbol(node.label).parts.intermediate
        last = len(labels) if above and not intermediate else 0  # 0: all of them
        right = [
            other.intermediate == intermediate and other.labels[-last:] == labels for other in self.coarse.symbols.parts
        ]
        return np.array(right, bool) & (self.leaf == (node.word is not None))

    def _checked(self, start: int, end: int) -> tuple[int, int]:
        start, end = operator.index(start), operator.index(end)
        if not 0 <= start < end <= self.n:
            raise UsageError(f"a phrase over words {start} to {end} does not fit a sentence of {self.n} words")
        return start, end

    def _forbid_crossing(self, start: int, end: int) -> None:
        starts, ends = self.starts, self.ends
        crossing = ((starts < start) & (start < ends) & (ends < end)) | (
            (start < starts) & (starts < end) & (end < ends)
        )
        self.cells[crossing] = FORBIDDEN

    def _allow(self, start: int, end: int, allowed: np.ndarray) -> None:
        cell = end * (end - 1) // 2 + start
        if self.cells[cell] >= 0:
            self.rows[self.cells[cell]] &= allowed
        elif self.cells[cell] == FREE:
            self.cells[cell] = len(self.rows)
            self.rows.append(allowed)
