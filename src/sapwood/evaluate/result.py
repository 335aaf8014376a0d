"""The figures of an evaluation, as numbers, as a dictionary for JSON and as text.

Every figure is in per cent except counts and the average number of crossings. Where there is nothing to
divide by, a figure is 0.0, as in EVALB. Sentences that were skipped or are in error count in no figure;
failed ones (no prediction) count in all but those of crossing, which are over parsed sentences alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.evaluate.mistakes import MISTAKES
from sapwood.evaluate.parameters import EvalbParameters
from sapwood.evaluate.resampling import COLUMNS, COUNTED, FIGURES, Interval, figures, intervals
from sapwood.evaluate.tables import format_table
from sapwood.run.notebook import html_table
from sapwood.shapes import Array, Float64, Int, Int64

if TYPE_CHECKING:
    from sapwood.evaluate.brackets import SentenceScore

# The longest sentence of each bucket; what is longer goes into one more.
_BUCKET_ENDS = (10, 20, 30, 40, 60)
BUCKETS = ("1-10", "11-20", "21-30", "31-40", "41-60", "61+")


def percent(part: int, whole: int) -> float:
    """Return `part` of `whole` in per cent, 0.0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


class Matched:
    """What follows from the numbers of brackets: in the gold trees, predicted, and the same in both."""

    gold: int
    predicted: int
    matched: int

    @property
    def precision(self) -> float:
        """Per cent of predicted brackets that match."""
        return percent(self.matched, self.predicted)

    @property
    def recall(self) -> float:
        """Per cent of gold brackets that match."""
        return percent(self.matched, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return percent(2 * self.matched, self.gold + self.predicted)


@dataclass(frozen=True)
class LabelScore(Matched):
    """The brackets of one label."""

    gold: int
    predicted: int
    matched: int


@dataclass(frozen=True)
class Summary(Matched):
    """Figures over a set of sentences: the counts they come from are fields, the figures properties.

    `sentences` counts all; `scored` those without the skipped and the ones in error.
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
    unlabeled_matched: int
    exact_sentences: int
    crossing: int
    no_crossing_sentences: int
    two_or_less_crossing_sentences: int

    @classmethod
    def of(cls, scores: Sequence[SentenceScore]) -> Summary:
        """Add up the scores of sentences."""
        parsed = [score for score in scores if score.status == "ok"]
        number = Counter(score.status for score in scores)
        return Summary(
            sentences=len(scores),
            errors=number["error"],
            skipped=number["skipped"],
            failed=number["failed"],
            **{name: sum(getattr(score, name) for score in scores) for name in _SUMS},
            exact_sentences=sum(1 for score in parsed if score.exact),
            crossing=sum(score.crossing for score in parsed),
            no_crossing_sentences=sum(1 for score in parsed if score.crossing == 0),
            two_or_less_crossing_sentences=sum(1 for score in parsed if score.crossing <= 2),
        )

    @property
    def scored(self) -> int:
        """The number of sentences that the figures are over."""
        return self.sentences - self.errors - self.skipped

    @property
    def parsed(self) -> int:
        """The number of scored sentences with a prediction."""
        return self.scored - self.failed

    @property
    def unlabeled_precision(self) -> float:
        """Per cent of predicted brackets whose span is that of a gold bracket."""
        return percent(self.unlabeled_matched, self.predicted)

    @property
    def unlabeled_recall(self) -> float:
        """Per cent of gold brackets whose span is that of a predicted bracket."""
        return percent(self.unlabeled_matched, self.gold)

    @property
    def unlabeled_f1(self) -> float:
        """The harmonic mean of unlabeled precision and recall."""
        return percent(2 * self.unlabeled_matched, self.gold + self.predicted)

    @property
    def exact(self) -> float:
        """Per cent of scored sentences in which all brackets match (EVALB's complete match)."""
        return percent(self.exact_sentences, self.scored)

    @property
    def tag_accuracy(self) -> float:
        """Per cent of words with the right tag."""
        return percent(self.correct_tags, self.words)

    @property
    def average_crossing(self) -> float:
        """The number of crossing brackets per parsed sentence."""
        return self.crossing / self.parsed if self.parsed else 0.0

    @property
    def no_crossing(self) -> float:
        """Per cent of parsed sentences without crossing brackets."""
        return percent(self.no_crossing_sentences, self.parsed)

    @property
    def two_or_less_crossing(self) -> float:
        """Per cent of parsed sentences with at most two crossing brackets."""
        return percent(self.two_or_less_crossing_sentences, self.parsed)

    def to_dict(self) -> dict[str, Any]:
        """Return counts and figures as plain numbers."""
        counts = (*_COUNT_TITLES.values(), *_SUMS, "exact_sentences", "crossing")
        return {key: getattr(self, key) for key in (*counts, *_FIGURE_TITLES.values())}


# Counts of sentences that are added up, and what tables call the other counts and the figures.
_SUMS = ("words", "correct_tags", "gold", "predicted", "matched", "unlabeled_matched")
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
    "unlabeled precision": "unlabeled_precision",
    "unlabeled recall": "unlabeled_recall",
    "unlabeled F1": "unlabeled_f1",
    "exact match": "exact",
    "tag accuracy": "tag_accuracy",
    "average crossing": "average_crossing",
    "no crossing": "no_crossing",
    "2 or less crossing": "two_or_less_crossing",
}
_LENGTH_FIGURES = ("precision", "recall", "f1", "exact")
_LABEL_COUNTS = ("gold", "predicted", "matched")
_LABEL_FIGURES = ("precision", "recall", "f1")
# How many labels notebooks show.
_SHOWN_LABELS = 20


@dataclass(frozen=True, repr=False)
class EvaluationResult(Summary):
    """The figures over all sentences, and in parts.

    Attributes
    ----------
    cutoff
        The summary over sentences up to the length `parameters.cutoff_len`.
    labels
        Label -> its brackets, the most frequent gold label first. Labels that count as equal are
        together under the first of them; without `parameters.labeled` there is one, `*`.
    lengths
        Bucket (1-10, 11-20, 21-30, 31-40, 41-60, 61+) -> summary; a length of 0 goes into the first.
    messages
        What is wrong with each sentence in error, with its number from 1.
    parameters
        What was counted and what ignored.
    counts
        `sapwood.evaluate.resampling.COLUMNS` of each sentence, all zero where it counts in no score.
    texts
        The words of each sentence, as in its gold tree.
    negative
        How many sentences were parsed by a real-valued grammar that gives them no probability, but a negative weight.
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
        """Return the figures as tables for notebooks: of all sentences, by length, and of the most frequent labels."""
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
        """Add up the scores of sentences; `labels` has been added up already."""
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
        """Return everything and the intervals, for JSON; what the parameters are, `intervals` says."""
        found = self.intervals(confidence=confidence, resamples=resamples, seed=seed)
        asked = {"confidence": confidence, "resamples": resamples, "seed": seed}
        return {**self.to_dict(), "intervals": {**asked, **found}}

    def intervals(self, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0) -> dict[str, Interval]:
        """Return bootstrap intervals of precision, recall, F1, exact match and tag accuracy.

        Parameters
        ----------
        confidence
            How probable it should be that the interval has the figure of all sentences like these.
        resamples
            Samples of the sentences that are drawn.
        seed
            Of the random numbers.
        """
        return intervals(self.counts, confidence=confidence, resamples=resamples, seed=seed)

    def sentence_f1(self) -> Float64[Array, "sentences"]:
        """Return the F1 of each sentence; that of an exact one without brackets is 100."""
        exact = self.counts[:, COLUMNS.index("exact")] > 0
        return np.where(exact, 100.0, figures(self.counts)[:, FIGURES.index("f1")])

    def worst(self) -> Int[Array, "scored"]:
        """Return the sentences that count, from 0: the least F1 first and, of the same, the most mistakes."""
        wrong = self.counts[:, COLUMNS.index("gold")] + self.counts[:, COLUMNS.index("predicted")]
        wrong = wrong - 2 * self.counts[:, COLUMNS.index("matched")]
        order = np.lexsort((-wrong, self.sentence_f1()))
        return order[self.counts[order, COLUMNS.index("scored")] > 0]

    def sentence_dicts(self, chosen: Iterable[int] | None = None) -> list[dict[str, Any]]:
        """Return the counts of these sentences (without any: all that count, the worst first) for JSON."""
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
        """Return the figures as tables for the terminal, with `intervals` of some in a column of this title."""
        parts = [format_table(rows) for rows in self._tables(intervals, title).values()]
        merged = [f"{label} as {name}" for label, name in self.parameters.label_names.items() if label != name]
        if merged and self.parameters.labeled:
            parts.append("Counted as the same label: " + ", ".join(merged))
        return "\n\n".join(parts)

    def _tables(
        self, intervals: Mapping[str, Interval] | None = None, title: str = "interval"
    ) -> dict[str, list[list[str]]]:
        """Return the rows of all tables that are not empty, the headings first."""
        both = (self, self.cutoff)
        rows = [[f"parameters: {self.parameters.name}", "all", f"length <= {self.parameters.cutoff_len}"]]
        for name, key in _COUNT_TITLES.items():
            if key in ("sentences", "scored") or getattr(self, key):
                rows.append([name, *(str(getattr(part, key)) for part in both)])
        if self.negative:
            rows.append(["no probability", str(self.negative), ""])
        for name, key in _FIGURE_TITLES.items():
            rows.append([name, *(f"{getattr(part, key):.2f}" for part in both)])
        if intervals is not None:
            known = {name: intervals[key] for name, key in _FIGURE_TITLES.items() if key in intervals}
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


def _figures(part: Matched, keys: Sequence[str]) -> list[str]:
    return [f"{getattr(part, key):.2f}" for key in keys]
