"""Node attributes that features are computed from, as arrays over all nodes of a corpus."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from sapwood.errors import UsageError
from sapwood.kernels import climb, descend
from sapwood.storage.shapes import Array, Bool, Int, Int64, Num, Shaped
from sapwood.trees.corpus import Corpus
from sapwood.trees.heads.rules import HeadRules


class NodeTable:
    """Attributes of the nodes of a corpus, each array computed on first use.

    Missing values are -1; nodes are given by their indices.

    Parameters
    ----------
    corpus
        The trees.
    word_classes
        The class of each word (see `LexicalModel.word_classes`); by default each word is its own class.
    heads
        Head rules, applied once per rule; an intermediate symbol `@X` counts as an `X`. By default the table of the
        corpus' transform, or the one for English; if the trees were binarised outward from these heads, the
        intermediate symbol holds the head.
    """

    def __init__(
        self, corpus: Corpus, word_classes: Shaped[Array, "words"] | None = None, heads: HeadRules | None = None
    ) -> None:
        classes = np.arange(len(corpus.words)) if word_classes is None else np.asarray(word_classes)
        if classes.shape != (len(corpus.words),) or classes.dtype.kind not in "iu" or (classes < 0).any():
            raise UsageError(
                f"word_classes must be {len(corpus.words):,} numbers from 0, one for each word of the corpus, "
                f"not an array {classes.shape} of {classes.dtype}"
            )
        self._outward = heads is None and corpus.transform.direction == "head"
        if heads is None:
            table = corpus.transform.heads
            heads = HeadRules.parse(table, source="<head table>") if table else HeadRules.english()
        self.corpus = corpus
        self.word_classes = classes.astype(np.int64)
        self.heads = heads

    def __repr__(self) -> str:
        return f"<NodeTable of {self.corpus!r}>"

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.corpus.n_nodes

    @cached_property
    def is_leaf(self) -> Bool[Array, "nodes"]:
        """True for preterminals."""
        return self.corpus.word >= 0

    @cached_property
    def is_empty(self) -> Bool[Array, "nodes"]:
        """True for empty leaves below unary steps."""
        return self._is_empty_symbol[self.corpus.symbol]

    @cached_property
    def _is_empty_symbol(self) -> np.ndarray:
        return np.array([not parts.labels for parts in self.corpus.symbols.parts])

    @cached_property
    def tree(self) -> Int[Array, "nodes"]:
        """Index of the node's tree."""
        return np.repeat(np.arange(self.corpus.n_trees), np.diff(self.corpus.offsets))

    @property
    def parent(self) -> Int[Array, "nodes"]:
        """Parent node."""
        return self.corpus.parent

    @cached_property
    def grandparent(self) -> Int[Array, "nodes"]:
        """Parent's parent."""
        return self.above(self.parent)

    @cached_property
    def is_right(self) -> Bool[Array, "nodes"]:
        """True for right children (roots are neither left nor right)."""
        return self.above(self.corpus.right) == np.arange(self.n_nodes)

    @cached_property
    def sibling(self) -> Int[Array, "nodes"]:
        """The other child of the parent."""
        return np.where(self.is_right, self.above(self.corpus.left), self.above(self.corpus.right))

    @cached_property
    def _words_before(self) -> np.ndarray:
        """`(nodes + 1,)`: number of words at the nodes before this one, over all trees."""
        return np.concatenate([[0], np.cumsum(self.is_leaf & ~self.is_empty)])

    @cached_property
    def start(self) -> Int[Array, "nodes"]:
        """Number of words of the tree before the node's first."""
        return self._words_before[:-1] - self._words_before[self.corpus.offsets[self.tree]]

    @cached_property
    def end(self) -> Int[Array, "nodes"]:
        """Number of words of the tree up to and including the node's last."""
        size = 2 * (self.corpus.end.astype(np.int64) - self.corpus.start) - 1
        behind = np.arange(self.n_nodes) + size
        return self._words_before[behind] - self._words_before[self.corpus.offsets[self.tree]]

    @cached_property
    def width(self) -> Int[Array, "nodes"]:
        """Number of words below the node."""
        return self.end - self.start

    @cached_property
    def words_after(self) -> Int[Array, "nodes"]:
        """Number of words of the tree after the node's last."""
        return self.end[self.corpus.offsets[self.tree]] - self.end

    @cached_property
    def head_is_right(self) -> Bool[Array, "rules"]:
        """True for rules whose right child is the head."""
        symbols, between = self.corpus.symbols, self.corpus.symbols.intermediate.tolist()
        known: list[bool] = []
        for a, b, c in self.corpus.rules.tolist():
            if self._outward and between[b] != between[c]:
                known.append(between[c])
            elif self._is_empty_symbol[c]:
                known.append(False)
            else:
                known.append(self.heads.head_index(symbols.bottom[a], (symbols.top[b], symbols.top[c])) == 1)
        return np.array(known, bool)

    @cached_property
    def _climbed(self) -> tuple[np.ndarray, np.ndarray]:
        height, head = np.empty(self.n_nodes, np.int32), np.empty(self.n_nodes, np.int32)
        corpus = self.corpus
        climb(corpus.rule, corpus.left, corpus.right, self.head_is_right, height, head)
        return height, head

    @cached_property
    def is_intermediate(self) -> Bool[Array, "nodes"]:
        """True for nodes whose symbol is an `@X` from binarisation."""
        return self.corpus.symbols.intermediate[self.corpus.symbol]

    @cached_property
    def _descended(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        depth, phrase, outer = (np.empty(self.n_nodes, np.int32) for _ in range(3))
        descend(self.parent, self.is_intermediate, self.head, depth, phrase, outer)
        return depth, phrase, outer

    @property
    def height(self) -> Int[Array, "nodes"]:
        """Steps down to the farthest leaf: 0 on leaves."""
        return self._climbed[0]

    @property
    def head(self) -> Int[Array, "nodes"]:
        """Leaf of the head word; a leaf is its own head."""
        return self._climbed[1]

    @property
    def depth(self) -> Int[Array, "nodes"]:
        """Steps up to the root: 0 on roots."""
        return self._descended[0]

    @property
    def phrase(self) -> Int[Array, "nodes"]:
        """Nearest ancestor that is not intermediate: the phrase that contains the node."""
        return self._descended[1]

    @property
    def outer_head(self) -> Int[Array, "nodes"]:
        """Head leaf of the nearest ancestor whose head is not the node's own.

        Intermediate nodes are skipped: the rest of a phrase without its head has no meaningful head.
        """
        return self._descended[2]

    @cached_property
    def _symbol_tags(self) -> tuple[list[str], np.ndarray]:
        first = self.corpus.n_interminals
        labels = self.corpus.symbols[first:].bottom
        names = sorted(set(labels))
        numbers = {name: number for number, name in enumerate(names)}
        return names, np.array([-1] * first + [numbers[label] for label in labels], np.int32)

    @property
    def tags(self) -> list[str]:
        """Part-of-speech tags: the lowest labels of preterminals, `NN` for `NP|NN`."""
        return self._symbol_tags[0]

    @cached_property
    def tag(self) -> Int[Array, "nodes"]:
        """Index of a leaf's tag in `tags`."""
        return self._symbol_tags[1][self.corpus.symbol]

    @cached_property
    def word_class(self) -> Int[Array, "nodes"]:
        """Class of a leaf's word."""
        return np.where(self.is_leaf, self.word_classes[self.corpus.word], -1)

    @cached_property
    def attachment(self) -> Int[Array, "nodes"]:
        """Rule above the node and its side in it: `1 + 2 rule + is_right`, 0 on roots."""
        return self.above(1 + 2 * self.corpus.rule.astype(np.int64), 0) + self.is_right

    @cached_property
    def _neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        before, after = np.full(self.n_nodes, -1, np.int64), np.full(self.n_nodes, -1, np.int64)
        words = np.flatnonzero(self.is_leaf & ~self.is_empty)
        together = self.tree[words[1:]] == self.tree[words[:-1]]
        before[words[1:][together]] = words[:-1][together]
        after[words[:-1][together]] = words[1:][together]
        return before, after

    @property
    def previous_leaf(self) -> Int[Array, "nodes"]:
        """Leaf of the previous word."""
        return self._neighbours[0]

    @property
    def next_leaf(self) -> Int[Array, "nodes"]:
        """Leaf of the next word."""
        return self._neighbours[1]

    def above(self, values: Num[Array, "nodes"], missing: int = -1) -> Num[Array, "nodes"]:
        """Return the parent's value for each node, `missing` for roots."""
        return np.where(self.parent >= 0, values[self.parent], missing)

    def by_word(self, function: Callable[[str], str | None]) -> Int64[Array, "nodes"]:
        """Return an index of `function(word)` for each leaf, -1 for inner nodes and where it is None."""
        names = [function(word) for word in self.corpus.words]
        numbers = {name: number for number, name in enumerate(sorted({name for name in names if name is not None}))}
        by_word = np.array([-1 if name is None else numbers[name] for name in names], np.int64)
        return np.where(self.is_leaf & ~self.is_empty, by_word[self.corpus.word], -1)

    def view(self, node: int) -> NodeView:
        """Return a view of one node."""
        return NodeView(self, node)

    def rule_name(self, node: int) -> str:
        """Return the rule of a node as text; the symbol of a leaf."""
        corpus = self.corpus
        names = [corpus.symbols[s] for s in (corpus.rules[corpus.rule[node]] if corpus.rule[node] >= 0 else ())]
        return f"{names[0]} -> {names[1]} {names[2]}" if names else corpus.symbols[corpus.symbol[node]]


class NodeView:
    """One node, for features written in plain Python."""

    __slots__ = ("node", "table")

    def __init__(self, table: NodeTable, node: int) -> None:
        self.table = table
        self.node = node

    def __repr__(self) -> str:
        return f"<node {self.node}: {self.table.rule_name(self.node)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeView) and self.table is other.table and self.node == other.node

    def __hash__(self) -> int:
        return hash(self.node)

    def _other(self, number: int) -> NodeView | None:
        return NodeView(self.table, int(number)) if number >= 0 else None

    @property
    def label(self) -> str:
        """Symbol of the node."""
        return self.table.corpus.symbols[self.table.corpus.symbol[self.node]]

    @property
    def word(self) -> str | None:
        """Word of a leaf, None for inner nodes and empty leaves."""
        number = self.table.corpus.word[self.node]
        return self.table.corpus.words[number] if number >= 0 and not self.table.is_empty[self.node] else None

    @property
    def words(self) -> list[str]:
        """Words below the node."""
        corpus, node = self.table.corpus, self.node
        nodes = slice(node, node + 2 * int(corpus.end[node] - corpus.start[node]) - 1)
        real = self.table.is_leaf[nodes] & ~self.table.is_empty[nodes]
        return [corpus.words[number] for number in corpus.word[nodes][real].tolist()]

    @property
    def sentence(self) -> list[str]:
        """Words of the whole tree."""
        return NodeView(self.table, int(self.table.corpus.offsets[self.table.tree[self.node]])).words

    @property
    def span(self) -> tuple[int, int]:
        """Begin and end of the node's words in the sentence."""
        return int(self.table.start[self.node]), int(self.table.end[self.node])

    @property
    def children(self) -> tuple[NodeView, ...]:
        """Left and right child; empty for leaves."""
        corpus = self.table.corpus
        if corpus.rule[self.node] < 0:
            return ()
        return NodeView(self.table, int(corpus.left[self.node])), NodeView(self.table, int(corpus.right[self.node]))

    @property
    def child_labels(self) -> tuple[str, ...]:
        """Symbols of the children."""
        return tuple(child.label for child in self.children)

    @property
    def parent(self) -> NodeView | None:
        """Parent, None for roots."""
        return self._other(self.table.parent[self.node])

    @property
    def sibling(self) -> NodeView | None:
        """The parent's other child, None for roots."""
        return self._other(self.table.sibling[self.node])

    @property
    def is_right(self) -> bool:
        """True for right children."""
        return bool(self.table.is_right[self.node])

    @property
    def head(self) -> NodeView:
        """Leaf of the head word."""
        return NodeView(self.table, int(self.table.head[self.node]))

    @property
    def tag(self) -> str:
        """Part-of-speech tag of the head word."""
        return self.table.tags[self.table.tag[self.table.head[self.node]]]
