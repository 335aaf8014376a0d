"""Passes over sentences: shards, and the compiled charts that run on each.

A pass is a map over shards, which depend on the sentences alone, and a sum in shard order, so that any workers give the
same bytes. Weights and their expected uses are records of arrays with the same names and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sapwood.induction.text import Text
from sapwood.kernels import best_heads, best_spans, sum_constituents, sum_heads, sum_independent, sum_low_rank
from sapwood.runtime.executor import Executor
from sapwood.storage.shapes import Array, Bool, Float32, Float64, Int32, Int64

# Approximate number of chart steps of a shard: the sum of the cubes of lengths.
_STEPS = 2_000_000
NOTHING = np.zeros(0)


class Valence(NamedTuple):
    """Weights of trees with heads: by side (0: left), head and argument; and by side, head and whether it has any."""

    attach: Float64[Array, "2 terminals terminals"]
    go: Float64[Array, "2 terminals 2"]
    stop: Float64[Array, "2 terminals 2"]
    root: Float64[Array, "terminals"]


class DenseRule(NamedTuple):
    """Weights of binary trees with states: roots, rules (parent, pairs of children), terminals given states."""

    root: Float64[Array, "states"]
    rule: Float64[Array, "states pairs"]
    leaf: Float64[Array, "terminals states"]


class LowRankRule(NamedTuple):
    """Weights of binary trees with states and low-rank rules (`src/native/induction/constituents.cpp`)."""

    root: Float64[Array, "states"]
    up: Float64[Array, "states rank"]
    left: Float64[Array, "rank states"]
    right: Float64[Array, "rank states"]
    left_leaf: Float64[Array, "terminals rank"]
    right_leaf: Float64[Array, "terminals rank"]


class IndependentSides(NamedTuple):
    """Weights of binary trees with independent children, by parent and child (`native/induction/independent.cpp`)."""

    root: Float32[Array, "states"]
    left: Float32[Array, "states states"]
    right: Float32[Array, "states states"]
    left_leaf: Float32[Array, "terminals states"]
    right_leaf: Float32[Array, "terminals states"]


Weights: TypeAlias = Valence | DenseRule | LowRankRule | IndependentSides
_KERNELS: dict[type, Callable[..., np.ndarray]] = {
    Valence: sum_heads, DenseRule: sum_constituents, LowRankRule: sum_low_rank, IndependentSides: sum_independent,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class SentenceBatch:
    """Sentences in the form that the kernels take."""

    words: Int32[Array, "tokens"]
    offsets: Int64[Array, "bounds"]

    @cached_property
    def lengths(self) -> Int64[Array, "sentences"]:
        """Number of words of each sentence."""
        return np.diff(self.offsets)

    @property
    def n_spans(self) -> int:
        """Number of spans of one or more words."""
        return int((self.lengths * (self.lengths + 1) // 2).sum())

    @property
    def n_edges(self) -> int:
        """Number of pairs of words, including each word with itself."""
        return int((self.lengths**2).sum())

    @classmethod
    def of(cls, text: Text) -> SentenceBatch:
        """Return all sentences of a text."""
        return cls(np.ascontiguousarray(text.terminal), np.ascontiguousarray(text.offsets))


class Found(NamedTuple):
    """Result of a pass over sentences.

    Attributes
    ----------
    logarithms
        Logarithm of the sum over the trees of each sentence.
    uses
        Expected number of uses of each weight.
    spans
        The probability that each span is a constituent, if requested.
    edges
        The probability of each word (first) having each head, itself standing for no head, if requested.
    occupancy
        Expected count of each state over spans of two or more words.
    """

    logarithms: Float64[Array, "sentences"]
    uses: Any
    spans: Float64[Array, "spans"]
    edges: Float64[Array, "edges"]
    occupancy: Float64[Array, "states"]


def sum_trees(
    sentences: SentenceBatch,
    weights: Weights,
    span_weights: Float64[Array, "spans"] | None = None,
    *,
    spans: bool = False,
    edges: bool = False,
    times: Float64[Array, "sentences"] | None = None,
) -> Found:
    """Sum over all trees of each sentence.

    Parameters
    ----------
    sentences
        The sentences.
    weights
        Weights of the trees; their type determines the kind of trees.
    span_weights
        A factor for each span of two or more words; 0 forbids a constituent. By default 1.
    spans, edges
        Whether to return the posteriors of spans and, for trees with heads, of edges.
    times
        Weight of each sentence in the expected uses. By default 1.
    """
    given = NOTHING if span_weights is None else np.ascontiguousarray(span_weights, float)
    uses = type(weights)(*(np.zeros_like(part) for part in weights))
    found_spans = np.zeros(sentences.n_spans if spans else 0)
    found_edges = np.zeros(sentences.n_edges if edges else 0)
    times = np.ones(len(sentences.lengths)) if times is None else times
    last = found_edges if isinstance(weights, Valence) else np.zeros(len(weights.root))
    logarithms = _KERNELS[type(weights)](sentences, weights, given, times, uses, found_spans, last)
    occupancy = NOTHING if isinstance(weights, Valence) else last
    return Found(logarithms, uses, found_spans, found_edges, occupancy)


def best_binary(offsets: Int64[Array, "bounds"], scores: Float64[Array, "spans"]) -> list[list[tuple[int, int]]]:
    """Return the spans of two or more words of the binary tree with the largest sum of scores, for each sentence."""
    found = best_spans(np.ascontiguousarray(offsets), np.ascontiguousarray(scores)).tolist()
    rows, result = iter(found), []
    for length in np.diff(offsets).tolist():
        result.append([(begin, end) for _, (begin, end) in zip(range(length - 1), rows, strict=False)])
    return result


def best_projective_heads(offsets: Int64[Array, "bounds"], scores: Float64[Array, "edges"]) -> list[list[int]]:
    """Return the heads of the projective tree with the largest sum of edge scores, for each sentence."""
    heads = best_heads(np.ascontiguousarray(offsets), np.ascontiguousarray(scores)).tolist()
    return [heads[begin:end] for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


class Shards:
    """Sentences divided into parts that can be processed in parallel.

    Parameters
    ----------
    text
        The sentences.
    workers
        Executor.
    """

    def __init__(self, text: Text, workers: Executor) -> None:
        self.workers = workers
        self.n_sentences, self.n_tokens = text.n_sentences, len(text.word)
        cubes = np.cumsum(text.lengths.astype(float) ** 3 + 1)
        # A shard ends with the sentence that fills it.
        groups = np.floor_divide(np.concatenate([[0.0], cubes[:-1]]), _STEPS).astype(np.int64)
        bounds = np.concatenate([[0], np.flatnonzero(np.diff(groups)) + 1, [text.n_sentences]])
        parts = [SentenceBatch.of(text.part(np.arange(a, b))) for a, b in pairwise(bounds.tolist())]
        self.steps = float(cubes[-1]) if len(cubes) else 0.0
        self._spans = np.concatenate([[0], np.cumsum([part.n_spans for part in parts])]).astype(np.int64)
        self._kept = workers.persist(_itself, parts)

    @property
    def n_spans(self) -> int:
        """Number of spans of all sentences."""
        return int(self._spans[-1])

    def sums(
        self, weights: Weights, span_weights: Float64[Array, "spans"] | None = None, *, spans: bool = False
    ) -> Found:
        """Return the result of a pass over all sentences; the posteriors of spans only if requested."""
        parts = self._map(weights, span_weights, spans)
        total = next(parts)
        logarithms, found_spans = [total.logarithms], [total.spans]
        for found in parts:
            logarithms.append(found.logarithms)
            found_spans.append(found.spans)
            for own, more in zip((*total.uses, total.occupancy), (*found.uses, found.occupancy), strict=True):
                own += more
        return total._replace(logarithms=np.concatenate(logarithms), spans=np.concatenate(found_spans))

    def _map(self, weights: Weights, span_weights: np.ndarray | None, spans: bool) -> Iterator[Found]:
        bounds = zip(self._spans[:-1].tolist(), self._spans[1:].tolist(), strict=True)
        factors: Iterator[np.ndarray | None] = (
            repeat(None) if span_weights is None else (span_weights[begin:end] for begin, end in bounds)
        )
        shared = self.workers.broadcast(weights)
        return self.workers.map(_sum, self._kept, repeat(shared), factors, repeat(spans))


def _itself(part: SentenceBatch) -> SentenceBatch:
    return part


def _sum(part: SentenceBatch, weights: Any, span_weights: np.ndarray | None, spans: bool) -> Found:
    return sum_trees(part, weights, span_weights, spans=spans)


class SpanFactors(NamedTuple):
    """Factors of spans by the punctuation that was removed; the ends of a sentence are marks, too.

    Attributes
    ----------
    begin, end
        Factors of spans across a mark that do not begin, or end, at a mark.
    elsewhere
        Factor of all spans of two or more words that do not end at a mark.
    """

    begin: float = 1.0
    end: float = 1.0
    elsewhere: float = 1.0


def punctuation_weights(
    divided: Bool[Array, "tokens"], offsets: Int64[Array, "bounds"], factors: SpanFactors
) -> Float64[Array, "spans"]:
    """Return the weight of each span under punctuation.

    Parameters
    ----------
    divided
        Whether a mark stands before each token.
    offsets
        Where each sentence begins, and where the last one ends.
    factors
        The factors.
    """
    found = [np.zeros(0)]
    for first, last in pairwise(offsets.tolist()):
        marks = np.concatenate([divided[first:last], [True]])
        marks[0] = True
        begin, end = span_ends(last - first)
        before = np.cumsum(marks)
        across = before[end - 1] > before[begin]
        weights = np.where(marks[end] | (end - begin == 1), 1.0, factors.elsewhere)
        weights[across & ~marks[begin]] *= factors.begin
        weights[across & ~marks[end]] *= factors.end
        found.append(weights)
    return np.concatenate(found)


def span_ends(length: int) -> tuple[Int64[Array, "spans"], Int64[Array, "spans"]]:
    """Return where each span of a sentence begins and ends, in their order.

    >>> [part.tolist() for part in span_ends(2)]
    [[0, 0, 1], [1, 2, 2]]
    """
    begin, end = np.triu_indices(length)
    return begin, end + 1
