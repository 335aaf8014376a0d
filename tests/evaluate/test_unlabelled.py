"""Scores without labels."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.errors import InputError
from sapwood.evaluate.unlabelled import UnlabelledScorer, kept_heads, spans_of
from sapwood.trees.tree import Tree

GOLD = Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (, ,) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .)))")
FOUND = Tree.parse("(ROOT (X (X (D the) (N dog)) (X (P ,) (X (X (V sees) (D a)) (N cat)) (P .))))")


def test_spans_by_hand():
    scorer = UnlabelledScorer()
    scorer.add_trees(GOLD, FOUND)
    result = scorer.result()
    # Gold 0-5, 0-2, 2-5, 3-5; found 0-5, 0-2, 2-5, 2-4: the whole sentence counts, but not in the proper figure.
    assert result.counts.tolist() == [[5, 4, 4, 3, 0, 0]]
    assert (result.precision, result.recall, result.f1) == (75, 75, 75)
    assert [result.proper_f1, result.sentence_f1] == pytest.approx([100 * 2 / 3] * 2)


def test_the_same_span_twice_and_single_words_count_for_nothing():
    assert spans_of(Tree.parse("(ROOT (S (VP (NP (N a)) (NP (N b)))))")) == {(0, 2)}


def test_sentences_and_the_corpus_have_means_of_their_own():
    scorer = UnlabelledScorer()
    scorer.add(4, spans=([(0, 4), (1, 4), (2, 4)], [(0, 4), (0, 2), (2, 4)]))
    scorer.add(3, spans=([(0, 3)], [(0, 3), (1, 3)]))
    scorer.add(2, spans=([(0, 2)], [(0, 2)]))
    scorer.add(1, spans=([], []))
    result = scorer.result()
    assert result.f1 == pytest.approx(200 * 4 / (5 + 6))
    assert result.proper_f1 == pytest.approx(200 * 1 / (2 + 3))
    # One of two right, nothing to find but something found, nothing to find and nothing found; one word counts not.
    assert result.sentence_f1 == pytest.approx((50 + 0 + 100) / 3)
    assert result.trivial_sentence_f1 == pytest.approx((100 * 2 / 3 + 100 * 2 / 3 + 100) / 3)
    assert result.up_to(2).f1 == 100
    assert result.up_to(2).sentences == 2
    failed = UnlabelledScorer()
    failed.add_trees(GOLD, None)
    assert (failed.result().recall, failed.result().precision, failed.result().proper_f1) == (0, 0, 0)


def test_heads_by_hand():
    scorer = UnlabelledScorer()
    scorer.add(4, heads=([1, -1, 1, 2], [-1, 0, 1, 1]))
    # Words 0 and 1 have their edge upside down: 1 depends on 0 where 0 depends on 1. Word 2 is right.
    assert scorer.result().counts.tolist() == [[4, 0, 0, 0, 1, 2]]
    assert scorer.result().figures == ("directed", "undirected")
    with pytest.raises(InputError, match="2 words has 2 heads, its prediction 1"):
        scorer.add(2, heads=([1, -1], [-1]))


def test_heads_of_words_that_are_kept():
    assert kept_heads([1, -1, 1, 2], [True, True, False, True]) == [1, -1, 1]
    assert kept_heads([1, 0], [True, False]) == [0]
    assert kept_heads([2, -1, 1], [True, False, True]) == [1, -1]


def test_other_words_are_refused():
    scorer = UnlabelledScorer()
    for text in ("(ROOT (N a))", "(ROOT (D the) (N cat) (P ,) (V sees) (D a) (N cat) (P .))"):
        with pytest.raises(InputError, match="words of a tree and of its prediction differ"):
            scorer.add_trees(GOLD, Tree.parse(text))


def test_intervals_and_tables():
    scorer = UnlabelledScorer()
    rng = np.random.default_rng(0)
    for length in rng.integers(2, 50, 200).tolist():
        right = rng.random() < 0.5
        spans = [(0, length), (0, 2)] if right else [(0, length), (1, length)]
        scorer.add(length, spans=([(0, length), (0, 2)], spans), heads=([-1] * length, [0] * length))
    result = scorer.result()
    low, high = result.interval("f1")
    assert low < result.f1 < high
    assert high - low < 10
    table = result.format()
    assert [line.split()[0] for line in table.splitlines()[2:]] == ["up", "up", "up", "all"]
    assert set(result.to_dict()["all"]) == {"sentences", *result.figures}
