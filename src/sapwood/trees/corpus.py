"""Treebank of skeletal trees as flat integer arrays.

Strings stop here: a `Corpus` has one array per column over all nodes of all trees (preorder within a
tree), 32 bytes per node, and tables of symbols (with their parts), rules and words. Learners see nothing else.

Symbols are split into interminals (`0 .. n_interminals - 1`, left-hand sides of binary rules) and
preterminals (the rest, above words) as the papers assume. A label that occurs in both roles gives two symbols.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sapwood.errors import InputError, ModelError
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.arrays import content_digest, pack_strings, unpack_strings
from sapwood.storage.schema import Column, Schema
from sapwood.storage.shapes import Array, Int, Int32, Int64
from sapwood.trees.normalise import Normaliser
from sapwood.trees.symbols import SYMBOLS, SymbolTable, as_symbol
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree, checked_trees, from_preorder

_COLUMNS = ("symbol", "rule", "left", "right", "word", "parent", "start", "end")


class PreparationMetadata(TypedDict):
    """Preparation of the trees and number of interminals, as stored in files."""

    n_interminals: int
    normaliser: Normaliser
    transform: TreeTransform


class _Metadata(PreparationMetadata):
    dropped: int


CORPUS = Schema(
    kind="corpus",
    version=2,
    title="corpus",
    remedy="make it again from the trees",
    columns=(
        *SYMBOLS,
        Column("words", "text", "words"),
        Column("rules", "int32", "rules 3", least=0, below="symbols", rises=True),
        Column("symbol", "int32", "nodes", least=0, below="symbols"),
        Column("rule", "int32", "nodes", least=-1, below="rules"),
        Column("left", "int32", "nodes", least=-1, below="nodes"),
        Column("right", "int32", "nodes", least=-1, below="nodes"),
        Column("word", "int32", "nodes", least=-1, below="words"),
        Column("parent", "int32", "nodes", least=-1, below="nodes"),
        Column("start", "int32", "nodes", least=0, below="nodes"),
        Column("end", "int32", "nodes", least=0, below="nodes+1"),
        Column("offsets", "int64", "trees+1", offsets_of="nodes", step=1),
    ),
    metadata=_Metadata,
)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Skeletal trees as arrays; build one with `Corpus.from_trees`.

    Attributes
    ----------
    symbols
        Interminals first, each part by falling frequency. Plain names become a table (`SymbolTable.from_names`).
    n_interminals
        Number of interminals among the symbols.
    rules
        Distinct binary rules as symbol numbers, sorted.
    words
        The vocabulary by falling frequency.
    symbol, rule, left, right, word, parent, start, end
        For each node: symbol number; rule number (-1 on leaves); child and parent nodes (-1 where there is none); word
        number (-1 inside); span of word positions in the tree.
    offsets
        The nodes of tree `t` are `offsets[t] .. offsets[t + 1] - 1`.
    """

    symbols: SymbolTable
    n_interminals: int
    rules: Int32[Array, "rules 3"]
    words: list[str]
    symbol: Int32[Array, "nodes"]
    rule: Int32[Array, "nodes"]
    left: Int32[Array, "nodes"]
    right: Int32[Array, "nodes"]
    word: Int32[Array, "nodes"]
    parent: Int32[Array, "nodes"]
    start: Int32[Array, "nodes"]
    end: Int32[Array, "nodes"]
    offsets: Int64[Array, "tree_bounds"]
    normaliser: Normaliser = field(default_factory=Normaliser)
    transform: TreeTransform = field(default_factory=TreeTransform)
    dropped: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", SymbolTable.from_names(self.symbols))

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.offsets) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return len(self.symbol)

    @property
    def n_words(self) -> int:
        """Number of word tokens."""
        return (self.n_nodes + self.n_trees) // 2

    @property
    def roots(self) -> Int64[Array, "trees"]:
        """Node number of each tree's root."""
        return self.offsets[:-1]

    def __repr__(self) -> str:
        return (
            f"<Corpus: {self.n_trees:,} trees, {self.n_words:,} words ({len(self.words):,} distinct), "
            f"{len(self.symbols):,} symbols, {len(self.rules):,} rules>"
        )

    @classmethod
    def from_trees(
        cls,
        trees: Iterable[Tree],
        *,
        normaliser: Normaliser | None = None,
        transform: TreeTransform | None = None,
        progress: Progress | None = None,
    ) -> Corpus:
        """Normalise, transform and number the trees; they are read one at a time and not kept.

        Trees that normalising leaves empty are skipped and counted in `dropped`. If any tree has gaps, the transform
        of the corpus splits phrases with gaps; no label of an earlier tree may contain a `*` then.
        """
        normaliser = normaliser or Normaliser()
        transform = transform or TreeTransform(root=normaliser.root)
        progress = progress or Silent()
        # Symbols are numbered in order of appearance, leaves and inner nodes separately (leaf symbols as ~number).
        inner_ids: dict[str, int] = {}
        leaf_ids: dict[str, int] = {}
        word_ids: dict[str, int] = {}
        codes, words, sizes = array("i"), array("i"), array("i")
        dropped = 0
        with progress.stage("reading trees", unit="trees") as stage:
            for tree in checked_trees(trees):
                clean = normaliser(tree)
                stage.step()
                if clean is None:
                    dropped += 1
                    continue
                if not transform.gaps and clean.is_placed:
                    transform = _splitting(transform, (*inner_ids, *leaf_ids))
                before = len(codes)
                for node in transform(clean).nodes():
                    label, word = node.label, node.word
                    if word is None:
                        codes.append(inner_ids.setdefault(label, len(inner_ids)))
                        words.append(-1)
                    else:
                        codes.append(~leaf_ids.setdefault(label, len(leaf_ids)))
                        words.append(word_ids.setdefault(word, len(word_ids)))
                sizes.append(len(codes) - before)
        if not sizes:
            raise InputError("no trees: the input is empty, or all trees are empty after normalisation")
        code = np.frombuffer(codes, np.int32)
        is_leaf = code < 0
        inner_names, inner_new = _by_frequency(list(inner_ids), code[~is_leaf])
        leaf_names, leaf_new = _by_frequency(list(leaf_ids), ~code[is_leaf])
        word_names, word_new = _by_frequency(list(word_ids), np.frombuffer(words, np.int32)[is_leaf])
        numbers = np.empty(len(code), np.int32)
        numbers[~is_leaf] = inner_new[code[~is_leaf]]
        numbers[is_leaf] = len(inner_names) + leaf_new[~code[is_leaf]]
        word_numbers = np.full(len(code), -1, np.int32)
        word_numbers[is_leaf] = word_new[np.frombuffer(words, np.int32)[is_leaf]]
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(np.frombuffer(sizes, np.int32), out=offsets[1:])
        symbols = SymbolTable.from_names(inner_names + leaf_names)
        corpus = cls.from_columns(
            symbols, len(inner_names), word_names, numbers, word_numbers, offsets, normaliser, transform
        )
        return replace(corpus, dropped=dropped)

    @classmethod
    def from_columns(
        cls,
        symbols: SymbolTable,
        n_interminals: int,
        words: list[str],
        symbol: Int32[Array, "nodes"],
        word: Int32[Array, "nodes"],
        offsets: Int64[Array, "tree_bounds"],
        normaliser: Normaliser,
        transform: TreeTransform,
    ) -> Corpus:
        """Build from the symbols and words of all nodes in preorder; nodes with words are leaves, the rest follows."""
        from sapwood.kernels import link_nodes

        left, right, parent, start, end = (np.full(len(symbol), -1, np.int32) for _ in range(5))
        broken = link_nodes(word >= 0, offsets, left, right, parent, start, end)
        if broken >= 0:
            raise InputError(f"tree {broken + 1} is not binary after the transform")
        inner = np.flatnonzero(word < 0)
        n_symbols = len(symbols)
        keys = _rule_keys(np.stack([symbol[inner], symbol[left[inner]], symbol[right[inner]]], axis=1), n_symbols)
        distinct, rule_of = np.unique(keys, return_inverse=True)
        rules = np.stack([distinct // n_symbols**2, distinct // n_symbols % n_symbols, distinct % n_symbols], axis=1)
        rule = np.full(len(symbol), -1, np.int32)
        rule[inner] = rule_of
        return cls(
            symbols=symbols,
            n_interminals=n_interminals,
            rules=np.ascontiguousarray(rules, dtype=np.int32).reshape(-1, 3),
            words=words,
            symbol=symbol,
            rule=rule,
            left=left,
            right=right,
            word=word,
            parent=parent,
            start=start,
            end=end,
            offsets=offsets,
            normaliser=normaliser,
            transform=transform,
        )

    def renumbered(
        self, symbols: Sequence[str], n_interminals: int, rules: Int32[Array, "rules 3"]
    ) -> tuple[Corpus, int]:
        """Return the trees that these symbols and rules can build, numbered like them, and the number of others."""
        symbols = SymbolTable.from_names(symbols)
        known = {(parts, number >= n_interminals): number for number, parts in enumerate(symbols.parts)}
        new = np.array(
            [known.get((parts, s >= self.n_interminals), -1) for s, parts in enumerate(self.symbols.parts)], np.int32
        )
        size = len(symbols)
        keys, ours = _rule_keys(rules, size), new[self.rules]
        wanted = np.where((ours >= 0).all(axis=1), _rule_keys(ours, size), -1)
        at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        new_rule = np.where(keys[at] == wanted, at, -1) if len(keys) else np.full(len(wanted), -1)
        inner = self.word < 0
        bad = new[self.symbol] < 0
        bad[inner] |= new_rule[self.rule[inner]] < 0
        sizes = np.diff(self.offsets)
        keep = np.add.reduceat(bad, self.offsets[:-1], dtype=np.int64) == 0
        nodes = np.repeat(keep, sizes)
        if not keep.any():
            raise InputError("none of the trees can be built from the grammar's symbols and rules")
        corpus = Corpus.from_columns(
            symbols, n_interminals, self.words, new[self.symbol[nodes]], self.word[nodes],
            np.concatenate([[0], np.cumsum(sizes[keep])]), self.normaliser, self.transform,
        )  # fmt: skip
        rule = np.full(corpus.n_nodes, -1, np.int32)
        rule[inner[nodes]] = new_rule[self.rule[nodes & inner]]
        return replace(corpus, rules=rules, rule=rule), int((~keep).sum())

    def part(self, trees: Int64[Array, "chosen"]) -> Corpus:
        """Return the corpus of some of the trees, as `from_trees` would build it from them alone."""
        nodes = np.concatenate([np.arange(self.offsets[tree], self.offsets[tree + 1]) for tree in trees])
        symbol, word, leaf = self.symbol[nodes], self.word[nodes], self.word[nodes] >= 0
        numbers, words = np.empty(len(nodes), np.int32), np.full(len(nodes), -1, np.int32)
        names: list[str] = []
        for chosen in (~leaf, leaf):
            used, occurrences = np.unique(symbol[chosen], return_inverse=True)
            found, new = _by_frequency([self.symbols[number] for number in used], occurrences)
            numbers[chosen] = len(names) + new[occurrences]
            n_interminals = len(names)
            names += found
        used, occurrences = np.unique(word[leaf], return_inverse=True)
        vocabulary, new = _by_frequency([self.words[number] for number in used], occurrences)
        words[leaf] = new[occurrences]
        offsets = np.concatenate([[0], np.cumsum(np.diff(self.offsets)[trees])]).astype(np.int64)
        return Corpus.from_columns(
            SymbolTable.from_names(names), n_interminals, vocabulary, numbers, words, offsets, self.normaliser,
            self.transform,
        )  # fmt: skip

    def joined(self, other: Corpus) -> Corpus:
        """Return the trees of this corpus followed by those of another one.

        Symbols and words of this corpus come first, in their order.
        """
        inner = [dict.fromkeys((*one.symbols[: one.n_interminals],)) for one in (self, other)]
        leaves = [dict.fromkeys((*one.symbols[one.n_interminals :],)) for one in (self, other)]
        inner_names, leaf_names = list(inner[0] | inner[1]), list(leaves[0] | leaves[1])
        words = list(dict.fromkeys([*self.words, *other.words]))
        number = {(name, False): place for place, name in enumerate(inner_names)}
        number |= {(name, True): len(inner_names) + place for place, name in enumerate(leaf_names)}
        word_number = {word: place for place, word in enumerate(words)}
        symbols, numbers = [], []
        for one in (self, other):
            new = np.array([number[name, s >= one.n_interminals] for s, name in enumerate(one.symbols)], np.int32)
            new_words = np.array([*(word_number[word] for word in one.words), -1], np.int32)
            symbols.append(new[one.symbol])
            numbers.append(new_words[one.word])
        return Corpus.from_columns(
            SymbolTable.from_names(inner_names + leaf_names), len(inner_names), words, np.concatenate(symbols),
            np.concatenate(numbers), np.concatenate([self.offsets, self.n_nodes + other.offsets[1:]]), self.normaliser,
            self.transform,
        )  # fmt: skip

    def with_rules(self, rules: Int[Array, "more 3"]) -> Corpus:
        """Return the corpus with these rules added to its table."""
        table = np.unique(np.concatenate([self.rules, rules.astype(np.int32)]), axis=0)
        if len(table) == len(self.rules):
            return self
        old, new = (_rule_keys(each, len(self.symbols)) for each in (self.rules, table))
        number = np.append(np.searchsorted(new, old), -1).astype(np.int32)
        return replace(self, rules=table, rule=number[self.rule])

    def between(self, first: int, last: int) -> Corpus:
        """Return the trees `first .. last - 1`, with all symbols, rules and words."""
        begin, end = int(self.offsets[first]), int(self.offsets[last])
        columns: dict[str, Any] = {name: getattr(self, name)[begin:end] for name in _COLUMNS}
        for name in ("left", "right", "parent"):
            columns[name] = np.where(columns[name] >= 0, columns[name] - begin, -1).astype(np.int32)
        return replace(self, offsets=self.offsets[first : last + 1] - begin, dropped=0, **columns)

    def tree(self, index: int) -> Tree:
        """Return skeletal tree number `index` (`corpus.transform.invert` gives the original tree)."""
        events: list[tuple[str, str | None, int]] = []
        for node in range(int(self.offsets[index]), int(self.offsets[index + 1])):
            word = int(self.word[node])
            events.append(
                (self.symbols[self.symbol[node]], self.words[word] if word >= 0 else None, 0 if word >= 0 else 2)
            )
        return from_preorder(events)

    def sentence(self, index: int) -> list[str]:
        """Return the words of tree number `index`."""
        words = self.word[self.offsets[index] : self.offsets[index + 1]]
        return [self.words[number] for number in words[words >= 0]]

    def rule_counts(self) -> Int[Array, "rules"]:
        """Return the count of each binary rule."""
        return np.bincount(self.rule[self.rule >= 0], minlength=len(self.rules))

    def symbol_counts(self) -> Int[Array, "symbols"]:
        """Return the count of each symbol."""
        return np.bincount(self.symbol, minlength=len(self.symbols))

    def root_counts(self) -> Int[Array, "symbols"]:
        """Return the count of each symbol at the root."""
        return np.bincount(self.symbol[self.roots], minlength=len(self.symbols))

    def lexical_counts(self) -> tuple[Int[Array, "pairs"], Int[Array, "pairs"], Int[Array, "pairs"]]:
        """Return the distinct `(symbol, word)` pairs of the leaves and their counts."""
        leaf = self.word >= 0
        keys = self.symbol[leaf].astype(np.int64) * len(self.words) + self.word[leaf]
        distinct, counts = np.unique(keys, return_counts=True)
        return distinct // len(self.words), distinct % len(self.words), counts

    def tokeniser_style(self) -> dict[str, bool]:
        """Return the arguments of `tokenise` that split and spell plain text as these trees do."""
        tags = self.symbols[self.n_interminals :].bottom
        return {"rewrite": '"' not in self.words, "split_hyphens": "HYPH" in tags}

    def digest(self) -> str:
        """Return a fingerprint of the content, stored in every model trained on it."""
        return content_digest(*self._content())

    def save(self, path: str | Path) -> None:
        """Write the corpus to one file."""
        arrays, metadata = self._content()
        CORPUS.write(path, arrays, metadata)

    @classmethod
    def load(cls, path: str | Path) -> Corpus:
        """Read a saved corpus."""
        return CORPUS.read(path, cls._from_content)

    @classmethod
    def _from_content(cls, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> Corpus:
        columns: dict[str, Any] = {name: arrays[name] for name in (*_COLUMNS, "offsets", "rules")}
        corpus = cls(
            symbols=SymbolTable.from_arrays(arrays),
            words=unpack_strings(arrays["words"]),
            n_interminals=metadata["n_interminals"],
            dropped=metadata["dropped"],
            normaliser=Normaliser.from_dict(metadata["normaliser"]),
            transform=TreeTransform.from_dict(metadata["transform"]),
            **columns,
        )
        _check_trees(corpus)
        return corpus

    def _content(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {name: getattr(self, name) for name in (*_COLUMNS, "offsets", "rules")}
        arrays |= self.symbols.to_arrays() | {"words": pack_strings(self.words)}
        metadata = {
            "n_interminals": self.n_interminals,
            "dropped": self.dropped,
            "normaliser": self.normaliser.to_dict(),
            "transform": self.transform.to_dict(),
        }
        return arrays, metadata


def _splitting(transform: TreeTransform, symbols: Iterable[str]) -> TreeTransform:
    """Return the transform of trees with gaps, given the symbols of earlier trees, which it would not change."""
    starred = sorted({label for symbol in symbols for label in as_symbol(symbol).parts.labels if "*" in label})
    if starred:
        raise InputError(
            f"some trees have gaps, and the label {starred[0]!r} contains a '*', which marks parts of phrases: "
            "rename it with a table of labels (--label-map), or close the gaps (--gaps close)"
        )
    return replace(transform, gaps=True)


def _rule_keys(rules: np.ndarray, n_symbols: int) -> np.ndarray:
    """Return a number for each rule, in the same order as the rules."""
    wide = rules.astype(np.int64)
    return (wide[:, 0] * n_symbols + wide[:, 1]) * n_symbols + wide[:, 2]


def _by_frequency(names: Sequence[str], occurrences: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Renumber names by falling count (ties by name): the names in their new order, and old -> new."""
    counts = np.bincount(occurrences, minlength=len(names)) if len(names) else np.zeros(0, np.int64)
    order = sorted(range(len(names)), key=lambda number: (-counts[number], names[number]))
    new = np.empty(len(names), np.int32)
    new[order] = np.arange(len(names), dtype=np.int32)
    return [names[number] for number in order], new


def _check_trees(corpus: Corpus) -> None:
    """Refuse stored columns that do not encode binary trees over the rules, as `from_columns` makes them."""
    if corpus.n_interminals > len(corpus.symbols):
        raise ModelError(f"{corpus.n_interminals} interminals of {len(corpus.symbols)} symbols")
    leaf = corpus.word >= 0
    if ((corpus.symbol >= corpus.n_interminals) != leaf).any():
        raise ModelError("symbol: an interminal stands over a word, or a preterminal over none")
    again = Corpus.from_columns(
        corpus.symbols, corpus.n_interminals, corpus.words, corpus.symbol, corpus.word, corpus.offsets,
        corpus.normaliser, corpus.transform,
    )  # fmt: skip
    for name in ("left", "right", "parent", "start", "end"):
        if not np.array_equal(getattr(again, name), getattr(corpus, name)):
            raise ModelError(f"{name}: does not fit the trees that the symbols and words make")
    fits = not ((corpus.rule < 0) != leaf).any()
    if not fits or not np.array_equal(corpus.rules[corpus.rule[~leaf]], again.rules[again.rule[~leaf]]):
        raise ModelError("rule: does not fit the symbols of a node and its children")
