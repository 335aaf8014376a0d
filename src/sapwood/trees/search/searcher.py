"""Search for tree patterns.

A pattern is evaluated from its innermost nodes outwards: the set of nodes that pass a test, the set of nodes with a
relation to one of those, and so on (`sapwood.trees.search.relations`). Sets cannot express references to a name (`=x`).
A pattern with references is evaluated once for each node that could have the name, on copies of the tree that differ in
the node with the name; the number of copies is bounded.

The nodes of the names are chosen afterwards, from the outermost node inwards, and the first that fits is taken: the
members of the sets always lead to a match.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise, product
from typing import NamedTuple

import numpy as np

from sapwood.errors import TimedOut, UsageError
from sapwood.storage.shapes import Array, Bool, Int64
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.search.patterns import And, Clause, LabelTest, Not, Or, Pattern, PatternNode, Related, parse_pattern
from sapwood.trees.search.relations import Relations, inverse
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree

# Nodes per block, and maximum number of nodes in the copies of a tree.
_BLOCK = 1 << 19
_MOST_COPIED = 1 << 23
_TREES = 5000
_NOWHERE = -1


class NodeRef(NamedTuple):
    """A node of a tree: its number in the order of `Tree.nodes`, its words `start .. end - 1`, and its label.

    For a word (`is_word`) the number is that of its tag, and the label is the word.
    """

    node: int
    start: int
    end: int
    label: str
    is_word: bool


class PatternMatch(NamedTuple):
    """A match of a pattern: the number of the tree (from 0), the place of the node, and the places of named nodes."""

    tree: int
    place: NodeRef
    names: Mapping[str, NodeRef]


class SearchSummary(NamedTuple):
    """Number of matching nodes, of matching trees, and of all trees."""

    matches: int
    matching_trees: int
    trees: int


class _Clock:
    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.end = None if seconds is None else time.monotonic() + seconds

    def check(self) -> None:
        if self.end is not None and time.monotonic() > self.end:
            raise TimedOut(f"the search took more than {self.seconds:g} seconds; ask for less, or allow more")


class Searcher:
    """Search for a pattern in tables of trees.

    Parameters
    ----------
    pattern
        The pattern, as text or parsed.
    heads
        Head rules for `<#`. Default: `HeadRules.english()`.
    timeout
        Seconds from construction after which a search raises `TimedOut`. Default: no limit.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")
    >>> [match.place.label for match in Searcher("NP|VP < /^NN/").matches([tree])]
    ['NP']
    """

    def __init__(self, pattern: str | Pattern, *, heads: HeadRules | None = None, timeout: float | None = None) -> None:
        self.pattern = parse_pattern(pattern) if isinstance(pattern, str) else pattern
        self.heads = HeadRules.english() if heads is None else heads
        self.clock = _Clock(timeout)

    def matches(self, trees: TreeTable | Iterable[Tree]) -> Iterator[PatternMatch]:
        """Yield the matches, tree by tree, in the order of the nodes."""
        for table in _tables(trees):
            before = _Before(table)
            for sets in self._blocks(table):
                for node, local in zip(sets.nodes.tolist(), sets.local.tolist(), strict=True):
                    named = sets.named(local)
                    names = {name: before.place(sets.origin(at)) for name, at in named.items()}
                    tree = int(table.trees_of_nodes[node])
                    yield PatternMatch(table.first + tree, before.place(node), names)

    def nodes(self, table: TreeTable) -> Int64[Array, "matches"]:
        """Return the numbers of the nodes in the table that match."""
        found = [sets.nodes for sets in self._blocks(table)]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def count(self, trees: TreeTable | Iterable[Tree]) -> SearchSummary:
        """Count the matching nodes and trees."""
        matches = matching = total = 0
        for table in _tables(trees):
            nodes = self.nodes(table)
            matches += len(nodes)
            matching += len(np.unique(table.trees_of_nodes[nodes]))
            total += len(table)
        return SearchSummary(matches, matching, total)

    def _blocks(self, table: TreeTable) -> Iterator[_Sets]:
        """Yield the matches in one block of trees after another."""
        accepted = {id(node.test): self._accepted(node.test, table) for node in self.pattern.nodes()}
        bounds = _cut(np.diff(table.begins), _BLOCK)
        for first, last in pairwise(bounds):
            part = table.part(first, last)
            offset = int(table.begins[first])
            sets = _Sets(self, part, accepted, {}, np.arange(len(part.symbols)) + offset)
            if not self.pattern.joined:
                yield sets
                continue
            for copies, fixed, origins in _copies(part, sets, self.pattern.joined):
                yield _Sets(self, copies, accepted, fixed, origins + offset)

    def _accepted(self, test: LabelTest, table: TreeTable) -> Bool[Array, "spellings"]:
        self.clock.check()
        spellings = enumerate(table.spellings)
        found = (test.accepts(text, number >= table.n_labels, self.clock.check) for number, text in spellings)
        return np.fromiter(found, dtype=bool, count=len(table.spellings))


class _Sets:
    """The nodes of some trees that fit each node and clause of a pattern.

    Without `fixed`, references to names are assumed to fit, so that there may be too many matches, never too few.
    """

    def __init__(
        self,
        searcher: Searcher,
        table: TreeTable,
        accepted: Mapping[int, Bool[Array, "spellings"]],
        fixed: Mapping[str, Bool[Array, "nodes"]],
        origins: Int64[Array, "nodes"],
    ) -> None:
        self.searcher = searcher
        self.table = table
        self.accepted = accepted
        self.fixed = fixed
        self._origins = origins
        self._relations = Relations(table, searcher.heads)
        self.held: dict[int, Bool[Array, "nodes"]] = {}
        root = self._fitting(searcher.pattern.root, True)
        local = np.flatnonzero(root)
        # The first matching copy of a tree is used.
        self.nodes, first = np.unique(origins[local], return_index=True)
        self.local = local[first]
        self._single: tuple[int, Relations] | None = None

    def origin(self, node: int) -> int:
        """Return the number of a node in the whole table."""
        return int(self._origins[node])

    def _fitting(self, node: PatternNode, positive: bool) -> Bool[Array, "nodes"]:
        self.searcher.clock.check()
        if node.reference and not self.fixed:
            found = np.full(len(self.table.symbols), positive)
        elif node.reference:
            found = self.fixed[node.name or ""]
        else:
            found = self.accepted[id(node.test)][self.table.symbols]
            if node.name is not None and node.name in self.fixed:
                found &= self.fixed[node.name]
        if node.clause is not None:
            found = found & self._holding(node.clause, positive)
        self.held[id(node)] = found
        return found

    def _holding(self, clause: Clause, positive: bool) -> Bool[Array, "nodes"]:
        if isinstance(clause, Related):
            found = self._relations.related(clause.relation, self._fitting(clause.node, positive))
        elif isinstance(clause, Not):
            found = ~self._holding(clause.clause, not positive)
        else:
            join = np.logical_and if isinstance(clause, And) else np.logical_or
            found = join.reduce([self._holding(part, positive) for part in clause.clauses])
        self.held[id(clause)] = found
        return found

    def named(self, root: int) -> dict[str, int]:
        """Return the nodes of the pattern's names in the match at `root`."""
        names: dict[str, int] = {}
        if not self.searcher.pattern.names:
            return names
        tree = int(self.table.trees_of_nodes[root])
        begin, end = int(self.table.begins[tree]), int(self.table.begins[tree + 1])
        if self._single is None or self._single[0] != tree:
            self._single = tree, Relations(self.table.part(tree, tree + 1), self.searcher.heads)
        relations = self._single[1]
        waiting: list[tuple[PatternNode | Clause, int]] = [(self.searcher.pattern.root, root)]
        while waiting:
            part, at = waiting.pop()
            if isinstance(part, PatternNode):
                if part.name is not None and not part.reference:
                    names[part.name] = at
                if part.clause is not None:
                    waiting.append((part.clause, at))
            elif isinstance(part, Related):
                there = np.zeros(end - begin, dtype=bool)
                there[at - begin] = True
                there = relations.related(inverse(part.relation), there) & self.held[id(part.node)][begin:end]
                waiting.append((part.node, begin + int(np.argmax(there))))
            elif isinstance(part, And):
                waiting.extend((clause, at) for clause in part.clauses)
            elif isinstance(part, Or):
                waiting.append((next(clause for clause in part.clauses if self.held[id(clause)][at]), at))
        return {name: names[name] for name in self.searcher.pattern.names if name in names}


class _Before:
    """Positions of a table's nodes in their trees."""

    def __init__(self, table: TreeTable) -> None:
        self.table = table

    def place(self, node: int) -> NodeRef:
        table = self.table
        begin = int(table.begins[table.trees_of_nodes[node]])
        words = table.words_before
        is_word = bool(table.symbols[node] >= table.n_labels)
        # Words are not nodes of a `Tree`.
        number = node - begin - int(words[node] - words[begin]) - is_word
        start, end = (int(words[at] - words[begin]) for at in (node, table.ends[node]))
        return NodeRef(number, start, end, table.spellings[table.symbols[node]], is_word)


def _tables(trees: TreeTable | Iterable[Tree]) -> Iterator[TreeTable]:
    if isinstance(trees, TreeTable):
        yield trees
        return
    first = 0
    waiting = iter(trees)
    while some := list(islice(waiting, _TREES)):
        yield TreeTable.from_trees(some, first=first)
        first += len(some)


def _cut(sizes: Int64[Array, "trees"], most: int) -> list[int]:
    """Return where to cut a sequence of trees so that each piece has about `most` nodes."""
    pieces = np.cumsum(sizes) // most
    return [0, *(np.flatnonzero(np.diff(pieces)) + 1).tolist(), len(sizes)] if len(sizes) else []


def _copies(
    table: TreeTable, sets: _Sets, names: list[str]
) -> Iterator[tuple[TreeTable, dict[str, Bool[Array, "nodes"]], Int64[Array, "nodes"]]]:
    """Yield copies of the trees, one for each choice of the nodes that have these names.

    Each item is a table of copies, the nodes that have each name, and the original numbers of all nodes.
    """
    pattern = sets.searcher.pattern
    named = {node.name: node for node in pattern.nodes() if not node.reference}
    candidates = {name: np.flatnonzero(sets.held[id(named[name])]) for name in names}
    waiting: list[tuple[int, ...]] = []
    size = 0
    for tree in np.unique(table.trees_of_nodes[sets.local]).tolist():
        begin, end = int(table.begins[tree]), int(table.begins[tree + 1])
        # If no node can have a name, an alternative without it may still hold.
        choices = [
            nodes[slice(*np.searchsorted(nodes, [begin, end]))].tolist() or [_NOWHERE] for nodes in candidates.values()
        ]
        needed = math.prod(map(len, choices)) * (end - begin)
        if needed > _MOST_COPIED:
            raise UsageError(
                f"tree {table.first + tree + 1} has too many nodes that could be {' and '.join(names)}; "
                "say more about them, or refer to fewer names"
            )
        if waiting and size + needed > _BLOCK:
            yield _copied(table, waiting, names)
            waiting, size = [], 0
        waiting.extend((tree, *chosen) for chosen in product(*choices))
        size += needed
    if waiting:
        yield _copied(table, waiting, names)


def _copied(
    table: TreeTable, copies: list[tuple[int, ...]], names: list[str]
) -> tuple[TreeTable, dict[str, Bool[Array, "nodes"]], Int64[Array, "nodes"]]:
    trees, *chosen = np.array(copies, dtype=np.int64).T
    sizes = np.diff(table.begins)[trees]
    begins = np.concatenate([[0], np.cumsum(sizes)])
    shifts = table.begins[trees] - begins[:-1]
    of_nodes = np.repeat(shifts, sizes)
    origins = np.arange(begins[-1]) + of_nodes
    parents = np.where(table.parents[origins] < 0, -1, table.parents[origins] - of_nodes)
    made = TreeTable(
        table.spellings,
        table.n_labels,
        table.symbols[origins],
        parents.astype(np.int32),
        (table.ends[origins] - of_nodes).astype(np.int32),
        begins,
        table.lines[trees],
    )
    fixed = {}
    for name, nodes in zip(names, chosen, strict=True):
        fixed[name] = np.zeros(len(origins), dtype=bool)
        fixed[name][(nodes - shifts)[nodes != _NOWHERE]] = True
    return made, fixed, origins
