"""Scores of trees without labels, as work on learning without trees gives them.

**Spans** (Klein and Manning 2002, 2004). Punctuation is taken out of gold and predicted trees by its tags
(`sapwood.trees.punctuation`) before anything is counted, so that lengths are without it, too. Spans of a single word
do not count, nor how often a span is there (NP over NP). The span of the whole sentence does count: every tree has it.
Precision, recall and F1 are over all sentences of at least two words together. Later work leaves the whole sentence
out and takes the mean of each sentence's F1; both are here as well (`proper_f1`, `sentence_f1`). A sentence of which
there is nothing to find and nothing found has an F1 of 100.

**Heads.** Directed accuracy is the part of words whose head is right, the root's (no head) among them. Undirected
accuracy lets a word also have its head among its arguments: an edge counts, whichever end is above.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.errors import InputError
from sapwood.evaluate.resampling import Interval
from sapwood.evaluate.tables import format_table
from sapwood.shapes import Array, Int64
from sapwood.trees.punctuation import without_punctuation
from sapwood.trees.tree import Tree

Span = tuple[int, int]
# What is counted of a sentence.
COUNTS = ("length", "gold", "predicted", "matched", "right", "edges")
# The longest sentences of the groups that are reported.
LENGTHS = (10, 20, 40)


def spans_of(tree: Tree) -> set[Span]:
    """Return the spans of two words and more of a tree, whatever stands there.

    >>> sorted(spans_of(Tree.parse("(ROOT (S (NP (NN time)) (VP (VBZ flies) (NP (NN now)))))")))
    [(0, 3), (1, 3)]
    """
    return {(start, end) for start, end, _ in tree.spans() if end - start > 1}


class UnlabelledScorer:
    """Adds up what is right in sentences: spans, heads, or both of each."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._has = [False, False]

    def add(
        self,
        length: int,
        *,
        spans: tuple[Collection[Span], Collection[Span]] | None = None,
        heads: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> None:
        """Count what is right in a sentence.

        Parameters
        ----------
        length
            How many words it has.
        spans
            Of the gold tree and of the predicted one; those of single words are left out.
        heads
            Of the gold tree and of the predicted one: numbers of words from 0, -1 for the root's.
        """
        row = [length, 0, 0, 0, 0, 0]
        if spans is not None:
            gold, predicted = ({span for span in side if span[1] - span[0] > 1} for side in spans)
            row[1:4] = len(gold), len(predicted), len(gold & predicted)
        if heads is not None:
            if {len(heads[0]), len(heads[1])} != {length}:
                raise InputError(
                    f"a sentence of {length} words has {len(heads[0])} heads, its prediction {len(heads[1])}"
                )
            above = heads[0]
            for word, (own, found) in enumerate(zip(*heads, strict=True)):
                row[4] += own == found
                row[5] += own == found or (found >= 0 and above[found] == word)
        self._has = [self._has[0] or spans is not None, self._has[1] or heads is not None]
        self._rows.append(row)

    def add_trees(self, gold: Tree, predicted: Tree | None) -> None:
        """Count the spans of two trees over the same words, once punctuation is out; None found nothing."""
        clean = without_punctuation(gold)
        if clean is None:
            return
        own = None if predicted is None else without_punctuation(_with_tags(predicted, gold))
        if own is not None and own.words() != clean.words():
            raise InputError(f"the words of a tree and of its prediction differ: {' '.join(clean.words())!r}")
        self.add(len(clean), spans=(spans_of(clean), set() if own is None else spans_of(own)))

    def result(self) -> UnlabelledResult:
        """Return the figures over all that was added."""
        return UnlabelledResult(np.array(self._rows, np.int64).reshape(-1, len(COUNTS)), *self._has)


def _with_tags(tree: Tree, gold: Tree) -> Tree:
    """Return the tree with the tags of another over the same words: what is punctuation there is so here."""
    tags = iter(gold.tags())
    if len(tree) != len(gold):
        raise InputError(f"the words of a tree and of its prediction differ: {' '.join(gold.words())!r}")
    return tree.fold(
        lambda node, children: Tree(next(tags), word=node.word) if node.word else Tree(node.label, children)
    )


@dataclass(frozen=True, eq=False)
class UnlabelledResult:
    """Figures over sentences, in per cent.

    Attributes
    ----------
    counts
        `COUNTS` of each sentence.
    has_spans, has_heads
        Of what there are figures.
    """

    counts: Int64[Array, "sentences counts"]
    has_spans: bool = True
    has_heads: bool = False

    def up_to(self, length: int) -> UnlabelledResult:
        """Return the figures of sentences of up to so many words."""
        return UnlabelledResult(self.counts[self.counts[:, 0] <= length], self.has_spans, self.has_heads)

    @property
    def sentences(self) -> int:
        """How many sentences there are, of one word or more."""
        return len(self.counts)

    def _sum(self, name: str) -> int:
        return int(self.counts[:, COUNTS.index(name)].sum())

    @property
    def precision(self) -> float:
        """Per cent of the predicted spans that are in the gold trees."""
        return _percent(self._sum("matched"), self._sum("predicted"))

    @property
    def recall(self) -> float:
        """Per cent of the gold trees' spans that are predicted."""
        return _percent(self._sum("matched"), self._sum("gold"))

    @property
    def f1(self) -> float:
        """The harmonic mean of both, over all sentences together, the spans of whole sentences included."""
        return _percent(2 * self._sum("matched"), self._sum("gold") + self._sum("predicted"))

    @property
    def proper_f1(self) -> float:
        """The same without the spans of whole sentences, which are always right."""
        matched, both = _proper(self.counts)
        return _percent(2 * int(matched.sum()), int(both.sum()))

    @property
    def sentence_f1(self) -> float:
        """The mean of the sentences' F1 without the spans of whole sentences, of sentences of two words and more."""
        rows = self.counts[self.counts[:, 0] > 1]
        matched, both = _proper(rows)
        each = np.where(both > 0, 2 * matched / np.maximum(both, 1), 1.0)
        return 100.0 * float(each.mean()) if len(each) else 0.0

    @property
    def directed(self) -> float:
        """Per cent of words with the right head."""
        return _percent(self._sum("right"), self._sum("length"))

    @property
    def undirected(self) -> float:
        """Per cent of words whose edge upwards is an edge of the gold tree, in either direction."""
        return _percent(self._sum("edges"), self._sum("length"))

    def interval(self, figure: str, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
        """Return a bootstrap interval of a figure: that of samples of the sentences."""
        rng = np.random.default_rng(seed)
        found = []
        for _ in range(resamples):
            drawn = self.counts[rng.integers(0, len(self.counts), len(self.counts))]
            found.append(getattr(UnlabelledResult(drawn, self.has_spans, self.has_heads), figure))
        low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
        return Interval(float(low), float(high))

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures that there are."""
        spans = ("precision", "recall", "f1", "proper_f1", "sentence_f1") if self.has_spans else ()
        return spans + (("directed", "undirected") if self.has_heads else ())

    def to_dict(self) -> dict[str, object]:
        """Return the figures by length, for JSON."""
        return {
            name: {"sentences": part.sentences, **{figure: getattr(part, figure) for figure in self.figures}}
            for name, part in self._parts()
        }

    def format(self) -> str:
        """Return the figures as a table for the terminal."""
        rows = [["words", "sentences", *(_TITLES[figure] for figure in self.figures)]]
        for name, part in self._parts():
            shown = [f"{getattr(part, figure):.1f}" for figure in self.figures]
            rows.append([name, str(part.sentences), *shown])
        return format_table(rows)

    def _parts(self) -> list[tuple[str, UnlabelledResult]]:
        parts = [(f"up to {length}", self.up_to(length)) for length in LENGTHS]
        return [*((name, part) for name, part in parts if 0 < part.sentences < self.sentences), ("all", self)]


_TITLES = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "proper_f1": "F1 (proper)",
    "sentence_f1": "F1 (mean)",
    "directed": "directed",
    "undirected": "undirected",
}


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def _proper(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return matches, and gold and predicted spans together, without those of whole sentences."""
    length, gold, predicted, matched = counts[:, :4].T
    # A sentence of two words and more has its whole span in any tree; nothing is predicted where there is no tree.
    own = (length > 1).astype(np.int64)
    found = own * (predicted > 0)
    return matched - own * found, gold - own + predicted - found


def kept_heads(heads: Sequence[int], keep: Sequence[bool]) -> list[int]:
    """Return the heads of the words that are kept, renumbered; a head that goes gives way to its own.

    >>> kept_heads([1, 2, -1, 1], [True, False, True, True])
    [1, -1, 1]
    """
    numbers = np.cumsum(keep) - 1
    found: list[int] = []
    for word, head in enumerate(heads):
        if keep[word]:
            for _ in heads:  # in a circle there is no end
                if head < 0 or keep[head]:
                    break
                head = heads[head]
            found.append(int(numbers[head]) if head >= 0 and keep[head] else -1)
    return found
