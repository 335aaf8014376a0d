"""The shapes of binary trees, as the spans of their inner nodes: choosing the best one, and comparing two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from low_rank_engine import _topology_kernels as kernels
from sapwood.errors import UsageError
from sapwood.trees.tree import Tree

Span: TypeAlias = tuple[int, int]
# The spans of a tree's inner nodes, `(start, end)` with `end` not included, parents before children, left to right.
Topology: TypeAlias = tuple[Span, ...]


def best_topology(marginals: np.ndarray) -> Topology:
    """Return the spans of the `N - 1` inner nodes of the binary tree with the largest sum of marginals.

    Of several equally good splits of a span the leftmost is taken, so that marginals that say nothing give a
    right-branching tree.

    Parameters
    ----------
    marginals
        `(N, N + 1)`: `[i, j]` is what a node over the words `i .. j - 1` is worth; only `j - i >= 2` matter.
    """
    marginals = np.ascontiguousarray(marginals, float)
    if marginals.ndim != 2 or not len(marginals) or marginals.shape[1] != len(marginals) + 1:
        raise UsageError(f"marginals must be of shape (N, N + 1), not {marginals.shape}")
    if not np.isfinite(marginals).all():
        raise UsageError("marginals must be finite numbers")
    splits = kernels.best_splits(marginals)
    found, stack = [], [(0, len(marginals))]
    while stack:
        start, end = stack.pop()
        if end - start > 1:
            found.append((start, end))
            middle = int(splits[start, end])
            stack += [(middle, end), (start, middle)]
    return tuple(found)


def spans_of(tree: Tree | Iterable[Span]) -> Topology:
    """Return the distinct spans of two and more words of any tree, parents before children, left to right."""
    spans = [(start, end) for start, end, _ in tree.spans()] if isinstance(tree, Tree) else tree
    distinct = {(int(start), int(end)) for start, end in spans if end - start > 1}
    return tuple(sorted(distinct, key=lambda span: (span[0], -span[1])))


def topology_of(tree: Tree | Iterable[Span]) -> Topology:
    """Return the spans of the inner nodes of a binary tree, which may have unary nodes in it.

    Examples
    --------
    >>> topology_of(Tree.parse("(S (NP (D the) (N dog)) (VP (V barks)))"))
    ((0, 3), (0, 2))
    """
    spans = spans_of(tree)
    linked(spans)
    return spans


def linked(spans: Topology) -> tuple[np.ndarray, np.ndarray]:
    """Return the children of each inner node and its height; see `kernels.link_children`."""
    length = len(spans) + 1
    ordered = np.array(sorted(spans, key=lambda span: (span[1], -span[0])), np.int64).reshape(-1, 2)
    children, heights = np.empty_like(ordered), np.empty(len(ordered), np.int64)
    if not kernels.link_children(length, ordered, children, heights):
        raise UsageError(f"not the spans of a binary tree over {length} words: {spans}; binarise it first")
    return children, heights


@dataclass(frozen=True)
class BracketCounts:
    """How many spans of two and more words agree, the whole sentence left out; counts of sentences can be added up."""

    matched: int = 0
    gold: int = 0
    found: int = 0
    sentences: int = 0
    exact: int = 0

    def __add__(self, other: BracketCounts) -> BracketCounts:
        return BracketCounts(
            self.matched + other.matched, self.gold + other.gold, self.found + other.found,
            self.sentences + other.sentences, self.exact + other.exact,
        )  # fmt: skip

    @property
    def precision(self) -> float:
        """Per cent of the spans found that are right, 0.0 if there are none."""
        return 100.0 * self.matched / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Per cent of the right spans that were found, 0.0 if there are none."""
        return 100.0 * self.matched / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; both are the same for two binary trees."""
        return 200.0 * self.matched / (self.gold + self.found) if self.gold + self.found else 0.0


def bracket_scores(gold: Tree | Iterable[Span], found: Tree | Iterable[Span]) -> BracketCounts:
    """Compare the spans of two trees over the same sentence, the whole of it among them; they need not be binary.

    Equal spans, as of unary chains, count once. Add up sentences with `sum(scores, BracketCounts())`.
    """
    one, other = spans_of(gold), spans_of(found)
    if one[:1] != other[:1]:  # the whole sentence
        raise UsageError(f"two trees over one sentence begin with the same span, not with {one[:1]} and {other[:1]}")
    gold_spans, found_spans = set(one[1:]), set(other[1:])
    return BracketCounts(
        len(gold_spans & found_spans), len(gold_spans), len(found_spans), 1, int(gold_spans == found_spans)
    )
