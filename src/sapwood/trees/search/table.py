"""Tree tables: many trees as columns of their nodes, for fast loading and vectorised search.

Nodes are in preorder, tree after tree, and words are nodes below their tags. In contrast to a `Corpus`, which holds the
normalised, binarised trees that a learner sees, a table holds trees as written in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from sapwood.errors import InputError
from sapwood.storage.files import STANDARD_STREAM, name_of, open_binary, read_lines
from sapwood.storage.shapes import Array, Int, Int32, Int64
from sapwood.trees.formats.brackets import TOKENS, OnBad, escape_label, format_tree, unescape_label
from sapwood.trees.formats.discbracket import format_discbracket
from sapwood.trees.formats.gaps import Gaps, positions
from sapwood.trees.formats.registry import InputFormat, detect_format, locate_trees
from sapwood.trees.tree import PlacedWord, Tree, from_preorder

# Trees per table when built from trees, and the largest text that is scanned at once.
_TREES = 5000
_LARGEST = 1 << 30


@dataclass(frozen=True, eq=False)
class TreeTable:
    """Trees as columns of their nodes; make one with `from_trees` or `read_tables`.

    Attributes
    ----------
    spellings
        The strings that `symbols` numbers: labels, then words.
    n_labels
        Number of labels among them.
    symbols
        The number of each node's label or word.
    parents
        The number of each node's parent; -1 for roots.
    ends
        One past the last node below each node.
    begins
        The root of each tree, then the number of nodes.
    lines
        The last line of each tree in its file; 0 without a file.
    first
        Number of trees in the file before those of this table.
    positions
        The position of each word in its tree, in the order of the nodes; None if no tree has gaps, so that words are in
        their order.
    """

    spellings: Sequence[str]
    n_labels: int
    symbols: Int32[Array, "nodes"]
    parents: Int32[Array, "nodes"]
    ends: Int32[Array, "nodes"]
    begins: Int64[Array, "bounds"]
    lines: Int64[Array, "trees"]
    first: int = 0
    positions: Int64[Array, "words"] | None = None

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.begins) - 1

    def __repr__(self) -> str:
        return f"<TreeTable: {len(self):,} trees, {len(self.symbols):,} nodes>"

    @classmethod
    def from_trees(
        cls, trees: Iterable[Tree], *, lines: Sequence[int] | None = None, first: int = 0, placed: bool = False
    ) -> TreeTable:
        """Build a table from trees; with `placed`, words have positions even if no tree has gaps."""
        labels: dict[str, int] = {}
        words: dict[str, int] = {}
        symbols: list[int] = []
        parents: list[int] = []
        ends: list[int] = []
        begins = [0]
        places: list[int] = []
        has_gaps = placed
        for tree in trees:
            has_gaps = has_gaps or tree.is_placed
            places += positions(tree)
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
                    symbols.append(-1 - words.setdefault(str(node.word), len(words)))
                    parents.append(number)
                    ends.append(number + 2)
            begins.append(len(symbols))
        where = np.zeros(len(begins) - 1, dtype=np.int64) if lines is None else np.array(lines, dtype=np.int64)
        numbers, parent_of, end_of = (np.array(column, dtype=np.int32) for column in (symbols, parents, ends))
        starts = np.array(begins, dtype=np.int64)
        table = cls.numbered(list(labels), list(words), numbers, parent_of, end_of, starts, where, first)
        return replace(table, positions=np.array(places, np.int64)) if has_gaps else table

    @classmethod
    def numbered(
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
        """Build a table from columns in which words are numbered -1, -2 and so on."""
        numbers = np.where(symbols < 0, len(labels) - 1 - symbols, symbols).astype(np.int32)
        return cls([*labels, *words], len(labels), numbers, parents, ends, begins, lines, first)

    @classmethod
    def scan(cls, text: bytes) -> TreeTable | None:
        """Return the table of a bracket file's bytes, or None if they require the tree reader."""
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
        return cls.numbered(
            [unescape_label(label) if label else "" for label in found[0]],
            [TOKENS.read(word) for word in found[1]],
            *(symbols, parents, ends, begins, lines),
        )

    @cached_property
    def trees_of_nodes(self) -> Int[Array, "nodes"]:
        """The number of each node's tree."""
        return np.repeat(np.arange(len(self)), np.diff(self.begins))

    @cached_property
    def words_before(self) -> Int64[Array, "bounds"]:
        """Number of words before each node, and in total."""
        return np.concatenate([[0], np.cumsum(self.symbols >= self.n_labels)])

    @cached_property
    def first_words(self) -> Int64[Array, "nodes"]:
        """Number of words before the first word of each node, in the order of trees and sentences."""
        before = self.words_before[:-1]
        if self.positions is None:
            return before
        return self._words_before_trees + self.positions[before]

    @cached_property
    def last_words(self) -> Int64[Array, "nodes"]:
        """The same, up to and including the last word of each node."""
        if self.positions is None:
            return self.words_before[self.ends]
        last = self.positions[self.words_before[:-1]]
        for node in range(len(last) - 1, -1, -1):
            parent = self.parents[node]
            if parent >= 0 and last[parent] < last[node]:
                last[parent] = last[node]
        return self._words_before_trees + last + 1

    @cached_property
    def _words_before_trees(self) -> Int64[Array, "nodes"]:
        """Number of words before the tree of each node."""
        return self.words_before[self.begins[:-1]][self.trees_of_nodes]

    def part(self, first: int, last: int) -> TreeTable:
        """Return the table of the trees `first .. last - 1`."""
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
            None if self.positions is None else self.positions[self.words_before[begin] : self.words_before[end]],
        )

    def to_brackets(self) -> bytes:
        """Return all trees in Penn brackets, one per line, as `format_tree` writes them; they must have no gaps."""
        if self.positions is not None:
            return "".join(f"{format_tree(self.tree(number))}\n" for number in range(len(self))).encode("utf-8")
        from sapwood.kernels import write_brackets

        used, inverse = np.unique(self.symbols, return_inverse=True)
        symbols = inverse.astype(np.int32).reshape(-1)
        n_labels = int(np.searchsorted(used, self.n_labels))
        labels = [self.spellings[symbol] for symbol in used[:n_labels].tolist()]
        words = [self.spellings[symbol] for symbol in used[n_labels:].tolist()]
        # Phrases without a label are written without one, tags are not.
        texts = [escape_label(label) if label else "" for label in labels]
        texts += [TOKENS.write(word) for word in words]
        if "" in labels:
            tags = self.parents[symbols >= n_labels]
            unlabelled = tags[symbols[tags] == labels.index("")]
            texts.insert(n_labels, escape_label(""))
            symbols[symbols >= n_labels] += 1
            symbols[unlabelled] = n_labels
            n_labels += 1
        encoded = [text.encode("utf-8") for text in texts]
        bounds = np.concatenate([[0], np.cumsum([len(text) for text in encoded], dtype=np.int64)]).astype(np.int64)
        spelled = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return write_brackets(symbols, self.ends, self.begins, spelled, bounds, n_labels).tobytes()

    def format_tree(self, tree: Tree) -> str:
        """Return one of these trees on a line, in discbracket if any of them has gaps, so that all are read alike."""
        return str(tree) if self.positions is None else format_discbracket(tree)

    def tree(self, number: int) -> Tree:
        """Return a tree."""
        return self.subtree(int(self.begins[number]))

    def subtree(self, node: int) -> Tree:
        """Return the subtree at a node; for a word, at its tag."""
        if self.symbols[node] >= self.n_labels:
            node = int(self.parents[node])
        end = int(self.ends[node])
        symbols = self.symbols[node:end].tolist()
        children = [0] * (end - node)
        for parent in self.parents[node + 1 : end].tolist():
            children[parent - node] += 1
        spellings, n_labels = self.spellings, self.n_labels
        places = None
        if self.positions is not None:
            tree = slice(*self.begins[self.trees_of_nodes[node] :][:2])
            of_tree = self.positions[slice(*self.words_before[[tree.start, tree.stop]])]
            if (np.diff(of_tree) != 1).any():
                places = iter(self.positions[self.words_before[node] : self.words_before[end]].tolist())
        events: list[tuple[str, str | None, int]] = []
        for symbol, count in zip(symbols, children, strict=True):
            if symbol >= n_labels:
                label, _, _ = events.pop()
                word = spellings[symbol] if places is None else PlacedWord(spellings[symbol], next(places))
                events.append((label, word, 0))
            else:
                events.append((spellings[symbol], None, count))
        return from_preorder(events)


def _first_line(text: bytes) -> list[tuple[int, str]]:
    """Return the first line of a file that is not blank, with a number."""
    begin = 3 if text.startswith(b"\xef\xbb\xbf") else 0
    while text[begin : begin + 1].isspace():
        begin += 1
    end = text.find(b"\n", begin)
    return [(1, text[begin : end if end >= 0 else None].decode("utf-8", "replace"))]


def read_tables(
    path: str | Path, *, format: InputFormat = "auto", on_bad: OnBad | None = None, gaps: Gaps = "keep"
) -> Iterator[TreeTable]:
    """Yield the trees of a file as tables: one table if it is in well-formed brackets, else several.

    Parameters, trees and errors are those of `sapwood.trees.formats.registry.read_trees`.
    """
    lines: Iterable[tuple[int, str]]
    if str(path) == STANDARD_STREAM or format not in ("auto", "brackets"):
        lines = read_lines(path)
    else:
        with open_binary(path) as stream:
            text = stream.read(_LARGEST + 1)
        if format == "brackets" or detect_format(_first_line(text), name_of(path)) == "brackets":
            table = TreeTable.scan(text)
            if table is not None:
                yield table
                return
        del text
        lines = read_lines(path)
    located = locate_trees(lines, source=name_of(path), format=format, on_bad=on_bad, gaps=gaps)
    first, placed = 0, False
    while some := list(islice(located, _TREES)):
        trees, where = zip(*some, strict=True)
        table = TreeTable.from_trees(trees, lines=where, first=first, placed=placed)
        yield table
        first += len(some)
        # All trees of a file with gaps are written alike.
        placed = table.positions is not None


def read_table(
    path: str | Path, *, format: InputFormat = "auto", on_bad: OnBad | None = None, gaps: Gaps = "keep"
) -> TreeTable:
    """Return all trees of a file in one table."""
    tables = list(read_tables(path, format=format, on_bad=on_bad, gaps=gaps))
    if len(tables) == 1:
        return tables[0]
    if not tables:
        raise InputError(f"{name_of(path)}: no trees in it")
    trees = (table.tree(number) for table in tables for number in range(len(table)))
    lines = np.concatenate([table.lines for table in tables])
    return TreeTable.from_trees(trees, lines=lines.tolist())
