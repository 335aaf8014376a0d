"""Inside-outside on observed trees: likelihoods and expected counts of a whole corpus, the E-step of EM.

A treebank says which rule stands at each node and only the states are hidden, so each tree is one pass up (figures 2
and 4 of the long paper) and one down. Per inner node of rule `a -> b c` the work is three products with the tensor
`(m_a, m_b, m_c)`: inside, outside and the sum of posteriors; nodes of the same rule and height are done together.

The trees are cut into shards, whose number depends on the corpus alone, and placed with workers. Their results are
added in the order of the shards (of many shards, sums of `TOGETHER` at a time), so they are the same to the last bit
however many workers there are. Vectors live as long as their shard is worked on. For expected counts threads hold those
of several shards, a bounded amount: then rules are shared out among them, and each adds to its own rules' part of the
one table of sums. Workers elsewhere have some consecutive shards each; the sums of some rules at a time go from one to
the next, and each adds its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain, islice, pairwise, repeat
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from sapwood import kernels
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import _passes
from sapwood.inference._passes import CountSums, Weights
from sapwood.inference._passes import NodeVectors as NodeVectors  # for others as well
from sapwood.inference._shards import Shard, prepare
from sapwood.run.workers import HERE, TOGETHER, Kept, Threads, Workers, itself
from sapwood.shapes import Array, Float, Float64, Int, Int32, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import SymbolTable

# Nodes of a shard, about: its vectors should fit into a core's cache, its rules should occur more than once.
_SHARD_NODES = 1 << 16
# Numbers in the vectors that are held for expected counts, at most, if one shard does not have more.
_HELD = 1 << 25
# Parts into which rules are cut for each thread, so that all are done at about the same time; and the least numbers in
# a part that is worth another task elsewhere.
_PARTS, _PART = 8, 1 << 17
# Parts for each run of shards elsewhere: the more, the sooner the last run has something to do.
_AHEAD = 2
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
        height = np.empty(corpus.n_nodes, np.int32)
        kernels.node_heights(corpus.left, corpus.right, height)
        # Trees go to the shard in which their first node falls.
        ends = np.searchsorted(corpus.offsets[:-1], np.arange(1, shards) * (corpus.n_nodes / shards))
        spans = list(pairwise(corpus.offsets[np.unique([0, *ends, corpus.n_trees])].tolist()))
        self._columns = columns = workers.columns(
            {name: getattr(corpus, name) for name in _COLUMNS} | {"height": height}
        )
        parts, firsts = [columns.part(first, last) for first, last in spans], [first for first, _ in spans]
        keys = workers.share(self.pair_symbol * len(corpus.words) + self.pair_word)
        sizes = repeat(len(corpus.words)), repeat(len(corpus.rules))
        self.n_shards = len(spans)
        # Threads have each shard by itself, workers elsewhere consecutive ones together.
        self._shards: list[Kept] = []
        self._runs: list[Kept] = []
        if workers.near:
            self._shards = workers.place(prepare, parts, firsts, *sizes, repeat(keys))
        else:
            cuts = self._cuts = _cuts(len(spans), workers.count)
            together = ([each[a:b] for a, b in pairwise(cuts)] for each in (parts, firsts))
            self._runs = workers.place(_passes.prepare_all, *together, *sizes, repeat(keys))

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
        for found, theirs in self._run(_passes.inside, weights, repeat(keep)):
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
        return (vectors for _, vectors in self._run(_passes.inside_outside, weights))

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
        weights = repeat(self.workers.share(self._weights(grammar, lexical, dtype)))
        if self.workers.near:
            return self.workers.fold(partial(_step, step), start, _passes.inside_outside, self._shards, weights)
        call = partial(_passes.each, _passes.inside_outside)
        return self.workers.fold(partial(_steps, step), start, call, self._runs, weights)

    def expectations(
        self,
        grammar: TreeWeights,
        *,
        lexical: Float[Array, "lexical_entries"] | None = None,
        dtype: DTypeLike = np.float32,
    ) -> Expectations:
        """Return expected counts and likelihoods; arguments as in `inside`. Sums are taken in float64."""
        weights = self._weights(grammar, lexical, dtype)
        tensors, counts = self._near_sums(weights) if self.workers.near else self._far_sums(weights)

        def multiply(part: tuple[int, int]) -> None:
            places = slice(*weights.tensor_offsets[list(part)])
            tensors[places] *= grammar.tensors[places]

        threads = Threads(self.workers.threads)
        list(threads.map(multiply, self._rule_parts(weights, threads.count)))
        return Expectations(
            tensors, counts.lexical, weights.lexical_offsets, counts.root, counts.occupancy,
            np.concatenate(counts.log_likelihoods),
        )  # fmt: skip

    def _near_sums(self, weights: Weights) -> tuple[np.ndarray, CountSums]:
        """Return the sums of rules, not yet times their weights, and of all else, made on threads."""
        counts = CountSums.of_nothing(weights)
        total = np.zeros(len(weights.tensors))
        for block in range(0, len(self._shards), TOGETHER):
            tensors = np.zeros(len(total)) if block else total
            for shards in self._batches(weights, self._shards[block : block + TOGETHER]):
                held = []
                found = self.workers.map(_passes.expectations, shards, repeat(weights))
                for shard, (part, vectors) in zip(shards, found, strict=True):
                    counts.add(part, weights)
                    held.append((shard, vectors))
                add = partial(_passes.add_rules, held=held, weights=weights, tensors=tensors)
                list(self.workers.map(add, self._rule_parts(weights, self.workers.count)))
                held.clear()
            if block:
                total += tensors
        return total, counts

    def _far_sums(self, weights: Weights) -> tuple[np.ndarray, CountSums]:
        """Return what `_near_sums` does, made elsewhere."""
        workers, shared = self.workers, self.workers.share(weights)
        found = workers.keep(partial(_passes.each, _passes.expectations), self._runs, repeat(shared))
        runs = list(zip(self._cuts, self._runs, found, strict=False))
        # While one run adds to some rules, those before it add to the next.
        ways = 1 if len(runs) == 1 else _AHEAD * min(len(runs), TOGETHER)
        parts = self._rule_parts(weights, min(ways, len(weights.tensors) // _PART + 1), 1)
        sums: list[list[Kept]] = []
        for part in parts:
            blocks: dict[int, Kept] = {}
            for first, shards, own in runs:
                before = blocks.get(first // TOGETHER)
                blocks[first // TOGETHER] = workers.keep(
                    _passes.add_some_rules, [before], [shards], [own], [shared], [part]
                )[0]
            sums.append(list(blocks.values()))
        counts: Kept = CountSums.of_nothing(weights)
        for _, shards, own in runs:
            counts = workers.keep(_passes.add_counts, [counts], [shards], [own], [shared])[0]
        del runs, found
        total = np.empty(len(weights.tensors))
        for part, each in zip(parts, _in_rows(workers.map(itself, chain.from_iterable(sums)), sums), strict=True):
            places = total[slice(*weights.tensor_offsets[list(part)])]
            places[:] = each[0]
            for other in each[1:]:
                places += other
        return total, next(workers.map(itself, [counts]))

    def _batches(self, weights: Weights, shards: Sequence[Shard]) -> Iterator[list[Shard]]:
        """Cut shards into runs whose vectors may be held at once."""
        sizes = [2 * int(weights.states[shard.symbol].sum()) for shard in shards]
        batch = np.cumsum(sizes) // _HELD
        for number in np.unique(batch):
            yield [shard for shard, own in zip(shards, batch, strict=True) if own == number]

    def _rule_parts(self, weights: Weights, workers: int, each: int = _PARTS) -> list[tuple[int, int]]:
        """Cut the rules into runs of about the same work, a few for each of several workers."""
        work = np.cumsum(np.diff(weights.tensor_offsets) * (self._rule_counts + 1))
        if workers == 1 or not len(work):
            return [(0, len(work))]
        ends = np.searchsorted(work, np.arange(1, each * workers) * (work[-1] / (each * workers)))
        return list(pairwise(np.unique([0, *ends, len(work)]).tolist()))

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

    def _run(self, work: Callable[..., T], weights: Weights, *more: Iterator[object]) -> Iterator[T]:
        """Yield the results of all shards in their order."""
        shared = repeat(self.workers.share(weights))
        if self.workers.near:
            return self.workers.map(work, self._shards, shared, *more)
        return chain.from_iterable(self.workers.map(partial(_passes.each, work), self._runs, shared, *more))


def _cuts(shards: int, workers: int) -> list[int]:
    """Cut shards into as many runs as there are workers, and wherever a sum of sums begins."""
    even = np.linspace(0, shards, min(shards, workers) + 1).astype(int)
    return np.unique([*even, *range(0, shards, TOGETHER)]).tolist()


def _in_rows(values: Iterator[T], like: Sequence[Sequence[object]]) -> Iterator[list[T]]:
    """Yield values in lists as long as others."""
    return (list(islice(values, len(each))) for each in like)


def _step(step: Callable[[T, np.ndarray, NodeVectors], T], total: T, found: tuple[np.ndarray, NodeVectors]) -> T:
    return step(total, *found)


def _steps(
    step: Callable[[T, np.ndarray, NodeVectors], T], total: T, found: Sequence[tuple[np.ndarray, NodeVectors]]
) -> T:
    return reduce(partial(_step, step), found, total)


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
