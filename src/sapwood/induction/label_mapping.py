"""Labelled scores of induced trees: many-to-one mapping of labels, homogeneity and V-measure.

The labels of an induced model have no names that a treebank knows: they are numbers of hidden states or of word
classes. Each induced label is mapped to the gold label with which it shares the most spans, and labelled F1 counts the
spans whose mapped label is right. Several induced labels may be mapped to one gold label (many-to-one), so the score
rises with the number of labels; homogeneity and V-measure (Rosenberg and Hirschberg 2007) show by how much, because a
label for each span would be homogeneous but not complete. They are of the labels of spans that are in both trees, and
of the tags or classes of words. The mapping is learned from the scored sentences, as is usual in the literature. Spans
of whole sentences do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sapwood.evaluate.unlabelled import Span


class VMeasure(NamedTuple):
    """Agreement of two partitions, in per cent.

    Attributes
    ----------
    homogeneity
        Share of the entropy of gold labels that the induced labels explain.
    completeness
        Share of the entropy of induced labels that the gold labels explain.
    v_measure
        Harmonic mean of both.
    """

    homogeneity: float
    completeness: float
    v_measure: float


def v_measure(pairs: Mapping[tuple[str, str], int]) -> VMeasure:
    """Return homogeneity, completeness and V-measure of pairs of gold and induced labels, with their counts.

    >>> [round(figure, 1) for figure in v_measure({("NP", "1"): 2, ("VP", "2"): 1, ("PP", "2"): 1})]
    [66.7, 100.0, 80.0]
    """
    gold, induced = Counter[str](), Counter[str]()
    for (own, found), count in pairs.items():
        gold[own] += count
        induced[found] += count
    of_gold, of_induced = _entropy(gold.values()), _entropy(induced.values())
    joint = _entropy(pairs.values())
    # H(gold | induced) = H(gold, induced) - H(induced).
    homogeneity = 1.0 if of_gold == 0 else max(0.0, 1 - (joint - of_induced) / of_gold)
    completeness = 1.0 if of_induced == 0 else max(0.0, 1 - (joint - of_gold) / of_induced)
    both = homogeneity + completeness
    return VMeasure(100 * homogeneity, 100 * completeness, 200 * homogeneity * completeness / both if both else 0.0)


def _entropy(counts: Iterable[int]) -> float:
    shares = np.array([count for count in counts if count], np.float64)
    shares /= max(shares.sum(), 1.0)
    return float(-(shares * np.log(shares)).sum())


class LabelScorer:
    """Accumulator of the labels of spans and of words.

    Examples
    --------
    >>> scorer = LabelScorer()
    >>> scorer.add(4, {(0, 4): "S", (0, 2): "NP", (2, 4): "VP"}, {(0, 4): "X-1", (0, 2): "X-3", (1, 4): "X-2"})
    >>> scorer.labelled_f1(), scorer.mapping()
    (50.0, {'X-3': 'NP'})
    """

    def __init__(self) -> None:
        self._spans: Counter[tuple[str, str]] = Counter()
        self._words: Counter[tuple[str, str]] = Counter()
        self._n_spans = 0

    def add(self, length: int, gold: Mapping[Span, str], induced: Mapping[Span, str]) -> None:
        """Count the labels of spans of two or more words, except those of the whole sentence of `length` words."""
        trivial = {(0, length)}
        gold, induced = ({span: side[span] for span in side.keys() - trivial} for side in (gold, induced))
        self._n_spans += len(gold) + len(induced)
        self._spans.update((gold[span], induced[span]) for span in gold.keys() & induced.keys())

    def add_tags(self, gold: Sequence[str], induced: Sequence[str]) -> None:
        """Count the tags of the words of a sentence."""
        self._words.update(zip(gold, induced, strict=True))

    def mapping(self) -> dict[str, str]:
        """Return the gold label of each induced label: the one with which it shares the most spans."""
        best: dict[str, tuple[int, str]] = {}
        for (own, found), count in self._spans.items():
            best[found] = max(best.get(found, (0, "")), (count, own))
        return {found: own for found, (_, own) in sorted(best.items())}

    def labelled_f1(self) -> float:
        """Return the labelled F1 of the mapped labels, over all sentences together."""
        right = sum(self._spans[own, found] for found, own in self.mapping().items())
        return 200.0 * right / self._n_spans if self._n_spans else 0.0

    def labels(self) -> VMeasure | None:
        """Return the V-measure of the labels of matched spans; None if there are none."""
        return v_measure(self._spans) if self._spans else None

    def tags(self) -> VMeasure | None:
        """Return the V-measure of the tags of words; None if there are none."""
        return v_measure(self._words) if self._words else None
