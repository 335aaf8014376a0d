"""Hits of a search: the trees or subtrees that match, with their places, contexts and texts."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import numpy as np

from sapwood.storage.files import name_of
from sapwood.storage.shapes import Array, Int64
from sapwood.trees.search.searcher import MatchedNodes, PatternMatch, Searcher
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree

# Hits whose brackets are written at once.
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Hit:
    """A tree with matches, a matching subtree, or a tree without a match.

    Attributes
    ----------
    path
        The file.
    table, number
        The table and the number of the tree in it.
    found
        The matches in the table: those of the hit are `first .. last - 1`.
    node
        The node of a subtree; -1 for the whole tree.
    """

    path: str
    searcher: Searcher
    table: TreeTable
    number: int
    found: MatchedNodes | None = None
    first: int = 0
    last: int = 0
    node: int = -1

    @property
    def place(self) -> dict[str, Any]:
        """The file, the number of the tree (from 1), and its last line."""
        line = int(self.table.lines[self.number])
        return {"file": name_of(self.path), "tree": self.table.first + self.number + 1, "line": line}

    @property
    def root(self) -> int:
        """The node to show: that of the subtree, for a word that of its tag, or the root."""
        if self.node < 0:
            return int(self.table.begins[self.number])
        table = self.table
        return int(table.parents[self.node]) if table.symbols[self.node] >= table.n_labels else self.node

    def tree(self) -> Tree:
        """Return the tree or subtree."""
        return self.table.subtree(self.root)

    def words(self, number: int | None = None) -> list[str]:
        """Return the words of the whole tree, or of another one of its table."""
        table, number = self.table, self.number if number is None else number
        if table.positions is not None:
            return table.tree(number).words()
        begin, end = table.begins[number:][:2].tolist()
        symbols = table.symbols[begin:end]
        return [table.spellings[symbol] for symbol in symbols[symbols >= table.n_labels].tolist()]

    def matches(self) -> list[PatternMatch]:
        """Return the matches."""
        if self.found is None:
            return []
        part = MatchedNodes(self.found.nodes[self.first : self.last], self.found.names[self.first : self.last])
        return list(self.searcher.described(self.table, part))

    def context(self, around: int) -> tuple[list[str], list[str]]:
        """Return the words of the trees before and after, at most N each."""
        before = range(max(self.number - around, 0), self.number)
        after = range(self.number + 1, min(self.number + 1 + around, len(self.table)))
        lines = [[" ".join(self.words(number)) for number in numbers] for numbers in (before, after)]
        return lines[0], lines[1]


def find_hits(
    searcher: Searcher, tables: Iterable[tuple[str, TreeTable]], *, subtrees: bool = False, invert: bool = False
) -> Iterator[Hit]:
    """Yield the trees or subtrees that match, or with `invert` the trees that do not."""
    for path, table in tables:
        if invert:
            without = np.ones(len(table), dtype=bool)
            without[table.trees_of_nodes[searcher.nodes(table)]] = False
            yield from (Hit(path, searcher, table, number) for number in np.flatnonzero(without).tolist())
            continue
        for found in searcher.blocks(table):
            trees = table.trees_of_nodes[found.nodes]
            if subtrees:
                for place, (node, tree) in enumerate(zip(found.nodes.tolist(), trees.tolist(), strict=True)):
                    yield Hit(path, searcher, table, tree, found, place, place + 1, node)
                continue
            numbers, firsts = np.unique(trees, return_index=True)
            bounds = [*firsts.tolist(), len(trees)]
            for place, number in enumerate(numbers.tolist()):
                yield Hit(path, searcher, table, number, found, bounds[place], bounds[place + 1])


def draw_sample(hits: Iterable[Hit], size: int, seed: int) -> list[Hit]:
    """Return a random sample, in the order of the files; every subset of that size is equally probable."""
    generator = random.Random(seed)  # noqa: S311
    chosen: list[tuple[int, Hit]] = []
    for number, hit in enumerate(hits):
        if number < size:
            chosen.append((number, hit))
        elif (place := generator.randrange(number + 1)) < size:
            chosen[place] = (number, hit)
    return [hit for _, hit in sorted(chosen, key=lambda pair: pair[0])]


def hit_lines(hits: Iterable[Hit], with_place: bool = False) -> Iterator[str]:
    """Yield the brackets of hits, with `with_place` after file and line."""
    for table, group in groupby(hits, key=lambda hit: hit.table):
        waiting = iter(group)
        while some := list(islice(waiting, _BLOCK)):
            gaps = table.positions is not None
            lines = (
                [table.format_tree(hit.tree()) for hit in some]
                if gaps
                else _brackets(table, [hit.root for hit in some])
            )
            for hit, line in zip(some, lines, strict=True):
                place = hit.place
                yield f"{place['file']}:{place['line']}: {line}" if with_place else line


def _brackets(table: TreeTable, roots: Sequence[int]) -> list[str]:
    """Return the subtrees at these nodes in brackets."""
    begins = np.array(roots, dtype=np.int64)
    sizes: Int64[Array, "trees"] = table.ends[begins] - begins
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    shifts = np.repeat(begins - bounds[:-1], sizes)
    nodes = np.arange(bounds[-1]) + shifts
    parents = (table.parents[nodes] - shifts).astype(np.int32)
    parents[bounds[:-1]] = -1
    ends = (table.ends[nodes] - shifts).astype(np.int32)
    lines = np.zeros(len(roots), dtype=np.int64)
    part = TreeTable(table.spellings, table.n_labels, table.symbols[nodes], parents, ends, bounds, lines)
    return part.to_brackets().decode("utf-8").split("\n")[:-1]
