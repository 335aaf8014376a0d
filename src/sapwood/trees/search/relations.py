"""Relations of tree patterns, evaluated for all nodes of a table at once.

A relation `R` maps a set of nodes `T` to the set of nodes `x` with some `y` in `T` and `x R y`. Sets are Boolean
columns, and since nodes are in preorder each relation takes a few passes over columns: the nodes below a node are a
range, the nodes that precede it end before its first word. So the time is proportional to the length of the pattern and
the number of nodes, whatever the trees, without backtracking. A node with gaps precedes the nodes whose words all come
after its last one; sisters are in the order of their first words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise

import numpy as np

from sapwood.storage.shapes import Array, Bool, Int
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.search.table import TreeTable


class Relations:
    """The relations between the nodes of some trees.

    Parameters
    ----------
    table
        The trees.
    heads
        Head rules, for `<#` and the like.
    """

    def __init__(self, table: TreeTable, heads: HeadRules) -> None:
        self.table = table
        self.heads = heads
        self.parents = table.parents
        self.ends = table.ends
        self.size = len(table.parents)
        self.numbers = np.arange(self.size, dtype=np.int32)
        self.has_parent = table.parents >= 0

    def related(
        self, relation: str, to: Bool[Array, "nodes"], path: Bool[Array, "nodes"] | None = None
    ) -> Bool[Array, "nodes"]:
        """Return the nodes that have the relation to one of those in `to`; relations along paths, through `path`."""
        if path is not None:
            along = {"<+": self._down_through, ">+": self._up_through, ".+": self._before_through}
            return along.get(relation, self._after_through)(to, path)
        simple: dict[str, Callable[[Bool[Array, "nodes"]], Bool[Array, "nodes"]]] = {
            "<<": self._dominates,
            ">>": self._dominated,
            ".": self._just_before,
            ",": self._just_after,
            "..": self._before,
            ",,": self._after,
            "$": self._sisters,
            "$+": self._next_sister,
            "$-": self._previous_sister,
            "$++": self._later_sister,
            "$--": self._earlier_sister,
            "==": lambda to: to,
            "<=": lambda to: to | self.related("<", to),
            ":": self._anywhere,
        }
        if relation in simple:
            return simple[relation](to)
        if relation[:2] in ("<<", ">>"):
            return self._chain(relation[0] == "<", self._edges(relation[2:]), to)
        edges = self._edges(relation[1:])
        if relation[0] == "<":
            found = np.zeros(self.size, dtype=bool)
            found[self.parents[to & edges]] = True
            return found
        return edges & to[self.parents]

    def _edges(self, kind: str) -> Bool[Array, "nodes"]:
        """Return the nodes that are a child of a certain kind: any, first, last, only, nth, or head."""
        if kind == "":
            return self.has_parent
        if kind == "#":
            return self.head_children
        first = self.has_parent & (self.numbers == self.parents + 1)
        if kind in (",", "1"):
            return first
        last = self.has_parent & (self.ends == self.ends[self.parents])
        if kind in ("-", "-1"):
            return last
        if kind == ":":
            return first & last
        number = int(kind)
        return self.has_parent & (self._ranks == (number - 1 if number > 0 else self._sizes + number))

    @cached_property
    def _by_parent(self) -> Int[Array, "nodes"]:
        return np.argsort(self.parents, kind="stable")

    @cached_property
    def _sizes(self) -> Int[Array, "nodes"]:
        """Number of children of each node's parent."""
        return np.bincount(self.parents[self.has_parent], minlength=self.size)[self.parents]

    @cached_property
    def _ranks(self) -> Int[Array, "nodes"]:
        """Index of each node among its siblings, from 0; meaningless for roots."""
        order = self._by_parent
        above = self.parents[order]
        starts = np.flatnonzero(np.concatenate([[True], above[1:] != above[:-1]]))
        ranks = np.empty(self.size, dtype=np.int64)
        ranks[order] = np.arange(self.size) - np.repeat(starts, np.diff(np.append(starts, self.size)))
        return ranks

    @cached_property
    def head_children(self) -> Bool[Array, "nodes"]:
        """The nodes that are the head child of their parent."""
        table = self.table
        heads = np.zeros(self.size, dtype=bool)
        order = self._by_parent[np.count_nonzero(~self.has_parent) :]
        above = self.parents[order]
        starts = np.flatnonzero(np.concatenate([np.ones(min(len(order), 1), dtype=bool), above[1:] != above[:-1]]))
        symbols = table.symbols[order].tolist()
        labels = table.symbols[above].tolist()
        chosen: dict[tuple[int, ...], int] = {}
        for begin, end in pairwise([*starts.tolist(), len(order)]):
            key = (labels[begin], *symbols[begin:end])
            head = chosen.get(key)
            if head is None:
                label, *children = (table.spellings[symbol] for symbol in key)
                head = chosen[key] = self.heads.head_index(label, children)
            heads[order[begin + head]] = True
        return heads

    def _chain(self, down: bool, edges: Bool[Array, "nodes"], to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        """Return the nodes with a path along `edges`, down or up, to `to`; each step doubles the length of paths."""
        nowhere = self.size
        following = np.full(self.size + 1, nowhere, dtype=np.int32)
        if down:
            following[self.parents[edges]] = self.numbers[edges]
        else:
            following[:-1][edges] = self.parents[edges]
        found = np.append(to, False)[following]
        while (following != nowhere).any():
            found |= found[following]
            following = following[following]
        return found[:-1]

    # -- along paths

    def _down_through(self, to: Bool[Array, "nodes"], path: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        # A node on the path passes the relation on to its parent; each step doubles the length of paths.
        found = np.append(self.related("<", to), False)
        nowhere = self.size
        following = np.full(self.size + 1, nowhere, dtype=np.int32)
        on_path = path & self.has_parent
        following[:-1][on_path] = self.parents[on_path]
        while (following != nowhere).any():
            found[following[found]] = True
            found[nowhere] = False
            following = following[following]
        return found[:-1]

    def _up_through(self, to: Bool[Array, "nodes"], path: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        on_path = path & self.has_parent
        found = to | self._chain(False, on_path, to)
        return self.has_parent & found[self.parents]

    def _before_through(self, to: Bool[Array, "nodes"], path: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        # Whether one of the nodes begins at a place between words, or a path of nodes that leads to one.
        reached = np.zeros(int(self.table.words_before[-1]) + 1, dtype=bool)
        reached[self._first[to]] = True
        inside = path & (self._last < self._bounds[1])
        _spread(reached, self._last[inside], self._first[inside], backwards=True)
        return reached[self._last] & (self._last < self._bounds[1])

    def _after_through(self, to: Bool[Array, "nodes"], path: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        reached = np.zeros(int(self.table.words_before[-1]) + 1, dtype=bool)
        reached[self._last[to]] = True
        inside = path & (self._first > self._bounds[0])
        _spread(reached, self._first[inside], self._last[inside], backwards=False)
        return reached[self._first] & (self._first > self._bounds[0])

    def _anywhere(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        trees = np.zeros(len(self.table), dtype=bool)
        trees[self.table.trees_of_nodes[to]] = True
        return trees[self.table.trees_of_nodes]

    # -- above and below

    def _dominates(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        before = _counts(to)
        return before[self.ends] > before[1:]

    def _dominated(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        # Ranges that have begun and not ended: those of the ancestors and of the node itself.
        open_ranges = _counts(to)[1:] - np.cumsum(np.bincount(self.ends[to], minlength=self.size + 1))[:-1]
        return open_ranges > to

    # -- before and after

    @cached_property
    def _first(self) -> Int[Array, "nodes"]:
        """Number of words before the first word of each node."""
        return self.table.first_words

    @cached_property
    def _last(self) -> Int[Array, "nodes"]:
        """Number of words before the end of the last word of each node."""
        return self.table.last_words

    @cached_property
    def _bounds(self) -> tuple[Int[Array, "nodes"], Int[Array, "nodes"]]:
        """Number of words before the beginning and before the end of each node's tree."""
        before = self.table.words_before[self.table.begins]
        trees = self.table.trees_of_nodes
        return before[:-1][trees], before[1:][trees]

    def _just_before(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        starts = np.zeros(int(self.table.words_before[-1]) + 1, dtype=bool)
        starts[self._first[to]] = True
        return starts[self._last] & (self._last < self._bounds[1])

    def _just_after(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        stops = np.zeros(int(self.table.words_before[-1]) + 1, dtype=bool)
        stops[self._last[to]] = True
        return stops[self._first] & (self._first > self._bounds[0])

    def _before(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        # Nodes that start at a word before this one.
        starts = _counts(np.bincount(self._first[to], minlength=int(self.table.words_before[-1]) + 1))
        return starts[self._bounds[1]] > starts[self._last]

    def _after(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        stops = np.cumsum(np.bincount(self._last[to], minlength=int(self.table.words_before[-1]) + 1))
        return stops[self._first] > stops[self._bounds[0]]

    # -- sisters

    def _sisters(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        children = np.bincount(self.parents[to & self.has_parent], minlength=self.size)
        return self.has_parent & (children[self.parents] > to)

    @cached_property
    def _has_next(self) -> Bool[Array, "nodes"]:
        return self.has_parent & (self.ends < self.ends[self.parents])

    def _next_sister(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        return self._has_next & np.append(to, False)[self.ends]

    def _previous_sister(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        found = np.zeros(self.size, dtype=bool)
        found[self.ends[to & self._has_next]] = True
        return found

    def _later_sister(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        latest = np.full(self.size, -1, dtype=np.int32)
        children = self.numbers[to & self.has_parent]
        latest[self.parents[children]] = children  # the last one wins
        return self.has_parent & (latest[self.parents] > self.numbers)

    def _earlier_sister(self, to: Bool[Array, "nodes"]) -> Bool[Array, "nodes"]:
        earliest = np.full(self.size, self.size, dtype=np.int32)
        children = self.numbers[to & self.has_parent][::-1]
        earliest[self.parents[children]] = children
        return self.has_parent & (earliest[self.parents] < self.numbers)


def _counts(values: Int[Array, "places"] | Bool[Array, "places"]) -> Int[Array, "bounds"]:
    """Return the sum of the values before each position, and the total."""
    return np.concatenate([[0], np.cumsum(values)])


def _spread(
    reached: Bool[Array, "places"], sources: Int[Array, "steps"], targets: Int[Array, "steps"], *, backwards: bool
) -> None:
    """Mark the targets of steps from marked places; all steps lead backwards, or all forwards."""
    steps = np.unique(np.stack([sources, targets]), axis=1) if len(sources) else np.zeros((2, 0), dtype=np.int64)
    if backwards:
        steps = steps[:, ::-1]
    marks = reached.tolist()
    for source, target in zip(*steps.tolist(), strict=True):
        if marks[source]:
            marks[target] = True
    reached[:] = marks
