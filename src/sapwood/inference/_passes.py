"""What is done with one shard of a corpus in a pass over observed trees: functions that run wherever the shard is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sapwood import kernels
from sapwood.grammar.emissions import offsets_of
from sapwood.inference._shards import Shard
from sapwood.shapes import Array, Float, Int, Int32, Int64


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
class RuleSums:
    """Sums of some rules, not yet times their weights, one behind the other."""

    rules: np.ndarray
    offsets: np.ndarray
    values: np.ndarray


def _new_vectors(shard: Shard, weights: Weights, outside: bool) -> NodeVectors:
    """Return vectors whose values are not set."""
    offsets = offsets_of(weights.states[shard.symbol])
    size, dtype = int(offsets[-1]), weights.tensors.dtype
    exponent = np.empty(len(shard.symbol), np.int32)
    return NodeVectors(shard.nodes, offsets, np.empty(size, dtype), exponent, np.empty(size if outside else 0, dtype))


def inside(shard: Shard, weights: Weights, keep: bool) -> tuple[np.ndarray, NodeVectors | None]:
    """Return the log-likelihoods of a shard's trees and, to keep them, the inside vectors."""
    vectors = _new_vectors(shard, weights, outside=False)
    log_likelihoods = np.empty(len(shard.roots))
    kernels.inside_pass(shard, weights, vectors, log_likelihoods)
    return log_likelihoods, vectors if keep else None


def inside_outside(shard: Shard, weights: Weights) -> tuple[np.ndarray, NodeVectors]:
    """Return the symbols of a shard's nodes, and their inside and outside vectors."""
    return shard.symbol, _both_ways(shard, weights)[1]


def _both_ways(shard: Shard, weights: Weights) -> tuple[np.ndarray, NodeVectors]:
    vectors = _new_vectors(shard, weights, outside=True)
    log_likelihoods = np.empty(len(shard.roots))
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


# Where shards are in other processes, their vectors stay there, and sums of rules travel.


def all_expectations(shard: Shard, weights: Weights) -> tuple[ShardCounts, RuleSums]:
    """Return all that is expected in a shard."""
    counts, vectors = expectations(shard, weights)
    tensors = np.zeros(len(weights.tensors))
    add_rules((0, len(weights.rules)), [(shard, vectors)], weights, tensors)
    begins, ends = weights.tensor_offsets[shard.rules], weights.tensor_offsets[shard.rules + 1]
    values = [tensors[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    return counts, RuleSums(shard.rules, offsets_of(ends - begins), np.concatenate([np.zeros(0), *values]))


def but_rules(found: tuple[ShardCounts, RuleSums]) -> ShardCounts:
    """Return what `all_expectations` has besides rules."""
    return found[0]


def some_rules(found: tuple[ShardCounts, RuleSums], part: tuple[int, int]) -> RuleSums:
    """Return what `all_expectations` has of the rules from one to before another."""
    sums = found[1]
    first, last = np.searchsorted(sums.rules, part)
    offsets = sums.offsets[first : last + 1]
    return RuleSums(sums.rules[first:last], offsets - offsets[0], sums.values[offsets[0] : offsets[-1]].copy())


def add_up_rules(shards: Sequence[RuleSums], part: tuple[int, int], tensor_offsets: np.ndarray) -> np.ndarray:
    """Return the sums of the rules from one to before another, shard by shard."""
    total = np.zeros(int(tensor_offsets[part[1]] - tensor_offsets[part[0]]))
    for sums in shards:
        kernels.add_slots(
            sums.rules.astype(np.int64), sums.offsets, sums.values, tensor_offsets - tensor_offsets[part[0]], total
        )
    return total
