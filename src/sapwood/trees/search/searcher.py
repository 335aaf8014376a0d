"""Search for tree patterns.

A pattern is evaluated from its innermost nodes outwards: the set of nodes that pass a test, the set of nodes with a
relation to one of those, and so on (`sapwood.trees.search.relations`). Sets cannot express references to a name (`=x`)
or a variable: such parts are assumed to hold. For patterns with names, a kernel then decides at each of the resulting
nodes whether the pattern matches, and chooses the nodes of the names, by backtracking within the sets. Where nothing is
referred to, the first choice is always right; the number of steps in a tree is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from sapwood.errors import TimedOut, UsageError
from sapwood.kernels import match_pattern
from sapwood.storage.shapes import Array, Bool, Int64
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.search.patterns import (
    And,
    Clause,
    LabelTest,
    Not,
    Optional,
    Pattern,
    PatternNode,
    Related,
    parse_pattern,
)
from sapwood.trees.search.program import Oracle, PatternProgram
from sapwood.trees.search.relations import Relations
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree

# Nodes per block, and maximum number of steps to match a pattern with references in a tree.
_BLOCK = 1 << 19
_MOST_STEPS = 200_000_000
_TREES = 5000


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
        self._program = PatternProgram(self.pattern)
        self._has_names = bool(self._program.names or self._program.variables)

    def matches(self, trees: TreeTable | Iterable[Tree]) -> Iterator[PatternMatch]:
        """Yield the matches, tree by tree, in the order of the nodes."""
        for table in _tables(trees):
            for found in self.blocks(table):
                yield from self.described(table, found)

    def described(self, table: TreeTable, found: MatchedNodes) -> Iterator[PatternMatch]:
        """Yield matches with the places of their nodes."""
        before = _Before(table)
        for node, named in zip(found.nodes.tolist(), found.names.tolist(), strict=True):
            pairs = zip(self._program.names, named, strict=False)
            names = {name: before.place(at) for name, at in pairs if at >= 0}
            tree = int(table.trees_of_nodes[node])
            yield PatternMatch(table.first + tree, before.place(node), names)

    def nodes(self, table: TreeTable) -> Int64[Array, "matches"]:
        """Return the numbers of the nodes in the table that match."""
        found = [matches.nodes for matches in self.blocks(table)]
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

    def blocks(self, table: TreeTable) -> Iterator[MatchedNodes]:
        """Yield the nodes that match, and those of names, in one block of trees after another."""
        accepted = {id(node.test): self._accepted(node.test, table) for node in self.pattern.nodes()}
        bounds = _cut(np.diff(table.begins), _BLOCK)
        for first, last in pairwise(bounds):
            part = table.part(first, last)
            sets = _Sets(self, part, accepted)
            nodes = np.flatnonzero(sets.root)
            if not self._has_names:
                yield MatchedNodes(nodes + int(table.begins[first]), np.zeros((len(nodes), 0), dtype=np.int64))
                continue
            yield self._named(part, nodes, sets.held, int(table.begins[first]))

    def _named(
        self, part: TreeTable, nodes: Int64[Array, "candidates"], held: Bool[Array, "parts nodes"], offset: int
    ) -> MatchedNodes:
        """Return which of the candidates match, with the nodes of the pattern's names."""
        program = self._program
        in_order = part.positions is None or not program.has_precedence
        nothing = np.zeros(0, dtype=np.int64)
        first_words = nothing if in_order else part.first_words
        last_words = nothing if in_order else part.last_words
        oracle = Oracle(part.spellings, program.tests, self.heads, self.clock.check)
        matching, named, too_long = match_pattern(
            program.table(), np.array(program.lists, dtype=np.int32), len(program.names), len(program.variables),
            len(part.spellings), part.n_labels, oracle, part.symbols, part.parents, part.begins, first_words,
            last_words, nodes, held, _MOST_STEPS,
        )  # fmt: skip
        if too_long >= 0:
            names = " and ".join([*self.pattern.joined, *self.pattern.variables])
            raise UsageError(
                f"tree {part.first + too_long + 1} has too many nodes that could be {names}; "
                "say more about them, or refer to fewer names"
            )
        return MatchedNodes(matching + offset, np.where(named < 0, named, named + offset))

    def _accepted(self, test: LabelTest, table: TreeTable) -> Bool[Array, "spellings"]:
        self.clock.check()
        spellings = enumerate(table.spellings)
        found = (test.accepts(text, number >= table.n_labels, self.clock.check) for number, text in spellings)
        return np.fromiter(found, dtype=bool, count=len(table.spellings))


class MatchedNodes(NamedTuple):
    """The nodes that match, and those of each name; -1 if a match has none."""

    nodes: Int64[Array, "matches"]
    names: Int64[Array, "matches names"]


class _Sets:
    """The nodes of some trees that fit each node and clause of a pattern.

    References to names and variables are assumed to fit, so that there may be too many nodes, never too few.

    Attributes
    ----------
    root
        The nodes that match, or may match.
    held
        For each row of the pattern's table, where that part holds, or may hold.
    """

    def __init__(self, searcher: Searcher, table: TreeTable, accepted: Mapping[int, Bool[Array, "spellings"]]) -> None:
        self.searcher = searcher
        self.table = table
        self.accepted = accepted
        self._program = searcher._program
        self._relations = Relations(table, searcher.heads)
        rows = len(self._program.parts) if searcher._has_names else 0
        self.held = np.zeros((rows, len(table.symbols)), dtype=bool)
        self.root = self._fitting(searcher.pattern.root, True)

    def _keep(self, part: PatternNode | Clause, found: Bool[Array, "nodes"], positive: bool) -> None:
        if len(self.held):
            # In a negation, what is not known for certain may hold.
            self.held[self._program.numbers[id(part)]] = found if positive or self._program.is_pure(part) else True

    def _fitting(self, node: PatternNode, positive: bool) -> Bool[Array, "nodes"]:
        self.searcher.clock.check()
        if node.reference or (node.variables and not positive):
            found = np.full(len(self.table.symbols), positive)
        else:
            found = self.accepted[id(node.test)][self.table.symbols]
        if node.clause is not None:
            found = found & self._holding(node.clause, positive)
        self._keep(node, found, positive)
        return found

    def _holding(self, clause: Clause, positive: bool) -> Bool[Array, "nodes"]:
        if isinstance(clause, Related):
            path = None if clause.path is None else self._fitting(clause.path, positive)
            found = self._relations.related(clause.relation, self._fitting(clause.node, positive), path)
        elif isinstance(clause, Not):
            found = ~self._holding(clause.clause, not positive)
        elif isinstance(clause, Optional):
            self._holding(clause.clause, positive)
            found = np.ones(len(self.table.symbols), dtype=bool)
        else:
            join = np.logical_and if isinstance(clause, And) else np.logical_or
            found = join.reduce([self._holding(part, positive) for part in clause.clauses])
        self._keep(clause, found, positive)
        return found


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
        start, end = (int(column[node] - words[begin]) for column in (table.first_words, table.last_words))
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
