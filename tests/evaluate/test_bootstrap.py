"""Intervals and p-values: against plain loops, against all swaps there are, and against what they promise."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from sapwood.errors import UsageError
from sapwood.evaluate.bootstrap import COLUMNS, FIGURES, figures, intervals, p_values, resample, swap

Counts = Any


def random_counts(sentences: int, seed: int, quality: Any = 0.8) -> Counts:
    """Return the counts of sentences parsed with this share of brackets right, or a share for each sentence."""
    rng = np.random.default_rng(seed)
    columns = dict.fromkeys(COLUMNS, np.zeros(sentences, dtype=np.int64))
    columns["scored"] = np.ones(sentences, dtype=np.int64)
    columns["words"] = rng.integers(3, 30, sentences)
    columns["gold"] = columns["words"] - 1
    columns["predicted"] = columns["gold"] + rng.integers(0, 3, sentences)
    columns["matched"] = rng.binomial(columns["gold"], quality)
    columns["correct_tags"] = rng.binomial(columns["words"], 0.9)
    columns["exact"] = (columns["matched"] == columns["predicted"]).astype(np.int64)
    columns["disc_gold"] = rng.integers(1, 4, sentences)
    columns["disc_predicted"] = rng.integers(1, 4, sentences)
    columns["disc_matched"] = rng.binomial(np.minimum(columns["disc_gold"], columns["disc_predicted"]), quality)
    return np.stack([columns[name] for name in COLUMNS], axis=1)


def slow_figures(sums: dict[str, int]) -> list[float]:
    return [
        100.0 * sums["matched"] / sums["predicted"],
        100.0 * sums["matched"] / sums["gold"],
        200.0 * sums["matched"] / (sums["gold"] + sums["predicted"]),
        100.0 * sums["exact"] / sums["scored"],
        100.0 * sums["correct_tags"] / sums["words"],
        100.0 * sums["disc_matched"] / sums["disc_predicted"],
        100.0 * sums["disc_matched"] / sums["disc_gold"],
        200.0 * sums["disc_matched"] / (sums["disc_gold"] + sums["disc_predicted"]),
    ]


def slow_sums(rows: list[list[int]]) -> dict[str, int]:
    return {name: sum(row[index] for row in rows) for index, name in enumerate(COLUMNS)}


def test_a_plain_loop_draws_the_same_samples() -> None:
    counts = random_counts(7, 1)
    rows, rng = counts.tolist(), np.random.default_rng(5)
    sums = [slow_sums([rows[index] for index in rng.integers(7, size=7)]) for _ in range(50)]
    assert resample(counts, resamples=50, seed=5).tolist() == [list(one.values()) for one in sums]
    ordered = [sorted(values) for values in zip(*map(slow_figures, sums), strict=True)]
    found = intervals(counts, confidence=0.9, resamples=50, seed=5)
    for name, values in zip(FIGURES, ordered, strict=True):
        # 5 % of the way from the first of 50 to the last is 2.45 steps.
        assert found[name].low == pytest.approx(values[2] + 0.45 * (values[3] - values[2]))
        assert found[name].high == pytest.approx(values[47] - 0.45 * (values[47] - values[46]))


def test_many_blocks_are_one_sample_after_the_other() -> None:
    counts = random_counts(1000, 1)  # so that 65 samples are a block
    rng = np.random.default_rng(2)
    drawn = [counts[rng.integers(1000, size=1000)].sum(axis=0).tolist() for _ in range(150)]
    assert resample(counts, resamples=150, seed=2).tolist() == drawn


def test_a_plain_loop_swaps_the_same_sentences() -> None:
    one, other = random_counts(6, 1), random_counts(6, 2)
    pairs = list(zip(one.tolist(), other.tolist(), strict=True))
    swaps = np.random.default_rng(3).integers(2, size=(40, 6), dtype=np.uint8).tolist()
    sides = [
        [slow_sums([pair[side ^ swapped] for pair, swapped in zip(pairs, row, strict=True)]) for side in (0, 1)]
        for row in swaps
    ]
    assert swap(one, other, rounds=40, seed=3).tolist() == [list(left.values()) for left, _ in sides]
    observed = np.subtract(*(slow_figures(slow_sums(part.tolist())) for part in (one, other)))
    found = [np.subtract(*map(slow_figures, pair)) for pair in sides]
    as_far = [sum(abs(row[index]) >= abs(observed[index]) - 1e-9 for row in found) for index in range(len(FIGURES))]
    assert list(p_values(one, other, rounds=40, seed=3).values()) == [(number + 1) / 41 for number in as_far]


@pytest.mark.parametrize("seed", range(5))
def test_p_values_are_those_of_all_swaps(seed: int) -> None:
    one, other = random_counts(9, 2 * seed), random_counts(9, 2 * seed + 1, 0.9)
    both = (one + other).sum(axis=0)
    swaps = np.array(list(itertools.product([0, 1], repeat=9)))
    sums = one.sum(axis=0) + swaps @ (other - one)
    distances = np.abs(figures(sums) - figures(both - sums))
    exact = (distances >= distances[0] - 1e-9).mean(axis=0)
    rounds = 20_000
    found = p_values(one, other, rounds=rounds, seed=seed)
    for name, p in zip(FIGURES, exact, strict=True):
        assert found[name] == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / rounds) + 1 / rounds)


def test_p_values_are_uniform_where_parsers_are_alike() -> None:
    """Both parsers find each sentence as hard as the other does, and differ by chance alone."""
    found = []
    for seed in range(300):
        hard = np.random.default_rng(seed).uniform(0.5, 1.0, 60)
        one, other = random_counts(60, 5000 + seed, hard), random_counts(60, 5000 + seed, hard)
        again = np.random.default_rng(9000 + seed).binomial(one[:, COLUMNS.index("gold")], hard)
        other[:, COLUMNS.index("matched")] = again
        found.append(p_values(one, other, rounds=400, seed=seed)["f1"])
    p = np.sort(found)
    # The largest distance from a straight line; above 0.094 in one case of a hundred (Kolmogorov).
    assert np.abs(p - np.arange(1, 301) / 301).max() < 0.094
    assert 0.02 < (p <= 0.05).mean() < 0.09


def test_p_values_find_a_better_parser() -> None:
    found = p_values(random_counts(100, 1, 0.8), random_counts(100, 1, 0.9), rounds=999)
    assert found["f1"] == 0.001  # of 999 swaps none is as far: (0 + 1) / (999 + 1)
    assert found["tag_accuracy"] > 0.1


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_cover_what_they_should(confidence: float) -> None:
    truth = dict(zip(FIGURES, figures(random_counts(400_000, 0).sum(axis=0)), strict=True))
    hits = dict.fromkeys(FIGURES, 0)
    for seed in range(1, 301):
        found = intervals(random_counts(150, seed), confidence=confidence, resamples=400, seed=seed)
        for name, interval in found.items():
            hits[name] += interval.low <= truth[name] <= interval.high
    for name, number in hits.items():
        assert number / 300 == pytest.approx(confidence, abs=0.05), name


def test_the_same_seed_gives_the_same_interval_and_more_confidence_a_wider_one() -> None:
    counts = random_counts(50, 1)
    wide, narrow = intervals(counts), intervals(counts, confidence=0.5)
    assert wide == intervals(counts)
    assert wide != intervals(counts, seed=1)
    for name in FIGURES:
        assert wide[name].low < narrow[name].low < narrow[name].high < wide[name].high


def test_sentences_that_do_not_count_are_not_drawn() -> None:
    counts = random_counts(50, 1)
    more = np.concatenate([counts, np.zeros((20, len(COLUMNS)), dtype=np.int64)])
    assert intervals(more) == intervals(counts)
    assert set(intervals(more[50:]).values()) == {(0.0, 0.0)}


@pytest.mark.parametrize("wrong", [{"confidence": 0.0}, {"confidence": 1.0}, {"resamples": 0}])
def test_what_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"confidence must be between|at least one sample"):
        intervals(random_counts(5, 1), **wrong)
