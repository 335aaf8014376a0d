"""Tables of counts: matches by keys, their dispersion over files, and the comparison of two corpora.

Dispersion is Gries' *deviation of proportions*: half the sum, over files, of the differences between the share of the
counts and the share of the words. It is 0 if counts are spread as the words are, and near 1 if all are in a small file.

Two corpora are compared by the log-likelihood ratio G2 of Dunning, and by the binary logarithm of the ratio of the
relative frequencies (half a match is added to both), with its interval by the normal approximation.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from sapwood.storage.shapes import Array, Int64
from sapwood.treebank.keys import KeyExpression, NodeKeys
from sapwood.trees.search.searcher import MatchedNodes, Searcher
from sapwood.trees.search.table import TreeTable


class ResultTable(NamedTuple):
    """A table for files and people: names of columns, and rows of texts and numbers."""

    columns: list[str]
    rows: list[list[Any]]


@dataclass
class CountTable:
    """Counts of combinations of values, file by file.

    Attributes
    ----------
    keys
        What is counted by.
    files
        Names of the files.
    sizes
        Number of words of each file, or of whatever frequencies are relative to.
    counts
        Counts in each file, by the values of the keys.
    numeric
        Whether values are numbers, by which tables are sorted instead of by counts.
    """

    keys: list[str]
    files: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    counts: dict[tuple[str, ...], dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    numeric: bool = False

    def add(self, file: str, size: int, values: Iterable[tuple[tuple[str, ...], int]]) -> None:
        """Add counts of a part of a file."""
        if not self.files or self.files[-1] != file:
            self.files.append(file)
            self.sizes.append(0)
        number = len(self.files) - 1
        self.sizes[number] += size
        for value, count in values:
            of_value = self.counts[value]
            of_value[number] = of_value.get(number, 0) + count

    @property
    def size(self) -> int:
        """Number of words in all."""
        return sum(self.sizes)

    @property
    def total(self) -> int:
        """Sum of all counts."""
        return sum(map(self.count, self.counts))

    def count(self, values: tuple[str, ...]) -> int:
        """Return a count in all files."""
        return sum(self.counts[values].values()) if values in self.counts else 0

    def dispersion(self, values: tuple[str, ...]) -> float:
        """Return the deviation of proportions over files."""
        counts, total = self.counts[values], self.count(values)
        shares = ((counts.get(number, 0) / total, size / self.size) for number, size in enumerate(self.sizes))
        return sum(abs(found - expected) for found, expected in shares) / 2

    def table(self, most: int | None = None) -> ResultTable:
        """Return the counts, most frequent first, with shares and, if there are several files, dispersion."""
        several = len(self.files) > 1 and self.size > 0
        columns = [*self.keys, "count", "share", "per_thousand", *(["files", "dispersion"] if several else [])]
        total = self.total
        rows: list[list[Any]] = []
        for values in self._sorted()[:most]:
            count = self.count(values)
            row = [*values, count, round(count / total, 6), _per_thousand(count, self.size)]
            rows.append([*row, len(self.counts[values]), round(self.dispersion(values), 4)] if several else row)
        return ResultTable(columns, rows)

    def against(self, other: CountTable, *, confidence: float = 0.95, most: int | None = None) -> ResultTable:
        """Return a comparison with another corpus, the most different first."""
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        rows: list[list[Any]] = []
        for values in dict.fromkeys([*self.counts, *other.counts]):
            one, two = self.count(values), other.count(values)
            ratio, error = log_ratio(one, self.size, two, other.size)
            rows.append(
                [
                    *values, one, two, _per_thousand(one, self.size), _per_thousand(two, other.size),
                    round(log_likelihood(one, self.size, two, other.size), 3),
                    round(ratio, 3), round(ratio - z * error, 3), round(ratio + z * error, 3),
                ]
            )  # fmt: skip
        place = len(self.keys) + 4
        rows.sort(key=lambda row: (-row[place], row[: len(self.keys)]))
        columns = [
            *self.keys, "count", "count_other", "per_thousand", "per_thousand_other", "log_likelihood", "log_ratio",
            "log_ratio_low", "log_ratio_high",
        ]  # fmt: skip
        return ResultTable(columns, rows[:most])

    def crossed(self, most: int | None = None) -> ResultTable:
        """Return a cross table of two keys: a row per value of the first, a column per value of the second.

        With `most`, it has that many rows, and the columns of values that occur in them.
        """
        rows = list(dict.fromkeys(values[0] for values in self._sorted()))[:most]
        shown = set(rows)
        columns = dict.fromkeys(values[1] for values in self._sorted() if values[0] in shown)
        cells = [[row, *(self.count((row, column)) for column in columns)] for row in rows]
        return ResultTable([" \\ ".join(self.keys), *columns], cells)

    def _sorted(self) -> list[tuple[str, ...]]:
        if self.numeric:
            return sorted(self.counts, key=lambda values: tuple(map(int, values)))
        return sorted(self.counts, key=lambda values: (-self.count(values), values))


def _per_thousand(count: int, size: int) -> float:
    return round(1000 * count / size, 4) if size else 0.0


def log_likelihood(one: int, size: int, two: int, other: int) -> float:
    """Return G2 of two counts in corpora of these sizes.

    >>> round(log_likelihood(10, 1000, 10, 1000), 6), round(log_likelihood(20, 1000, 10, 1000), 3)
    (0.0, 3.398)
    """
    if size == 0 or other == 0:
        return 0.0
    together = (one + two) / (size + other)
    parts = ((one, size * together), (two, other * together))
    return 2 * sum(count * math.log(count / expected) for count, expected in parts if count)


def log_ratio(one: int, size: int, two: int, other: int) -> tuple[float, float]:
    """Return the binary logarithm of the ratio of two relative frequencies, and its standard error."""
    if size == 0 or other == 0:
        return 0.0, math.inf
    ratio = math.log2((one + 0.5) / (two + 0.5) * other / size)
    return ratio, math.sqrt(1 / (one + 0.5) + 1 / (two + 0.5)) / math.log(2)


def count_nodes(
    keys: Sequence[KeyExpression],
    node_keys: NodeKeys,
    nodes: Sequence[Int64[Array, "nodes"]],
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each combination of values with its count; each key has nodes of its own, in the same order."""
    found = [node_keys.values(key, column) for key, column in zip(keys, nodes, strict=True)]
    if not len(nodes[0]):
        return
    rows, counts = np.unique(np.stack([numbers for numbers, _ in found]), axis=1, return_counts=True)
    for row, count in zip(rows.T.tolist(), counts.tolist(), strict=True):
        yield tuple(texts[number] for number, (_, texts) in zip(row, found, strict=True)), count


def having_value(
    searcher: Searcher, table: TreeTable, found: MatchedNodes, key: KeyExpression, value: str, file: str = ""
) -> MatchedNodes:
    """Return the matches whose key has a value."""
    node_keys = NodeKeys(table, searcher.heads, file)
    numbers, texts = node_keys.values(key, _nodes_of(searcher, found, key))
    wanted = texts.index(value) if value in texts else -1
    return MatchedNodes(found.nodes[numbers == wanted], found.names[numbers == wanted])


def _nodes_of(searcher: Searcher, found: MatchedNodes, key: KeyExpression) -> Int64[Array, "matches"]:
    """Return the nodes that a key is about: those with its name, or those that match."""
    return found.names[:, searcher.pattern.names.index(key.name)] if key.name else found.nodes


def count_matches(
    searcher: Searcher, tables: Iterable[tuple[str, TreeTable]], keys: Sequence[KeyExpression]
) -> CountTable:
    """Count the matches of a pattern by keys, in tables with the names of their files.

    Examples
    --------
    >>> from sapwood.trees.tree import Tree
    >>> table = TreeTable.from_trees([Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (NN rain))))")])
    >>> counts = count_matches(Searcher("NN"), [("a.mrg", table)], [KeyExpression.parse("word")])
    >>> counts.table().rows
    [['dog', 1, 0.5, 250.0], ['rain', 1, 0.5, 250.0]]
    """
    counted = CountTable([key.text for key in keys])
    for file, table in tables:
        node_keys = NodeKeys(table, searcher.heads, file)
        blocks = list(searcher.blocks(table))
        nothing = np.zeros(0, dtype=np.int64)
        columns = [np.concatenate([nothing, *(_nodes_of(searcher, block, key) for block in blocks)]) for key in keys]
        counted.add(file, int(table.words_before[-1]), count_nodes(keys, node_keys, columns))
    return counted
