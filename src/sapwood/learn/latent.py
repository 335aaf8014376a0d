"""What learners with hidden states and observed trees share: weights, expected counts, and the steps between them.

Only states are hidden, so an L-PCFG over a corpus is a tensor for each of its rules, a vector for each root symbol and
one for each pair of preterminal and *word class*. A frequent word is a class of its own; rare words of one signature
are one class, for their own few occurrences say little about states. Given the class, which word it is depends on the
preterminal alone, so it adds a constant to the log-likelihood and the M-step stays exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from sapwood.grammar.emissions import offsets_of
from sapwood.inference.observed import Expectations, NodeVectors, ObservedTrees
from sapwood.learn import _latent_kernels as kernels
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import SymbolTable

# Smaller weights are taken for zero (see `scale_rows`).
_LEAST = 1e-25


@dataclass(frozen=True, eq=False)
class LatentWeights:
    """An L-PCFG over the rules and word classes of a corpus.

    Attributes
    ----------
    symbols, n_interminals, rules
        Those of the corpus.
    states
        `(symbols,)` int32.
    tensors
        Rule tensors, laid out as in `TensorGrammar`, float32.
    root
        `(sum of states,)`.
    lexical
        `q(a -> class)` for each pair of preterminal and class, one vector behind the other.
    """

    symbols: SymbolTable
    n_interminals: int
    rules: np.ndarray
    states: np.ndarray
    tensors: np.ndarray
    root: np.ndarray
    lexical: np.ndarray

    @cached_property
    def state_offsets(self) -> np.ndarray:
        """`(symbols + 1,)`: where each symbol's states begin in `root`."""
        return offsets_of(self.states)

    @cached_property
    def symbol_of_state(self) -> np.ndarray:
        """`(sum of states,)`: the symbol of each state."""
        return np.repeat(np.arange(len(self.states)), self.states)

    @cached_property
    def sizes(self) -> np.ndarray:
        """`(rules, 3)`: the shapes of the tensors."""
        return self.states[self.rules].astype(np.int64)

    @cached_property
    def tensor_offsets(self) -> np.ndarray:
        """`(rules + 1,)`: where each rule's tensor begins."""
        return offsets_of(self.sizes.prod(axis=1))


@dataclass(frozen=True, eq=False)
class LatentCounts:
    """Counts in the layout of `LatentWeights`: rule tensors, pairs of preterminal and class, roots."""

    tensors: np.ndarray
    lexical: np.ndarray
    root: np.ndarray


class LatentTrees:
    """A corpus prepared for learning hidden states.

    Parameters
    ----------
    corpus
        The trees.
    word_class
        `(words,)`: the class of each word of the corpus.

    Attributes
    ----------
    observed
        The trees prepared for inside-outside.
    pair_symbol
        `(pairs,)`: the preterminal of each pair of preterminal and class.
    """

    def __init__(self, corpus: Corpus, word_class: np.ndarray) -> None:
        self.corpus = corpus
        self.observed = ObservedTrees(corpus)
        symbol, word, counts = corpus.lexical_counts()
        n_classes = int(word_class.max()) + 1
        keys, self._pair_of_word = np.unique(symbol * n_classes + word_class[word], return_inverse=True)
        self.pair_symbol = (keys // n_classes).astype(np.int32)
        self._pair_counts = np.bincount(self._pair_of_word, weights=counts)

    def one_state(self) -> LatentWeights:
        """Return the treebank PCFG."""
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
        counts = LatentCounts(corpus.rule_counts().astype(float), self._pair_counts, corpus.root_counts().astype(float))
        return self.maximise(weights, counts)

    def expectations(
        self,
        weights: LatentWeights,
        *,
        dtype: DTypeLike = np.float32,
        threads: int = 1,
        executor: Executor | None = None,
    ) -> Expectations:
        """Return expected counts (of words, not classes) and likelihoods."""
        table = weights.lexical[self._places(weights.states)]
        return self.observed.expectations(weights, lexical=table, dtype=dtype, threads=threads, executor=executor)

    def vectors(
        self, weights: LatentWeights, *, threads: int = 1, executor: Executor | None = None
    ) -> Iterator[NodeVectors]:
        """Yield inside and outside vectors, shard by shard."""
        table = weights.lexical[self._places(weights.states)]
        return self.observed.inside_outside(weights, lexical=table, threads=threads, executor=executor)

    def counts(self, weights: LatentWeights, expected: Expectations) -> LatentCounts:
        """Return expected counts with those of words summed by class."""
        return LatentCounts(expected.tensors, self.by_class(weights.states, expected.lexical), expected.root)

    def by_class(self, states: np.ndarray, by_word: np.ndarray) -> np.ndarray:
        """Return a table of vectors by preterminal and word (as in `observed`) summed by class."""
        size = int(states[self.pair_symbol].sum())
        return np.bincount(self._places(states), weights=by_word, minlength=size)

    def maximise(
        self, weights: LatentWeights, counts: LatentCounts, *, smoothing: float = 0.0, lexical_smoothing: float = 0.0
    ) -> LatentWeights:
        """Return the weights that make the counts most probable, drawn towards the means of sibling states.

        Only the layout of `weights` matters. With `smoothing` s each state's rules become `(1 - s)` of their own
        probabilities and s of the mean over all states of the symbol (Petrov et al. 2006, section 2.4).
        """
        parents = weights.state_offsets[weights.rules[:, 0]]
        totals = np.zeros(len(weights.root))
        kernels.row_totals(weights.sizes, parents, weights.tensor_offsets, counts.tensors, totals)
        tensors = np.empty(len(counts.tensors), np.float32)
        room = np.empty(int(weights.states.max()) ** 2)
        kernels.scale_rows(
            weights.sizes, parents, weights.tensor_offsets, counts.tensors, totals, smoothing, _LEAST, room, tensors
        )
        lexical = self._normalise_words(weights, counts.lexical, lexical_smoothing)
        return replace(weights, tensors=tensors, root=counts.root / counts.root.sum(), lexical=lexical)

    def split(
        self, weights: LatentWeights, splits: np.ndarray, noise: float, rng: np.random.Generator
    ) -> LatentWeights:
        """Divide each state of symbol `a` into `splits[a]` copies, `z` into `z k .. z k + k - 1`, with some noise.

        A rule's weight is divided equally among its children's copies; weights of rules and words are multiplied by
        random numbers from `[1 - noise, 1 + noise]`, then states are normalised. Without noise no tree changes its
        probability.
        """
        new = replace(weights, states=(weights.states * splits).astype(np.int32))
        symbol = new.symbol_of_state
        within = np.arange(len(symbol)) - new.state_offsets[symbol]
        origin, share = within // splits[symbol], 1.0 / splits[symbol]
        factors = _noise(int(new.tensor_offsets[-1]), noise, rng)
        tensors = np.empty(len(factors))
        kernels.split_tensors(
            new.rules, new.state_offsets, origin, share, weights.sizes, weights.tensor_offsets, weights.tensors,
            new.sizes, new.tensor_offsets, factors, tensors,
        )  # fmt: skip
        sizes = new.states[self.pair_symbol].astype(np.int64)
        begins = offsets_of(sizes)
        position = np.repeat(new.state_offsets[self.pair_symbol] - begins[:-1], sizes) + np.arange(int(begins[-1]))
        old = np.repeat(offsets_of(weights.states[self.pair_symbol])[:-1], sizes) + origin[position]
        lexical = weights.lexical[old] * _noise(len(old), noise, rng)
        root = weights.root[weights.state_offsets[symbol] + origin] * share
        new = replace(new, root=root)
        return self.maximise(new, LatentCounts(tensors, lexical, root))

    def merge_losses(
        self,
        weights: LatentWeights,
        occupancy: np.ndarray,
        twin: np.ndarray,
        *,
        threads: int = 1,
        executor: Executor | None = None,
    ) -> np.ndarray:
        """Return `(sum of states,)`: the log-likelihood that merging each state with the next one would cost, about.

        That is the sum over nodes of what merging there alone would cost; `twin` says for which states it is wanted.
        """
        losses = np.zeros(len(weights.root))
        for shard in self.vectors(weights, threads=threads, executor=executor):
            kernels.merge_losses(
                self.corpus.symbol[shard.nodes], weights.state_offsets, twin, occupancy, shard.offsets,
                shard.inside, shard.outside, losses,
            )  # fmt: skip
        return losses

    def merge(
        self, weights: LatentWeights, counts: LatentCounts, new_state: np.ndarray
    ) -> tuple[LatentWeights, LatentCounts]:
        """Put states together: state number `z` of its symbol becomes number `new_state[...]`.

        Returns the new layout (weights without values) and the counts in it.
        """
        symbol = weights.symbol_of_state
        states = np.zeros(len(weights.states), np.int32)
        np.maximum.at(states, symbol, (new_state + 1).astype(np.int32))
        new = replace(weights, states=states)
        tensors = np.zeros(int(new.tensor_offsets[-1]))
        kernels.merge_tensors(
            weights.rules, weights.state_offsets, new_state, weights.sizes, weights.tensor_offsets, counts.tensors,
            new.sizes, new.tensor_offsets, tensors,
        )  # fmt: skip
        root = np.bincount(new.state_offsets[symbol] + new_state, weights=counts.root, minlength=int(states.sum()))
        sizes = weights.states[self.pair_symbol].astype(np.int64)
        begins = offsets_of(sizes)
        position = np.repeat(weights.state_offsets[self.pair_symbol] - begins[:-1], sizes) + np.arange(int(begins[-1]))
        offsets = offsets_of(states[self.pair_symbol])
        target = np.repeat(offsets[:-1], sizes) + new_state[position]
        lexical = np.bincount(target, weights=counts.lexical, minlength=int(offsets[-1]))
        return replace(new, root=root), LatentCounts(tensors, lexical, root)

    def _places(self, states: np.ndarray) -> np.ndarray:
        """Return where each number of a table by words is in a table by classes."""
        sizes = states[self.observed.pair_symbol].astype(np.int64)
        begins = offsets_of(states[self.pair_symbol])[self._pair_of_word]
        return np.repeat(begins - offsets_of(sizes)[:-1], sizes) + np.arange(int(sizes.sum()))

    def _normalise_words(self, weights: LatentWeights, counts: np.ndarray, smoothing: float) -> np.ndarray:
        """Return the classes' probabilities in each state; a state without words is like the mean of the others."""
        sizes = weights.states[self.pair_symbol].astype(np.int64)
        begins = offsets_of(sizes)
        state = np.repeat(weights.state_offsets[self.pair_symbol] - begins[:-1], sizes) + np.arange(int(begins[-1]))
        totals = np.bincount(state, weights=counts, minlength=len(weights.root))
        probability = counts / np.where(totals > 0, totals, 1.0)[state]
        dead = totals[state] <= 0
        if smoothing or dead.any():
            alive = np.add.reduceat(totals > 0, weights.state_offsets[:-1], dtype=float)[self.pair_symbol]
            mean = np.repeat(np.add.reduceat(probability, begins[:-1]) / np.maximum(alive, 1), sizes)
            probability = np.where(dead, mean, (1 - smoothing) * probability + smoothing * mean)
        return np.where(probability >= _LEAST, probability, 0.0)


def _noise(size: int, amount: float, rng: np.random.Generator) -> np.ndarray:
    return 1 + amount * (2 * rng.random(size) - 1)
