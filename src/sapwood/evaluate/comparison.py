"""Comparison of two parsers on the same sentences: differences, their significance, and where they occur."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sapwood.errors import InputError
from sapwood.evaluate.bootstrap import COLUMNS, FIGURES, Interval, figures, p_values, percentiles, resample
from sapwood.evaluate.error_types import MISTAKES
from sapwood.evaluate.result import EvaluationResult, LabelScore
from sapwood.runtime.tables import format_table
from sapwood.storage.shapes import Array, Bool, Float64, Int

_TITLES = {"F1": "f1", "exact match": "exact", "tag accuracy": "tag_accuracy"}
# The score of trees with gaps.
_GAP_TITLES = {"discontinuous F1": "disc_f1"}
# Maximum number of labels in terminal output.
_MOST_LABELS = 10


@dataclass(frozen=True)
class Difference:
    """A score of two parsers, with the bootstrap interval of B minus A and the p-value of no difference."""

    a: float
    b: float
    interval: Interval
    p: float

    @property
    def difference(self) -> float:
        """Score of B minus score of A."""
        return self.b - self.a


@dataclass(frozen=True)
class Comparison:
    """Result of `compare`.

    Attributes
    ----------
    a, b
        The scores of the two parsers.
    figures
        `f1`, `exact` and `tag_accuracy` over the sentences that count for both; with phrases with gaps, also `disc_f1`.
    paired
        Mask of these sentences.
    confidence, resamples
        Confidence level of the intervals, and number of samples and rounds.
    """

    a: EvaluationResult
    b: EvaluationResult
    figures: Mapping[str, Difference]
    paired: Bool[Array, "sentences"] = field(repr=False, compare=False)
    confidence: float
    resamples: int

    def better(self) -> Float64[Array, "sentences"]:
        """Return the F1 of B minus that of A for each sentence; 0.0 where it does not count."""
        return np.where(self.paired, self.b.sentence_f1() - self.a.sentence_f1(), 0.0)

    def wins(self) -> dict[str, int]:
        """Return the numbers of sentences that A parses better, that B parses better, and of ties."""
        better = self.better()[self.paired]
        return {"a": int((better < 0).sum()), "b": int((better > 0).sum()), "ties": int((better == 0).sum())}

    def mistakes(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of mistakes of A and B, by kind (see `sapwood.evaluate.error_types`)."""
        sums = [part.counts[self.paired].sum(axis=0).tolist() for part in (self.a, self.b)]
        return {kind: (sums[0][COLUMNS.index(kind)], sums[1][COLUMNS.index(kind)]) for kind in MISTAKES}

    def labels(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of missing and spurious brackets of A and B, by label, largest difference first."""
        nothing = LabelScore(0, 0, 0)
        found = {
            label: (_wrong(self.a.labels.get(label, nothing)), _wrong(self.b.labels.get(label, nothing)))
            for label in {**self.a.labels, **self.b.labels}
        }
        return dict(sorted(found.items(), key=lambda item: (-abs(item[1][1] - item[1][0]), item[0])))

    def most_different(self) -> Int[Array, "different"]:
        """Return the indices of sentences whose F1 differs, largest difference first."""
        better = self.better()
        order = np.argsort(-np.abs(better), kind="stable")
        return order[better[order] != 0]

    def to_dict(self, sentences: int | None = None) -> dict[str, Any]:
        """Return everything as JSON values, with this many of the most different sentences (None: all)."""
        better, scores = self.better(), (self.a.sentence_f1(), self.b.sentence_f1())
        return {
            "parameters": self.a.parameters.name,
            "sentences": int(self.paired.sum()),
            "left_out": int((~self.paired).sum()),
            "confidence": self.confidence,
            "resamples": self.resamples,
            **{
                key: {"a": one.a, "b": one.b, "difference": one.difference, "interval": list(one.interval), "p": one.p}
                for key, one in self.figures.items()
            },
            "better": self.wins(),
            "mistakes": {kind: {"a": a, "b": b} for kind, (a, b) in self.mistakes().items()},
            "labels": {label: {"a": a, "b": b} for label, (a, b) in self.labels().items()},
            "most_different": [
                {
                    "sentence": index + 1,
                    "a": float(scores[0][index]),
                    "b": float(scores[1][index]),
                    "difference": float(better[index]),
                    "text": self.a.texts[index],
                }
                for index in self.most_different()[:sentences].tolist()
            ],
        }

    def format(self, sentences: int | None = None) -> str:
        """Return the same as tables for the terminal."""
        found = self.to_dict(sentences)
        rows = [
            [f"parameters: {found['parameters']}", "A", "B", "B - A", f"{100 * self.confidence:.4g} % of B - A", "p"]
        ]
        for title, key in (_TITLES | _GAP_TITLES).items():
            if key not in self.figures:
                continue
            one = self.figures[key]
            span = "[{:+.2f}, {:+.2f}]".format(*one.interval)
            rows.append([title, f"{one.a:.2f}", f"{one.b:.2f}", f"{one.difference:+.2f}", span, f"{one.p:.4f}"])
        parts = [format_table(rows)]

        won = found["better"]
        among = f"Of {found['sentences']} sentences"
        parts.append(f"{among}, A parses {won['a']} better, B {won['b']}, both {won['ties']} equally well")
        if found["left_out"]:
            parts[-1] += f"; {found['left_out']} more do not count for both"

        kinds = {kind.replace("_", " "): pair for kind, pair in self.mistakes().items()}
        wrong = [(label, pair) for label, pair in self.labels().items() if any(pair)]
        for title, table in (("mistakes", list(kinds.items())), ("wrong brackets", wrong[:_MOST_LABELS])):
            rows = [[title, "A", "B", "B - A"]]
            rows += [[name, str(a), str(b), f"{b - a:+d}"] for name, (a, b) in table]
            parts.append(format_table(rows))

        if found["most_different"]:
            rows = [["sentence", "A", "B", "B - A"]]
            rows += [
                [str(row["sentence"]), *(f"{row[key]:.2f}" for key in ("a", "b")), f"{row['difference']:+.2f}"]
                for row in found["most_different"]
            ]
            parts.append(format_table(rows, ["words", *(row["text"] for row in found["most_different"])]))
        return "\n\n".join(parts)


def compare(
    a: EvaluationResult, b: EvaluationResult, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """Compare the scores of two parsers on the same gold trees, sentence by sentence.

    Parameters
    ----------
    a, b
        The scores.
    confidence
        Confidence level of the intervals.
    resamples
        Number of bootstrap samples, and of rounds of approximate randomisation.
    seed
        Random seed.

    Examples
    --------
    >>> from sapwood import Scorer, Tree
    >>> gold = Tree.parse("(S (NP (N dogs)) (VP (V sleep)))")
    >>> scorers = Scorer(), Scorer()
    >>> for _ in range(10):
    ...     for scorer, tree in zip(scorers, (gold, Tree.parse("(S (N dogs) (V sleep))"))):
    ...         _ = scorer.add(gold, tree)
    >>> found = compare(scorers[0].result(), scorers[1].result())
    >>> found.figures["f1"].difference, found.figures["f1"].p < 0.01, found.wins()
    (-50.0, True, {'a': 10, 'b': 0, 'ties': 0})
    """
    _check_same_sentences(a, b)
    scored = COLUMNS.index("scored")
    paired = (a.counts[:, scored] > 0) & (b.counts[:, scored] > 0)
    one, other = a.counts[paired], b.counts[paired]
    samples = resample(np.concatenate([one, other], axis=1), resamples=resamples, seed=seed)
    width = len(COLUMNS)
    spans = percentiles(figures(samples[:, width:]) - figures(samples[:, :width]), confidence)
    values = [figures(part.sum(axis=0)).tolist() for part in (one, other)]
    p = p_values(one, other, rounds=resamples, seed=seed)
    found = {
        key: Difference(value_a, value_b, span, p[key])
        for key, value_a, value_b, span in zip(FIGURES, *values, spans, strict=True)
    }
    titles = _TITLES | (_GAP_TITLES if a.has_gaps or b.has_gaps else {})
    return Comparison(a, b, {key: found[key] for key in titles.values()}, paired, confidence, resamples)


def _wrong(label: LabelScore) -> int:
    return label.gold + label.predicted - 2 * label.matched


def _check_same_sentences(a: EvaluationResult, b: EvaluationResult) -> None:
    remedy = "compare scores against the same gold trees"
    if a.sentences != b.sentences:
        raise InputError(f"A has {a.sentences} sentences, B has {b.sentences}; {remedy}")
    for number, (text, another) in enumerate(zip(a.texts, b.texts, strict=True), 1):
        if text != another:
            raise InputError(f"sentence {number} of A is {text!r}, of B {another!r}; {remedy}")
    if a.parameters != b.parameters:
        raise InputError(f"A was scored by {a.parameters.name!r}, B by {b.parameters.name!r}; score both by the same")
    if not np.array_equal(a.counts[:, :2], b.counts[:, :2]):
        return  # different sentences or words count for the two, and so different gold brackets
    golds = [{label: part.gold for label, part in result.labels.items() if part.gold} for result in (a, b)]
    for label in {**golds[0], **golds[1]}:
        one, other = golds[0].get(label, 0), golds[1].get(label, 0)
        if one != other:
            raise InputError(
                f"the gold trees have {one} brackets {label} for A, {other} for B: they were normalised in two ways; "
                "normalise as for the models (see --function-tags), or parse into a file and compare that"
            )
