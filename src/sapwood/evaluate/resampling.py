"""How far figures would be others on other sentences: intervals and tests from the counts of each sentence.

Every figure is a ratio of sums over sentences, so that any number of samples of the sentences is one product of two
matrices: how often each sentence is in each sample, and the sentences' counts. These are whole numbers and their sums
exact: the same seed gives the same bytes.

- *Bootstrap* (Efron and Tibshirani 1993): as many sentences as there are, drawn with replacement; the interval is
  between percentiles of what a figure is on such samples. For the difference of two parsers, both have the same sample.
- *Approximate randomisation* (Noreen 1989): if two parsers were alike, it would not matter whose parse of a sentence is
  whose. In each round every sentence's two parses are swapped or not, by chance; the p-value is how often the figures
  are then at least as far apart as they are, `(r + 1) / (R + 1)` of `R` rounds, whichever parser is the better one.

Sentences are taken for independent of each other. What differs from one training run to the next is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sapwood.errors import UsageError
from sapwood.evaluate.mistakes import MISTAKES
from sapwood.shapes import Array, Float, Float64, Int, Num

# What is counted of each sentence.
COUNTED = ("scored", "words", "correct_tags", "gold", "predicted", "matched", "exact")
COLUMNS = (*COUNTED, *MISTAKES)
# The figures that are per cent of something: of which columns, and how many times each.
_RATIOS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "precision": ({"matched": 1}, {"predicted": 1}),
    "recall": ({"matched": 1}, {"gold": 1}),
    "f1": ({"matched": 2}, {"gold": 1, "predicted": 1}),
    "exact": ({"exact": 1}, {"scored": 1}),
    "tag_accuracy": ({"correct_tags": 1}, {"words": 1}),
}
FIGURES = tuple(_RATIOS)
_PARTS, _WHOLES = (
    np.array([[ratio[side].get(column, 0) for ratio in _RATIOS.values()] for column in COLUMNS], dtype=np.float64)
    for side in (0, 1)
)
# Numbers drawn at a time: what stays in the cache, and is too little for a product of matrices on several threads.
_BLOCK = 1 << 16
# Differences in per cent that are equal but for rounding.
_ROUNDING = 1e-9


class Interval(NamedTuple):
    """Where a figure lies, with the confidence that was asked for."""

    low: float
    high: float


def figures(sums: Num[Array, "*samples columns"]) -> Float64[Array, "*samples figures"]:
    """Return `FIGURES` in per cent from sums of `COLUMNS`; 0.0 of nothing."""
    part, whole = 100.0 * (sums @ _PARTS), sums @ _WHOLES
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)


def intervals(
    counts: Int[Array, "sentences columns"], *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> dict[str, Interval]:
    """Return the bootstrap interval of each of `FIGURES`.

    Parameters
    ----------
    counts
        `COLUMNS` of each sentence; those that are not scored are not drawn.
    confidence
        How probable it should be that the interval has the figure of all sentences like these.
    resamples
        Samples that are drawn.
    seed
        Of the random numbers.
    """
    samples = resample(counts[counts[:, 0] > 0], resamples=resamples, seed=seed)
    return dict(zip(FIGURES, percentiles(figures(samples), confidence), strict=True))


def percentiles(samples: Float[Array, "resamples figures"], confidence: float) -> list[Interval]:
    """Return the interval in the middle of the samples of each figure that has this share of them."""
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must be between 0 and 1, not {confidence}")
    ends = np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return [Interval(*pair) for pair in ends.T.tolist()]


def resample(
    counts: Int[Array, "sentences columns"], *, resamples: int = 10_000, seed: int = 0
) -> Float64[Array, "resamples columns"]:
    """Return the sums of columns over samples of as many sentences as there are, drawn with replacement."""
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
    """Return the sums of one parser's columns when each sentence is as likely the other's as its own.

    What the other parser has in the same round is the rest of the sum of both.
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
    """Return for each of `FIGURES` how probable so large a difference is if the two parsers are alike.

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
    """Return the sums of the columns, with random weights of the sentences, for each sample."""
    if samples < 1:
        raise UsageError(f"there must be at least one sample, not {samples}")
    if not len(counts):
        return np.zeros((samples, counts.shape[1]))
    rng, values = np.random.default_rng(seed), counts.astype(np.float64)
    blocks = _blocks(samples, max(1, _BLOCK // len(counts)))
    return np.concatenate([weights(rng, rows).astype(np.float64) @ values for rows in blocks])


def _blocks(total: int, most: int) -> Iterator[int]:
    for start in range(0, total, most):
        yield min(most, total - start)
