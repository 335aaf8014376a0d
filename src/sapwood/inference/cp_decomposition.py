"""Parsing with a CP decomposition: inside and outside over all trees of a sentence, and minimum-risk decoding.

The posterior of a symbol over a span is summed over its states and over all binary trees, whether a treebank had their
rules or not: factors give some weight to every rule (Cohen, Satta and Collins 2013). Nothing is pruned. Two decoders
choose the tree (Goodman 1996), without asking which rules there are:

`f1`
    The largest expected number of correct phrases, less 0.45 per phrase, as `sapwood.inference.decode` has it.
`recall`
    The largest expected number of correct nodes, intermediate ones included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.model.cp_decomposition import CPDecomposition
from sapwood.storage.shapes import Array, Float, Float64, Int32
from sapwood.trees.tree import Tree

DECODERS = ("f1", "recall")
# A phrase is worth having if its posterior is above this (`least_worth` in `src/native/chart/decode.cpp`).
_LEAST_WORTH = 0.45
# Size of the cache of lexical vectors, in numbers.
_KEPT = 1 << 23


@dataclass(frozen=True, eq=False)
class CPFactors:
    """Factors laid out for the kernels (`src/native/automata/span_posteriors.cpp`)."""

    parent: Float64[Array, "states products"]
    parent_t: Float64[Array, "products states"]
    both: Float64[Array, "states pairs"]
    both_t: Float64[Array, "pairs states"]

    @classmethod
    def from_arrays(
        cls,
        parent: Float[Array, "states products"],
        left: Float[Array, "states products"],
        right: Float[Array, "states products"],
    ) -> CPFactors:
        """Build from three factors."""
        both = np.concatenate([left, right], axis=1).astype(float)
        first = np.ascontiguousarray(parent, float)
        return cls(first, np.ascontiguousarray(first.T), both, np.ascontiguousarray(both.T))


class SpanChart(NamedTuple):
    """Posteriors of base symbols over spans, by the starts of these, and the logarithm of the sentence's weight."""

    length: int
    posteriors: Float64[Array, "spans bases"]
    log_weight: float


class CompiledCP:
    """A grammar whose rules are a CP decomposition, laid out for the kernels.

    Parameters
    ----------
    grammar
        Symbols, root and lexical weights; its rules are not used.
    cp
        Factors of the rules.
    """

    def __init__(self, grammar: TensorGrammar, cp: CPDecomposition) -> None:
        self.grammar, self.rank = grammar, cp.rank
        self.factors = CPFactors.from_arrays(cp.parent, cp.left, cp.right)
        self._root = grammar.root.astype(float)
        # Symbols that differ in annotations only share a number; an interminal and a preterminal never do.
        numbers: dict[tuple[str, bool], int] = {}
        inner = grammar.n_interminals
        of_symbol = [
            numbers.setdefault((base, place >= inner), len(numbers)) for place, base in enumerate(grammar.symbols.base)
        ]
        self.n_bases, self.first_tag = len(numbers), min(of_symbol[inner:], default=len(numbers))
        self._groups: Int32[Array, "states"] = np.repeat(np.array(of_symbol, np.int32), grammar.states)
        self.chains: list[tuple[str, ...]] = [()] * len(numbers)
        for number, chain in zip(of_symbol, grammar.symbols.chain, strict=True):
            self.chains[number] = chain
        for number, tag in zip(of_symbol[inner:], grammar.symbols.tags[inner:], strict=True):
            self.chains[number] = self.chains[number] or (tag,)
        self._rows: dict[int, np.ndarray] = {}

    @cached_property
    def labels(self) -> dict[str, int]:
        """Labels of the treebank, numbered."""
        found: dict[str, int] = {}
        for chain in self.chains:
            for label in chain:
                found.setdefault(label, len(found))
        return found

    @cached_property
    def _uses(self) -> scipy.sparse.csr_array:
        """How often each symbol has each label."""
        found = np.zeros((self.n_bases, len(self.labels)))
        for number, chain in enumerate(self.chains):
            for label in chain:
                found[number, self.labels[label]] += 1
        return scipy.sparse.csr_array(found)

    @cached_property
    def _costs(self) -> Float64[Array, "labels"]:
        """What each label costs: nothing for tags."""
        found = np.full(len(self.labels), _LEAST_WORTH)
        found[[self.labels[chain[-1]] for chain in self.chains[self.first_tag :]]] = 0.0
        return found

    def memory(self, length: int) -> int:
        """Return the number of bytes that a chart takes."""
        return 8 * (length * (length + 1) // 2) * (len(self._root) + 4 * self.rank + self.n_bases)

    def leaf(self, word: str, tag: str | None, initial: bool) -> Float64[Array, "states"]:
        """Return the lexical weights of a word, restricted to the given tag if there is one."""
        emissions = self.grammar.emissions
        terminal = self.grammar.lexicon.terminal(word, initial)
        found = self._rows.get(terminal) if tag is None else None
        if found is None:
            row = emissions.row(terminal) if tag is None else emissions.tagged_row(terminal, tag)
            found = np.zeros(len(self._root))
            found[len(found) - len(row) :] = row
            if tag is None:
                if (len(self._rows) + 1) * len(found) > _KEPT:
                    self._rows.clear()
                self._rows[terminal] = found
        return found

    def chart(self, leaves: Float64[Array, "words states"], *, timeout: float | None = None) -> SpanChart | None:
        """Return the posteriors of a sentence, given the lexical weights of its words; None without a parse."""
        length = len(leaves)
        posteriors = np.empty((length * (length + 1) // 2, self.n_bases))
        seconds = math.inf if timeout is None else timeout
        sign, log_weight = kernels.cp_span_posteriors(
            self.factors, self._root, leaves, self._groups, seconds, posteriors
        )
        return SpanChart(length, posteriors, log_weight) if sign > 0 else None

    def label_posteriors(self, chart: SpanChart) -> dict[tuple[int, int, str], float]:
        """Return the posterior of each phrase and tag."""
        names = list(self.labels)
        found = np.minimum(chart.posteriors @ self._uses, 1.0)
        spans = span_ends(chart.length)
        return {(*spans[row], names[label]): float(found[row, label]) for row, label in np.argwhere(found > 0)}

    def best(self, chart: SpanChart, words: Sequence[str], decoder: str) -> Tree:
        """Return the best tree, labelled as in the treebank."""
        symbols, scores = self._choices(chart, decoder)
        offsets = np.array([0, chart.length], np.int64)
        inner = iter([*kernels.best_spans(offsets, scores).tolist(), None])
        ahead, order, stack = next(inner), [], [(0, chart.length)]
        while stack:
            start, end = stack.pop()
            order.append(int(symbols[span_number(start, end, chart.length)]))
            if end - start > 1:
                ahead = next(inner)  # the left child, unless that is a word
                middle = ahead[1] if ahead is not None and ahead[0] == start else start + 1
                stack += [(middle, end), (start, middle)]
        return self.grammar.transform.invert_symbols(order, self.chains, self.first_tag, words)

    def _choices(self, chart: SpanChart, decoder: str) -> tuple[np.ndarray, Float64[Array, "spans"]]:
        """Return the best symbol of each span, and what it is worth."""
        worth = chart.posteriors
        if decoder == "f1":
            worth = (np.minimum(worth @ self._uses, 1.0) - self._costs) @ self._uses.T
        words = np.cumsum([0, *range(chart.length, 1, -1)])
        symbols = np.argmax(worth[:, : self.first_tag], axis=1) if self.first_tag else np.zeros(len(worth), np.int64)
        scores = np.take_along_axis(worth, symbols[:, None], axis=1)[:, 0]
        # A word has a tag that it can have.
        tags = np.where(chart.posteriors[words, self.first_tag :] > 0, worth[words, self.first_tag :], -np.inf)
        symbols[words] = self.first_tag + np.argmax(tags, axis=1)
        scores[words] = 0.0
        return symbols, np.ascontiguousarray(scores)


def span_number(start: int, end: int, length: int) -> int:
    """Return where a span is among all spans of a sentence, by their starts."""
    return start * length - start * (start - 1) // 2 + end - start - 1


def span_ends(length: int) -> list[tuple[int, int]]:
    """Return all spans of a sentence, by their starts."""
    return [(start, end) for start in range(length) for end in range(start + 1, length + 1)]
