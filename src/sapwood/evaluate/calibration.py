"""Calibration of phrase probabilities: eight in ten phrases with a probability of 0.8 should be correct.

Predicted phrases are binned by probability; the expected calibration error (Guo et al. 2017) is the mean absolute
difference between confidence and accuracy in a bin, weighted by its number of phrases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from sapwood.inference.result import Marginal
from sapwood.runtime.tables import format_table
from sapwood.storage.shapes import Array, Float64, Int64
from sapwood.trees.formats.gaps import split_gaps
from sapwood.trees.tree import Tree

_BINS = 10


class Bin(NamedTuple):
    """Phrases with probabilities from `low` to `high`: their number, mean probability, and fraction correct."""

    low: float
    high: float
    phrases: int
    probability: float
    right: float


class Reliability:
    """Accumulator of the confidence and accuracy of a parser's phrases.

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
        """Add the phrases of a parse (not its tags), correct if the gold tree has them."""
        # With multiplicity. The phrases of a parse with gaps are those without gaps that it is made of.
        left = Counter((split_gaps(gold) if gold.is_placed else gold).spans())
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
        """Non-empty bins, by increasing probability."""
        size = len(self._count)
        return [
            Bin(place / size, (place + 1) / size, int(count), float(sure / count), float(right / count))
            for place, (count, sure, right) in enumerate(zip(self._count, self._sure, self._right, strict=True))
            if count
        ]

    @property
    def error(self) -> float:
        """Expected calibration error, from 0 to 1; 0 without phrases."""
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
