"""Averaged trees agree with enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sapwood.errors import UsageError
from sapwood.induction.tree_averaging import SpanVotes, span_number, tree_votes


def all_binary(begin: int, end: int) -> list[set[tuple[int, int]]]:
    """Return the spans of every binary tree."""
    if end - begin == 1:
        return [set()]
    return [
        {(begin, end)} | left | right
        for middle in range(begin + 1, end)
        for left in all_binary(begin, middle)
        for right in all_binary(middle, end)
    ]


def all_trees(length: int) -> list[frozenset[tuple[int, int]]]:
    """Return every set of spans that nest."""
    return list({frozenset(part) for tree in all_binary(0, length) for size in range(len(tree) + 1)
                 for part in itertools.combinations(sorted(tree), size)})  # fmt: skip


def votes_of(lengths: list[int], members: list[list[set[tuple[int, int]]]]) -> SpanVotes:
    votes = SpanVotes(np.array(lengths))
    for trees in members:
        votes.add([tree_votes(tree, length) for tree, length in zip(trees, lengths, strict=True)])
    return votes


@pytest.mark.parametrize("seed", range(6))
def test_binary_trees_have_the_largest_mean_f1_with_those_of_the_members(seed):
    rng = np.random.default_rng(seed)
    lengths = [1, 2, 5, 6]
    members = [[all_binary(0, n)[rng.integers(len(all_binary(0, n)))] for n in lengths] for _ in range(4)]
    found = votes_of(lengths, members).binary_trees()
    for number, length in enumerate(lengths):

        def mean_f1(tree, number=number):
            pairs = [(tree, trees[number]) for trees in members]
            return np.mean([2 * len(a & b) / (len(a) + len(b)) if a or b else 1.0 for a, b in pairs])

        assert len(found[number]) == length - 1
        assert mean_f1(set(found[number])) == pytest.approx(max(map(mean_f1, all_binary(0, length))))


@pytest.mark.parametrize("seed", range(8))
def test_trees_that_need_not_be_binary_have_the_largest_expected_f1(seed):
    rng = np.random.default_rng(seed)
    lengths = [1, 2, 4, 6]
    votes = SpanVotes(np.array(lengths))
    for _ in range(2):
        votes.add([rng.dirichlet(np.full(n * (n + 1) // 2, 0.2)) * (n - 1) if n > 1 else np.zeros(1) for n in lengths])
    bounds = votes.offsets
    for number, (length, tree) in enumerate(zip(lengths, votes.trees(), strict=True)):
        shares = votes.shares[bounds[number] : bounds[number + 1]]

        def expected(spans, shares=shares, length=length):
            total = sum(shares[span_number(*span, length)] for span in spans)
            return 2 * total / (len(spans) + length - 1) if spans else 0.0

        assert frozenset(tree) in all_trees(length)
        assert expected(tree) == pytest.approx(max(map(expected, all_trees(length))))


def test_spans_that_few_members_have_are_left_out():
    right, left = {(0, 5), (1, 5), (2, 5), (3, 5)}, {(0, 5), (0, 4), (0, 3), (0, 2)}
    votes = votes_of([5], [[right], [right], [right], [left]])
    assert set(votes.trees()[0]) == right
    unsure = SpanVotes(np.array([5]))
    unsure.add([tree_votes({(0, 5), (3, 5)}, 5) + 0.2 * tree_votes({(1, 5), (2, 5)}, 5)])
    assert unsure.trees() == [[(0, 5), (3, 5)]]
    assert set(unsure.binary_trees()[0]) == right


def test_votes_that_do_not_fit_are_refused():
    votes = SpanVotes(np.array([3]))
    with pytest.raises(UsageError, match="no member has voted"):
        votes.trees()
    with pytest.raises(UsageError, match="votes for 2 sentences, where there are 1"):
        votes.add([np.zeros(6), np.zeros(6)])
    with pytest.raises(UsageError, match="votes for 3 spans of a sentence that has 6"):
        votes.add([np.zeros(3)])
