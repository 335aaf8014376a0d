"""Tagging accuracy: on all words, on known words and on unknown words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sapwood.errors import InputError
from sapwood.evaluate.bootstrap import Interval, percentiles, resample
from sapwood.inference.parser import Parser
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.runtime.tables import format_table
from sapwood.storage.shapes import Array, Float64, Int64, Num

KINDS = ("all", "known", "unknown")


@dataclass(frozen=True, eq=False, repr=False)
class TaggingResult:
    """Accuracy of a tagger.

    Attributes
    ----------
    counts
        For each sentence, the numbers of words and of correct tags: over all, known and unknown words.
    """

    counts: Int64[Array, "sentences 6"]

    @classmethod
    def of(
        cls,
        gold: Iterable[Sequence[tuple[str, str]]],
        found: Iterable[Sequence[str]],
        known: Collection[str],
    ) -> TaggingResult:
        """Compare tags with those of `(word, tag)` sequences; `known` are the words of the tagger's lexicon."""
        counts = []
        for pairs, guesses in zip(gold, found, strict=True):
            row = [0] * 6
            for (word, tag), guess in zip(pairs, guesses, strict=True):
                for kind in (0, 2 if word in known else 4):
                    row[kind] += 1
                    row[kind + 1] += tag == guess
            counts.append(row)
        return cls(np.array(counts, np.int64).reshape(-1, 6))

    def __repr__(self) -> str:
        return f"<TaggingResult: {self.accuracy:.2f} % of {int(self.counts[:, 0].sum()):,} words>"

    @property
    def accuracy(self) -> float:
        """Percentage of words with the correct tag."""
        return float(_figures(self.counts.sum(axis=0))[0])

    def figures(self) -> dict[str, float]:
        """Return the accuracy for each of `KINDS`."""
        return dict(zip(KINDS, _figures(self.counts.sum(axis=0)).tolist(), strict=True))

    def intervals(self, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0) -> dict[str, Interval]:
        """Return bootstrap intervals of the accuracies (`sapwood.evaluate.bootstrap`)."""
        samples = _figures(resample(self.counts, resamples=resamples, seed=seed))
        return dict(zip(KINDS, percentiles(samples, confidence), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return counts and accuracies as JSON values."""
        sums = self.counts.sum(axis=0).tolist()
        found: dict[str, Any] = {"sentences": len(self.counts)}
        for kind, words, right, figure in zip(KINDS, sums[::2], sums[1::2], self.figures().values(), strict=True):
            found[kind] = {"words": words, "right": right, "accuracy": figure}
        return found

    def format(self) -> str:
        """Return a table for the terminal."""
        rows = [["words", "number", "right", "accuracy", "95 % of that"]]
        bounds, found = self.intervals(), self.to_dict()
        for kind in KINDS:
            low, high = bounds[kind]
            one = found[kind]
            rows.append(
                [kind, str(one["words"]), str(one["right"]), f"{one['accuracy']:.2f}", f"[{low:.2f}, {high:.2f}]"]
            )
        return format_table(rows)


def _figures(sums: Num[Array, "*samples 6"]) -> Float64[Array, "*samples 3"]:
    words, right = sums[..., ::2], 100.0 * sums[..., 1::2]
    return np.divide(right, words, out=np.zeros_like(right), where=words != 0)


def evaluate_tagger(
    parser: Parser, sequences: Iterable[Sequence[tuple[str, str]]], *, progress: Progress | None = None
) -> TaggingResult:
    """Tag the words of `(word, tag)` sequences, and count correct tags; empty sequences are skipped.

    Examples
    --------
    >>> import sapwood
    >>> sequences = [[("rain", "N"), ("fell", "V")], [("snow", "N"), ("fell", "V"), ("again", "R")]]
    >>> model = sapwood.train(sequences * 5, sequences=True, method="pcfg")
    >>> evaluate_tagger(sapwood.Parser(model), sequences)
    <TaggingResult: 100.00 % of 5 words>
    """
    gold = [list(sequence) for sequence in sequences if len(sequence)]
    if not gold:
        raise InputError("no sequences to measure a tagger on")
    words = ([word for word, _ in pairs] for pairs in gold)
    results = track(parser.parse(words, check_tokens=False), progress or Silent(), "tagging", len(gold), "sentences")
    found = (result.tree.tags() for result in results if result.tree is not None)
    return TaggingResult.of(gold, found, set(parser.grammar.lexicon.words))
