"""The constituent-context model (CCM; Klein and Manning 2002), alone and together with heads.

Every span of a sentence, constituent or not (a *distituent*), has a yield, its terminals, and a context, the terminals
on both sides of it. The model draws a binary tree, all being equally probable, and then for each span its yield and its
context given whether it is a constituent. That describes every word many times over, so it gives no probability to
sentences that could be compared with another model's; but EM on it is EM like any other, its objective never falls,
and what it says about trees is a distribution: a tree's weight is the product over its spans of

    P(yield | constituent) P(context | constituent) / (P(yield | distituent) P(context | distituent)).

Single words are constituents, the empty spans between them are left out. The first posteriors are those of trees made
by dividing spans at a place drawn evenly. Counts are smoothed as in Klein's thesis: every yield and every context was
seen 2 times as a constituent and 8 times as a distituent, which is a prior of `prod theta^2` and `prod theta^8`. Yields
of more than `longest` words are one, and their context alone speaks: there are hardly two alike.

**With heads** (Klein and Manning 2004) the weight of a tree is this product times the probability that the dependency
model with valence gives its heads. Each learns from what both believe.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sapwood.induction.passes import Found, LowRank, Sentences, Weights, span_ends
from sapwood.induction.problem import Counts, Family, Problem, When
from sapwood.induction.text import Text
from sapwood.induction.valence import ValenceProblem, valence_counts, valence_weights
from sapwood.shapes import Array, Float64, Int, Int32, Int64

# What each yield and context is taken to have been seen beforehand: as a constituent, as a distituent.
SEEN = (2.0, 8.0)
# The largest and the smallest logarithm of a span's weight.
_EXTREME = 50.0
_SPANS = ("yields", "contexts")


class SpanTable(NamedTuple):
    """The different yields and contexts of a text, and which each span has.

    Attributes
    ----------
    yields
        Terminals of the yields, one behind the other, and `yield_offsets`, where each begins.
    contexts
        Terminals before and behind; -1 where the sentence begins and ends.
    of_span
        The yield and the context of each span.
    """

    yields: Int32[Array, "terminals"]
    yield_offsets: Int64[Array, "yield_bounds"]
    contexts: Int32[Array, "contexts 2"]
    of_span: Int32[Array, "spans 2"]


class SpanIndex:
    """Finds the numbers of yields and contexts.

    Parameters
    ----------
    longest
        Yields of more words are all one, that of no words.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.yields: dict[bytes, int] = {b"": 0}
        self.contexts: dict[tuple[int, int], int] = {}

    def read(self, text: Text | Sentences) -> Int32[Array, "spans 2"]:
        """Return yield and context of each span, with numbers for those not seen before."""
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
        """Return the same for a new sentence, -1 for what was never seen."""
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
    """Return the probability of each span where spans are divided at a place drawn evenly, again and again.

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

    Yields and contexts that were never seen (-1) are as if seen as often as is taken for granted.
    """
    total = np.zeros(len(of_span))
    for column, counts in enumerate((yields, contexts)):
        smoothed = counts + np.array(SEEN)[:, None]
        # The last one is what was never seen.
        smoothed = np.concatenate([smoothed, np.array(SEEN)[:, None]], axis=1) / smoothed.sum(1, keepdims=True)
        total += np.log(smoothed[0] / smoothed[1])[of_span[:, column]]
    return np.clip(total, -_EXTREME, _EXTREME)


def binary_trees(terminals: int = 1) -> LowRank:
    """Return the weights of all binary trees, alike: one state."""
    one, leaf = np.ones((1, 1)), np.ones((terminals, 1))
    return LowRank(np.ones(1), one, one, one, leaf, leaf)


class SpanCounts:
    """Yields and contexts of a text: counts from posteriors, and weights from counts."""

    def __init__(self, text: Text, longest: int, index: SpanIndex | None = None) -> None:
        self.index = index or SpanIndex(longest)
        self.of_span = self.index.read(text)
        self.lengths = text.lengths
        self.wide = np.concatenate([np.zeros(0, bool), *(np.diff(span_ends(n), axis=0)[0] > 1 for n in text.lengths)])

    @property
    def sizes(self) -> tuple[int, int]:
        """How many yields and contexts there are."""
        return len(self.index.yields), len(self.index.contexts)

    def first(self) -> Float64[Array, "spans"]:
        """Return the posteriors to begin with."""
        by_length = {n: dividing_posteriors(n) for n in set(self.lengths.tolist())}
        return np.concatenate([np.zeros(0), *(by_length[n] for n in self.lengths.tolist())])

    def counts(self, posteriors: Float64[Array, "spans"]) -> Counts:
        """Return how often each yield and context is expected as a constituent and as a distituent."""
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

    def families(self) -> tuple[Family, ...]:
        """What is counted; smoothing is the model's own, not a prior for each outcome."""
        yields, contexts = self.sizes
        return Family("yields", (2, yields), 0.0), Family("contexts", (2, contexts), 0.0)


class _WithSpans(Problem):
    """The yields and contexts of the sentences of all stages, numbered alike."""

    longest: int

    def distributions(self, counts: Counts) -> Counts:
        """Return the distributions, those of spans smoothed as the model has it."""
        return {**super().distributions(counts), **{name: span_distributions(counts[name]) for name in _SPANS}}

    def normalised(self, counts: Counts) -> Counts:
        """Return the distributions, those of spans smoothed as the model has it."""
        return {**super().normalised(counts), **{name: span_distributions(counts[name]) for name in _SPANS}}

    def regret(self, counts: Counts) -> float:
        """Add the prior of yields and contexts."""
        smoothing = sum(float(np.array(SEEN) @ np.log(span_distributions(counts[name])).sum(1)) for name in _SPANS)
        return super().regret(counts) + smoothing

    def _weighted(self, weights: Weights, theta: Counts, stage: int) -> tuple[float, Found, Counts]:
        """Return the sum of logarithms over trees whose spans are weighted, what is summed, and the spans' counts."""
        part = self.part(stage)
        inside, outside = part.logarithms(theta)
        found = self.shards(stage).sums(weights, np.exp(np.clip(inside - outside, -_EXTREME, _EXTREME)), spans=True)
        # Weights are of constituents beside distituents; single words are constituents in any tree.
        value = float(found.logarithms.sum()) + float(np.where(part.wide, outside, inside).sum())
        return value, found, part.counts(found.spans)

    @cached_property
    def _parts(self) -> dict[int, SpanCounts]:
        last = len(self.lengths) - 1
        return {last: SpanCounts(self.sentences(last), self.longest)}

    @property
    def table(self) -> SpanCounts:
        """Those of the last stage, which has all sentences."""
        return self._parts[len(self.lengths) - 1]

    @property
    def index(self) -> SpanIndex:
        """The numbers of yields and contexts."""
        return self.table.index

    def log_weights(self, text: Text, counts: Counts) -> Float64[Array, "spans"]:
        """Return the logarithms of the weights of all spans of a text, longer sentences among them."""
        found = [self.index.look_up(text.sentence(number)) for number in range(text.n_sentences)]
        return span_log_weights(np.concatenate(found), counts["yields"], counts["contexts"])

    def part(self, stage: int) -> SpanCounts:
        """Return the spans of the sentences of a stage."""
        if stage not in self._parts:
            self._parts[stage] = SpanCounts(self.sentences(stage), self.longest, self.index)
        return self._parts[stage]


class SpanProblem(_WithSpans):
    """The constituent-context model on a text.

    Parameters
    ----------
    longest
        The most words of a yield of its own.
    """

    def __init__(self, text: Text, *arguments: Any, longest: int, **more: Any) -> None:
        self.longest = longest
        super().__init__(text, *arguments, least=2, **more)

    @property
    def families(self) -> tuple[Family, ...]:
        """Yields and contexts, as constituents and as distituents."""
        return self.table.families()

    def begin(self, rng: np.random.Generator) -> Counts:
        """Return the counts of evenly divided trees."""
        return self.part(0).counts(self.part(0).first())

    def expect(self, theta: Counts, when: When) -> tuple[float, Counts]:
        """Sum over all binary trees."""
        value, _, spans = self._weighted(binary_trees(len(self.text.terminals)), theta, when.stage)
        return value, spans


class HeadedSpanProblem(_WithSpans, ValenceProblem):
    """Both models together: the weight of a tree is the product of what they give it.

    Parameters
    ----------
    longest
        The most words of a yield of its own.
    """

    def __init__(self, text: Text, *arguments: Any, longest: int, **more: Any) -> None:
        self.longest = longest
        super().__init__(text, *arguments, **more)

    @property
    def families(self) -> tuple[Family, ...]:
        """Those of both models."""
        return (*super().families, *self.table.families())

    def begin(self, rng: np.random.Generator) -> Counts:
        """Return the counts that both begin with."""
        return {**super().begin(rng), **self.part(0).counts(self.part(0).first())}

    def expect(self, theta: Counts, when: When) -> tuple[float, Counts]:
        """Sum over all trees with heads, their spans weighted."""
        value, found, spans = self._weighted(valence_weights(theta), theta, when.stage)
        return value, {**valence_counts(found.uses), **spans}
