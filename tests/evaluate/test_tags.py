"""How often taggers are right."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.errors import InputError
from sapwood.evaluate.tags import TaggingResult, evaluate_tagger
from sapwood.inference import Parser
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.tagging import tagged_corpus

GOLD = [[("the", "D"), ("dog", "N"), ("barks", "V")], [("cats", "N"), ("sleep", "V")]]


def test_counts_and_figures():
    result = TaggingResult.of(GOLD, [["D", "N", "N"], ["N", "N"]], {"the", "dog", "cats"})
    assert result.counts.tolist() == [[3, 2, 2, 2, 1, 0], [2, 1, 1, 1, 1, 0]]
    assert result.figures() == {"all": 60.0, "known": 100.0, "unknown": 0.0}
    assert result.accuracy == 60.0
    assert result.to_dict()["known"] == {"words": 3, "right": 3, "accuracy": 100.0}
    assert result.format().splitlines()[2].split()[:4] == ["all", "5", "3", "60.00"]


def test_intervals_by_hand():
    rng = np.random.default_rng(0)
    words = rng.integers(1, 9, size=40)
    right = rng.binomial(words, 0.8)
    counts = np.zeros((40, 6), np.int64)
    counts[:, 0], counts[:, 1] = words, right
    low, high = TaggingResult(counts).intervals(resamples=4000)["all"]
    samples = []
    for _ in range(4000):
        drawn = rng.integers(40, size=40)
        samples.append(100 * right[drawn].sum() / words[drawn].sum())
    assert (low, high) == pytest.approx(np.percentile(samples, [2.5, 97.5]), abs=0.6)


def test_a_tagger_on_what_it_has_learned():
    grammar = PCFG().fit(tagged_corpus(PCFG(), GOLD * 5))
    result = evaluate_tagger(Parser(grammar), [*GOLD, []])
    assert (len(result.counts), result.accuracy) == (2, 100.0)
    with pytest.raises(InputError, match="no sequences"):
        evaluate_tagger(Parser(grammar), [[]])
