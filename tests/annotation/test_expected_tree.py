"""Trees of the most probable phrases, compared with all trees."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sapwood.annotation.expected_tree import expected_tree
from sapwood.inference.result import Marginal
from sapwood.trees.tree import Tree

TAGS = {"T", "U"}


def crosses(a, b) -> bool:
    return a[0] < b[0] < a[1] < b[1] or b[0] < a[0] < b[1] < a[1]


def best_gain(n: int, gains: dict[tuple[int, int], float], required: set[tuple[int, int]]) -> float:
    """Return the greatest sum of gains of spans that cross neither each other nor required ones."""
    spans = [span for span in gains if not any(crosses(span, other) for other in required)]
    best = -1.0
    for size in range(len(spans) + 1):
        for chosen in itertools.combinations(spans, size):
            if not any(crosses(a, b) for a, b in itertools.combinations(chosen, 2)):
                best = max(best, sum(gains[span] for span in chosen))
    return best


def random_phrases(rng: np.random.Generator, n: int) -> list[Marginal]:
    found = []
    for start, end in itertools.combinations(range(n + 1), 2):
        if rng.random() < 0.7:
            found.append(Marginal(start, end, "A", rng.random()))
        if rng.random() < 0.3:
            found.append(Marginal(start, end, "B", rng.random()))
    return found + [Marginal(at, at + 1, tag, rng.random()) for at in range(n) for tag in sorted(TAGS)]


@pytest.mark.parametrize("seed", range(20))
def test_no_tree_is_better(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    phrases = random_phrases(rng, n)
    probability = {one[:3]: one.probability for one in phrases}
    tree = expected_tree([f"w{at}" for at in range(n)], phrases, required={}, tags=TAGS, root="ROOT")
    assert tree.label == "ROOT"
    assert tree.words() == [f"w{at}" for at in range(n)]
    for at, tag in enumerate(tree.tags()):
        assert probability[at, at + 1, tag] == max(probability[at, at + 1, one] for one in TAGS)
    gains: dict[tuple[int, int], float] = {}
    for one in phrases:
        if one.label not in TAGS:
            gains[one[:2]] = gains.get(one[:2], 0.0) + max(one.probability - 0.5, 0.0)
    found = tree.spans()[1:]
    assert all(probability[span] > 0.5 for span in found)
    assert sum(probability[span] - 0.5 for span in found) == pytest.approx(best_gain(n, gains, set()))


def test_required_phrases_win_and_have_a_label():
    phrases = [Marginal(0, 2, "A", 0.9), Marginal(1, 3, "B", 0.3), Marginal(1, 3, "C", 0.2)]
    phrases += [Marginal(at, at + 1, "T", 1.0) for at in range(3)]

    def tree(**required: str) -> str:
        spans = {(int(name[1]), int(name[2])): label for name, label in required.items()}
        return str(expected_tree(["x", "y", "z"], phrases, required=spans, tags=TAGS, root="S"))

    assert tree() == "(S (A (T x) (T y)) (T z))"
    assert tree(s13="D") == "(S (T x) (B (T y) (T z)))"
    assert tree(s03="D") == "(S (D (A (T x) (T y)) (T z)))"


def test_labels_over_the_same_words_are_in_the_order_of_the_grammar():
    phrases = [Marginal(0, 2, label, 0.9) for label in ("VP", "S", "ROOT")]
    phrases += [Marginal(at, at + 1, "T", 1.0) for at in range(2)]
    for above, expected in (
        ({("S", "VP")}, "(ROOT (S (VP (T x) (T y))))"),
        ({("VP", "S")}, "(ROOT (VP (S (T x) (T y))))"),
    ):
        found = expected_tree(["x", "y"], phrases, required={}, tags=TAGS, root="ROOT", above=above)
        assert str(found) == expected


def test_the_present_tree_gives_way_to_what_is_sure():
    tags = [Marginal(at, at + 1, "T", 1.0) for at in range(3)]

    def tree(old: float, new: float) -> str:
        phrases = [Marginal(0, 2, "A", old), Marginal(1, 3, "B", new), *tags]
        found = expected_tree(["x", "y", "z"], phrases, required={}, present={(0, 2, "A")}, tags=TAGS, root="S")
        return str(found)

    assert tree(0.4, 0.6) == "(S (A (T x) (T y)) (T z))"
    assert tree(0.2, 0.8) == "(S (T x) (B (T y) (T z)))"
    assert tree(0.2, 0.6) == "(S (T x) (T y) (T z))"


def test_a_label_that_is_a_tag_too():
    phrases = [Marginal(0, 1, "T", 0.9), Marginal(0, 2, "T", 0.8), Marginal(1, 2, "U", 0.7)]
    tree = expected_tree(["x", "y"], phrases, required={}, tags=TAGS, root="S")
    assert tree == Tree.parse("(S (T (T x) (U y)))")
