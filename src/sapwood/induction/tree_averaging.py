"""Tree averaging: the tree that agrees best with several parsers (minimum Bayes risk).

Members of a committee vote for spans: with the posteriors of the spans if they are models, with 0 and 1 if all that is
known is a tree. The averaged tree of a sentence maximises the sum of the votes of its spans over all binary trees
(Shayegh et al. 2024), which takes a CKY chart without a grammar. All binary trees over a sentence have the same number
of spans, so with votes of 0 and 1 for binary trees this is also the tree with the largest mean F1 with those of the
members. Posteriors are better votes than trees: they tell how sure a member is, and where its second choice is.

Gold trees are not binary, and a span with few votes is more often wrong than right. An averaged tree that need not be
binary is the tree T with the largest F1 of expected counts, `2 V(T) / (|T| + n - 1)` for a sentence of n words, where
V(T) is the sum of votes. Dinkelbach's method finds it: as long as the F1 rises, take the tree with the largest sum of
`2 v(s) - F1` over its spans, without spans of a negative score. So a span is kept if its vote is above F1 / 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

import numpy as np

from sapwood.errors import UsageError
from sapwood.induction.estep import best_binary
from sapwood.storage.shapes import Array, Float64, Int, Int64

Span = tuple[int, int]
_ITERATIONS = 100


def span_number(begin: int, end: int, length: int) -> int:
    """Return the place of a span in the order of `sapwood.induction.estep.span_ends`.

    >>> [span_number(begin, end, 3) for begin, end in ((0, 1), (0, 3), (1, 2), (2, 3))]
    [0, 2, 3, 5]
    """
    return begin * length - begin * (begin - 1) // 2 + end - begin - 1


def tree_votes(spans: Iterable[Span], length: int) -> Float64[Array, "spans"]:
    """Return the votes of a tree: 1 for each of its spans.

    >>> tree_votes([(0, 3), (1, 3)], 3).tolist()
    [0.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    """
    votes = np.zeros(length * (length + 1) // 2)
    votes[[span_number(begin, end, length) for begin, end in spans]] = 1.0
    return votes


class SpanVotes:
    """Votes for the spans of sentences, summed over members.

    Parameters
    ----------
    lengths
        Number of words of each sentence.

    Examples
    --------
    >>> votes = SpanVotes(np.array([4]))
    >>> for tree in ({(0, 4), (0, 2), (2, 4)}, {(0, 4), (0, 2), (0, 3)}, {(0, 4), (1, 4), (2, 4)}):
    ...     votes.add([tree_votes(tree, 4)])
    >>> votes.binary_trees()
    [[(0, 4), (0, 2), (2, 4)]]
    """

    def __init__(self, lengths: Int[Array, "sentences"]) -> None:
        self.lengths: Int64[Array, "sentences"] = np.asarray(lengths, np.int64)
        sizes = self.lengths * (self.lengths + 1) // 2
        self.offsets: Int64[Array, "bounds"] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._sums = np.zeros(int(self.offsets[-1]))
        self.members = 0

    def add(self, member: Collection[Float64[Array, "spans"]]) -> None:
        """Add the votes of a member: for each sentence those of all its spans."""
        if len(member) != len(self.lengths):
            raise UsageError(f"votes for {len(member):,} sentences, where there are {len(self.lengths):,}")
        for (first, last), votes in zip(pairwise(self.offsets.tolist()), member, strict=True):
            if len(votes) != last - first:
                raise UsageError(f"votes for {len(votes):,} spans of a sentence that has {last - first:,}")
            self._sums[first:last] += votes
        self.members += 1

    def join(self, other: SpanVotes) -> None:
        """Add the votes of other members for the same sentences."""
        self._sums += other._sums
        self.members += other.members

    def support(self, trees: Sequence[Collection[Span]]) -> float:
        """Return the mean vote for the spans of trees, without those of whole sentences."""
        shares, total, count = self.shares, 0.0, 0
        for first, length, spans in zip(self.offsets.tolist(), self.lengths.tolist(), trees, strict=False):
            proper = [span_number(*span, length) for span in spans if span != (0, length)]
            total, count = total + float(shares[first + np.array(proper, int)].sum()), count + len(proper)
        return total / max(count, 1)

    @property
    def shares(self) -> Float64[Array, "spans"]:
        """The mean vote for each span of all sentences."""
        if not self.members:
            raise UsageError("no member has voted")
        return self._sums / self.members

    def binary_trees(self) -> list[list[Span]]:
        """Return the spans of the binary tree of each sentence with the largest sum of votes."""
        bounds = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)
        return best_binary(bounds, self.shares)

    def trees(self) -> list[list[Span]]:
        """Return the spans of the tree of each sentence with the largest F1 of expected counts."""
        shares = self.shares
        rows = zip(pairwise(self.offsets.tolist()), self.lengths.tolist(), self.binary_trees(), strict=True)
        return [best_f1_tree(shares[first:last], length, binary) for (first, last), length, binary in rows]


def best_f1_tree(votes: Float64[Array, "spans"], length: int, binary: list[Span]) -> list[Span]:
    """Return the spans of the tree with the largest F1 of expected counts, given the best binary tree.

    >>> best_f1_tree(tree_votes([(0, 3)], 3) + 0.2 * tree_votes([(0, 2)], 3), 3, [(0, 3), (0, 2)])
    [(0, 3)]
    """
    bounds = np.array([0, length], np.int64)
    tree, value = binary, -1.0
    for _ in range(_ITERATIONS):
        total = sum(float(votes[span_number(*span, length)]) for span in tree)
        new = 2 * total / (len(tree) + length - 1) if tree else 0.0
        if new <= value:
            break
        value = new
        scores = np.maximum(2 * votes - value, 0.0)
        [found] = best_binary(bounds, scores)
        tree = [span for span in found if scores[span_number(*span, length)] > 0]
    return tree
