"""L-PCFG weights and expected counts on observed trees, with the E-step, M-step, splits and merges.

Only states are hidden, so an L-PCFG over a corpus is a tensor for each of its rules, a vector for each root symbol and
one for each pair of preterminal and *word class*. A frequent word is its own class; rare words with the same signature
form one class, since a few occurrences carry little information about states. Given the class, the word depends on the
preterminal alone, so it adds a constant to the log-likelihood and the M-step stays exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from numpy.typing import DTypeLike

from sapwood import kernels
from sapwood.grammar.emissions import offsets_of
from sapwood.inference.estep.base import EStep, Pairs
from sapwood.inference.estep.forests import ForestEStep, TrainingForests
from sapwood.inference.estep.trees import Expectations, NodeVectors, TreeEStep
from sapwood.runtime.executor import LOCAL, Executor, Threads
from sapwood.storage.shapes import Array, Bool, Float, Float64, Int, Int32, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import SymbolTable

# Smaller weights count as zero (see `normalise_and_smooth`).
_LEAST = 1e-25
# Approximate number of rule weights processed at once.
_RUN = 1 << 20


@dataclass(frozen=True, eq=False)
class WeightLayout:
    """Layout of the weights of rules with states, as in `TensorGrammar`."""

    rules: Int32[Array, "rules 3"]
    states: Int32[Array, "symbols"]

    @cached_property
    def state_offsets(self) -> Int64[Array, "symbol_bounds"]:
        """Start of each symbol's states in `root`."""
        return offsets_of(self.states)

    @cached_property
    def symbol_of_state(self) -> Int64[Array, "all_states"]:
        """Symbol of each state."""
        return np.repeat(np.arange(len(self.states)), self.states)

    @cached_property
    def tensor_offsets(self) -> Int64[Array, "rule_bounds"]:
        """Start of each rule's tensor."""
        return offsets_of(self.states[self.rules].prod(axis=1, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class LatentWeights(WeightLayout):
    """An L-PCFG over the rules and word classes of a corpus.

    Attributes
    ----------
    symbols, n_interminals, rules
        Those of the corpus.
    states, tensors, root
        In the layout of `TensorGrammar`.
    lexical
        `q(a -> class)` for each pair of preterminal and class, concatenated.
    """

    symbols: SymbolTable
    n_interminals: int
    tensors: Float[Array, "rule_weights"]
    root: Float[Array, "all_states"]
    lexical: Float[Array, "class_weights"]


@dataclass(frozen=True, eq=False)
class LatentCounts:
    """Counts in the layout of `LatentWeights`: rule tensors, pairs of preterminal and class, roots."""

    tensors: Float[Array, "rule_weights"]
    lexical: Float[Array, "class_weights"]
    root: Float[Array, "all_states"]


class EMData:
    """Training data of EM, a corpus and possibly forests, with the E-step and the M-step over them.

    Parameters
    ----------
    corpus
        The trees.
    word_class
        The class of each word of the corpus.
    workers
        Executor for computations over the trees.
    sources
        Additional training data: forests over the corpus' symbols, rules and words.

    Attributes
    ----------
    pair_symbol
        `(pairs,)`: preterminal of each pair of preterminal and class.
    word_symbol
        `(word_pairs,)`: preterminal of each pair of preterminal and word; for trees alone, in the order of
        `corpus.lexical_counts()`.
    """

    def __init__(
        self,
        corpus: Corpus,
        word_class: Int[Array, "words"],
        workers: Executor = LOCAL,
        sources: Sequence[TrainingForests] = (),
    ) -> None:
        self.corpus, self.workers, self.sources = corpus, workers, tuple(sources)
        symbol, word, counts = corpus.lexical_counts()
        n_words = len(corpus.words)
        keys, often = [symbol * n_words + word], [counts.astype(float)]
        for source in self.sources:
            leaves = source.leaves
            keys.append(leaves.symbol.astype(np.int64) * n_words + leaves.word)
            often.append(leaves.times)
        found, which = np.unique(np.concatenate(keys), return_inverse=True)
        self.word_symbol, self._word = found // n_words, found % n_words
        word_counts = np.bincount(which, weights=np.concatenate(often))
        n_classes = int(word_class.max()) + 1
        keys_of_pairs = self.word_symbol * n_classes + word_class[self._word]
        pairs, self._pair_of_word = np.unique(keys_of_pairs, return_inverse=True)
        self.pair_symbol = (pairs // n_classes).astype(np.int32)
        self._pair_counts = np.bincount(self._pair_of_word, weights=word_counts)

    @cached_property
    def tree_estep(self) -> TreeEStep:
        """E-step over the trees."""
        return TreeEStep(self.corpus, pairs=self._pairs, workers=self.workers)

    @cached_property
    def _esteps(self) -> list[tuple[float, EStep]]:
        """E-steps over all training data with weights, trees first."""
        others = [
            (source.weight, ForestEStep(source.trees, self.corpus, self._pairs, workers=self.workers))
            for source in self.sources
        ]
        return [(1.0, self.tree_estep), *others]

    @property
    def _pairs(self) -> Pairs:
        return Pairs(self.word_symbol, self._word)

    def rule_counts(self) -> Float64[Array, "rules"]:
        """Return rule counts: observed in trees, plus those expected in forests by their teacher."""
        own = self.corpus.rule_counts().astype(float)
        return sum((source.rule_counts(len(own)) for source in self.sources), own)

    def symbol_counts(self) -> Float64[Array, "symbols"]:
        """Return symbol counts, as in `rule_counts`."""
        own = self.corpus.symbol_counts().astype(float)
        return sum((source.symbol_counts(len(own)) for source in self.sources), own)

    def root_counts(self) -> Float64[Array, "symbols"]:
        """Return counts of root symbols, as in `rule_counts`."""
        own = self.corpus.root_counts().astype(float)
        return sum((source.root_counts(len(own)) for source in self.sources), own)

    @cached_property
    def pair_of_leaf(self) -> Int64[Array, "leaves"]:
        """Pair of preterminal and word of each leaf, in node order."""
        corpus, n_words = self.corpus, len(self.corpus.words)
        leaves = corpus.word >= 0
        found = corpus.symbol[leaves].astype(np.int64) * n_words + corpus.word[leaves]
        return np.searchsorted(self.word_symbol * n_words + self._word, found)

    def one_state(self) -> LatentWeights:
        """Return the PCFG of the trees and of the counts expected in forests."""
        corpus = self.corpus
        weights = LatentWeights(
            symbols=corpus.symbols,
            n_interminals=corpus.n_interminals,
            rules=corpus.rules,
            states=np.ones(len(corpus.symbols), np.int32),
            tensors=np.zeros(0),
            root=np.zeros(len(corpus.symbols)),
            lexical=np.zeros(0),
        )
        return self.m_step(weights, LatentCounts(self.rule_counts(), self._pair_counts, self.root_counts()))

    def expectations(self, weights: LatentWeights, *, dtype: DTypeLike = np.float32) -> Expectations:
        """Return expected counts (by words, not classes) and log-likelihoods, each source scaled by its weight."""
        table = weights.lexical[self._places(weights.states)]
        found = ((weight, estep.expectations(weights, lexical=table, dtype=dtype)) for weight, estep in self._esteps)
        _, total = next(found)
        for weight, other in found:
            total = total.plus(other, weight)
        return total

    def counts(self, weights: LatentWeights, expected: Expectations) -> LatentCounts:
        """Return expected counts with words summed by class."""
        return LatentCounts(expected.tensors, self.by_class(weights.states, expected.lexical), expected.root)

    def by_class(
        self, states: Int[Array, "symbols"], by_word: Float[Array, "word_weights"]
    ) -> Float64[Array, "class_weights"]:
        """Return a table of vectors by preterminal and word summed by class."""
        size = int(states[self.pair_symbol].sum())
        return np.bincount(self._places(states), weights=by_word, minlength=size)

    def m_step(
        self,
        weights: LatentWeights,
        counts: LatentCounts,
        *,
        smoothing: float = 0.0,
        lexical_smoothing: float = 0.0,
        smoothing_half_count: float = 0.0,
    ) -> LatentWeights:
        """Return the maximum-likelihood weights for the counts, smoothed towards the means of sibling states.

        Only the layout of `weights` is used. With `smoothing` s, each state's rules become `(1 - s)` times their own
        probabilities plus s times the mean over all states of the symbol (Petrov et al. 2006, section 2.4). With
        `smoothing_half_count` k, a state with a count of n has `s k / (k + n)` instead, which vanishes as counts grow.
        """
        totals = np.zeros(len(weights.root))
        tensors = np.empty(len(counts.tensors), np.float32)

        def scale(rules: tuple[int, int]) -> None:
            kernels.row_totals(weights, *rules, counts.tensors, totals)
            kernels.normalise_and_smooth(
                weights, *rules, counts.tensors, totals, smoothing, smoothing_half_count, _LEAST, tensors
            )

        runs_of_rules = _rule_runs(weights.tensor_offsets, weights.rules[:, 0])
        deque(Threads(self.workers.threads).map(scale, runs_of_rules), maxlen=0)
        lexical = self._normalise_words(weights, counts.lexical, lexical_smoothing, smoothing_half_count)
        return replace(weights, tensors=tensors, root=counts.root / counts.root.sum(), lexical=lexical)

    def split(
        self, weights: LatentWeights, splits: Int[Array, "symbols"], noise: float, rng: np.random.Generator
    ) -> LatentWeights:
        """Split each state of symbol `a` into `splits[a]` copies, `z` into `z k .. z k + k - 1`, with noise.

        A rule's weight is divided equally among its children's copies; weights of rules and words are multiplied by
        random numbers from `[1 - noise, 1 + noise]`, then states are normalised. Without noise the probabilities of
        trees are unchanged.
        """
        new = replace(weights, states=(weights.states * splits).astype(np.int32))
        symbol = new.symbol_of_state
        within = np.arange(len(symbol)) - new.state_offsets[symbol]
        origin, share = within // splits[symbol], 1.0 / splits[symbol]
        tensors = np.empty(int(new.tensor_offsets[-1]))
        for first, last in _rule_runs(new.tensor_offsets, np.arange(len(new.rules))):
            factors = _noise(int(new.tensor_offsets[last] - new.tensor_offsets[first]), noise, rng)
            kernels.split_tensors(weights, weights.tensors, new, first, last, origin, share, factors, tensors)
        sizes, state = self._states_of_pairs(new)
        old = np.repeat(offsets_of(weights.states[self.pair_symbol])[:-1], sizes) + origin[state]
        lexical = weights.lexical[old] * _noise(len(old), noise, rng)
        root = weights.root[weights.state_offsets[symbol] + origin] * share
        new = replace(new, root=root)
        return self.m_step(new, LatentCounts(tensors, lexical, root))

    def merge_losses(
        self, weights: LatentWeights, occupancy: Float[Array, "all_states"], twin: Bool[Array, "all_states"]
    ) -> Float64[Array, "all_states"]:
        """Return the approximate loss in log-likelihood from merging each state with the next one.

        It is the sum over nodes of the loss from merging there alone; `twin` marks the states to compute it for.
        """
        table = weights.lexical[self._places(weights.states)]
        losses = np.zeros(len(weights.root))
        for weight, estep in self._esteps:
            add = partial(_add_losses, weights.state_offsets, twin, occupancy, estep.certain, weight)
            losses = estep.fold(add, losses, weights, lexical=table)
        return losses

    def merge(
        self, weights: LatentWeights, counts: LatentCounts, new_state: Int[Array, "all_states"]
    ) -> tuple[LatentWeights, LatentCounts]:
        """Merge states: state `z` of its symbol becomes state `new_state[...]`.

        Returns the new layout (weights without values) and the counts in it.
        """
        symbol = weights.symbol_of_state
        states = np.zeros(len(weights.states), np.int32)
        np.maximum.at(states, symbol, (new_state + 1).astype(np.int32))
        new = replace(weights, states=states)
        tensors = np.zeros(int(new.tensor_offsets[-1]))
        kernels.merge_tensors(weights, counts.tensors, new, new_state, tensors)
        root = np.bincount(new.state_offsets[symbol] + new_state, weights=counts.root, minlength=int(states.sum()))
        sizes, state = self._states_of_pairs(weights)
        offsets = offsets_of(states[self.pair_symbol])
        target = np.repeat(offsets[:-1], sizes) + new_state[state]
        lexical = np.bincount(target, weights=counts.lexical, minlength=int(offsets[-1]))
        return replace(new, root=root), LatentCounts(tensors, lexical, root)

    def _places(self, states: np.ndarray) -> np.ndarray:
        """Return the position in a table by classes of each entry of a table by words."""
        return ranges(offsets_of(states[self.pair_symbol])[self._pair_of_word], states[self.word_symbol])

    def _states_of_pairs(self, weights: LatentWeights) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of states of each pair of preterminal and class, and all of their indices, concatenated."""
        sizes = weights.states[self.pair_symbol].astype(np.int64)
        return sizes, ranges(weights.state_offsets[self.pair_symbol], sizes)

    def _normalise_words(
        self, weights: LatentWeights, counts: np.ndarray, smoothing: float, smoothing_half_count: float
    ) -> np.ndarray:
        """Return class probabilities in each state; a state without words gets the mean of the others."""
        sizes, state = self._states_of_pairs(weights)
        totals = np.bincount(state, weights=counts, minlength=len(weights.root))
        probability = counts / np.where(totals > 0, totals, 1.0)[state]
        dead = totals[state] <= 0
        if smoothing or dead.any():
            alive = np.add.reduceat(totals > 0, weights.state_offsets[:-1], dtype=float)[self.pair_symbol]
            mean = np.repeat(np.add.reduceat(probability, offsets_of(sizes)[:-1]) / np.maximum(alive, 1), sizes)
            amount = smoothing * (
                smoothing_half_count / (smoothing_half_count + totals[state]) if smoothing_half_count else 1.0
            )
            probability = np.where(dead, mean, (1 - amount) * probability + amount * mean)
        return np.where(probability >= _LEAST, probability, 0.0)


def _add_losses(
    state_offsets: np.ndarray,
    twin: np.ndarray,
    occupancy: np.ndarray,
    certain: bool,
    weight: float,
    losses: np.ndarray,
    symbol: np.ndarray,
    vectors: NodeVectors,
) -> np.ndarray:
    """Return the losses with those of the nodes of a shard added."""
    losses = losses.copy()
    kernels.merge_losses(
        symbol, state_offsets, twin, occupancy, vectors.offsets, vectors.inside, vectors.outside, certain, weight,
        losses,
    )  # fmt: skip
    return losses


def ranges(begins: Int[Array, "runs"], sizes: Int[Array, "runs"]) -> Int64[Array, "numbers"]:
    """Return ranges of consecutive integers, concatenated: `sizes[i]` of them from `begins[i]` on."""
    return np.repeat(begins - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))


def nodes_by_rule(corpus: Corpus) -> list[Int64[Array, "nodes_of_rule"]]:
    """Return the nodes of each rule, in order."""
    order = np.argsort(corpus.rule, kind="stable")
    bounds = np.searchsorted(corpus.rule[order], np.arange(len(corpus.rules) + 1))
    return [order[first:last] for first, last in pairwise(bounds)]


def _rule_runs(offsets: np.ndarray, parent: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut rules into ranges of about `_RUN` weights, never between rules of one parent."""
    ends = np.searchsorted(offsets, np.arange(_RUN, int(offsets[-1]), _RUN))
    return pairwise(np.unique([0, *np.searchsorted(parent, parent[ends - 1], side="right"), len(parent)]).tolist())


def _noise(size: int, amount: float, rng: np.random.Generator) -> np.ndarray:
    return 1 + amount * (2 * rng.random(size) - 1)
