"""Evaluation results, as numbers, as a dictionary for JSON and as text.

All scores are in per cent except counts and the average number of crossings. A score with a zero denominator is 0.0, as
in EVALB. Skipped sentences and those in error do not count; failed ones (no prediction) count in all scores but those
of crossings, which are over parsed sentences only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.evaluate.bootstrap import COLUMNS, COUNTED, DISCONTINUOUS, FIGURES, Interval, figures, intervals
from sapwood.evaluate.error_types import MISTAKES
from sapwood.evaluate.evalb_params import EvalbParameters
from sapwood.runtime.tables import format_table, html_table
from sapwood.storage.shapes import Array, Float64, Int, Int64

if TYPE_CHECKING:
    from sapwood.evaluate.brackets import SentenceScore

# Maximum length of each bucket; longer sentences go into one more.
_BUCKET_ENDS = (10, 20, 30, 40, 60)
BUCKETS = ("1-10", "11-20", "21-30", "31-40", "41-60", "61+")


def percent(part: int, whole: int) -> float:
    """Return `part` of `whole` in per cent, 0.0 if `whole` is 0."""
    return 100.0 * part / whole if whole else 0.0


class PRF:
    """Precision, recall and F1 from the numbers of gold, predicted and matching brackets."""

    gold: int
    predicted: int
    matched: int

    @property
    def precision(self) -> float:
        """Percentage of predicted brackets that match."""
        return percent(self.matched, self.predicted)

    @property
    def recall(self) -> float:
        """Percentage of gold brackets that match."""
        return percent(self.matched, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return percent(2 * self.matched, self.gold + self.predicted)


@dataclass(frozen=True)
class LabelScore(PRF):
    """Bracket counts of one label."""

    gold: int
    predicted: int
    matched: int


@dataclass(frozen=True)
class Summary(PRF):
    """Scores over a set of sentences: the underlying counts are fields, the scores properties.

    `sentences` counts all; `scored` excludes those that are skipped or in error.
    """

    sentences: int
    errors: int
    skipped: int
    failed: int
    words: int
    correct_tags: int
    gold: int
    predicted: int
    matched: int
    unlabelled_matched: int
    disc_gold: int
    disc_predicted: int
    disc_matched: int
    exact_sentences: int
    crossing: int
    no_crossing_sentences: int
    two_or_less_crossing_sentences: int

    @classmethod
    def of(cls, scores: Sequence[SentenceScore]) -> Summary:
        """Sum the scores of sentences."""
        parsed = [score for score in scores if score.status == "ok"]
        number = Counter(score.status for score in scores)
        return Summary(
            sentences=len(scores),
            errors=number["error"],
            skipped=number["skipped"],
            failed=number["failed"],
            **{name: sum(getattr(score, name) for score in scores) for name in (*_SUMS, *DISCONTINUOUS)},
            exact_sentences=sum(1 for score in parsed if score.exact),
            crossing=sum(score.crossing for score in parsed),
            no_crossing_sentences=sum(1 for score in parsed if score.crossing == 0),
            two_or_less_crossing_sentences=sum(1 for score in parsed if score.crossing <= 2),
        )

    @property
    def scored(self) -> int:
        """Number of sentences that count."""
        return self.sentences - self.errors - self.skipped

    @property
    def parsed(self) -> int:
        """Number of scored sentences with a prediction."""
        return self.scored - self.failed

    @property
    def unlabelled_precision(self) -> float:
        """Percentage of predicted brackets whose span is that of a gold bracket."""
        return percent(self.unlabelled_matched, self.predicted)

    @property
    def unlabelled_recall(self) -> float:
        """Percentage of gold brackets whose span is that of a predicted bracket."""
        return percent(self.unlabelled_matched, self.gold)

    @property
    def unlabelled_f1(self) -> float:
        """Harmonic mean of unlabelled precision and recall."""
        return percent(2 * self.unlabelled_matched, self.gold + self.predicted)

    @property
    def has_gaps(self) -> bool:
        """True if any bracket is that of a phrase with gaps."""
        return self.disc_gold + self.disc_predicted > 0

    @property
    def disc_precision(self) -> float:
        """Percentage of predicted brackets with gaps that match."""
        return percent(self.disc_matched, self.disc_predicted)

    @property
    def disc_recall(self) -> float:
        """Percentage of gold brackets with gaps that match."""
        return percent(self.disc_matched, self.disc_gold)

    @property
    def disc_f1(self) -> float:
        """Harmonic mean of the precision and recall of brackets with gaps."""
        return percent(2 * self.disc_matched, self.disc_gold + self.disc_predicted)

    @property
    def exact(self) -> float:
        """Percentage of scored sentences in which all brackets match (EVALB's complete match)."""
        return percent(self.exact_sentences, self.scored)

    @property
    def tag_accuracy(self) -> float:
        """Percentage of words with the correct tag."""
        return percent(self.correct_tags, self.words)

    @property
    def average_crossing(self) -> float:
        """Number of crossing brackets per parsed sentence."""
        return self.crossing / self.parsed if self.parsed else 0.0

    @property
    def no_crossing(self) -> float:
        """Percentage of parsed sentences without crossing brackets."""
        return percent(self.no_crossing_sentences, self.parsed)

    @property
    def two_or_less_crossing(self) -> float:
        """Percentage of parsed sentences with at most two crossing brackets."""
        return percent(self.two_or_less_crossing_sentences, self.parsed)

    def to_dict(self) -> dict[str, Any]:
        """Return counts and scores as plain numbers."""
        counts = (*_COUNT_TITLES.values(), *_SUMS, "exact_sentences", "crossing")
        gaps = (*DISCONTINUOUS, *_GAP_TITLES.values()) if self.has_gaps else ()
        return {key: getattr(self, key) for key in (*counts, *_FIGURE_TITLES.values(), *gaps)}


# Counts of sentences to sum, and titles of the other counts and of the scores in tables.
_SUMS = ("words", "correct_tags", "gold", "predicted", "matched", "unlabelled_matched")
_COUNT_TITLES = {
    "sentences": "sentences",
    "scored": "scored",
    "failed": "failed",
    "in error": "errors",
    "skipped": "skipped",
}
_FIGURE_TITLES = {
    "precision": "precision",
    "recall": "recall",
    "F1": "f1",
    "unlabelled precision": "unlabelled_precision",
    "unlabelled recall": "unlabelled_recall",
    "unlabelled F1": "unlabelled_f1",
    "exact match": "exact",
    "tag accuracy": "tag_accuracy",
    "average crossing": "average_crossing",
    "no crossing": "no_crossing",
    "2 or less crossing": "two_or_less_crossing",
}
# Scores of trees with gaps.
_GAP_TITLES = {
    "discontinuous precision": "disc_precision",
    "discontinuous recall": "disc_recall",
    "discontinuous F1": "disc_f1",
}
_LENGTH_FIGURES = ("precision", "recall", "f1", "exact")
_LABEL_COUNTS = ("gold", "predicted", "matched")
_LABEL_FIGURES = ("precision", "recall", "f1")
# Maximum number of labels in notebooks.
_SHOWN_LABELS = 20


@dataclass(frozen=True, repr=False)
class EvaluationResult(Summary):
    """Scores over all sentences, by length and by label.

    Attributes
    ----------
    cutoff
        Summary over sentences up to the length `parameters.cutoff_len`.
    labels
        Label -> its brackets, the most frequent gold label first. Labels that count as equal are merged under the first
        of them; without `parameters.labeled` there is one, `*`.
    lengths
        Bucket (1-10, 11-20, 21-30, 31-40, 41-60, 61+) -> summary; a length of 0 goes into the first.
    messages
        Error message of each sentence in error, with its number from 1.
    parameters
        Scoring parameters.
    counts
        `sapwood.evaluate.bootstrap.COLUMNS` of each sentence, all zero where it does not count.
    texts
        Words of each sentence, as in its gold tree.
    negative
        Number of sentences to which a real-valued grammar gave a negative weight, not a probability.
    """

    cutoff: Summary
    labels: Mapping[str, LabelScore]
    lengths: Mapping[str, Summary]
    messages: tuple[str, ...]
    parameters: EvalbParameters
    counts: Int64[Array, "sentences columns"] = field(repr=False, compare=False)
    texts: tuple[str, ...] = field(repr=False)
    negative: int = 0

    def __repr__(self) -> str:
        figures = f"F1 {self.f1:.2f} (precision {self.precision:.2f}, recall {self.recall:.2f}), exact {self.exact:.1f}"
        return f"<EvaluationResult: {figures}, tags {self.tag_accuracy:.1f}, {self.scored:,} sentences>"

    def _repr_html_(self) -> str:
        """Return tables for notebooks: scores of all sentences, by length, and of the most frequent labels."""
        tables = self._tables()
        hidden = len(self.labels) - _SHOWN_LABELS
        parts = [html_table(rows[: _SHOWN_LABELS + 1] if name == "labels" else rows) for name, rows in tables.items()]
        return "".join(parts) + (f"<p>... and {hidden} more labels</p>" if hidden > 0 else "")

    @classmethod
    def of_scores(
        cls,
        scores: Sequence[SentenceScore],
        parameters: EvalbParameters,
        labels: Mapping[str, LabelScore],
        texts: Sequence[str],
    ) -> EvaluationResult:
        """Sum the scores of sentences; `labels` is already summed."""
        buckets: dict[str, list[SentenceScore]] = {name: [] for name in BUCKETS}
        for score in scores:
            buckets[BUCKETS[sum(1 for end in _BUCKET_ENDS if score.length > end)]].append(score)
        return cls(
            **vars(Summary.of(scores)),
            cutoff=Summary.of([score for score in scores if score.length <= parameters.cutoff_len]),
            labels=dict(sorted(labels.items(), key=lambda item: (-item[1].gold, -item[1].predicted, item[0]))),
            lengths={name: Summary.of(part) for name, part in buckets.items()},
            messages=tuple(
                f"sentence {number}: {score.message}"
                for number, score in enumerate(scores, 1)
                if score.status == "error"
            ),
            parameters=parameters,
            counts=np.array([_row(score) for score in scores], dtype=np.int64).reshape(-1, len(COLUMNS)),
            texts=tuple(texts),
        )

    def report(self, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0) -> dict[str, Any]:
        """Return all scores and their intervals as JSON values; parameters as for `intervals`."""
        found = self.intervals(confidence=confidence, resamples=resamples, seed=seed)
        asked = {"confidence": confidence, "resamples": resamples, "seed": seed}
        return {**self.to_dict(), "intervals": {**asked, **found}}

    def intervals(self, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0) -> dict[str, Interval]:
        """Return bootstrap intervals of precision, recall, F1, exact match and tag accuracy.

        If there are phrases with gaps, also of the precision, recall and F1 of these alone.

        Parameters
        ----------
        confidence
            Confidence level of the intervals.
        resamples
            Number of samples.
        seed
            Random seed.
        """
        found = intervals(self.counts, confidence=confidence, resamples=resamples, seed=seed)
        return {name: interval for name, interval in found.items() if self.has_gaps or not name.startswith("disc_")}

    def sentence_f1(self) -> Float64[Array, "sentences"]:
        """Return the F1 of each sentence; 100 for an exact one without brackets."""
        exact = self.counts[:, COLUMNS.index("exact")] > 0
        return np.where(exact, 100.0, figures(self.counts)[:, FIGURES.index("f1")])

    def worst(self) -> Int[Array, "scored"]:
        """Return the indices of sentences that count, by increasing F1 and then by decreasing number of mistakes."""
        wrong = self.counts[:, COLUMNS.index("gold")] + self.counts[:, COLUMNS.index("predicted")]
        wrong = wrong - 2 * self.counts[:, COLUMNS.index("matched")]
        order = np.lexsort((-wrong, self.sentence_f1()))
        return order[self.counts[order, COLUMNS.index("scored")] > 0]

    def sentence_dicts(self, chosen: Iterable[int] | None = None) -> list[dict[str, Any]]:
        """Return the counts of these sentences (by default all that count, worst first) as JSON values."""
        f1 = self.sentence_f1()
        rows = []
        for index in self.worst() if chosen is None else chosen:
            row = dict(zip(COLUMNS, self.counts[index].tolist(), strict=True))
            rows.append(
                {
                    "sentence": int(index) + 1,
                    **{key: row[key] for key in _LABEL_COUNTS},
                    "f1": float(f1[index]),
                    "exact": bool(row["exact"]),
                    "correct_tags": row["correct_tags"],
                    "words": row["words"],
                    "text": self.texts[index],
                }
            )
        return rows

    def format_sentences(self, chosen: Iterable[int] | None = None) -> str:
        """Return the same as a table for the terminal."""
        rows, texts = [["sentence", "gold", "predicted", "matched", "F1", "exact", "tags"]], ["words"]
        for row in self.sentence_dicts(chosen):
            tags = f"{row['correct_tags']}/{row['words']}"
            counts = [str(row[key]) for key in ("sentence", *_LABEL_COUNTS)]
            rows.append([*counts, f"{row['f1']:.2f}", "yes" if row["exact"] else "no", tags])
            texts.append(row["text"])
        return format_table(rows, texts)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists, numbers and strings, for JSON."""
        return {
            "parameters": self.parameters.name,
            **super().to_dict(),
            "negative": self.negative,
            "cutoff": {"length": self.parameters.cutoff_len, **self.cutoff.to_dict()},
            "lengths": {
                name: {key: getattr(part, key) for key in ("sentences", "scored", *_LENGTH_FIGURES)}
                for name, part in self.lengths.items()
            },
            "labels": {
                label: {key: getattr(part, key) for key in _LABEL_COUNTS + _LABEL_FIGURES}
                for label, part in self.labels.items()
            },
            "messages": list(self.messages),
        }

    def format(self, intervals: Mapping[str, Interval] | None = None, title: str = "interval") -> str:
        """Return the scores as tables for the terminal, with `intervals` in a column with this title."""
        parts = [format_table(rows) for rows in self._tables(intervals, title).values()]
        merged = [f"{label} as {name}" for label, name in self.parameters.label_names.items() if label != name]
        if merged and self.parameters.labeled:
            parts.append("Counted as the same label: " + ", ".join(merged))
        return "\n\n".join(parts)

    def _tables(
        self, intervals: Mapping[str, Interval] | None = None, title: str = "interval"
    ) -> dict[str, list[list[str]]]:
        """Return the rows of all non-empty tables, headings first."""
        both = (self, self.cutoff)
        rows = [[f"parameters: {self.parameters.name}", "all", f"length <= {self.parameters.cutoff_len}"]]
        for name, key in _COUNT_TITLES.items():
            if key in ("sentences", "scored") or getattr(self, key):
                rows.append([name, *(str(getattr(part, key)) for part in both)])
        if self.negative:
            rows.append(["no probability", str(self.negative), ""])
        titles = {**_FIGURE_TITLES, **(_GAP_TITLES if self.has_gaps else {})}
        for name, key in titles.items():
            rows.append([name, *(f"{getattr(part, key):.2f}" for part in both)])
        if intervals is not None:
            known = {name: intervals[key] for name, key in titles.items() if key in intervals}
            rows[0].append(title)
            for row in rows[1:]:
                row.append("[{:.2f}, {:.2f}]".format(*known[row[0]]) if row[0] in known else "")
        lengths = [["length", "sentences", "precision", "recall", "F1", "exact"]]
        for name, length in self.lengths.items():
            if length.scored:
                lengths.append([name, str(length.scored), *_figures(length, _LENGTH_FIGURES)])
        labels = [["label", "gold", "predicted", "matched", "precision", "recall", "F1"]]
        for name, label in self.labels.items():
            counts = (str(getattr(label, key)) for key in _LABEL_COUNTS)
            labels.append([name, *counts, *_figures(label, _LABEL_FIGURES)])
        tables = {"all": rows, "lengths": lengths, "labels": labels}
        return {name: table for name, table in tables.items() if len(table) > 1}


def _row(score: SentenceScore) -> list[int]:
    """Return `COLUMNS` of a sentence."""
    return [*(getattr(score, name) for name in COUNTED), *(score.mistakes.get(kind, 0) for kind in MISTAKES)]


def _figures(part: PRF, keys: Sequence[str]) -> list[str]:
    return [f"{getattr(part, key):.2f}" for key in keys]
