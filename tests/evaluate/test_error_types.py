"""Kinds of mistakes, each worked out by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from sapwood.evaluate import score_tree
from sapwood.evaluate.error_types import MISTAKES, count_mistakes
from sapwood.trees.tree import Tree

GOLD = "(S (NP (N I)) (VP (V saw) (NP (N it)) (PP (P in) (NP (N town)))))"


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        (GOLD, {}),
        (GOLD.replace("PP", "X"), {"wrong_label": 1}),
        # The object reaches to the end: NP(2,5) is one too many, and shares no span with a gold bracket that is free.
        ("(S (NP (N I)) (VP (V saw) (NP (NP (N it)) (PP (P in) (NP (N town))))))", {"spurious": 1}),
        # VP(1,5) is VP(1,3) here, and begins where it should; the other brackets are right.
        ("(S (NP (N I)) (VP (V saw) (NP (N it))) (PP (P in) (NP (N town))))", {"wrong_span": 1}),
        # NP over *I* is a word, and *it* is below two phrases.
        ("(S (N I) (VP (V saw) (X (NP (N it))) (PP (P in) (NP (N town)))))", {"missing": 1, "wrong_unary": 1}),
        # A chain with one link of three wrong, and one that is missing.
        (GOLD.replace("(NP (N it))", "(A (B (C (N it))))"), {"wrong_label": 1, "wrong_unary": 2}),
        # VP(1,5) begins late; NP(0,1) is missing, and X(0,2) has another span and another label.
        (
            "(S (X (N I) (V saw)) (VP (NP (N it)) (PP (P in) (NP (N town)))))",
            {"missing": 1, "spurious": 1, "wrong_span": 1},
        ),
        (None, {"missing": 6}),
    ],
)
def test_kinds(predicted: str | None, expected: dict[str, int]) -> None:
    score = score_tree(Tree.parse(GOLD), None if predicted is None else Tree.parse(predicted))
    assert score.mistakes == {**dict.fromkeys(MISTAKES, 0), **expected}


def test_the_most_alike_brackets_are_one_mistake() -> None:
    # (0,4) is nearest to (0,5), which leaves nothing for (4,5) that ends like it, nor for (0,2) that begins like (0,4).
    gold = Counter([(0, 4, "X"), (4, 5, "X")])
    found = count_mistakes(gold, Counter([(0, 2, "X"), (0, 5, "X")]))
    assert {kind: number for kind, number in found.items() if number} == {"wrong_span": 1, "missing": 1, "spurious": 1}
