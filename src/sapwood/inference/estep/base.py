"""E-step of EM over observed trees or forests: likelihoods and expected counts.

Observations are split into shards, whose number depends on the data alone, and distributed to workers. Results are
added in the order of the shards (of many shards, in sums of `SUM_BLOCK` at a time), so they are bit-identical for any
number of workers (`_backends`). A pass that would take less time than its communication runs locally. Vectors are kept
only while their shard is being processed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, repeat
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.inference.estep import _shard_estep as _passes
from sapwood.inference.estep._backends import LocalShards, RemoteShards, ShardBackend, ShardSpec
from sapwood.inference.estep._shard_estep import NodeVectors, Weights
from sapwood.runtime.executor import LOCAL, Executor, Threads
from sapwood.storage.shapes import Array, Float, Float64, Int, Int32, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import SymbolTable

# Approximate number of nodes in a shard: its vectors should fit into a core's cache, its rules should recur.
_SHARD_NODES = 1 << 16
# Seconds of one core per product, weight and vector entry of a pass (see docs/performance.md).
_PRODUCT, _WEIGHT, _NUMBER = 0.12e-9, 9e-9, 40e-9
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class InsidePass:
    """Result of the inside pass.

    Attributes
    ----------
    log_likelihoods
        Natural logarithm of each tree's probability; -inf if it is impossible, NaN if a real-valued grammar gives it a
        negative weight.
    vectors
        Inside vectors by shard, if requested.
    """

    log_likelihoods: Float64[Array, "trees"]
    vectors: tuple[NodeVectors, ...] = ()

    @property
    def log_likelihood(self) -> float:
        """Sum over all trees."""
        return float(self.log_likelihoods.sum())


@dataclass(frozen=True, eq=False)
class Expectations:
    """Expected counts given the trees; trees without a probability do not count.

    Attributes
    ----------
    tensors
        `(m_a, m_b, m_c)` for each rule, laid out as the grammar's `tensors`: expected count of each combination of
        states. The sum of a rule is its count in the corpus.
    lexical, lexical_offsets
        States of the leaves with pair `p` of preterminal and word:
        `lexical[lexical_offsets[p]:lexical_offsets[p + 1]]`; pairs are those of `EStep`.
    root, occupancy
        Expected count of each state at a root, and anywhere.
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

    def plus(self, other: Expectations, weight: float) -> Expectations:
        """Return the sum of these counts and `weight` times others over the same rules and pairs.

        The other's log-likelihoods, times `weight`, are appended to these. Both operands are consumed.
        """
        np.multiply(other.tensors, weight, out=other.tensors)  # in place: these are the largest arrays
        np.add(self.tensors, other.tensors, out=self.tensors)
        small = {name: getattr(self, name) + weight * getattr(other, name) for name in ("lexical", "root", "occupancy")}
        logs = np.concatenate([self.log_likelihoods, weight * other.log_likelihoods])
        return replace(self, **small, log_likelihoods=logs)


class TreeWeights(Protocol):
    """Part of a grammar that the E-step needs; a `TensorGrammar` has it."""

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


class Pairs(NamedTuple):
    """Distinct pairs of preterminal and word at the leaves, as corpus indices, sorted."""

    symbol: Int[Array, "pairs"]
    word: Int[Array, "pairs"]


class EStep(ABC):
    """E-step over trees or forests, with any grammar that has their symbols and rules.

    Parameters
    ----------
    corpus
        Corpus that defines the symbols, rules and words.
    pairs
        The pairs of preterminal and word at the leaves.
    rule_counts, symbol_counts
        Amount of work for each rule, and for each symbol.
    workers
        Executor of the shards.

    Attributes
    ----------
    n_shards
        Number of parts that are processed independently.
    pair_symbol, pair_word
        The pairs.
    certain
        True if a node is certain, so that the posteriors of its states sum to one.
    """

    certain: ClassVar[bool]
    n_shards: int

    def __init__(
        self,
        corpus: Corpus,
        pairs: Pairs,
        rule_counts: Int[Array, "rules"],
        symbol_counts: Int[Array, "symbols"],
        workers: Executor = LOCAL,
    ) -> None:
        self.corpus, self.workers = corpus, workers
        self.pair_symbol, self.pair_word = pairs
        self._rule_counts, self._symbol_counts = rule_counts, symbol_counts

    def _cut(self, offsets: np.ndarray, shards: int | None) -> list[tuple[int, int]]:
        """Split trees or sentences into shards, given their node offsets; return each shard's (begin, end)."""
        n_nodes = int(offsets[-1])
        if shards is None:
            shards = max(-(-n_nodes // _SHARD_NODES), 1)
        if shards < 1:
            raise UsageError(f"shards must be at least 1, not {shards}")
        # Trees go to the shard that has their first node.
        ends = np.searchsorted(offsets[:-1], np.arange(1, shards) * (n_nodes / shards))
        return list(pairwise(np.unique([0, *ends, len(offsets) - 1]).tolist()))

    @property
    @abstractmethod
    def _shard_spec(self) -> ShardSpec:
        """Specification of the shards."""

    @cached_property
    def _here(self) -> LocalShards:
        return LocalShards(self._shard_spec, self.workers if self.workers.is_local else Threads(self.workers.threads))

    @cached_property
    def _there(self) -> RemoteShards:
        return RemoteShards(self._shard_spec, self.workers)

    def _place(self, weights: Weights) -> ShardBackend:
        """Return the backend for a pass with these weights."""
        sizes = np.diff(weights.tensor_offsets)
        seconds = pass_seconds(sizes @ self._rule_counts, sizes.sum(), weights.states @ self._symbol_counts)
        calls = 2 * min(self.workers.count, self.n_shards)
        return self._here if self.workers.if_worthwhile(float(seconds), calls).is_local else self._there

    def _lexical_table(self, grammar: TreeWeights) -> np.ndarray:
        """Return the lexical vectors of all pairs under a grammar's own lexicon."""
        del grammar
        raise UsageError("these weights do not include words: give a table of lexical vectors")

    def lexical_offsets(self, grammar: TreeWeights) -> Int64[Array, "pair_bounds"]:
        """Return the offset of each pair's vector in tables of lexical vectors, and the total size."""
        return offsets_of(grammar.states[self.pair_symbol])

    def inside(
        self,
        grammar: TreeWeights,
        *,
        lexical: Float[Array, "lexical_entries"] | None = None,
        dtype: DTypeLike = np.float32,
        keep: bool = False,
    ) -> InsidePass:
        """Return the log-likelihoods of the trees and, if `keep`, all inside vectors.

        Parameters
        ----------
        grammar
            Any grammar with the corpus' symbols and rules.
        lexical
            Lexical vectors of all pairs, concatenated; by default `lexical_table(grammar, corpus)`.
        dtype
            Precision of the vectors: float32 or float64. In float32 a state is lost if its inside weight is less than
            1e-38 times that of the best state of the node.
        keep
            Return the vectors.
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
        """Fold `step` over the shards in order, each where the shard is stored.

        A step takes the previous result, which it may not modify, and the symbols, inside and outside vectors of the
        shard's nodes; other arguments as in `inside`.
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
            lexical = self._lexical_table(grammar)
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
    """Estimate the seconds that a pass takes on one core.

    Parameters
    ----------
    products
        The sum of `m_a m_b m_c` over nodes.
    weights
        The same sum over rules.
    numbers
        Number of entries in the vectors of all nodes.
    """
    return _PRODUCT * products + _WEIGHT * weights + _NUMBER * numbers
