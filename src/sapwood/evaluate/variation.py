"""Variation n-grams: the same words in the same context with different analyses (Dickinson and Meurers 2003).

A *nucleus* is a sequence of words that is a phrase somewhere; its analysis is the chain of labels over it (`NP`,
`S/VP`), or none where the same words are no phrase. Where the nucleus recurs between the same words with another
analysis, either the words are ambiguous even so, or one of the trees is wrong; the more words of context agree, the
more likely is an error. The beginning and the end of a sentence count as words of the context. Tags vary likewise.

Occurrences of a nucleus are found with a suffix array of all words, whose ranks come from repeated doubling (Karp,
Miller and Rosenberg 1972; Manber and Myers 1993), only up to the longest sentence. Time is `O(words * log(longest
sentence))` sorts and a binary search for each phrase.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from sapwood.errors import UsageError
from sapwood.storage.shapes import Array, Bool, Int, Int64
from sapwood.trees.search.table import TreeTable

# Words of the longest nucleus, which bounds time and memory on very long sentences.
LONGEST_NUCLEUS = 100
# Number of the analysis of words that are no phrase.
_NOTHING = -1
# Shown occurrences of each analysis, analyses between which the shared context is measured, its longest length on each
# side, and the labels of the longest chain that is shown.
_SHOWN, _COMPARED, _LONGEST_CONTEXT, _LONGEST_CHAIN = 3, 10, 20, 8


class Occurrence(NamedTuple):
    """Words `start .. end - 1` of a tree, counted from 0."""

    tree: int
    start: int
    end: int


@dataclass(frozen=True)
class Variation:
    """Words that have several analyses in the same context.

    Attributes
    ----------
    kind
        `phrase` or `tag`.
    words
        The nucleus.
    left, right
        The longest context that occurrences with different analyses share, up to 20 words on each side; an empty word
        is the beginning or end of the sentence.
    counts
        Number of occurrences of each analysis, the most frequent first; None is no phrase.
    places
        The first occurrences of each analysis.
    """

    kind: Literal["phrase", "tag"]
    words: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    counts: dict[str | None, int]
    places: dict[str | None, list[Occurrence]]

    @property
    def context(self) -> int:
        """Number of words of context."""
        return len(self.left) + len(self.right)


class SubstringIndex:
    """Index of all substrings of a text of integers up to a length."""

    def __init__(self, text: Int[Array, "positions"], longest: int) -> None:
        self.size = len(text)
        names = np.unique(text, return_inverse=True)[1].astype(np.int64)
        # names[k][i] is the rank of text[i : i + 2 ** k] among all such substrings; those cut off by the end differ.
        self.names = [names]
        while 1 << len(self.names) <= longest:
            half = 1 << (len(self.names) - 1)
            after = np.zeros(self.size, np.int64)
            after[:-half] = names[half:] + 1
            names = np.unique(names * (self.size + 2) + after, return_inverse=True)[1].astype(np.int64)
            self.names.append(names)
        # Suffixes in order, as far as the longest name covers them twice.
        reach = 1 << (len(self.names) - 1)
        after = np.zeros(self.size, np.int64)
        after[:-reach] = names[reach:] + 1
        self.order = np.lexsort((after, names))
        self.rank = np.empty(self.size, np.int64)
        self.rank[self.order] = np.arange(self.size)
        self._table = np.stack(self.names)

    def intervals(
        self, starts: Int64[Array, "queries"], lengths: Int64[Array, "queries"]
    ) -> tuple[Int64[Array, "queries"], Int64[Array, "queries"]]:
        """Return for substrings `text[start : start + length]` the interval of `order` that has their occurrences."""
        level = np.frexp(lengths.astype(np.float64))[1].astype(np.int64) - 1
        tail = lengths - (np.int64(1) << level)
        first, second = self._table[level, starts], self._table[level, starts + tail]

        def same(places: Int64[Array, "queries"]) -> Bool[Array, "queries"]:
            found = self.order[places]
            inside = found + lengths <= self.size
            rest = np.where(inside, found + tail, 0)
            return inside & (self._table[level, found] == first) & (self._table[level, rest] == second)

        here = self.rank[starts]
        bounds = []
        for direction in (-1, 1):
            # The farthest place in this direction that still has the substring: doubling steps would need a bound, so
            # bisect between the place itself and the end.
            near = here.copy()
            far = np.full_like(here, -1 if direction < 0 else self.size)
            while True:
                middle = (near + far) // 2 if direction > 0 else -((-near - far) // 2)
                active = np.abs(far - near) > 1
                if not active.any():
                    break
                fits = same(np.where(active, middle, here)) & active
                near = np.where(fits, middle, near)
                far = np.where(active & ~fits, middle, far)
            bounds.append(near)
        return bounds[0], bounds[1] + 1


class _Nuclei(NamedTuple):
    """Phrases or tags: begin and end in the text, the tree, and the number of the analysis.

    Analyses beyond the labels are chains: the number of the label on top, and that of the rest.
    """

    begin: Int64[Array, "nuclei"]
    end: Int64[Array, "nuclei"]
    tree: Int64[Array, "nuclei"]
    analysis: Int64[Array, "nuclei"]
    labels: Sequence[str]
    chains: list[tuple[int, int]]

    def name(self, analysis: int) -> str:
        """Return the labels of an analysis, the topmost first; of many only the first."""
        found: list[str] = []
        while analysis >= len(self.labels) and len(found) < _LONGEST_CHAIN:
            label, analysis = self.chains[analysis - len(self.labels)]
            found.append(self.labels[label])
        found.append(self.labels[analysis] if analysis < len(self.labels) else "...")
        return "/".join(found)


class _Text:
    """Words of all trees, with a boundary before, between and after the sentences."""

    def __init__(self, table: TreeTable) -> None:
        self.table = table
        symbols = np.asarray(table.symbols, np.int64)
        self.is_word = symbols >= table.n_labels
        before = table.words_before
        trees = np.asarray(table.trees_of_nodes, np.int64)
        self.first = before[table.begins[:-1]] + np.arange(len(table)) + 1  # the first word of each tree
        self.sizes = np.diff(before[table.begins])
        self.text = np.full(int(self.is_word.sum()) + len(table) + 1, -1, np.int64)
        words = np.flatnonzero(self.is_word)
        self.text[before[words] + trees[words] + 1] = symbols[words]
        begin, end = before[:-1] + trees + 1, before[table.ends] + trees + 1
        is_tag = np.zeros(len(symbols), bool)
        is_tag[table.parents[words]] = True
        labels = list(table.spellings[: table.n_labels])
        tags = np.flatnonzero(is_tag)
        self.tags = _Nuclei(begin[tags], end[tags], trees[tags], symbols[tags], labels, [])
        self.phrases = self._phrases(np.flatnonzero(~self.is_word & ~is_tag), begin, end, trees, symbols)

    def _phrases(
        self,
        nodes: Int64[Array, "phrases"],
        begin: Int64[Array, "nodes"],
        end: Int64[Array, "nodes"],
        trees: Int64[Array, "nodes"],
        symbols: Int64[Array, "nodes"],
    ) -> _Nuclei:
        """Return the phrases, with a chain of unary steps as one."""
        is_phrase = np.zeros(len(symbols) + 1, bool)
        is_phrase[nodes] = True
        # An only child follows its parent directly and ends with it.
        only = is_phrase[nodes + 1] & (np.append(end, -1)[nodes + 1] == end[nodes])
        labels = list(self.table.spellings[: self.table.n_labels])
        analysis = symbols.copy()
        chains: list[tuple[int, int]] = []
        numbers: dict[tuple[int, int], int] = {}
        for node in nodes[only][::-1].tolist():  # children before parents
            key = (int(symbols[node]), int(analysis[node + 1]))
            number = numbers.setdefault(key, len(labels) + len(chains))
            if number == len(labels) + len(chains):
                chains.append(key)
            analysis[node] = number
        is_top = np.ones(len(symbols) + 1, bool)
        is_top[nodes[only] + 1] = False
        nodes = nodes[is_top[nodes]]
        nodes = nodes[end[nodes] - begin[nodes] <= LONGEST_NUCLEUS]
        return _Nuclei(begin[nodes], end[nodes], trees[nodes], analysis[nodes], labels, chains)


def find_variations(
    table: TreeTable, *, context: int = 1, kinds: tuple[Literal["phrase", "tag"], ...] = ("phrase", "tag")
) -> list[Variation]:
    """Return the variations in a treebank, those with the longest context first.

    Parameters
    ----------
    table
        The treebank.
    context
        Number of words that must agree on each side.
    kinds
        Whether to compare phrases, tags or both.

    Examples
    --------
    >>> import sapwood
    >>> trees = [
    ...     sapwood.Tree.parse("(S (NP (NN time)) (VP (VBZ flies) (ADVP (RB very) (RB fast))))"),
    ...     sapwood.Tree.parse("(S (NP (NN time)) (VP (VBZ flies) (RB very) (RB fast)))"),
    ... ]
    >>> for found in find_variations(TreeTable.from_trees(trees)):
    ...     print(found.words, found.counts)
    ('very', 'fast') {None: 1, 'ADVP': 1}
    """
    if context < 1:
        raise UsageError(f"the context must be at least one word, not {context}")
    text = _Text(table)
    if not len(table):
        return []
    index = SubstringIndex(text.text, min(int(text.sizes.max()) + 2, LONGEST_NUCLEUS + 2 * context))
    found: list[Variation] = []
    for kind in kinds:
        found += _vary(text, index, text.phrases if kind == "phrase" else text.tags, kind, context)
    return sorted(found, key=lambda one: (-one.context, -len(one.words), min(one.counts.values()), _where(one)))


def _where(one: Variation) -> tuple[Occurrence, str]:
    return min(place for places in one.places.values() for place in places), one.kind


def _vary(
    text: _Text, index: SubstringIndex, nuclei: _Nuclei, kind: Literal["phrase", "tag"], context: int
) -> Iterator[Variation]:
    first, last = text.first[nuclei.tree] - 1, text.first[nuclei.tree] + text.sizes[nuclei.tree]
    begin = np.maximum(nuclei.begin - context, first)
    length = np.minimum(nuclei.end + context, last + 1) - begin
    low, high = index.intervals(begin, length)
    offset = nuclei.begin - begin
    repeated = np.flatnonzero(high - low > 1)
    columns = (offset, nuclei.end - nuclei.begin, length, low)
    order = repeated[np.lexsort((nuclei.begin[repeated], *(column[repeated] for column in columns)))]
    if not len(order):
        return
    new = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
    for group in np.split(order, np.flatnonzero(new) + 1):
        missing = int(high[group[0]] - low[group[0]]) - len(group)
        analyses = nuclei.analysis[group]
        if missing == 0 and (analyses == analyses[0]).all():
            continue
        yield _variation(text, index, nuclei, kind, group, missing, (int(low[group[0]]), int(offset[group[0]])))


def _variation(
    text: _Text,
    index: SubstringIndex,
    nuclei: _Nuclei,
    kind: Literal["phrase", "tag"],
    group: Int64[Array, "occurrences"],
    missing: int,
    where: tuple[int, int],
) -> Variation:
    """Return the variation of phrases over the same words in the same context, and of `missing` places without one."""
    counts: Counter[int] = Counter(nuclei.analysis[group].tolist())
    begins: dict[int, list[int]] = {}
    for analysis, begin in zip(nuclei.analysis[group].tolist(), nuclei.begin[group].tolist(), strict=True):
        shown = begins.setdefault(analysis, [])
        if len(shown) < _SHOWN:
            shown.append(begin)
    if missing:
        counts[_NOTHING] = missing
        begins[_NOTHING] = []
        low, offset = where
        there = set(nuclei.begin[group].tolist())
        while len(begins[_NOTHING]) < min(missing, _SHOWN):
            begin = int(index.order[low]) + offset
            low += 1
            if begin not in there:
                begins[_NOTHING].append(begin)
    order = sorted(counts, key=lambda analysis: (-counts[analysis], analysis))
    size = int(nuclei.end[group[0]] - nuclei.begin[group[0]])
    one, left, right = _shared_context(text.text, [begins[analysis] for analysis in order[:_COMPARED]], size)
    spell = text.table.spellings

    def words(begin: int, end: int) -> tuple[str, ...]:
        return tuple("" if symbol < 0 else spell[symbol] for symbol in text.text[begin:end].tolist())

    names = {analysis: None if analysis == _NOTHING else nuclei.name(analysis) for analysis in order}
    return Variation(
        kind=kind,
        words=words(one, one + size),
        left=words(one - left, one),
        right=words(one + size, one + size + right),
        counts={names[analysis]: counts[analysis] for analysis in order},
        places={
            names[analysis]: [_occurrence(text, begin, size) for begin in sorted(begins[analysis])]
            for analysis in order
        },
    )


def _shared_context(text: Int64[Array, "positions"], begins: list[list[int]], size: int) -> tuple[int, int, int]:
    """Return where a nucleus has the longest context that it shares with another analysis, and that to both sides."""
    best = (begins[0][0], 0, 0)
    for number, some in enumerate(begins):
        for a in some:
            for b in itertools.chain.from_iterable(begins[number + 1 :]):
                left, right = _agreement(text, a - 1, b - 1, -1), _agreement(text, a + size, b + size, 1)
                if left + right > best[1] + best[2]:
                    best = (a, left, right)
    return best


def _agreement(text: Int64[Array, "positions"], a: int, b: int, step: int) -> int:
    """Return the number of words that agree from two places on, up to a boundary and including it."""
    length = 0
    while length < _LONGEST_CONTEXT and text[a] == text[b]:
        length += 1
        if text[a] < 0:
            break
        a, b = a + step, b + step
    return length


def _occurrence(text: _Text, begin: int, size: int) -> Occurrence:
    tree = int(np.searchsorted(text.first, begin, side="right")) - 1
    start = begin - int(text.first[tree])
    return Occurrence(tree, start, start + size)
