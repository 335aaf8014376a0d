"""What is done with one shard of a corpus in a pass over observed trees: functions that run wherever the shard is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, TypeVar

import numpy as np

from sapwood import kernels
from sapwood.grammar.emissions import offsets_of
from sapwood.inference._shards import Shard
from sapwood.run.columns import FileTable
from sapwood.shapes import Array, Float, Int, Int32, Int64

T = TypeVar("T")
# Numbers of rules that are added up at a time before they go to a table.
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
        Outside vectors, each up to a positive factor; empty if only inside vectors were asked for. Inside
        times outside divided by its sum is the posterior of the node's states.
    """

    nodes: Int[Array, "nodes"]
    offsets: Int64[Array, "nodes+1"]
    inside: Float[Array, "inside"]
    exponent: Int32[Array, "nodes"]
    outside: Float[Array, "outside"]


@dataclass(frozen=True, eq=False)
class Weights:
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
class ShardCounts:
    """What is expected in one shard but for rules; `slots` says where its `pairs` begin in `lexical`."""

    pairs: np.ndarray
    lexical: np.ndarray
    slots: np.ndarray
    root: np.ndarray
    occupancy: np.ndarray
    log_likelihoods: np.ndarray


@dataclass(frozen=True, eq=False)
class CountSums:
    """Sums of what is expected in shards but for rules."""

    lexical: np.ndarray
    root: np.ndarray
    occupancy: np.ndarray
    log_likelihoods: list[np.ndarray]

    @classmethod
    def of_nothing(cls, weights: Weights) -> CountSums:
        """Return sums before the first shard."""
        return cls(np.zeros(len(weights.lexical)), np.zeros(len(weights.root)), np.zeros(len(weights.root)), [])

    def add(self, part: ShardCounts, weights: Weights) -> None:
        """Add those of a shard."""
        kernels.add_slots(part.pairs, part.slots, part.lexical, weights.lexical_offsets, self.lexical)
        np.add(self.root, part.root, out=self.root)
        np.add(self.occupancy, part.occupancy, out=self.occupancy)
        self.log_likelihoods.append(part.log_likelihoods)

    def copied(self) -> CountSums:
        """Return sums that can be added to."""
        return CountSums(self.lexical.copy(), self.root.copy(), self.occupancy.copy(), [*self.log_likelihoods])

    def joined(self, other: CountSums) -> CountSums:
        """Return these sums and others together."""
        lexical, root = self.lexical + other.lexical, self.root + other.root
        logs = [*self.log_likelihoods, *other.log_likelihoods]
        return CountSums(lexical, root, self.occupancy + other.occupancy, logs)


@dataclass(frozen=True, eq=False)
class PartSums:
    """Sums over shards of some rules, none if they are in a table, and along with the first rules of all else."""

    sums: np.ndarray
    counts: CountSums | None


def _new_vectors(shard: Shard, weights: Weights, outside: bool) -> NodeVectors:
    """Return vectors whose values are not set."""
    offsets = offsets_of(weights.states[shard.symbol])
    size, dtype = int(offsets[-1]), weights.tensors.dtype
    exponent = np.empty(len(shard.symbol), np.int32)
    return NodeVectors(shard.nodes, offsets, np.empty(size, dtype), exponent, np.empty(size if outside else 0, dtype))


def inside(shard: Shard, weights: Weights, keep: bool) -> tuple[np.ndarray, NodeVectors | None]:
    """Return the log-likelihoods of a shard's trees and, to keep them, the inside vectors."""
    vectors = _new_vectors(shard, weights, outside=False)
    log_likelihoods = np.empty(shard.n_sentences)
    kernels.inside_pass(shard, weights, vectors, log_likelihoods)
    return log_likelihoods, vectors if keep else None


def inside_outside(shard: Shard, weights: Weights) -> tuple[np.ndarray, NodeVectors]:
    """Return the symbols of a shard's nodes, and their inside and outside vectors."""
    return shard.symbol, _both_ways(shard, weights)[1]


def _both_ways(shard: Shard, weights: Weights) -> tuple[np.ndarray, NodeVectors]:
    vectors = _new_vectors(shard, weights, outside=True)
    log_likelihoods = np.empty(shard.n_sentences)
    kernels.inside_pass(shard, weights, vectors, log_likelihoods)
    kernels.outside_pass(shard, weights, log_likelihoods, vectors)
    return log_likelihoods, vectors


def expectations(shard: Shard, weights: Weights) -> tuple[ShardCounts, NodeVectors]:
    """Return a shard's expected counts but for rules, and the vectors to make those from."""
    log_likelihoods, vectors = _both_ways(shard, weights)
    occupancy, root = np.zeros(len(weights.root)), np.zeros(len(weights.root))
    kernels.expected_inner(shard, weights, vectors, occupancy)
    slots = offsets_of(np.diff(weights.lexical_offsets)[shard.pairs])
    lexical = np.zeros(slots[-1])
    kernels.expected_leaves(shard, weights, vectors, slots, lexical, occupancy)
    kernels.expected_roots(shard, weights, vectors, root)
    return ShardCounts(shard.pairs, lexical, slots, root, occupancy, log_likelihoods), vectors


def add_rules(
    part: tuple[int, int], held: Sequence[tuple[Shard, NodeVectors]], weights: Weights, tensors: np.ndarray
) -> None:
    """Add to some rules' sums of what is expected, not yet times the weights."""
    for shard, vectors in held:
        kernels.expected_rules(shard, weights, vectors, *part, tensors)


# Where shards are in other processes, consecutive ones are together, their vectors stay there, and sums go from those
# to the next: each is added to in the order of shards, as threads do it.


def prepare_all(
    make: Callable[..., Shard], parts: Sequence[Any], firsts: Sequence[int], *arguments: Any
) -> list[Shard]:
    """Prepare consecutive shards."""
    return [make(part, first, *arguments) for part, first in zip(parts, firsts, strict=True)]


def each(work: Callable[..., T], shards: Sequence[Shard], *arguments: Any) -> list[T]:
    """Do some work for each shard."""
    return [work(shard, *arguments) for shard in shards]


def add_some(
    before: PartSums | None,
    runs: Sequence[Sequence[Shard]],
    found: Sequence[Sequence[tuple[ShardCounts, NodeVectors]]],
    weights: Weights,
    part: tuple[int, int],
    into: FileTable | None,
) -> PartSums:
    """Return the sums of the rules from one to before another with those of some runs of shards added.

    Along with the first rules go the sums of all else. If there is a table, sums become expected counts in it.
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
        # A few rules at a time: memory that is new costs as much time as what is done with it.
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
    """Return the sums of two sums, in a table if there is one."""
    counts = None if one.counts is None or other.counts is None else one.counts.joined(other.counts)
    return _put(one.sums + other.sums, counts, weights, int(weights.tensor_offsets[part[0]]), into)


def _put(sums: np.ndarray, counts: CountSums | None, weights: Weights, begin: int, into: FileTable | None) -> PartSums:
    if into is None:
        return PartSums(sums, counts)
    np.multiply(sums, weights.tensors[begin : begin + len(sums)], out=into.place(begin, len(sums)))
    return PartSums(np.zeros(0), counts)


def _writable(vectors: NodeVectors) -> NodeVectors:
    """Return vectors as the kernels want them: what has come from elsewhere may be read-only."""
    names = ("inside", "exponent", "outside")
    if all(getattr(vectors, name).flags.writeable for name in names):
        return vectors
    return replace(vectors, **{name: getattr(vectors, name).copy() for name in names})
