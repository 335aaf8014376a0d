"""Inside-outside on observed trees: likelihoods and expected counts of a whole corpus, the E-step of EM.

A treebank says which rule stands at each node and only the states are hidden, so each tree is one pass up (figures 2
and 4 of the long paper) and one down. Per inner node of rule `a -> b c` the work is three products with the tensor
`(m_a, m_b, m_c)`: inside, outside and the sum of posteriors; nodes of the same rule and height are done together.

The trees are cut into shards, whose number depends on the corpus alone. Shards run on any executor; their results are
added in the order of the shards, so they are the same to the last bit however many workers there are. Vectors live as
long as their shard is worked on. For expected counts those of several shards are held, a bounded amount: then rules
are shared out among threads, each of which adds to its own rules' part of the one table of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from sapwood import kernels
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference._shards import Shard, prepare
from sapwood.run.parallel import map_in_order
from sapwood.shapes import Array, Float, Float64, Int, Int32, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import SymbolTable

# Nodes of a shard, about: its vectors should fit into a core's cache, its rules should occur more than once.
_SHARD_NODES = 1 << 16
# Numbers in the vectors that are held for expected counts, at most, if one shard does not have more.
_HELD = 1 << 25
# Parts into which rules are cut for each thread, so that all are done at about the same time.
_PARTS = 8
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class NodeVectors:
    """Inside and outside vectors of the trees of one shard.

    Attributes
    ----------
    nodes
        The corpus' node numbers; the arrays below are in this order.
    offsets
        Where each node's vector begins.
    inside, exponent
        The inside vector of node `v` is `inside[offsets[v]:offsets[v + 1]] * 2 ** exponent[v]`.
    outside
        Outside vectors, each up to a positive factor; empty if only inside vectors were asked for. Inside
        times outside divided by its sum is the posterior of the node's states.
    """

    nodes: Int[Array, "nodes"]
    offsets: Int64[Array, "nodes+1"]
    inside: Float[Array, "inside"]
    exponent: Int32[Array, "nodes"]
    outside: Float[Array, "outside"]


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


@dataclass(frozen=True, eq=False)
class _Weights:
    """A grammar's weights as the kernels want them."""

    states: np.ndarray
    rules: np.ndarray
    state_offsets: np.ndarray
    tensor_offsets: np.ndarray
    tensors: np.ndarray
    root: np.ndarray
    lexical_offsets: np.ndarray
    lexical: np.ndarray
    lexical_exponent: np.ndarray


@dataclass(frozen=True, eq=False)
class _ShardExpectations:
    """What is expected in one shard; `slots` says where the pairs of the shard begin in `lexical`."""

    vectors: NodeVectors
    lexical: np.ndarray
    slots: np.ndarray
    root: np.ndarray
    occupancy: np.ndarray
    log_likelihoods: np.ndarray


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

    Attributes
    ----------
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

    def __init__(self, corpus: Corpus, *, shards: int | None = None) -> None:
        if shards is None:
            shards = -(-corpus.n_nodes // _SHARD_NODES)
        if shards < 1:
            raise UsageError(f"shards must be at least 1, not {shards}")
        self.corpus = corpus
        self.pair_symbol, self.pair_word, _ = corpus.lexical_counts()
        self._rule_counts = corpus.rule_counts()
        height = np.empty(corpus.n_nodes, np.int32)
        kernels.node_heights(corpus.left, corpus.right, height)
        pair_keys = self.pair_symbol * len(corpus.words) + self.pair_word
        # Trees go to the shard in which their first node falls.
        ends = np.searchsorted(corpus.offsets[:-1], np.arange(1, shards) * (corpus.n_nodes / shards))
        limits = corpus.offsets[np.unique([0, *ends, corpus.n_trees])]
        self._shards = [prepare(corpus, int(first), int(last), height, pair_keys) for first, last in pairwise(limits)]

    @property
    def n_shards(self) -> int:
        """Number of parts that are worked on independently."""
        return len(self._shards)

    def lexical_offsets(self, grammar: TreeWeights) -> Int64[Array, "pair_bounds"]:
        """Return where each pair's vector begins in tables of lexical vectors, and where the last one ends."""
        return offsets_of(grammar.states[self.pair_symbol])

    def inside(
        self,
        grammar: TreeWeights,
        *,
        lexical: Float[Array, "lexical_entries"] | None = None,
        dtype: DTypeLike = np.float32,
        threads: int = 1,
        executor: Executor | None = None,
        keep: bool = False,
    ) -> InsidePass:
        """Return the trees' likelihoods and, to `keep` them, all inside vectors.

        Parameters
        ----------
        grammar
            Any grammar with the corpus' symbols and rules.
        lexical
            Lexical vectors of all pairs, one behind the other; by default `lexical_table(grammar, corpus)`.
        dtype
            Precision of the vectors: float32 or float64. In float32 a state is lost whose inside weight is less than
            1e-38 times that of the best state of the node.
        threads, executor
            How many threads to start, or where to run instead.
        keep
            Whether to return the vectors.
        """
        weights = self._weights(grammar, lexical, dtype)
        log_likelihoods, vectors = [], []
        for found, theirs in self._run(_inside, weights, threads, executor, keep=keep):
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
        threads: int = 1,
        executor: Executor | None = None,
    ) -> Iterator[NodeVectors]:
        """Yield inside and outside vectors of all nodes, shard by shard; arguments as in `inside`."""
        weights = self._weights(grammar, lexical, dtype)
        return self._run(_inside_outside, weights, threads, executor)

    def expectations(
        self,
        grammar: TreeWeights,
        *,
        lexical: Float[Array, "lexical_entries"] | None = None,
        dtype: DTypeLike = np.float32,
        threads: int = 1,
        executor: Executor | None = None,
    ) -> Expectations:
        """Return expected counts and likelihoods; arguments as in `inside`. Sums are taken in float64, on `threads`."""
        weights = self._weights(grammar, lexical, dtype)
        tensors = np.zeros(len(weights.tensors))
        lexical_sums = np.zeros(len(weights.lexical))
        root, occupancy = np.zeros(len(weights.root)), np.zeros(len(weights.root))
        log_likelihoods = []
        for shards in self._batches(weights):
            held = []
            for shard, part in zip(shards, self._run(_expectations, weights, threads, executor, shards), strict=True):
                kernels.add_slots(shard.pairs, part.slots, part.lexical, weights.lexical_offsets, lexical_sums)
                root += part.root
                occupancy += part.occupancy
                log_likelihoods.append(part.log_likelihoods)
                held.append((shard, part.vectors))
            add = partial(_add_rules, held=held, weights=weights, tensors=tensors)
            list(map_in_order(add, self._rule_parts(weights, threads), threads=threads))
            held.clear()

        def multiply(part: tuple[int, int]) -> None:
            places = slice(*weights.tensor_offsets[list(part)])
            tensors[places] *= grammar.tensors[places]

        list(map_in_order(multiply, self._rule_parts(weights, threads), threads=threads))
        return Expectations(
            tensors, lexical_sums, weights.lexical_offsets, root, occupancy, np.concatenate(log_likelihoods)
        )

    def _batches(self, weights: _Weights) -> Iterator[list[Shard]]:
        """Cut the shards into runs whose vectors may be held at once."""
        sizes = [2 * int(weights.states[shard.symbol].sum()) for shard in self._shards]
        batch = np.cumsum(sizes) // _HELD
        for number in np.unique(batch):
            yield [shard for shard, own in zip(self._shards, batch, strict=True) if own == number]

    def _rule_parts(self, weights: _Weights, threads: int) -> list[tuple[int, int]]:
        """Cut the rules into runs of about the same work."""
        work = np.cumsum(np.diff(weights.tensor_offsets) * (self._rule_counts + 1))
        if threads == 1 or not len(work):
            return [(0, len(work))]
        ends = np.searchsorted(work, np.arange(1, _PARTS * threads) * (work[-1] / (_PARTS * threads)))
        return list(pairwise(np.unique([0, *ends, len(work)]).tolist()))

    def _weights(self, grammar: TreeWeights, lexical: np.ndarray | None, dtype: DTypeLike) -> _Weights:
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
        return _Weights(
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

    def _run(
        self,
        work: Callable[..., T],
        weights: _Weights,
        threads: int,
        executor: Executor | None,
        shards: Sequence[Shard] | None = None,
        **settings: bool,
    ) -> Iterator[T]:
        """Yield the results of shards, by default all, in their order, at most a few waiting on our own threads."""
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        # A partial, not a closure: it can be sent to other processes.
        call = partial(work, weights=weights, **settings)
        return map_in_order(call, self._shards if shards is None else shards, threads=threads, executor=executor)


def lexical_table(grammar: TensorGrammar, corpus: Corpus) -> Float64[Array, "lexical_entries"]:
    """Return `q(a -> x)` for all pairs of preterminal and word at the corpus' leaves, one behind the other.

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


def held_out_trees(grammar: TensorGrammar, corpus: Corpus, *, threads: int = 1) -> HeldOutTrees:
    """Return how probable a grammar makes other trees, those that it cannot build left out."""
    known, _ = corpus.renumbered(grammar.symbols, grammar.n_interminals, grammar.rules)
    logs = ObservedTrees(known).inside(grammar, threads=threads).log_likelihoods
    possible = np.isfinite(logs)
    leaves = np.add.reduceat(known.word >= 0, known.offsets[:-1], dtype=np.int64)
    mean = float(logs[possible].sum() / max(leaves[possible].sum(), 1))
    return HeldOutTrees(mean, len(logs), int(np.isnan(logs).sum()))


def held_out_log_likelihood(grammar: TensorGrammar, corpus: Corpus, *, threads: int = 1) -> float:
    """Return the log-likelihood per word of other trees, those without a probability left out."""
    return held_out_trees(grammar, corpus, threads=threads).log_likelihood


def _new_vectors(shard: Shard, weights: _Weights, outside: bool) -> NodeVectors:
    """Return vectors whose values are not set."""
    offsets = offsets_of(weights.states[shard.symbol])
    size, dtype = int(offsets[-1]), weights.tensors.dtype
    exponent = np.empty(len(shard.symbol), np.int32)
    return NodeVectors(shard.nodes, offsets, np.empty(size, dtype), exponent, np.empty(size if outside else 0, dtype))


def _inside(shard: Shard, weights: _Weights, keep: bool = True) -> tuple[np.ndarray, NodeVectors | None]:
    """Return the log-likelihoods of a shard's trees and the inside vectors."""
    vectors = _new_vectors(shard, weights, outside=False)
    log_likelihoods = np.empty(len(shard.roots))
    kernels.inside_pass(shard, weights, vectors, log_likelihoods)
    return log_likelihoods, vectors if keep else None


def _inside_outside(shard: Shard, weights: _Weights) -> NodeVectors:
    """Return inside and outside vectors of a shard's nodes."""
    return _both_ways(shard, weights)[1]


def _both_ways(shard: Shard, weights: _Weights) -> tuple[np.ndarray, NodeVectors]:
    vectors = _new_vectors(shard, weights, outside=True)
    log_likelihoods = np.empty(len(shard.roots))
    kernels.inside_pass(shard, weights, vectors, log_likelihoods)
    kernels.outside_pass(shard, weights, log_likelihoods, vectors)
    return log_likelihoods, vectors


def _expectations(shard: Shard, weights: _Weights) -> _ShardExpectations:
    """Return a shard's expected counts but for rules, and the vectors to make those from."""
    log_likelihoods, vectors = _both_ways(shard, weights)
    occupancy, root = np.zeros(len(weights.root)), np.zeros(len(weights.root))
    kernels.expected_inner(shard, weights, vectors, occupancy)
    slots = offsets_of(np.diff(weights.lexical_offsets)[shard.pairs])
    lexical = np.zeros(slots[-1])
    kernels.expected_leaves(shard, weights, vectors, slots, lexical, occupancy)
    kernels.expected_roots(shard, weights, vectors, root)
    return _ShardExpectations(vectors, lexical, slots, root, occupancy, log_likelihoods)


def _add_rules(
    part: tuple[int, int], held: Sequence[tuple[Shard, NodeVectors]], weights: _Weights, tensors: np.ndarray
) -> None:
    """Add to some rules' sums of what is expected, not yet times the weights."""
    for shard, vectors in held:
        kernels.expected_rules(shard, weights, vectors, *part, tensors)
