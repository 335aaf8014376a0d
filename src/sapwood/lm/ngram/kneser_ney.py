"""Interpolated Kneser-Ney smoothing, plain and modified (Chen and Goodman 1998, sections 2.7 and 3).

    p(w | h) = (a(hw) - D(a(hw))) / sum_v a(hv) + g(h) p(w | h without its first word)

For n-grams of the longest order `a` is the count, for shorter ones the number of different words seen before them;
n-grams that begin with `<s>` have nothing before them and keep their count. `g(h)` is the mass that the discounts `D`
take from all words after `h`, and unigrams are mixed with the uniform distribution. There is one discount for each
order, or, if modified, three, for n-grams counted once, twice and more often, estimated from the counts of counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.errors import ModelError, UsageError
from sapwood.lm.counts.counts import Counts
from sapwood.lm.counts.vocabulary import BEGIN, SPECIAL
from sapwood.lm.ngram.model import MissingBeginning, NgramModel, NgramTree
from sapwood.runtime.params import HasParams, integer, opaque
from sapwood.storage.shapes import Array, Num

# Discounts of counts 1, 2 and more if the counts of counts are not usable.
_FALLBACK = (0.5, 1.0, 1.5)


@dataclass(frozen=True, kw_only=True, repr=False)
class KneserNey(HasParams):
    """Fits a back-off n-gram model to counts.

    Parameters
    ----------
    order
        Order of the longest n-grams, at most that of the counts.
    modified
        Three discounts for each order instead of one.
    discounts
        For each order from 1 the discounts of counts 1, 2 and more, instead of estimates.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sapwood.lm import KneserNey, count_text
    >>> text = pathlib.Path(tempfile.mkdtemp()) / "text.txt"
    >>> _ = text.write_text("a dog barks\\na cat sleeps\\nthe dog sleeps\\n")
    >>> model = KneserNey(order=2).fit(count_text(text, order=2))
    >>> model.next_words(["the"], k=1)[0][0]
    'dog'
    """

    order: int = integer(3, "Order of the longest n-grams.", low=1)
    modified: bool = opaque(True, "Three discounts for each order instead of one.", bool)
    discounts: Sequence[Sequence[float]] | None = opaque(None, "Discounts of counts 1, 2 and more, by order.", Sequence)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.discounts is not None and (
            len(self.discounts) != self.order
            or any(len(row) != 3 or not all(0 <= d <= n for n, d in enumerate(row, 1)) for row in self.discounts)
        ):
            raise UsageError("discounts are three numbers for each order, at most 1, 2 and 3 and none negative")

    def fit(self, counts: Counts) -> NgramModel:
        """Return the model of the counts."""
        if counts.order < self.order:
            raise UsageError(f"an order of {self.order} needs counts of it; these go up to {counts.order}")
        size = len(counts.vocabulary)
        try:
            tree = NgramTree.build([counts.table(k)[0] for k in range(2, self.order + 1)], size)
        except MissingBeginning as missing:
            raise _incomplete(missing.order) from missing
        suffixes = [np.zeros(0, np.int64)] * 2 + [
            tree.locate(counts.table(k)[0][:, 1:]) - tree.offsets[k - 2] for k in range(2, self.order + 1)
        ]
        for k, places in enumerate(suffixes):
            if len(places) and places.min() < 0:
                raise _incomplete(k)
        adjusted = [self._adjusted(counts, k, suffixes) for k in range(1, self.order + 1)]
        if not adjusted[0].any():
            raise UsageError("there is nothing to fit: the counts have no words")
        probabilities = np.empty(len(tree.words))
        weights = np.ones(len(tree.starts) - 1)
        for k in range(1, self.order + 1):
            here = adjusted[k - 1]
            taken = self._taken(here, k)
            if k == 1:
                targets = _targets(counts)
                total = here.sum()
                probabilities[:size] = (here - taken) / total + np.where(
                    targets, taken.sum() / total / targets.sum(), 0
                )
                continue
            # N-grams with the same context are adjacent.
            contexts, level = tree.level(k - 1), tree.level(k)
            starts = tree.starts[contexts.start : contexts.stop + 1] - level.start
            totals, lost = (_group_sums(values, starts) for values in (here, taken))
            seen = totals > 0
            shares = np.divide(lost, totals, out=np.ones(len(totals)), where=seen)
            weights[contexts] = shares
            context = np.repeat(np.arange(len(totals)), np.diff(starts))
            lower = probabilities[contexts][suffixes[k]]
            probabilities[level] = (here - taken) / totals[context] + shares[context] * lower
        with np.errstate(divide="ignore"):
            return NgramModel(tree, np.log(probabilities), np.log(weights), counts.vocabulary, counts.boundaries)

    def _adjusted(self, counts: Counts, k: int, suffixes: list[np.ndarray]) -> np.ndarray:
        """Return the counts of order `k`, or the number of words seen before each n-gram; for order 1 for all ids."""
        ngrams, seen = counts.table(k)
        sentences = counts.boundaries == "sentence"
        size = len(counts.vocabulary) if k == 1 else len(ngrams)
        if k == self.order:
            result = seen if k > 1 else _dense(ngrams, seen, size)
        else:
            result = np.bincount(suffixes[k + 1], minlength=size)
            if k > 1:
                result = np.where(sentences & (ngrams[:, 0] == BEGIN), seen, result)
                # The first words of a stream have nothing before them either.
                result = np.maximum(result, 1)
            else:
                result = np.maximum(result, _dense(ngrams, seen, size) > 0)
        if k == 1 and sentences:
            result = result.copy()
            result[BEGIN] = 0
        return result.astype(np.float64)

    def _taken(self, adjusted: np.ndarray, k: int) -> np.ndarray:
        """Return the discount of each count."""
        row = self.discounts[k - 1] if self.discounts is not None else estimate_discounts(adjusted, self.modified)
        return np.array([0.0, *row])[np.minimum(adjusted, 3).astype(np.int64)]


def estimate_discounts(counts: Num[Array, "ngrams"], modified: bool = True) -> tuple[float, float, float]:
    """Return the discounts of n-grams counted once, twice and more often.

    With n1, n2, .. the numbers of n-grams counted once, twice, .., and Y = n1 / (n1 + 2 n2): Y for all, or if modified
    k - (k + 1) Y n(k+1) / nk for k = 1, 2, 3. Where these are missing or give no valid discount (text that is tiny or
    was pruned), the discounts are 0.5, 1 and 1.5, or 0.5 for all.
    """
    n = [int((counts == k).sum()) for k in range(5)]
    if n[1] == 0 or n[2] == 0:
        return _FALLBACK if modified else (_FALLBACK[0],) * 3
    share = n[1] / (n[1] + 2 * n[2])
    if not modified:
        return share, share, share
    result = []
    for k in (1, 2, 3):
        estimate = k - (k + 1) * share * n[k + 1] / n[k] if n[k] and n[k + 1] else -1.0
        result.append(estimate if 0 < estimate <= k else _FALLBACK[k - 1])
    return result[0], result[1], result[2]


def _incomplete(k: int) -> ModelError:
    return ModelError(
        f"an n-gram of order {k} has a beginning or end that is not among those of order {k - 1}; count again"
    )


def _targets(counts: Counts) -> np.ndarray:
    """Return which ids can be predicted: words, and the first three if they were seen, except `<s>` of sentences."""
    targets = np.ones(len(counts.vocabulary), bool)
    targets[: len(SPECIAL)] = counts.vocabulary.counts[: len(SPECIAL)] > 0
    if counts.boundaries == "sentence":
        targets[BEGIN] = False
    return targets


def _dense(ngrams: np.ndarray, seen: np.ndarray, size: int) -> np.ndarray:
    result = np.zeros(size, np.int64)
    result[ngrams[:, 0]] = seen
    return result


def _group_sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the sums of `values[starts[x] : starts[x + 1]]`."""
    result = np.zeros(len(starts) - 1)
    some = starts[1:] > starts[:-1]
    if some.any():
        result[some] = np.add.reduceat(values, starts[:-1][some])
    return result
