"""Inside-outside on observed trees: likelihoods and expected counts of a whole corpus, the E-step of EM.

A treebank says which rule stands at each node and only the states are hidden, so each tree is one pass up (figures 2
and 4 of the long paper) and one down. Per inner node of rule `a -> b c` the work is three products with the tensor
`(m_a, m_b, m_c)`: inside, outside and the sum of posteriors; nodes of the same rule and height are done together.

The trees are cut into shards, whose number depends on the corpus alone, and placed with workers. Their results are
added in the order of the shards (of many shards, sums of `TOGETHER` at a time), so they are the same to the last bit
however many workers there are (`_places`). A pass that takes less time than sending it would is done here, whoever the
workers are. Vectors live as long as their shard is worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, repeat
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from sapwood import kernels
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import _passes
from sapwood.inference._passes import NodeVectors as NodeVectors  # for others as well
from sapwood.inference._passes import Weights
from sapwood.inference._places import Here, Place, Recipe, There
from sapwood.run.workers import HERE, Threads, Workers
from sapwood.shapes import Array, Float, Float64, Int, Int32, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import SymbolTable

# Nodes of a shard, about: its vectors should fit into a core's cache, its rules should occur more than once.
_SHARD_NODES = 1 << 16
# Seconds of one core in a pass, for each product, weight and number (see docs/performance.md).
_PRODUCT, _WEIGHT, _NUMBER = 0.12e-9, 9e-9, 40e-9
# What shards are made from, beside the height of each node.
_COLUMNS = ("symbol", "rule", "left", "right", "word", "parent")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class InsidePass:
    """What the way up gives.

    Attributes
    ----------
    log_likelihoods
        Natural logarithm of each tree's probability; -inf if it is impossible, NaN if a real-valued grammar gives it a
        negative weight.
    vectors
        Inside vectors by shard, if they were to be kept.
    """

    log_likelihoods: Float64[Array, "trees"]
    vectors: tuple[NodeVectors, ...] = ()

    @property
    def log_likelihood(self) -> float:
        """Sum over all trees."""
        return float(self.log_likelihoods.sum())


@dataclass(frozen=True, eq=False)
class Expectations:
    """Expected counts given the trees; trees without probability count nowhere.

    Attributes
    ----------
    tensors
        `(m_a, m_b, m_c)` for each rule, laid out as the grammar's `tensors`: how often each combination of states
        is expected. A rule's sum is its count in the corpus.
    lexical, lexical_offsets
        The states of the leaves with pair `p` of preterminal and word:
        `lexical[lexical_offsets[p]:lexical_offsets[p + 1]]`; pairs are those of `ObservedTrees`.
    root, occupancy
        How often each state is expected at a root, and anywhere.
    log_likelihoods
        As in `InsidePass`.
    """

    tensors: Float64[Array, "entries"]
    lexical: Float64[Array, "lexical_entries"]
    lexical_offsets: Int64[Array, "pair_bounds"]
    root: Float64[Array, "all_states"]
    occupancy: Float64[Array, "all_states"]
    log_likelihoods: Float64[Array, "trees"]

    @property
    def log_likelihood(self) -> float:
        """Sum over all trees."""
        return float(self.log_likelihoods.sum())


class TreeWeights(Protocol):
    """What a pass over observed trees needs of a grammar; a `TensorGrammar` has it."""

    @property
    def symbols(self) -> SymbolTable: ...  # noqa: D102
    @property
    def n_interminals(self) -> int: ...  # noqa: D102
    @property
    def states(self) -> Int[Array, "symbols"]: ...  # noqa: D102
    @property
    def rules(self) -> Int[Array, "rules 3"]: ...  # noqa: D102
    @property
    def tensors(self) -> Float[Array, "entries"]: ...  # noqa: D102
    @property
    def root(self) -> Float[Array, "all_states"]: ...  # noqa: D102
    @property
    def state_offsets(self) -> Int64[Array, "symbols+1"]: ...  # noqa: D102
    @property
    def tensor_offsets(self) -> Int64[Array, "rules+1"]: ...  # noqa: D102


class ObservedTrees:
    """A corpus prepared for passes with any grammar that has its symbols and rules, whatever the states.

    Parameters
    ----------
    corpus
        The trees.
    shards
        Into how many parts to cut them; by default a number that follows from the number of nodes. Results depend
        on it in the last bits.
    workers
        Where the trees are worked on, part by part.

    Attributes
    ----------
    n_shards
        Number of parts that are worked on independently.
    pair_symbol, pair_word
        The distinct pairs of preterminal and word at the leaves, as corpus numbers, sorted.

    Examples
    --------
    >>> from sapwood.learn.pcfg import PCFG
    >>> from sapwood.trees import Tree
    >>> corpus = Corpus.from_trees([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 3)
    >>> ObservedTrees(corpus).expectations(PCFG().fit(corpus), dtype=np.float64).tensors
    array([3.])
    """

    def __init__(self, corpus: Corpus, *, shards: int | None = None, workers: Workers = HERE) -> None:
        if shards is None:
            shards = -(-corpus.n_nodes // _SHARD_NODES)
        if shards < 1:
            raise UsageError(f"shards must be at least 1, not {shards}")
        self.corpus, self.workers = corpus, workers
        self.pair_symbol, self.pair_word, _ = corpus.lexical_counts()
        self._rule_counts = corpus.rule_counts()
        # Trees go to the shard in which their first node falls.
        ends = np.searchsorted(corpus.offsets[:-1], np.arange(1, shards) * (corpus.n_nodes / shards))
        self._spans = list(pairwise(corpus.offsets[np.unique([0, *ends, corpus.n_trees])].tolist()))
        self.n_shards = len(self._spans)

    @cached_property
    def _recipe(self) -> Recipe:
        corpus = self.corpus
        height = np.empty(corpus.n_nodes, np.int32)
        kernels.node_heights(corpus.left, corpus.right, height)
        columns = {name: getattr(corpus, name) for name in _COLUMNS} | {"height": height}
        keys = self.pair_symbol * len(corpus.words) + self.pair_word
        return Recipe(columns, self._spans, keys, len(corpus.words), self._rule_counts)

    @cached_property
    def _here(self) -> Here:
        return Here(self._recipe, self.workers if self.workers.near else Threads(self.workers.threads))

    @cached_property
    def _there(self) -> There:
        return There(self._recipe, self.workers)

    def _place(self, weights: Weights) -> Place:
        """Return where a pass with these weights is done."""
        sizes = np.diff(weights.tensor_offsets)
        seconds = pass_seconds(sizes @ self._rule_counts, sizes.sum(), weights.states @ self.corpus.symbol_counts())
        calls = 2 * min(self.workers.count, self.n_shards)
        return self._here if self.workers.suited(float(seconds), calls).near else self._there

    def lexical_offsets(self, grammar: TreeWeights) -> Int64[Array, "pair_bounds"]:
        """Return where each pair's vector begins in tables of lexical vectors, and where the last one ends."""
        return offsets_of(grammar.states[self.pair_symbol])

    def inside(
        self,
        grammar: TreeWeights,
        *,
        lexical: Float[Array, "lexical_entries"] | None = None,
        dtype: DTypeLike = np.float32,
        keep: bool = False,
    ) -> InsidePass:
        """Return the trees' likelihoods and, to `keep` them, all inside vectors.

        Parameters
        ----------
        grammar
            Any grammar with the corpus' symbols and rules.
        lexical
            Lexical vectors of all pairs, one after another; by default `lexical_table(grammar, corpus)`.
        dtype
            Precision of the vectors: float32 or float64. In float32 a state is lost whose inside weight is less than
            1e-38 times that of the best state of the node.
        keep
            Whether to return the vectors.
        """
        weights = self._weights(grammar, lexical, dtype)
        log_likelihoods, vectors = [], []
        for found, theirs in self._place(weights).run(_passes.inside, weights, repeat(keep)):
            log_likelihoods.append(found)
            if theirs is not None:
                vectors.append(theirs)
        return InsidePass(np.concatenate(log_likelihoods), tuple(vectors))

    def inside_outside(
        self,
        grammar: TreeWeights,
        *,
        lexical: Float[Array, "lexical_entries"] | None = None,
        dtype: DTypeLike = np.float32,
    ) -> Iterator[NodeVectors]:
        """Yield inside and outside vectors of all nodes, shard by shard; arguments as in `inside`."""
        weights = self._weights(grammar, lexical, dtype)
        return (vectors for _, vectors in self._place(weights).run(_passes.inside_outside, weights))

    def fold(
        self,
        step: Callable[[T, Int32[Array, "nodes"], NodeVectors], T],
        start: T,
        grammar: TreeWeights,
        *,
        lexical: Float[Array, "lexical_entries"] | None = None,
        dtype: DTypeLike = np.float32,
    ) -> T:
        """Return what steps lead to from a start, one for each shard in order, where the shard is.

        A step is handed what the one before returned, which it may not change, and the symbols, inside and outside
        vectors of the shard's nodes; other arguments as in `inside`.
        """
        weights = self._weights(grammar, lexical, dtype)
        return self._place(weights).fold(step, start, weights)

    def expectations(
        self,
        grammar: TreeWeights,
        *,
        lexical: Float[Array, "lexical_entries"] | None = None,
        dtype: DTypeLike = np.float32,
    ) -> Expectations:
        """Return expected counts and likelihoods; arguments as in `inside`. Sums are taken in float64."""
        weights = self._weights(grammar, lexical, dtype)
        tensors, counts = self._place(weights).expected(weights)
        return Expectations(
            tensors, counts.lexical, weights.lexical_offsets, counts.root, counts.occupancy,
            np.concatenate(counts.log_likelihoods),
        )  # fmt: skip

    def _weights(self, grammar: TreeWeights, lexical: np.ndarray | None, dtype: DTypeLike) -> Weights:
        if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise UsageError(f"vectors are float32 or float64, not {np.dtype(dtype)}")
        corpus = self.corpus
        if grammar.symbols != corpus.symbols or grammar.n_interminals != corpus.n_interminals:
            raise GrammarError("the grammar's symbols are not those of the corpus: train it on this corpus")
        if not np.array_equal(grammar.rules, corpus.rules):
            raise GrammarError("the grammar's rules are not those of the corpus: train it on this corpus")
        offsets = self.lexical_offsets(grammar)
        if lexical is None:
            if not isinstance(grammar, TensorGrammar):
                raise UsageError("these weights say nothing of words: give a table of lexical vectors")
            lexical = lexical_table(grammar, corpus)
        if lexical.shape != (offsets[-1],):
            raise UsageError(f"the table of lexical vectors has shape {lexical.shape}, not ({offsets[-1]},)")
        # Scaled here, in double precision: probabilities of rare words are small.
        _, exponent = np.frexp(np.maximum.reduceat(np.abs(lexical), offsets[:-1]))
        exponent = np.maximum(exponent, -1022)
        scaled = np.ldexp(lexical, -np.repeat(exponent, np.diff(offsets)))
        return Weights(
            states=grammar.states,
            rules=np.ascontiguousarray(grammar.rules, np.int32),
            state_offsets=grammar.state_offsets,
            tensor_offsets=grammar.tensor_offsets,
            tensors=np.ascontiguousarray(grammar.tensors, dtype),
            root=np.ascontiguousarray(grammar.root, np.float64),
            lexical_offsets=offsets,
            lexical=scaled.astype(dtype),
            lexical_exponent=exponent.astype(np.int32),
        )


def pass_seconds(products: float, weights: float, numbers: float) -> float:
    """Return how long a pass takes on one core, about.

    Parameters
    ----------
    products
        The sum of `m_a m_b m_c` over nodes.
    weights
        The same sum over rules.
    numbers
        In the vectors of all nodes.
    """
    return _PRODUCT * products + _WEIGHT * weights + _NUMBER * numbers


def lexical_table(grammar: TensorGrammar, corpus: Corpus) -> Float64[Array, "lexical_entries"]:
    """Return `q(a -> x)` for all pairs of preterminal and word at the corpus' leaves, one after another.

    Words are looked up as they are in the middle of a sentence, which makes a difference for unknown ones only.
    """
    symbol, word, _ = corpus.lexical_counts()
    offsets = offsets_of(grammar.states[symbol])
    row_offsets = grammar.emissions.state_offsets
    table = np.empty(offsets[-1])
    order = np.argsort(word, kind="stable")
    known, row = -1, np.zeros(0)
    for pair in order.tolist():
        if word[pair] != known:
            known = word[pair]
            row = grammar.emissions.row(grammar.lexicon.terminal(corpus.words[known], False))
        preterminal = symbol[pair] - grammar.n_interminals
        table[offsets[pair] : offsets[pair + 1]] = row[row_offsets[preterminal] : row_offsets[preterminal + 1]]
    return table


class HeldOutTrees(NamedTuple):
    """What a grammar makes of other trees.

    Attributes
    ----------
    log_likelihood
        Per word, over the trees that have a probability.
    built
        How many trees the grammar has the rules for.
    negative
        How many of these have none: a real-valued grammar gives them a weight that is not positive.
    """

    log_likelihood: float
    built: int
    negative: int


def held_out_trees(grammar: TensorGrammar, corpus: Corpus, *, workers: Workers = HERE) -> HeldOutTrees:
    """Return how probable a grammar makes other trees, those that it cannot build left out."""
    known, _ = corpus.renumbered(grammar.symbols, grammar.n_interminals, grammar.rules)
    logs = ObservedTrees(known, workers=workers).inside(grammar).log_likelihoods
    possible = np.isfinite(logs)
    leaves = np.add.reduceat(known.word >= 0, known.offsets[:-1], dtype=np.int64)
    mean = float(logs[possible].sum() / max(leaves[possible].sum(), 1))
    return HeldOutTrees(mean, len(logs), int(np.isnan(logs).sum()))


def held_out_log_likelihood(grammar: TensorGrammar, corpus: Corpus, *, workers: Workers = HERE) -> float:
    """Return the log-likelihood per word of other trees, those without a probability left out."""
    return held_out_trees(grammar, corpus, workers=workers).log_likelihood
