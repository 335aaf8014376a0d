"""Pivot learning as it is by default, on treebanks drawn from known grammars: the more trees, the closer it comes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from sapwood.learn.pivot import Pivot
from sapwood.research import match_grammars
from sapwood.research.pivot_grammars import random_pivot_grammar
from sapwood.trees.corpus import Corpus

STATES = 3
TREES = (500, 2000, 8000, 32_000)


@cache
def error(seed: int, trees: int, **settings) -> tuple[float, float]:
    """Return the mean distance of states' distributions of rules and words, and that of roots."""
    truth = random_pivot_grammar(
        np.random.default_rng(seed), interminals=2, preterminals=2, words=8, states=(STATES, STATES)
    )
    corpus = Corpus.from_trees(truth.sample(trees, random_state=100 + seed, max_words=10_000))
    match = match_grammars(truth, Pivot(states=STATES, **settings).fit(corpus))
    assert match.is_complete
    return (match.rules.total + match.words.total) / (2 * int(truth.states.sum())), match.roots.total / 2


def slope(errors: list[float]) -> float:
    return float(np.polyfit(np.log(TREES[: len(errors)]), np.log(errors), 1)[0])


def medians(sizes) -> np.ndarray:
    return np.median([[error(seed, trees) for trees in sizes] for seed in range(3)], axis=0)


@pytest.mark.slow
def test_the_error_falls_with_default_settings():
    """Medians over grammars fall like one over the square root, or nearly so."""
    found = medians(TREES[:3])
    assert slope(found[:, 0].tolist()) < -0.4
    assert slope(found[:, 1].tolist()) < -0.25
    assert found[-1, 0] < 0.03


@pytest.mark.slow
def test_and_goes_on_falling():
    found = medians(TREES)
    assert slope(found[:, 0].tolist()) < -0.4
    assert slope(found[:, 1].tolist()) < -0.25
    assert found[-1, 0] < 0.018
    assert found[-1, 1] < 0.04


@pytest.mark.parametrize(
    "settings",
    [{"rule_iterations": 2}, {"smoothing_half_count": 0.0, "smoothing": 0.6, "lexical_smoothing": 0.6}],
    ids=["a few iterations", "smoothing that stays"],
)
def test_what_would_keep_it_from_falling(settings):
    """The test above can fail: with what is not consistent the error stays where it is."""
    found = [error(0, trees, **settings)[0] for trees in TREES[:3]]
    assert slope(found) > -0.3
    assert found[-1] > 3 * error(0, TREES[2])[0]
