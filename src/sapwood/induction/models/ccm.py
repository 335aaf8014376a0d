"""Constituent-context model (CCM; Klein and Manning 2002), alone and combined with heads.

Every span of a sentence, constituent or not (a *distituent*), has a yield, its terminals, and a context, the terminals
on both sides of it. The model draws a binary tree uniformly, and then for each span its yield and its context given
whether it is a constituent. That describes every word many times over, so its sentence probabilities cannot be compared
with another model's; but EM works as usual, its objective never falls, and it defines a distribution over trees: a
tree's weight is the product over its spans of

    P(yield | constituent) P(context | constituent) / (P(yield | distituent) P(context | distituent)).

Single words are constituents; the empty spans between them are ignored. The first posteriors are those of trees made
by dividing spans at uniformly drawn positions. Counts are smoothed as in Klein's thesis: every yield and every context
was seen 2 times as a constituent and 8 times as a distituent, which is a prior of `prod theta^2` and `prod theta^8`.
All yields of more than `longest` words are treated as one, since hardly any two are alike, and only their context
matters.

**With heads** (Klein and Manning 2004) the weight of a tree is this product times the probability that the dependency
model with valence gives its heads. Each model learns from the joint posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sapwood.induction.em_model import Counts, Distributions, EMModel, Iteration
from sapwood.induction.estep import Found, LowRankRule, SentenceBatch, Weights, span_ends
from sapwood.induction.models.dmv import DMVProblem, dmv_counts, dmv_weights
from sapwood.induction.text import Text
from sapwood.storage.shapes import Array, Float64, Int, Int32, Int64

# Pseudo-counts of each yield and context: as a constituent, as a distituent.
SEEN = (2.0, 8.0)
# Range of the logarithm of a span's weight.
_EXTREME = 50.0
_SPANS = ("yields", "contexts")


class SpanTable(NamedTuple):
    """The different yields and contexts of a text, and those of each span.

    Attributes
    ----------
    yields
        Concatenated terminals of the yields, and `yield_offsets`, where each begins.
    contexts
        Terminals before and after; -1 at the beginning and end of the sentence.
    of_span
        The yield and the context of each span.
    """

    yields: Int32[Array, "terminals"]
    yield_offsets: Int64[Array, "yield_bounds"]
    contexts: Int32[Array, "contexts 2"]
    of_span: Int32[Array, "spans 2"]


class SpanIndex:
    """Index of yields and contexts.

    Parameters
    ----------
    longest
        All yields of more words share the number of the empty yield.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.yields: dict[bytes, int] = {b"": 0}
        self.contexts: dict[tuple[int, int], int] = {}

    def read(self, text: Text | SentenceBatch) -> Int32[Array, "spans 2"]:
        """Return the yield and context of each span; unseen ones get new numbers."""
        words = text.terminal if isinstance(text, Text) else text.words
        found: list[tuple[int, int]] = []
        for begin, end in zip(text.offsets[:-1].tolist(), text.offsets[1:].tolist(), strict=True):
            sentence = words[begin:end]
            raw, size, around = sentence.tobytes(), sentence.itemsize, [-1, *sentence.tolist(), -1]
            n = end - begin
            for i in range(n):
                for j in range(i + 1, n + 1):
                    own = raw[i * size : j * size] if j - i <= self.longest else b""
                    context = (around[i], around[j + 1])
                    found.append(
                        (
                            self.yields.setdefault(own, len(self.yields)),
                            self.contexts.setdefault(context, len(self.contexts)),
                        )
                    )
        return np.array(found, np.int32).reshape(-1, 2)

    def look_up(self, sentence: Sequence[int] | Int[Array, "length"]) -> Int32[Array, "spans 2"]:
        """Return the same for a new sentence, -1 for unseen ones."""
        words = np.asarray(sentence, np.int32)
        raw, size, around, n = words.tobytes(), words.itemsize, [-1, *words.tolist(), -1], len(words)
        found = [
            (
                self.yields.get(raw[i * size : j * size] if j - i <= self.longest else b"", -1),
                self.contexts.get((around[i], around[j + 1]), -1),
            )
            for i in range(n)
            for j in range(i + 1, n + 1)
        ]
        return np.array(found, np.int32).reshape(-1, 2)

    def table(self, of_span: Int32[Array, "spans 2"]) -> SpanTable:
        """Return all yields and contexts in arrays."""
        parts = [np.frombuffer(own, np.int32) for own in self.yields]
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        contexts = np.array(list(self.contexts), np.int32).reshape(-1, 2)
        return SpanTable(np.concatenate(parts), offsets, contexts, of_span)

    @classmethod
    def of_table(cls, table: SpanTable, longest: int) -> SpanIndex:
        """Return the index of a table."""
        index = cls(longest)
        bounds = zip(table.yield_offsets[:-1].tolist(), table.yield_offsets[1:].tolist(), strict=True)
        words = np.ascontiguousarray(table.yields, np.int32)
        index.yields = {words[begin:end].tobytes(): number for number, (begin, end) in enumerate(bounds)}
        index.contexts = {(before, behind): number for number, (before, behind) in enumerate(table.contexts.tolist())}
        return index


def dividing_posteriors(length: int) -> Float64[Array, "spans"]:
    """Return the probability of each span in trees that are repeatedly split at uniformly drawn positions.

    >>> dividing_posteriors(3).tolist()
    [1.0, 0.5, 1.0, 1.0, 0.5, 1.0]
    """
    table = np.zeros((length + 1, length + 1))
    table[0, length] = 1.0
    for width in range(length, 1, -1):
        for i in range(length - width + 1):
            j = i + width
            share = table[i, j] / (width - 1)
            table[i, i + 1 : j] += share
            table[i + 1 : j, j] += share
    return table[span_ends(length)]


def span_distributions(counts: Float64[Array, "2 outcomes"]) -> Float64[Array, "2 outcomes"]:
    """Return the probabilities of yields, or of contexts, of constituents and of distituents."""
    smoothed = counts + np.array(SEEN)[:, None]
    return smoothed / smoothed.sum(1, keepdims=True)


def span_log_weights(
    of_span: Int32[Array, "spans 2"], yields: Float64[Array, "2 yields"], contexts: Float64[Array, "2 contexts"]
) -> Float64[Array, "spans"]:
    """Return the logarithm of each span's weight from counts as constituents and as distituents.

    Unseen yields and contexts (-1) only have their pseudo-counts.
    """
    total = np.zeros(len(of_span))
    for column, counts in enumerate((yields, contexts)):
        smoothed = counts + np.array(SEEN)[:, None]
        # The last one stands for unseen ones.
        smoothed = np.concatenate([smoothed, np.array(SEEN)[:, None]], axis=1) / smoothed.sum(1, keepdims=True)
        total += np.log(smoothed[0] / smoothed[1])[of_span[:, column]]
    return np.clip(total, -_EXTREME, _EXTREME)


def binary_trees(terminals: int = 1) -> LowRankRule:
    """Return equal weights for all binary trees: one state."""
    one, leaf = np.ones((1, 1)), np.ones((terminals, 1))
    return LowRankRule(np.ones(1), one, one, one, leaf, leaf)


class SpanCounts:
    """Yields and contexts of a text: counts from posteriors, and weights from counts."""

    def __init__(self, text: Text, longest: int, index: SpanIndex | None = None) -> None:
        self.index = index or SpanIndex(longest)
        self.of_span = self.index.read(text)
        self.lengths = text.lengths
        self.wide = np.concatenate([np.zeros(0, bool), *(np.diff(span_ends(n), axis=0)[0] > 1 for n in text.lengths)])

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of yields and contexts."""
        return len(self.index.yields), len(self.index.contexts)

    def first(self) -> Float64[Array, "spans"]:
        """Return the initial posteriors."""
        by_length = {n: dividing_posteriors(n) for n in set(self.lengths.tolist())}
        return np.concatenate([np.zeros(0), *(by_length[n] for n in self.lengths.tolist())])

    def counts(self, posteriors: Float64[Array, "spans"]) -> Counts:
        """Return the expected counts of each yield and context as a constituent and as a distituent."""
        found = {}
        inside = np.where(self.wide, posteriors, 1.0)
        for column, (name, size) in enumerate(zip(_SPANS, self.sizes, strict=True)):
            numbers = self.of_span[:, column]
            found[name] = np.stack(
                [np.bincount(numbers, weights=part, minlength=size) for part in (inside, 1 - inside)]
            )
        found["yields"] = np.maximum(found["yields"], 0)  # rounding can make a probability larger than 1
        found["contexts"] = np.maximum(found["contexts"], 0)
        return found

    def logarithms(self, theta: Counts) -> Float64[Array, "2 spans"]:
        """Return the logarithm of each span's probability, as a constituent and as a distituent."""
        yields, contexts = (np.log(theta[name]) for name in _SPANS)
        return yields[:, self.of_span[:, 0]] + contexts[:, self.of_span[:, 1]]

    def families(self) -> tuple[Distributions, ...]:
        """The counted distributions; smoothing is the model's own, not a prior for each outcome."""
        yields, contexts = self.sizes
        return Distributions("yields", (2, yields), 0.0), Distributions("contexts", (2, contexts), 0.0)


class _WithSpans(EMModel):
    """Base class of problems with yields and contexts, numbered alike in all stages.

    Parameters
    ----------
    longest
        Maximum number of words of a yield of its own.
    """

    def __init__(self, text: Text, *arguments: Any, longest: int, **more: Any) -> None:
        self.longest = longest
        super().__init__(text, *arguments, **more)

    def distributions(self, counts: Counts) -> Counts:
        """Return the distributions; those of spans have the model's own smoothing."""
        return {**super().distributions(counts), **{name: span_distributions(counts[name]) for name in _SPANS}}

    def normalised(self, counts: Counts) -> Counts:
        """Return the distributions; those of spans have the model's own smoothing."""
        return {**super().normalised(counts), **{name: span_distributions(counts[name]) for name in _SPANS}}

    def log_prior(self, counts: Counts) -> float:
        """Add the prior of yields and contexts."""
        smoothing = sum(float(np.array(SEEN) @ np.log(span_distributions(counts[name])).sum(1)) for name in _SPANS)
        return super().log_prior(counts) + smoothing

    def _weighted(self, weights: Weights, theta: Counts, stage: int) -> tuple[float, Found, Counts]:
        """Return the sum of logarithms over trees with weighted spans, the pass's result, and the spans' counts."""
        part = self.part(stage)
        inside, outside = part.logarithms(theta)
        found = self.shards(stage).sums(weights, np.exp(np.clip(inside - outside, -_EXTREME, _EXTREME)), spans=True)
        # Weights are ratios of constituents to distituents; single words are constituents in any tree.
        value = float(found.logarithms.sum()) + float(np.where(part.wide, outside, inside).sum())
        return value, found, part.counts(found.spans)

    @cached_property
    def _parts(self) -> dict[int, SpanCounts]:
        last = len(self.lengths) - 1
        return {last: SpanCounts(self.sentences(last), self.longest)}

    @property
    def table(self) -> SpanCounts:
        """The spans of the last stage, which has all sentences."""
        return self._parts[len(self.lengths) - 1]

    @property
    def index(self) -> SpanIndex:
        """The index of yields and contexts."""
        return self.table.index

    def log_weights(self, text: Text, counts: Counts) -> Float64[Array, "spans"]:
        """Return the logarithms of the weights of all spans of a text, including longer sentences."""
        found = [self.index.look_up(text.sentence(number)) for number in range(text.n_sentences)]
        return span_log_weights(np.concatenate(found), counts["yields"], counts["contexts"])

    def part(self, stage: int) -> SpanCounts:
        """Return the spans of the sentences of a stage."""
        if stage not in self._parts:
            self._parts[stage] = SpanCounts(self.sentences(stage), self.longest, self.index)
        return self._parts[stage]


class CCMProblem(_WithSpans):
    """The constituent-context model on a text, without sentences of one word."""

    def __init__(self, text: Text, *arguments: Any, **more: Any) -> None:
        super().__init__(text, *arguments, least=2, **more)

    @property
    def families(self) -> tuple[Distributions, ...]:
        """Yields and contexts, as constituents and as distituents."""
        return self.table.families()

    def begin(self, rng: np.random.Generator) -> Counts:
        """Return the counts of uniformly split trees."""
        return self.part(0).counts(self.part(0).first())

    def expect(self, theta: Counts, when: Iteration) -> tuple[float, Counts]:
        """Sum over all binary trees."""
        value, _, spans = self._weighted(binary_trees(len(self.text.terminals)), theta, when.stage)
        return value, spans


class DMVCCMProblem(_WithSpans, DMVProblem):
    """Both models combined: the weight of a tree is the product of their weights."""

    @property
    def families(self) -> tuple[Distributions, ...]:
        """The distributions of both models."""
        return (*super().families, *self.table.families())

    def begin(self, rng: np.random.Generator) -> Counts:
        """Return the initial counts of both models."""
        return {**super().begin(rng), **self.part(0).counts(self.part(0).first())}

    def expect(self, theta: Counts, when: Iteration) -> tuple[float, Counts]:
        """Sum over all trees with heads, their spans weighted."""
        value, found, spans = self._weighted(dmv_weights(theta), theta, when.stage)
        return value, {**dmv_counts(found.uses), **spans}
