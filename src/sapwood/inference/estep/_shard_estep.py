"""E-step on one shard of a corpus: its trees, in the order of visits, and functions that run where they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, TypeVar

import numpy as np

from sapwood import kernels
from sapwood.grammar.emissions import offsets_of
from sapwood.runtime.dask.array_store import FileTable, Part
from sapwood.storage.shapes import Array, Float, Int, Int32, Int64

T = TypeVar("T")
# Number of rule weights summed at a time before they are written to a table.
_AT_A_TIME = 1 << 19


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
        Outside vectors, each up to a positive factor; empty if only inside vectors were requested. Inside times outside
        divided by its sum is the posterior of the node's states.
    """

    nodes: Int[Array, "nodes"]
    offsets: Int64[Array, "nodes+1"]
    inside: Float[Array, "inside"]
    exponent: Int32[Array, "nodes"]
    outside: Float[Array, "outside"]


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of a grammar in the layout of the kernels."""

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
class ShardCounts:
    """Expected counts of one shard, except those of rules; `slots` are the offsets of its `pairs` in `lexical`."""

    pairs: np.ndarray
    lexical: np.ndarray
    slots: np.ndarray
    root: np.ndarray
    occupancy: np.ndarray
    log_likelihoods: np.ndarray


@dataclass(frozen=True, eq=False)
class CountSums:
    """Sums of expected counts over shards, except those of rules."""

    lexical: np.ndarray
    root: np.ndarray
    occupancy: np.ndarray
    log_likelihoods: list[np.ndarray]

    @classmethod
    def of_nothing(cls, weights: Weights) -> CountSums:
        """Return zero sums."""
        return cls(np.zeros(len(weights.lexical)), np.zeros(len(weights.root)), np.zeros(len(weights.root)), [])

    def add(self, part: ShardCounts, weights: Weights) -> None:
        """Add the counts of a shard."""
        kernels.add_slots(part.pairs, part.slots, part.lexical, weights.lexical_offsets, self.lexical)
        np.add(self.root, part.root, out=self.root)
        np.add(self.occupancy, part.occupancy, out=self.occupancy)
        self.log_likelihoods.append(part.log_likelihoods)

    def copied(self) -> CountSums:
        """Return a copy that can be added to."""
        return CountSums(self.lexical.copy(), self.root.copy(), self.occupancy.copy(), [*self.log_likelihoods])

    def joined(self, other: CountSums) -> CountSums:
        """Return the sum of these counts and others."""
        lexical, root = self.lexical + other.lexical, self.root + other.root
        logs = [*self.log_likelihoods, *other.log_likelihoods]
        return CountSums(lexical, root, self.occupancy + other.occupancy, logs)


@dataclass(frozen=True, eq=False)
class PartSums:
    """Rule sums over shards (None if stored in a table); the part with the first rules also has all other counts."""

    sums: np.ndarray
    counts: CountSums | None


def _new_vectors(shard: NodeShard, weights: Weights, outside: bool) -> NodeVectors:
    """Return uninitialised vectors."""
    offsets = offsets_of(weights.states[shard.symbol])
    size, dtype = int(offsets[-1]), weights.tensors.dtype
    exponent = np.empty(len(shard.symbol), np.int32)
    return NodeVectors(shard.nodes, offsets, np.empty(size, dtype), exponent, np.empty(size if outside else 0, dtype))


def inside(shard: NodeShard, weights: Weights, keep: bool) -> tuple[np.ndarray, NodeVectors | None]:
    """Return the log-likelihoods of a shard's trees and, if `keep`, the inside vectors."""
    vectors = _new_vectors(shard, weights, outside=False)
    log_likelihoods = np.empty(shard.n_sentences)
    kernels.inside_pass(shard, weights, vectors, log_likelihoods)
    return log_likelihoods, vectors if keep else None


def inside_outside(shard: NodeShard, weights: Weights) -> tuple[np.ndarray, NodeVectors]:
    """Return the symbols of a shard's nodes, and their inside and outside vectors."""
    return shard.symbol, _both_ways(shard, weights)[1]


def _both_ways(shard: NodeShard, weights: Weights) -> tuple[np.ndarray, NodeVectors]:
    vectors = _new_vectors(shard, weights, outside=True)
    log_likelihoods = np.empty(shard.n_sentences)
    kernels.inside_pass(shard, weights, vectors, log_likelihoods)
    kernels.outside_pass(shard, weights, log_likelihoods, vectors)
    return log_likelihoods, vectors


def expectations(shard: NodeShard, weights: Weights) -> tuple[ShardCounts, NodeVectors]:
    """Return the expected counts of a shard, except those of rules, and the vectors to compute those from."""
    log_likelihoods, vectors = _both_ways(shard, weights)
    occupancy, root = np.zeros(len(weights.root)), np.zeros(len(weights.root))
    kernels.expected_inner(shard, weights, vectors, occupancy)
    slots = offsets_of(np.diff(weights.lexical_offsets)[shard.pairs])
    lexical = np.zeros(slots[-1])
    kernels.expected_leaves(shard, weights, vectors, slots, lexical, occupancy)
    kernels.expected_roots(shard, weights, vectors, root)
    return ShardCounts(shard.pairs, lexical, slots, root, occupancy, log_likelihoods), vectors


def add_rules(
    part: tuple[int, int], held: Sequence[tuple[NodeShard, NodeVectors]], weights: Weights, tensors: np.ndarray
) -> None:
    """Add to the expected counts of some rules, not yet multiplied by the weights."""
    for shard, vectors in held:
        kernels.expected_rules(shard, weights, vectors, *part, tensors)


# In remote processes consecutive shards are stored together and their vectors stay there; sums are passed from one
# group to the next, so that each is added to in the order of shards, as with threads.


def prepare_all(
    make: Callable[..., NodeShard], parts: Sequence[Any], firsts: Sequence[int], *arguments: Any
) -> list[NodeShard]:
    """Prepare consecutive shards."""
    return [make(part, first, *arguments) for part, first in zip(parts, firsts, strict=True)]


def each(work: Callable[..., T], shards: Sequence[NodeShard], *arguments: Any) -> list[T]:
    """Apply `work` to each shard."""
    return [work(shard, *arguments) for shard in shards]


def add_some(
    before: PartSums | None,
    runs: Sequence[Sequence[NodeShard]],
    found: Sequence[Sequence[tuple[ShardCounts, NodeVectors]]],
    weights: Weights,
    part: tuple[int, int],
    into: FileTable | None,
) -> PartSums:
    """Add the sums of several groups of shards to those of a range of rules.

    The part with the first rules also carries all other sums. With a table, sums are stored in it as expected counts.
    """
    offsets = weights.tensor_offsets
    begin, end = offsets[list(part)].tolist()
    if before is None:
        counts = None if part[0] else CountSums.of_nothing(weights)
    else:
        counts = None if before.counts is None else before.counts.copied()
    every = [pair for pairs in found for pair in pairs]
    held = [(shard, _writable(own)) for shard, (_, own) in zip(chain.from_iterable(runs), every, strict=True)]
    if counts is not None:
        for own, _ in every:
            counts.add(own, weights)
    if before is None and into is not None:
        # A few rules at a time: allocating memory takes as long as the computation in it.
        cuts = np.searchsorted(offsets, np.arange(begin + _AT_A_TIME, end, _AT_A_TIME)).clip(*part)
        pieces = list(pairwise(np.unique([part[0], *cuts, part[1]]).tolist()))
        room = np.empty(max((int(offsets[b] - offsets[a]) for a, b in pieces), default=0))
        for few in pieces:
            place, stop = offsets[list(few)].tolist()
            sums = room[: stop - place]
            sums.fill(0)
            add_rules(few, held, replace(weights, tensor_offsets=offsets - place), sums)
            _put(sums, None, weights, place, into)
        return PartSums(np.zeros(0), counts)
    sums = np.zeros(end - begin) if before is None else before.sums.copy()
    add_rules(part, held, replace(weights, tensor_offsets=offsets - begin), sums)
    return _put(sums, counts, weights, begin, into)


def join(one: PartSums, other: PartSums, weights: Weights, part: tuple[int, int], into: FileTable | None) -> PartSums:
    """Return the sum of two partial sums, stored in a table if there is one."""
    counts = None if one.counts is None or other.counts is None else one.counts.joined(other.counts)
    return _put(one.sums + other.sums, counts, weights, int(weights.tensor_offsets[part[0]]), into)


def _put(sums: np.ndarray, counts: CountSums | None, weights: Weights, begin: int, into: FileTable | None) -> PartSums:
    if into is None:
        return PartSums(sums, counts)
    np.multiply(sums, weights.tensors[begin : begin + len(sums)], out=into.place(begin, len(sums)))
    return PartSums(np.zeros(0), counts)


def _writable(vectors: NodeVectors) -> NodeVectors:
    """Return writable vectors for the kernels: those received from other processes may be read-only."""
    names = ("inside", "exponent", "outside")
    if all(getattr(vectors, name).flags.writeable for name in names):
        return vectors
    return replace(vectors, **{name: getattr(vectors, name).copy() for name in names})


@dataclass(frozen=True, eq=False)
class NodeShard:
    """Consecutive trees, laid out; see `native/estep/trees.cpp` for the order of the nodes."""

    nodes: np.ndarray
    symbol: np.ndarray
    n_leaves: int
    pairs: np.ndarray
    pair_nodes: np.ndarray
    left: np.ndarray
    right: np.ndarray
    block_rule: np.ndarray
    block_nodes: np.ndarray
    rules: np.ndarray
    rule_nodes: np.ndarray
    members: np.ndarray
    roots: np.ndarray

    @property
    def n_sentences(self) -> int:
        """Number of trees."""
        return len(self.roots)


def prepare(parts: tuple[Part], first: int, n_words: int, n_rules: int, pair_keys: np.ndarray) -> NodeShard:
    """Lay out the nodes of whole trees, given their columns; `first` is the index of the first node."""
    columns = parts[0].load()
    symbol, rule_of, height = columns["symbol"], columns["rule"], columns["height"]
    leaf = rule_of < 0
    keys = symbol.astype(np.int64) * n_words + columns["word"]
    pair = np.searchsorted(pair_keys, keys)
    order = np.lexsort((np.where(leaf, pair, rule_of), height))
    place = np.empty(len(symbol), np.int32)
    place[order] = np.arange(len(symbol), dtype=np.int32)
    n_leaves = int(leaf.sum())
    inner = order[n_leaves:]
    rule = rule_of[inner]
    starts = _run_starts(height[inner].astype(np.int64) * n_rules + rule)
    pairs, pair_starts = np.unique(pair[order[:n_leaves]], return_index=True)
    members = np.argsort(rule, kind="stable")
    rules, rule_starts = np.unique(rule[members], return_index=True)
    return NodeShard(
        nodes=first + order,
        symbol=symbol[order],
        n_leaves=n_leaves,
        pairs=pairs,
        pair_nodes=np.append(pair_starts, n_leaves),
        left=place[columns["left"][inner] - first],
        right=place[columns["right"][inner] - first],
        block_rule=rule[starts],
        block_nodes=np.append(starts, len(inner)),
        rules=rules,
        rule_nodes=np.append(rule_starts, len(inner)),
        members=members,
        roots=place[columns["parent"] < 0],
    )


def _run_starts(keys: np.ndarray) -> np.ndarray:
    """Return the start of each run of equal values."""
    return np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else np.zeros(0, np.int64)
