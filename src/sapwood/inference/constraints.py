"""Constraints on parses: required phrases, forbidden phrases, and subtrees that are fully known.

A required phrase `(start, end, label)` forbids every span that crosses it, and over its own span allows only symbols
that stand for a phrase (of that label, if given). As skeletal trees are binary, that is enough: a tree in which nothing
crosses a span has a node over it. A forbidden phrase, `(start, end, label, True)`, allows over its span only symbols
that do not stand for it: without a label, intermediate ones and bare tags.

A `Subtree` is fully specified: of the spans inside it, only those of its skeletal tree are allowed, each with its own
symbol. Unary labels may be added above it, unless it is the tree of the whole sentence.

Of a phrase `VP` with gaps, each part, `VP*`, is a phrase here (`sapwood.trees.formats.gaps.split_gaps`).

`requirements` extracts these from a partial tree (`sapwood.trees.partial`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Bool, Int32
from sapwood.trees.partial import UNKNOWN
from sapwood.trees.symbols import as_symbol
from sapwood.trees.tree import Tree

FREE, FORBIDDEN = kernels.FREE, kernels.FORBIDDEN


class Phrase(NamedTuple):
    """Phrase over words `start .. end - 1` that is required or, if `absent`, forbidden; None stands for any label."""

    start: int
    end: int
    label: str | None = None
    absent: bool = False


class Subtree(NamedTuple):
    """Complete tree over the words from `start` on."""

    start: int
    tree: Tree


Requirement: TypeAlias = Phrase | Subtree


class Constraints(NamedTuple):
    """Constraints on cells: `cells` is FREE, FORBIDDEN or a row of `allowed`; empty if all are free.

    `prune_cells` is True if the grammar may prune other cells (`sapwood.model.cell_pruner`).
    """

    cells: Int32[Array, "cells_or_none"]
    allowed: Bool[Array, "rows symbols"]
    prune_cells: bool = True


def as_requirements(given: Iterable[Requirement | tuple[int, int, str | None]]) -> list[Requirement]:
    """Return requirements; plain tuples become phrases."""
    return [one if isinstance(one, Subtree) else Phrase(*one) for one in given]


def requirements(tree: Tree, root: str) -> tuple[list[tuple[str, str | None]], list[Requirement]]:
    """Return the `(word, tag)` pairs of a clean partial tree, with None for unknown tags, and its other requirements.

    The label `root` at the top is ignored, as all trees have it.
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
    given: Sequence[Requirement | tuple[int, int, str | None]],
    n: int,
    coarse: TensorGrammar,
    *,
    prune_cells: bool = True,
) -> Constraints:
    """Compile requirements into tables for the coarse pass over a sentence of `n` words."""
    if not given:
        return Constraints(np.zeros(0, np.int32), np.zeros((0, len(coarse.symbols)), bool), prune_cells)
    table = _Table(n, coarse)
    for one in as_requirements(given):
        if isinstance(one, Subtree):
            table.add_subtree(one)
        else:
            table.add_phrase(one)
    allowed = np.array(table.rows) if table.rows else np.zeros((0, len(coarse.symbols)), bool)
    return Constraints(table.cells, allowed, prune_cells)


class _Table:
    """Table of allowed symbols per cell, built up requirement by requirement."""

    def __init__(self, n: int, coarse: TensorGrammar) -> None:
        self.n, self.coarse = n, coarse
        self.cells = np.full(n * (n + 1) // 2, FREE, np.int32)
        self.rows: list[np.ndarray] = []
        self.leaf = np.arange(len(coarse.symbols)) >= coarse.n_interminals
        # The lowest label of a preterminal is its tag, not a phrase.
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
                allowed[:] = True  # every word is or may be a phrase of its own
        self._allow(start, end, allowed)

    def add_subtree(self, part: Subtree) -> None:
        first, last = self._checked(part.start, part.start + len(part.tree))
        self._forbid_crossing(first, last)
        kept = (self.starts < first) | (self.ends > last)
        # Phrases with gaps are given as their parts.
        skeleton = replace(self.coarse.transform, gaps=False)(part.tree)
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
        """Return a mask of the symbols that match a skeletal node; with `above`, they may have more labels above."""
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
