"""Whether probabilities mean what they say: of phrases to which a parser gives 0.8, eight in ten should be right.

The phrases of its trees are put into bins by their probabilities; the expected calibration error (Guo et al. 2017) is
the mean distance between how sure the parser is in a bin and how often it is right there, weighted by how many phrases
are in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from sapwood.evaluate.tables import format_table
from sapwood.inference.result import Marginal
from sapwood.shapes import Array, Float64, Int64
from sapwood.trees.tree import Tree

_BINS = 10


class Bin(NamedTuple):
    """Phrases with probabilities from `low` to `high`: how many, how probable on average, and what part is right."""

    low: float
    high: float
    phrases: int
    probability: float
    right: float


class Reliability:
    """Collects how sure a parser is of its phrases, and whether it is right.

    Examples
    --------
    >>> gold = Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")
    >>> found = Reliability()
    >>> found.add(gold, [Marginal(0, 1, "NP", 0.9), Marginal(1, 2, "NP", 0.5)])
    >>> round(found.error, 2)
    0.3
    """

    def __init__(self, bins: int = _BINS) -> None:
        self._count: Int64[Array, "bins"] = np.zeros(bins, np.int64)
        self._right: Int64[Array, "bins"] = np.zeros(bins, np.int64)
        self._sure: Float64[Array, "bins"] = np.zeros(bins)

    def add(self, gold: Tree, phrases: Iterable[Marginal]) -> None:
        """Add the phrases of a parse (not its tags), which the gold tree has or has not."""
        left = Counter(gold.spans())  # as often as it has them
        for start, end, label, probability in phrases:
            key = start, end, label
            place = min(int(probability * len(self._count)), len(self._count) - 1)
            self._count[place] += 1
            self._sure[place] += probability
            if left[key]:
                left[key] -= 1
                self._right[place] += 1

    @property
    def bins(self) -> list[Bin]:
        """The bins that are not empty, from the most improbable on."""
        size = len(self._count)
        return [
            Bin(place / size, (place + 1) / size, int(count), float(sure / count), float(right / count))
            for place, (count, sure, right) in enumerate(zip(self._count, self._sure, self._right, strict=True))
            if count
        ]

    @property
    def error(self) -> float:
        """The expected calibration error, from 0 to 1; 0 of nothing."""
        total = int(self._count.sum())
        return float(np.abs(self._sure - self._right).sum()) / total if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {"error": self.error, "bins": [one._asdict() for one in self.bins]}

    def format(self) -> str:
        """Return a table of the bins, and the error."""
        rows = [["probability", "phrases", "mean", "right"]]
        for one in self.bins:
            figures = [f"{one.probability:.3f}", f"{one.right:.3f}"]
            rows.append([f"{one.low:.1f} to {one.high:.1f}", f"{one.phrases:,}", *figures])
        return f"{format_table(rows)}\nexpected calibration error: {self.error:.4f}"
