"""Unlabelled scores of trees, as reported in work on grammar induction.

**Spans** (Klein and Manning 2002, 2004). Punctuation is removed from gold and predicted trees by its tags
(`sapwood.trees.punctuation`) before anything is counted, so lengths exclude it too. Spans of a single word do not
count, nor does the multiplicity of a span (NP over NP). The span of the whole sentence does count, although every tree
has it. Precision, recall and F1 are over all sentences of at least two words together (corpus-level F1). Later work
ignores the span of the whole sentence, which is trivial (`proper_f1`), and takes the mean of each sentence's F1,
without trivial spans (`sentence_f1`; Kim, Dyer and Rush 2019) or with them (`trivial_sentence_f1`). A sentence with
neither gold nor predicted spans has an F1 of 100; sentences of one word do not count.

**Heads.** Directed accuracy is the fraction of words whose head is correct, including the root (no head). Undirected
accuracy ignores the direction of edges: a word's predicted head may also be one of its gold dependents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sapwood.errors import InputError
from sapwood.evaluate.bootstrap import Interval
from sapwood.runtime.tables import format_table
from sapwood.storage.shapes import Array, Int64
from sapwood.trees.formats.gaps import arrange, phrase_blocks, positions
from sapwood.trees.punctuation import without_punctuation
from sapwood.trees.tree import Tree

Span = tuple[int, int]
# Counts of each sentence.
COUNTS = ("length", "gold", "predicted", "matched", "right", "edges")
# Maximum sentence lengths of the reported groups.
LENGTHS = (10, 20, 40)


def spans_of(tree: Tree) -> set[Span]:
    """Return the spans of two or more words of a tree, whatever their labels; phrases with gaps have none.

    >>> sorted(spans_of(Tree.parse("(ROOT (S (NP (NN time)) (VP (VBZ flies) (NP (NN now)))))")))
    [(0, 3), (1, 3)]
    """
    return set(labelled_spans(tree))


def labelled_spans(tree: Tree) -> dict[Span, str]:
    """Return the label of each of these spans: of several phrases over the same words, that of the lowest.

    >>> labelled_spans(Tree.parse("(ROOT (S (NP (NN time)) (VP (VBZ flies) (NP (NN now)))))"))
    {(0, 3): 'S', (1, 3): 'VP'}
    """
    spans = ((blocks[0], label) for blocks, label in phrase_blocks(arrange(tree)) if len(blocks) == 1)
    return {(start, end): label for (start, end), label in spans if end - start > 1}


class UnlabelledScorer:
    """Accumulator of correct spans, correct heads, or both."""

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
        """Count the correct spans and heads of a sentence.

        Parameters
        ----------
        length
            Number of words.
        spans
            Spans of the gold tree and of the predicted one; single words are ignored.
        heads
            Heads in the gold tree and in the predicted one: indices of words, -1 for the root.
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
        """Count the spans of two trees over the same words, without punctuation; None predicts no spans."""
        clean = without_punctuation(gold)
        if clean is None:
            return
        own = None if predicted is None else without_punctuation(_with_tags(predicted, gold))
        if own is not None and own.words() != clean.words():
            raise InputError(f"the words of a tree and of its prediction differ: {' '.join(clean.words())!r}")
        self.add(len(clean), spans=(spans_of(clean), set() if own is None else spans_of(own)))

    def result(self) -> UnlabelledResult:
        """Return the scores over all sentences added so far."""
        return UnlabelledResult(np.array(self._rows, np.int64).reshape(-1, len(COUNTS)), *self._has)


def _with_tags(tree: Tree, gold: Tree) -> Tree:
    """Return the tree with the tags of another over the same words, to remove the same punctuation."""
    tags = gold.tags()
    if len(tree) != len(gold):
        raise InputError(f"the words of a tree and of its prediction differ: {' '.join(gold.words())!r}")
    own = iter([tags[position] for position in positions(tree)])
    return tree.fold(
        lambda node, children: Tree(next(own), word=node.word) if node.word else Tree(node.label, children)
    )


@dataclass(frozen=True, eq=False)
class UnlabelledResult:
    """Scores over sentences, in per cent.

    Attributes
    ----------
    counts
        `COUNTS` of each sentence.
    has_spans, has_heads
        Availability of scores of spans and of heads.
    """

    counts: Int64[Array, "sentences counts"]
    has_spans: bool = True
    has_heads: bool = False

    def up_to(self, length: int) -> UnlabelledResult:
        """Return the scores of sentences of up to `length` words."""
        return UnlabelledResult(self.counts[self.counts[:, 0] <= length], self.has_spans, self.has_heads)

    @property
    def sentences(self) -> int:
        """Number of sentences, of one word or more."""
        return len(self.counts)

    def _sum(self, name: str) -> int:
        return int(self.counts[:, COUNTS.index(name)].sum())

    @property
    def precision(self) -> float:
        """Percentage of predicted spans that are in the gold trees."""
        return _percent(self._sum("matched"), self._sum("predicted"))

    @property
    def recall(self) -> float:
        """Percentage of gold spans that are predicted."""
        return _percent(self._sum("matched"), self._sum("gold"))

    @property
    def f1(self) -> float:
        """Harmonic mean of both, over all sentences together, including spans of whole sentences."""
        return _percent(2 * self._sum("matched"), self._sum("gold") + self._sum("predicted"))

    @property
    def proper_f1(self) -> float:
        """F1 without the spans of whole sentences, which are always correct."""
        matched, both = _proper(self.counts)
        return _percent(2 * int(matched.sum()), int(both.sum()))

    @property
    def sentence_f1(self) -> float:
        """Mean F1 of sentences of two or more words, without the spans of whole sentences."""
        return _mean_f1(*_proper(self.counts[self.counts[:, 0] > 1]))

    @property
    def trivial_sentence_f1(self) -> float:
        """Mean F1 of sentences of two or more words, including the spans of whole sentences."""
        _, gold, predicted, matched = self.counts[self.counts[:, 0] > 1, :4].T
        return _mean_f1(matched, gold + predicted)

    @property
    def directed(self) -> float:
        """Percentage of words with the correct head."""
        return _percent(self._sum("right"), self._sum("length"))

    @property
    def undirected(self) -> float:
        """Percentage of words whose edge to the head is an edge of the gold tree, in either direction."""
        return _percent(self._sum("edges"), self._sum("length"))

    def interval(self, figure: str, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
        """Return a bootstrap interval of a score, over samples of the sentences."""
        rng = np.random.default_rng(seed)
        found = []
        for _ in range(resamples):
            drawn = self.counts[rng.integers(0, len(self.counts), len(self.counts))]
            found.append(getattr(UnlabelledResult(drawn, self.has_spans, self.has_heads), figure))
        low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
        return Interval(float(low), float(high))

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the available scores."""
        spans = (
            ("precision", "recall", "f1", "proper_f1", "trivial_sentence_f1", "sentence_f1") if self.has_spans else ()
        )
        return spans + (("directed", "undirected") if self.has_heads else ())

    def to_dict(self) -> dict[str, object]:
        """Return the scores by length, as JSON values."""
        return {
            name: {"sentences": part.sentences, **{figure: getattr(part, figure) for figure in self.figures}}
            for name, part in self._parts()
        }

    def format(self) -> str:
        """Return the scores as a table for the terminal."""
        rows = [["words", "sentences", *(TITLES[figure] for figure in self.figures)]]
        for name, part in self._parts():
            shown = [f"{getattr(part, figure):.1f}" for figure in self.figures]
            rows.append([name, str(part.sentences), *shown])
        return format_table(rows)

    def _parts(self) -> list[tuple[str, UnlabelledResult]]:
        parts = [(f"up to {length}", self.up_to(length)) for length in LENGTHS]
        return [*((name, part) for name, part in parts if 0 < part.sentences < self.sentences), ("all", self)]


# Titles of the scores in tables; proper ones leave out the span of the whole sentence.
TITLES: Final[Mapping[str, str]] = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "proper_f1": "F1 (proper)",
    "trivial_sentence_f1": "sentence F1",
    "sentence_f1": "sentence F1 (proper)",
    "directed": "directed",
    "undirected": "undirected",
}


def _mean_f1(matched: np.ndarray, both: np.ndarray) -> float:
    """Return the mean F1 of sentences, from their numbers of matched, and of gold and predicted spans together."""
    each = np.where(both > 0, 2 * matched / np.maximum(both, 1), 1.0)
    return 100.0 * float(each.mean()) if len(each) else 0.0


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def _proper(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of matches, and of gold and predicted spans together, without those of whole sentences."""
    length, gold, predicted, matched = counts[:, :4].T
    # Every tree of two or more words has the span of the whole sentence; without a tree, nothing is predicted.
    own = (length > 1).astype(np.int64)
    found = own * (predicted > 0)
    return matched - own * found, gold - own + predicted - found


def kept_heads(heads: Sequence[int], keep: Sequence[bool]) -> list[int]:
    """Return the heads of the kept words, renumbered; a removed head is replaced by its own head.

    >>> kept_heads([1, 2, -1, 1], [True, False, True, True])
    [1, -1, 1]
    """
    numbers = np.cumsum(keep) - 1
    found: list[int] = []
    for word, head in enumerate(heads):
        if keep[word]:
            for _ in heads:  # bounded, in case of a cycle
                if head < 0 or keep[head]:
                    break
                head = heads[head]
            found.append(int(numbers[head]) if head >= 0 and keep[head] else -1)
    return found
