"""Bootstrap intervals and paired permutation tests, from the counts of each sentence.

Every score is a ratio of sums over sentences, so any number of samples is one product of two matrices: the
multiplicity of each sentence in each sample, and the sentences' counts. These are integers with exact sums: the same
seed gives the same bytes.

- *Bootstrap* (Efron and Tibshirani 1993): samples of the same size are drawn with replacement; the interval lies
  between percentiles of the score over these samples. For the difference of two parsers, both use the same sample.
- *Approximate randomisation* (Noreen 1989): if two parsers were equivalent, their parses of a sentence would be
  exchangeable. In each round, the two parses of every sentence are swapped at random; the two-sided p-value is
  `(r + 1) / (R + 1)` if the scores are at least as far apart as the observed ones in `r` of `R` rounds.

Sentences are assumed to be independent. The variance between training runs is not included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sapwood.errors import UsageError
from sapwood.evaluate.error_types import MISTAKES
from sapwood.storage.shapes import Array, Float, Float64, Int, Num

# Counts of each sentence.
DISCONTINUOUS = ("disc_gold", "disc_predicted", "disc_matched")
COUNTED = ("scored", "words", "correct_tags", "gold", "predicted", "matched", "exact", *DISCONTINUOUS)
COLUMNS = (*COUNTED, *MISTAKES)
# Scores in per cent: numerator and denominator as columns and their factors.
_RATIOS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "precision": ({"matched": 1}, {"predicted": 1}),
    "recall": ({"matched": 1}, {"gold": 1}),
    "f1": ({"matched": 2}, {"gold": 1, "predicted": 1}),
    "exact": ({"exact": 1}, {"scored": 1}),
    "tag_accuracy": ({"correct_tags": 1}, {"words": 1}),
    "disc_precision": ({"disc_matched": 1}, {"disc_predicted": 1}),
    "disc_recall": ({"disc_matched": 1}, {"disc_gold": 1}),
    "disc_f1": ({"disc_matched": 2}, {"disc_gold": 1, "disc_predicted": 1}),
}
FIGURES = tuple(_RATIOS)
_PARTS, _WHOLES = (
    np.array([[ratio[side].get(column, 0) for ratio in _RATIOS.values()] for column in COLUMNS], dtype=np.float64)
    for side in (0, 1)
)
# Random numbers per batch: fits the cache, and is too small for multi-threaded matrix products.
_BLOCK = 1 << 16
# Rounding error of differences in per cent.
_ROUNDING = 1e-9


class Interval(NamedTuple):
    """Confidence interval of a score."""

    low: float
    high: float


def figures(sums: Num[Array, "*samples columns"]) -> Float64[Array, "*samples figures"]:
    """Return `FIGURES` in per cent from sums of `COLUMNS`; 0.0 if the denominator is 0."""
    part, whole = 100.0 * (sums @ _PARTS), sums @ _WHOLES
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)


def intervals(
    counts: Int[Array, "sentences columns"], *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> dict[str, Interval]:
    """Return the bootstrap interval of each of `FIGURES`.

    Parameters
    ----------
    counts
        `COLUMNS` of each sentence; unscored ones are not drawn.
    confidence
        Confidence level of the intervals.
    resamples
        Number of samples.
    seed
        Random seed.
    """
    samples = resample(counts[counts[:, 0] > 0], resamples=resamples, seed=seed)
    return dict(zip(FIGURES, percentiles(figures(samples), confidence), strict=True))


def percentiles(samples: Float[Array, "resamples figures"], confidence: float) -> list[Interval]:
    """Return the central interval of each score that holds this fraction of its samples."""
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must be between 0 and 1, not {confidence}")
    ends = np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return [Interval(*pair) for pair in ends.T.tolist()]


def resample(
    counts: Int[Array, "sentences columns"], *, resamples: int = 10_000, seed: int = 0
) -> Float64[Array, "resamples columns"]:
    """Return the sums of columns over samples of the same size, drawn with replacement."""
    size = len(counts)

    def weights(rng: np.random.Generator, rows: int) -> Array:
        drawn = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
        return np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)

    return _sums(weights, counts, resamples, seed)


def swap(
    one: Int[Array, "sentences columns"],
    other: Int[Array, "sentences columns"],
    *,
    rounds: int = 10_000,
    seed: int = 0,
) -> Float64[Array, "rounds columns"]:
    """Return the sums of one parser's columns when each sentence is swapped with the other parser's at random.

    The sums of the other parser in the same round are the rest of the sum of both.
    """

    def weights(rng: np.random.Generator, rows: int) -> Array:
        return rng.integers(2, size=(rows, len(one)), dtype=np.uint8)

    return one.sum(axis=0) + _sums(weights, other - one, rounds, seed)


def p_values(
    one: Int[Array, "sentences columns"],
    other: Int[Array, "sentences columns"],
    *,
    rounds: int = 10_000,
    seed: int = 0,
) -> dict[str, float]:
    """Return the p-value of the difference between two parsers for each of `FIGURES`.

    Examples
    --------
    >>> rows = np.zeros((10, len(COLUMNS)), dtype=np.int64)
    >>> rows[:, 0] = 1
    >>> better = rows.copy()
    >>> better[:, COLUMNS.index("exact")] = 1
    >>> p_values(rows, better)["exact"] < 0.01  # 10 of 10; by an exact test it is 2 / 2 ** 10
    True
    """
    both = (one + other).sum(axis=0)
    swapped = swap(one, other, rounds=rounds, seed=seed)
    found = np.abs(figures(swapped) - figures(both - swapped))
    observed = np.abs(figures(one.sum(axis=0)) - figures(other.sum(axis=0)))
    as_far = (found >= observed - _ROUNDING).sum(axis=0)
    return dict(zip(FIGURES, ((as_far + 1) / (rounds + 1)).tolist(), strict=True))


def _sums(weights: Callable[[np.random.Generator, int], Array], counts: Array, samples: int, seed: int) -> Array:
    """Return the sums of the columns with random weights of sentences, for each sample."""
    if samples < 1:
        raise UsageError(f"there must be at least one sample, not {samples}")
    if not len(counts):
        return np.zeros((samples, counts.shape[1]))
    rng, values = np.random.default_rng(seed), counts.astype(np.float64)
    most = max(1, _BLOCK // len(counts))
    blocks = (min(most, samples - start) for start in range(0, samples, most))
    return np.concatenate([weights(rng, rows).astype(np.float64) @ values for rows in blocks])
