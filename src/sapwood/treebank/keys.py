r"""Keys to count by: what each expression says about a node.

An expression is a key, optionally of a named node of the pattern (`label:x`), optionally reduced to what a regular
expression finds (`word/-(.*)$/`: its first group, or the whole match without groups).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sapwood.errors import UsageError
from sapwood.storage.shapes import Array, Int32, Int64
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.normalise import cut_function_tag
from sapwood.trees.search.regex import Regex, texts_of
from sapwood.trees.search.relations import Relations
from sapwood.trees.search.table import TreeTable

# The value of a key where a node has none: the parent of a root, a name without a node.
NOTHING = "-"
# Maximum number of words, tags and sisters in a value.
_MOST = 200
KEYS: Mapping[str, str] = {
    "label": "label, or the word",
    "basic": "label without function tags",
    "word": "first word below",
    "words": "all words below",
    "lemma": "what follows the last hyphen of the first word",
    "tag": "tag of the first word",
    "tags": "all tags below",
    "head": "head word, by head rules",
    "head-tag": "tag of the head word",
    "parent": "label of the parent",
    "children": "labels of the children",
    "rule": "label, and labels of the children",
    "sisters": "labels of the sisters that have a letter, with _ for the node",
    "length": "number of words below",
    "tree-length": "number of words of the tree",
    "depth": "number of nodes above",
    "file": "name of the file",
}
_EXPRESSION = re.compile(r"([a-z-]+)(?::(\w+))?(?:/(.*)/)?\Z", re.DOTALL)


@dataclass(frozen=True)
class KeyExpression:
    """A key, the name of a node or an empty string, and a regular expression or None.

    >>> KeyExpression.parse("word:x/^(.)/").name
    'x'
    """

    text: str
    key: str
    name: str = ""
    regex: Regex | None = None

    @classmethod
    def parse(cls, text: str) -> KeyExpression:
        """Parse an expression; raises a `UsageError` that lists the keys."""
        found = _EXPRESSION.match(text)
        if found is None or found[1] not in KEYS:
            raise UsageError(
                f"{text!r} is not a key to count by: write KEY, KEY:NAME or KEY/regex/, with one of {', '.join(KEYS)}"
            )
        return cls(text, found[1], found[2] or "", None if found[3] is None else Regex(found[3], source=text))

    def reduce(self, value: str) -> str:
        """Return what the regular expression finds in a value."""
        if self.regex is None:
            return value
        found = self.regex.find(value)
        if found is None:
            return NOTHING
        return texts_of(value, found)[min(1, self.regex.groups)] or NOTHING


class NodeKeys:
    """Values of keys at the nodes of a table; those of words are shared by all nodes that have them.

    Parameters
    ----------
    table
        The trees.
    heads
        Head rules.
    file
        Name of the trees' file.
    """

    def __init__(self, table: TreeTable, heads: HeadRules, file: str = "") -> None:
        self.table, self._file = table, file
        self._relations = Relations(table, heads)

    def values(
        self, expression: KeyExpression, nodes: Int64[Array, "nodes"]
    ) -> tuple[Int64[Array, "nodes"], list[str]]:
        """Return the number of each node's value, and the values; nodes below 0 have the value `NOTHING`."""
        there = nodes >= 0
        numbers, texts = self._plain(expression.key, nodes[there])
        known: dict[str, int] = {}
        mapped = np.array([known.setdefault(expression.reduce(text), len(known)) for text in texts], dtype=np.int64)
        found = np.full(len(nodes), -1, dtype=np.int64)
        found[there] = mapped[numbers] if len(mapped) else numbers
        if not there.all():
            found[~there] = known.setdefault(NOTHING, len(known))
        return found, list(known)

    def _plain(self, key: str, nodes: Int64[Array, "nodes"]) -> tuple[Int64[Array, "nodes"], list[str]]:
        table = self.table
        if key in ("length", "tree-length", "depth"):
            numbers = {"length": self._lengths, "tree-length": self._tree_lengths, "depth": self._depths}[key](nodes)
            unique, places = np.unique(numbers, return_inverse=True)
            return places.reshape(-1), [str(number) for number in unique.tolist()]
        if key == "file":
            return np.zeros(len(nodes), dtype=np.int64), [self._file]
        if key in ("words", "tags", "children", "rule", "sisters"):
            return self._texts(key, nodes)
        if key in ("label", "basic"):
            return self._symbols(nodes, key == "basic")
        if key == "parent":
            return self._symbols(table.parents[nodes].astype(np.int64))
        if key in ("head", "head-tag"):
            words = self._head_words[nodes].astype(np.int64)
        else:
            words = self._word_nodes[table.words_before[nodes]]
        if key in ("tag", "head-tag"):
            return self._symbols(table.parents[words].astype(np.int64))
        numbers, texts = self._symbols(words)
        return numbers, [text.rpartition("-")[2] for text in texts] if key == "lemma" else texts

    def _symbols(self, nodes: Int64[Array, "nodes"], basic: bool = False) -> tuple[Int64[Array, "nodes"], list[str]]:
        """Return the numbers and texts of the labels or words of nodes; -1 for none."""
        table = self.table
        symbols = np.where(nodes < 0, -1, table.symbols[nodes])
        unique, places = np.unique(symbols, return_inverse=True)
        texts = [NOTHING if symbol < 0 else table.spellings[symbol] for symbol in unique.tolist()]
        if basic:
            texts = [
                cut_function_tag(text) if 0 <= symbol < table.n_labels else text
                for symbol, text in zip(unique.tolist(), texts, strict=True)
            ]
        return places.reshape(-1), texts

    def _texts(self, key: str, nodes: Int64[Array, "nodes"]) -> tuple[Int64[Array, "nodes"], list[str]]:
        text_of: Callable[[int], tuple[object, ...]] = {
            "words": self._words, "tags": self._tags, "children": self._children, "rule": self._rule,
            "sisters": self._sisters,
        }[key]  # fmt: skip
        known: dict[tuple[object, ...], int] = {}
        numbers = [known.setdefault(text_of(node), len(known)) for node in nodes.tolist()]
        spellings = self.table.spellings
        arrow = " ->" if key == "rule" else ""
        texts = []
        for parts in known:
            spelled = [spellings[part] if isinstance(part, int) else str(part) for part in parts]
            if arrow:
                spelled[0] += arrow
            if key == "sisters":
                spelled = [text for text in spelled if text == "_" or any(map(str.isalpha, text))]
            texts.append(" ".join(spelled))
        return np.array(numbers, dtype=np.int64), texts

    # -- symbols of the nodes around a node

    @cached_property
    def _symbol_list(self) -> list[int]:
        return self.table.symbols.tolist()

    @cached_property
    def _end_list(self) -> list[int]:
        return self.table.ends.tolist()

    @cached_property
    def _word_list(self) -> list[int]:
        return self.table.symbols[self._word_nodes].tolist()

    @cached_property
    def _tag_list(self) -> list[int]:
        return self.table.symbols[self.table.parents[self._word_nodes]].tolist()

    def _words(self, node: int) -> tuple[object, ...]:
        return self._below(node, self._word_list)

    def _tags(self, node: int) -> tuple[object, ...]:
        return self._below(node, self._tag_list)

    def _below(self, node: int, of_words: list[int]) -> tuple[object, ...]:
        before = self.table.words_before
        begin, end = int(before[node]), int(before[self._end_list[node]])
        cut = end - begin > _MOST
        return (*of_words[begin : begin + _MOST if cut else end], *(["..."] if cut else []))

    def _children(self, node: int) -> tuple[object, ...]:
        ends, symbols = self._end_list, self._symbol_list
        found: list[object] = []
        child, end = node + 1, ends[node]
        while child < end:
            found.append(symbols[child])
            child = ends[child]
        return tuple(found)

    def _rule(self, node: int) -> tuple[object, ...]:
        return (self._symbol_list[node], *self._children(node))

    def _sisters(self, node: int) -> tuple[object, ...]:
        ends, symbols = self._end_list, self._symbol_list
        parent = int(self.table.parents[node])
        if parent < 0:
            return ("_",)
        found: list[object] = []
        child, end = parent + 1, ends[parent]
        while child < end:
            if len(found) > _MOST:
                return (f"more than {_MOST}",)
            found.append("_" if child == node else symbols[child])
            child = ends[child]
        return tuple(found)

    # -- numbers

    def _lengths(self, nodes: Int64[Array, "nodes"]) -> Int64[Array, "nodes"]:
        before = self.table.words_before
        lengths: Int64[Array, "nodes"] = before[self.table.ends[nodes]] - before[nodes]
        return lengths

    def _tree_lengths(self, nodes: Int64[Array, "nodes"]) -> Int64[Array, "nodes"]:
        return self._lengths(self.table.begins[self.table.trees_of_nodes[nodes]])

    def _depths(self, nodes: Int64[Array, "nodes"]) -> Int64[Array, "nodes"]:
        depths: Int64[Array, "nodes"] = depths_of(self.table)[nodes].astype(np.int64)
        return depths

    @cached_property
    def _word_nodes(self) -> Int64[Array, "words"]:
        return np.flatnonzero(self.table.symbols >= self.table.n_labels)

    @cached_property
    def _head_words(self) -> Int32[Array, "nodes"]:
        """The head word of each node, along head children; each step doubles the length of paths."""
        following = np.arange(len(self.table.symbols), dtype=np.int32)
        heads = self._relations.head_children
        following[self.table.parents[heads]] = np.flatnonzero(heads)
        while (further := following[following]).tobytes() != following.tobytes():
            following = further
        return following


def depths_of(table: TreeTable) -> Int64[Array, "nodes"]:
    """Return the number of nodes above each node: of those that have begun and not ended."""
    size = len(table.symbols)
    ended = np.cumsum(np.bincount(table.ends, minlength=size + 1))[:-1]
    depths: Int64[Array, "nodes"] = np.arange(size) - ended
    return depths


def parse_keys(texts: Sequence[str], names: Sequence[str]) -> list[KeyExpression]:
    """Parse expressions, whose names must be among these."""
    found = [KeyExpression.parse(text) for text in texts]
    for expression in found:
        if expression.name and expression.name not in names:
            raise UsageError(f"{expression.text!r}: no node of the pattern has the name {expression.name!r}")
    return found
