"""Many trees as columns of their nodes, for search: read in a moment, and looked at all at once.

Nodes stand in preorder, tree after tree, and words are nodes below their tags. In contrast to a `Corpus`, which holds
what a learner sees (clean, binarised trees), a table holds trees as they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from sapwood.errors import InputError
from sapwood.files import STANDARD_STREAM, name_of, open_binary, read_lines
from sapwood.shapes import Array, Int, Int32, Int64
from sapwood.trees.brackets import TOKENS, OnBad, unescape_label
from sapwood.trees.formats import InputFormat, detect_format, locate_trees
from sapwood.trees.tree import Tree, from_preorder

# Trees of a table that is made of trees, and the largest text that is scanned at once.
_TREES = 5000
_LARGEST = 1 << 30


@dataclass(frozen=True, eq=False)
class TreeTable:
    """Trees as columns of their nodes; make one with `from_trees` or `read_tables`.

    Attributes
    ----------
    spellings
        What the nodes' numbers stand for: labels, then words.
    n_labels
        How many of these are labels.
    symbols
        The number of each node's label or word.
    parents
        The number of each node's parent; -1 for roots.
    ends
        One behind the last node below each node.
    begins
        The root of each tree, and behind the last tree the number of nodes.
    lines
        The line of the file that each tree ends on; 0 if there is no file.
    first
        How many trees the file has before those of this table.
    """

    spellings: Sequence[str]
    n_labels: int
    symbols: Int32[Array, "nodes"]
    parents: Int32[Array, "nodes"]
    ends: Int32[Array, "nodes"]
    begins: Int64[Array, "bounds"]
    lines: Int64[Array, "trees"]
    first: int = 0

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.begins) - 1

    def __repr__(self) -> str:
        return f"<TreeTable: {len(self):,} trees, {len(self.symbols):,} nodes>"

    @classmethod
    def from_trees(cls, trees: Iterable[Tree], *, lines: Sequence[int] | None = None, first: int = 0) -> TreeTable:
        """Make the table of some trees."""
        labels: dict[str, int] = {}
        words: dict[str, int] = {}
        symbols: list[int] = []
        parents: list[int] = []
        ends: list[int] = []
        begins = [0]
        for tree in trees:
            # A frame is a node and its parent's number, or None and the number of a node that ends.
            stack: list[tuple[Tree | None, int]] = [(tree, -1)]
            while stack:
                node, above = stack.pop()
                number = len(symbols)
                if node is None:
                    ends[above] = number
                    continue
                symbols.append(labels.setdefault(node.label, len(labels)))
                parents.append(above)
                ends.append(number + 2)
                if node.word is None:
                    stack.append((None, number))
                    stack.extend((child, number) for child in reversed(node.children))
                else:
                    symbols.append(-1 - words.setdefault(node.word, len(words)))
                    parents.append(number)
                    ends.append(number + 2)
            begins.append(len(symbols))
        where = np.zeros(len(begins) - 1, dtype=np.int64) if lines is None else np.array(lines, dtype=np.int64)
        numbers, parent_of, end_of = (np.array(column, dtype=np.int32) for column in (symbols, parents, ends))
        starts = np.array(begins, dtype=np.int64)
        return cls._numbered(list(labels), list(words), numbers, parent_of, end_of, starts, where, first)

    @classmethod
    def _numbered(
        cls,
        labels: list[str],
        words: list[str],
        symbols: Int32[Array, "nodes"],
        parents: Int32[Array, "nodes"],
        ends: Int32[Array, "nodes"],
        begins: Int64[Array, "bounds"],
        lines: Int64[Array, "trees"],
        first: int = 0,
    ) -> TreeTable:
        """Make a table of columns in which the words are -1, -2 and so on."""
        numbers = np.where(symbols < 0, len(labels) - 1 - symbols, symbols).astype(np.int32)
        return cls([*labels, *words], len(labels), numbers, parents, ends, begins, lines, first)

    @classmethod
    def scan(cls, text: bytes) -> TreeTable | None:
        """Return the table of a bracket file's bytes, or None if they are better left to the reader of trees."""
        from sapwood.kernels import scan_brackets

        text = text.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in text or len(text) > _LARGEST:
            return None
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return None
        fine, symbols, parents, ends, begins, lines, labels, words = scan_brackets(np.frombuffer(text, dtype=np.uint8))
        if not fine:
            return None
        found = [
            [text[begin:end].decode("utf-8") for begin, end in places.reshape(-1, 2).tolist()]
            for places in (labels, words)
        ]
        return cls._numbered(
            [unescape_label(label) if label else "" for label in found[0]],
            [TOKENS.read(word) for word in found[1]],
            *(symbols, parents, ends, begins, lines),
        )

    @cached_property
    def trees_of_nodes(self) -> Int[Array, "nodes"]:
        """The number of the tree that each node is in."""
        return np.repeat(np.arange(len(self)), np.diff(self.begins))

    @cached_property
    def words_before(self) -> Int64[Array, "bounds"]:
        """How many words stand before each node, and in all."""
        return np.concatenate([[0], np.cumsum(self.symbols >= self.n_labels)])

    def part(self, first: int, last: int) -> TreeTable:
        """Return the table of the trees from `first` up to `last`, without it."""
        begin, end = int(self.begins[first]), int(self.begins[last])
        parents = self.parents[begin:end] - begin
        return TreeTable(
            self.spellings,
            self.n_labels,
            self.symbols[begin:end],
            np.maximum(parents, -1).astype(np.int32),
            self.ends[begin:end] - begin,
            self.begins[first : last + 1] - begin,
            self.lines[first:last],
            self.first + first,
        )

    def tree(self, number: int) -> Tree:
        """Return a tree."""
        return self.subtree(int(self.begins[number]))

    def subtree(self, node: int) -> Tree:
        """Return what is below a node; of a word, the tag above it."""
        if self.symbols[node] >= self.n_labels:
            node = int(self.parents[node])
        end = int(self.ends[node])
        symbols = self.symbols[node:end].tolist()
        children = [0] * (end - node)
        for parent in self.parents[node + 1 : end].tolist():
            children[parent - node] += 1
        spellings, n_labels = self.spellings, self.n_labels
        events: list[tuple[str, str | None, int]] = []
        for symbol, count in zip(symbols, children, strict=True):
            if symbol >= n_labels:
                label, _, _ = events.pop()
                events.append((label, spellings[symbol], 0))
            else:
                events.append((spellings[symbol], None, count))
        return from_preorder(events)


def read_tables(path: str | Path, *, format: InputFormat = "auto", on_bad: OnBad | None = None) -> Iterator[TreeTable]:
    """Yield the trees of a file as tables: all at once where it is in well-formed brackets, else some at a time.

    The parameters are those of `sapwood.trees.formats.read_trees`, and so are the trees and the errors.
    """
    lines: Iterable[tuple[int, str]]
    if str(path) == STANDARD_STREAM or format not in ("auto", "brackets"):
        lines = read_lines(path)
    else:
        with open_binary(path) as stream:
            text = stream.read(_LARGEST + 1)
        start = [(1, text[:4096].removeprefix(b"\xef\xbb\xbf").lstrip().decode("utf-8", "replace"))]
        if format == "brackets" or detect_format(start) == "brackets":
            table = TreeTable.scan(text)
            if table is not None:
                yield table
                return
        del text
        lines = read_lines(path)
    located = locate_trees(lines, source=name_of(path), format=format, on_bad=on_bad)
    first = 0
    while some := list(islice(located, _TREES)):
        trees, where = zip(*some, strict=True)
        yield TreeTable.from_trees(trees, lines=where, first=first)
        first += len(some)


def read_table(path: str | Path, *, format: InputFormat = "auto", on_bad: OnBad | None = None) -> TreeTable:
    """Return all trees of a file in one table."""
    tables = list(read_tables(path, format=format, on_bad=on_bad))
    if len(tables) == 1:
        return tables[0]
    if not tables:
        raise InputError(f"{name_of(path)}: no trees in it")
    trees = (table.tree(number) for table in tables for number in range(len(table)))
    lines = np.concatenate([table.lines for table in tables])
    return TreeTable.from_trees(trees, lines=lines.tolist())
