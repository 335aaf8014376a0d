"""Sentence graphs, whose phrases may have gaps, and their conversion to trees.

NEGRA export, TIGER XML and discbracket have such sentences. `gaps` says what becomes of the gaps: `"keep"` keeps them,
`"split"` splits phrases with gaps (both: `sapwood.trees.formats.gaps`), `"error"` refuses them, and `"close"` closes
the gaps of a sentence in two steps:

1. A token without a letter or digit that is attached to the root (where these formats put
   punctuation) moves down to the lowest phrase over both the nearest other word before it and the
   one after it. At either end of the sentence it stays on the root.
2. Phrases are processed children first. The children of a phrase form blocks of adjacent ones. The
   block with the head stays: the first own child with edge `HD`; without one, the block with the
   most words, the leftmost in a tie. The children in the other blocks move to the phrase's parent,
   which is processed later, so that each ends at the closest ancestor where it leaves no gap.

A sentence without gaps is never changed, and no phrase loses all its children.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from sapwood.errors import InputError, TreeFormatError
from sapwood.trees.formats.gaps import Gaps, arrange, check_blocks, join_gaps, positions, split_gaps
from sapwood.trees.tree import PlacedWord, Tree

ROOT = "ROOT"
NOTHING = "--"
_HEAD_EDGE = "HD"
# Root labels that mean "the whole sentence" and are not written as phrases.
VIRTUAL_ROOTS = frozenset({"", ROOT, "TOP", "VROOT"})
# Comment on sentences in export and TIGER XML whose tree has another root, so that none is added.
WITHOUT_ROOT = "without ROOT"


class Row(NamedTuple):
    """A word or a phrase, with the number of its parent (0: the root) and its line."""

    text: str
    label: str
    edge: str
    parent: int
    line: int


class _Item(NamedTuple):
    """A finished subtree over the words `start` to `end`, with its parent and edge from the file."""

    start: int
    end: int
    tree: Tree
    parent: int
    edge: str


class Graph:
    """The words and phrases of a sentence; `tree` builds the tree.

    Parameters
    ----------
    name, line, source
        Name of the sentence in errors, its first line, and its file.
    """

    def __init__(self, name: str, line: int, source: str) -> None:
        self.name = name
        self.line = line
        self.source = source
        self.words: list[Row] = []
        self.phrases: dict[int, Row] = {}
        # Whether the only node below the root is the whole tree.
        self.without_root = False

    def error(self, problem: str, line: int, text: str = "") -> TreeFormatError:
        """Return an error about this sentence."""
        return TreeFormatError(f"{self.name}: {problem}", source=self.source, line=line, text=text)

    def shown(self, number: int) -> str:
        """Return the name of a phrase in errors."""
        return f"#{number}"

    def tree(self, gaps: Gaps, functions: bool) -> Tree:
        """Build the tree of the complete sentence, with `ROOT` at the top unless it is marked as a tree without it."""
        tree = self._rooted(gaps, functions)
        return tree.children[0] if self.without_root and len(tree.children) == 1 else tree

    def _rooted(self, gaps: Gaps, functions: bool) -> Tree:
        if not self.words:
            raise self.error("no words in it", self.line)
        order = self._order()
        gap = self._first_gap(order)
        parents = [word.parent for word in self.words]
        if gap is not None:
            if gaps == "error":
                row = self.phrases[gap]
                raise self.error(
                    f"the words below node {self.shown(gap)} ({row.label}) are not adjacent; "
                    'gaps="keep" keeps such gaps, "close" closes them, and "split" splits the phrase',
                    row.line,
                )
            if gaps == "close":
                self._lower_punctuation(parents, order)
        try:
            built = self._build(order, parents, functions) if gap is None or gaps == "close" else None
            return _treated(self._with_gaps(order, functions) if built is None else built, gaps)
        except InputError as error:
            raise self.error(str(error), self.line) from None

    def _with_gaps(self, order: list[int], functions: bool) -> Tree:
        """Build the tree with gaps."""
        below: dict[int, list[Tree]] = {number: [] for number in order}
        for position, word in enumerate(self.words):
            below[word.parent].append(Tree(_with_function(word, functions), word=PlacedWord(word.text, position)))
        for number in reversed(order[1:]):
            row = self.phrases[number]
            below[row.parent].append(Tree(_with_function(row, functions), below.pop(number)))
        return arrange(Tree(ROOT, below[0]))

    def _order(self) -> list[int]:
        """Return the phrase numbers, the root (0) first and every parent before its children."""
        phrases = self.phrases
        below: dict[int, list[int]] = {number: [] for number in (0, *phrases)}
        childless = set(phrases)
        for row in [*self.words, *phrases.values()]:
            if row.parent not in below:
                raise self.error(
                    f"there is no node {self.shown(row.parent)} to be the parent of this line", row.line, row.text
                )
            childless.discard(row.parent)
        if childless:
            row = phrases[min(childless)]
            raise self.error(f"node {row.text} ({row.label}) has no children", row.line)
        for number, row in phrases.items():
            below[row.parent].append(number)
        order = [0]
        for number in order:
            order.extend(below[number])
        if len(order) <= len(phrases):
            # Parents exist, yet the root is unreachable: every path up from here runs into a cycle.
            seen: set[int] = set()
            number = min(set(phrases) - set(order))
            while number not in seen:
                seen.add(number)
                number = phrases[number].parent
            raise self.error(f"node {self.shown(number)} is its own ancestor", phrases[number].line)
        return order

    def _first_gap(self, order: list[int]) -> int | None:
        """Return the number of a phrase whose words are not adjacent, or None."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        size = dict.fromkeys(order, 0)
        for position, word in enumerate(self.words):
            first.setdefault(word.parent, position)
            last[word.parent] = position
            size[word.parent] += 1
        for number in reversed(order[1:]):
            if last[number] - first[number] + 1 != size[number]:
                return number
            parent = self.phrases[number].parent
            first[parent] = min(first.get(parent, first[number]), first[number])
            last[parent] = max(last.get(parent, last[number]), last[number])
            size[parent] += size[number]
        return None

    def _lower_punctuation(self, parents: list[int], order: list[int]) -> None:
        """Step 1: change `parents` so that punctuation on the root moves into the phrase around it."""
        ancestors = _Ancestors({number: self.phrases[number].parent for number in order[1:]})
        loose = [word.parent == 0 and not any(map(str.isalnum, word.text)) for word in self.words]
        positions = [position for position, is_loose in enumerate(loose) if not is_loose]
        for before, after in itertools.pairwise(positions):
            if after == before + 1:
                continue
            lowest = ancestors.lowest(parents[before], parents[after])
            parents[before + 1 : after] = [lowest] * (after - before - 1)

    def _build(self, order: list[int], parents: list[int], functions: bool) -> Tree:
        """Do step 2, which changes nothing without gaps, and build the tree."""
        below: dict[int, list[_Item]] = {number: [] for number in order}
        for position, (word, parent) in enumerate(zip(self.words, parents, strict=True)):
            tag = _with_function(word, functions)
            below[parent].append(_Item(position, position + 1, Tree(tag, word=word.text), word.parent, word.edge))
        total = 0
        for number in reversed(order[1:]):
            row = self.phrases[number]
            items = sorted(below.pop(number))
            blocks = [[items[0]]]
            for item in items[1:]:
                if item.start == blocks[-1][-1].end:
                    blocks[-1].append(item)
                else:
                    blocks.append([item])
            total += len(blocks)
            check_blocks(total, len(order) + len(self.words))
            kept = blocks[0] if len(blocks) == 1 else _kept_block(blocks, number)
            children = [item.tree for item in kept]
            for block in blocks:
                if block is not kept:
                    below[row.parent].extend(block)
            tree = Tree(_with_function(row, functions), children)
            below[row.parent].append(_Item(kept[0].start, kept[-1].end, tree, row.parent, row.edge))
        return Tree(ROOT, [item.tree for item in sorted(below[0])])


class _Ancestors:
    """Lowest common ancestors in a tree of numbered nodes below 0, in logarithmic time.

    Each node has a jump to an ancestor, twice as far as the two before it if those are equally far (Myers 1983).
    """

    def __init__(self, parents: dict[int, int]) -> None:
        """Take the parent of each node, parents before children."""
        self._parents, self._depths, self._jumps = {0: 0, **parents}, {0: 0}, {0: 0}
        for number, parent in parents.items():
            self._depths[number] = self._depths[parent] + 1
            middle = self._jumps[parent]
            far = self._jumps[middle]
            is_equal = self._depths[parent] - self._depths[middle] == self._depths[middle] - self._depths[far]
            self._jumps[number] = far if is_equal else parent

    def lowest(self, a: int, b: int) -> int:
        """Return the lowest node that is above both, or one of them."""
        if self._depths[a] < self._depths[b]:
            a, b = b, a
        while self._depths[a] > self._depths[b]:
            jump = self._jumps[a]
            a = jump if self._depths[jump] >= self._depths[b] else self._parents[a]
        while a != b:
            is_far = self._jumps[a] != self._jumps[b]
            a, b = (self._jumps[a], self._jumps[b]) if is_far else (self._parents[a], self._parents[b])
        return a


def _treated(tree: Tree, gaps: Gaps) -> Tree:
    """Return a tree with its gaps split, or its parts joined."""
    return split_gaps(tree) if gaps == "split" else join_gaps(tree) if gaps == "join" else tree


def _kept_block(blocks: list[list[_Item]], number: int) -> list[_Item]:
    for block in blocks:
        if any(item.edge == _HEAD_EDGE and item.parent == number for item in block):
            return block
    return max(blocks, key=lambda block: block[-1].end - block[0].start)


def _with_function(row: Row, functions: bool) -> str:
    return f"{row.label}-{row.edge}" if functions and row.edge != NOTHING else row.label


def close_gaps(tree: Tree) -> Tree:
    """Return the tree with its gaps closed, as `gaps="close"` does for a tree without edge labels.

    >>> print(close_gaps(Tree.parse("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))", format="discbracket")))
    (S (VP (VB is)) (NP John) (JJ rich))
    """
    if not tree.has_gaps:
        return arrange(tree)
    graph = Graph("tree", 0, "<tree>")
    is_root = tree.label in VIRTUAL_ROOTS
    words: list[tuple[int, Row]] = []
    places = iter(positions(tree))
    # Nodes with the numbers of their parents; the root of the format has the number 0.
    waiting = [(tree, 0)]
    number = -1 if is_root else 0
    while waiting:
        node, parent = waiting.pop()
        if node.word is not None:
            words.append((next(places), Row(str(node.word), node.label, NOTHING, parent, 0)))
            continue
        number += 1
        if number:
            graph.phrases[number] = Row(node.label, node.label, NOTHING, parent, 0)
        waiting.extend((child, number) for child in reversed(node.children))
    graph.words = [row for _, row in sorted(words)]
    found = graph.tree("close", functions=False)
    return Tree(tree.label, found.children) if is_root else found.children[0]
