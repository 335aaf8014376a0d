"""From a sentence to its chart of posteriors: prune with the coarse grammar, then run the fine one."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sapwood.grammar.emissions import offsets_of
from sapwood.inference._coarse_kernels import coarse_inside
from sapwood.inference._context_kernels import estimate_fits
from sapwood.inference._fine_kernels import filter_forest, fine_inside, fine_outside, node_posteriors, place_leaves
from sapwood.inference._forest_kernels import coarse_outside, link_edges, number_nodes
from sapwood.inference._lanes import LANES
from sapwood.inference.compiled import CompiledGrammar, Leaf
from sapwood.inference.constraints import Phrase, compile_constraints
from sapwood.shapes import Array, Float, Int, Int32, Int64, Shaped

# The beam of the coarse inside pass, and what is negligible in the fine pass, as multiples of the threshold.
_BEAM = 10.0
NEGLIGIBLE = 0.01
# How much harder than the coarse grammar finer versions prune: they know better.
LEVEL = 10.0
# If the coarse grammar makes a sentence less probable than this share of what its contexts let expect, their estimates
# of posteriors are too low.
_DOUBTFUL = 0.01


class Workspace(threading.local):
    """Memory for charts, kept from one sentence to the next; each thread has its own.

    Fresh memory costs more than the work done in it: the system hands it out page by page.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, np.ndarray] = {}
        self._parts = np.empty(0, np.int32), np.empty(0, np.float32)

    def take(self, name: str, shape: tuple[int, ...], dtype: type, *, zero: bool = False) -> Shaped[Array, "..."]:
        """Return an array of that shape, valid until the same name is asked for again."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size:
            buffer = np.empty(size + size // 2, np.uint8)
            if size <= _KEEP:
                self._buffers[name] = buffer
        array: np.ndarray = buffer[:size].view(dtype).reshape(shape)
        if zero:
            array.fill(0)
        return array

    def parts(self, dtype: type, size: int) -> tuple[Int32[Array, "room"], Float[Array, "room"]]:
        """Return room for the rules' parts: whatever was kept last, if it fits."""
        rule, part = self._parts
        if len(part) < size or part.dtype != dtype:
            rule, part = np.empty(size, np.int32), np.empty(size, dtype)
        return rule, part

    def keep_parts(self, rule: Int32[Array, "room"], part: Float[Array, "room"]) -> None:
        """Keep the room that the parts took in the end for the next sentence."""
        if part.nbytes <= _KEEP:
            self._parts = rule, part


# Larger pieces of memory (for very long sentences) are given back.
_KEEP = 1 << 26


class Forest(NamedTuple):
    """What survives pruning: nodes (coarse symbols over spans) and edges (coarse rules at splits).

    Cell `j (j - 1) / 2 + i` is span `(i, j)`; its nodes are `node_offsets[cell] .. node_offsets[cell + 1] - 1`. Edges
    come in groups, top-down by cell, one group for each parent and rule; `children` are nodes.
    """

    n: int
    node_offsets: Int64[Array, "cell_bounds"]
    node_symbol: Int32[Array, "nodes"]
    node_cell: Int32[Array, "nodes"]
    group_parent: Int32[Array, "groups"]
    group_rule: Int32[Array, "groups"]
    group_offsets: Int64[Array, "group_bounds"]
    children: Int32[Array, "edges 2"]


@dataclass(frozen=True, eq=False, repr=False)
class Posteriors:
    """What decoders need to know about a sentence.

    Attributes
    ----------
    compiled
        The grammar; its coarse symbols and rules are those of the forest.
    forest
        The nodes and edges that were not pruned.
    log_probability
        Natural logarithm of the sentence's probability (of what was not pruned; NaN if it is negative,
        which real-valued grammars can give).
    node_posterior, edge_posterior
        Posterior probability of each node and edge.
    """

    compiled: CompiledGrammar
    forest: Forest
    log_probability: float
    node_posterior: Float[Array, "nodes"]
    edge_posterior: Float[Array, "edges"]

    def __repr__(self) -> str:
        size = f"{self.n} words, {len(self.node_posterior)} nodes, {len(self.edge_posterior)} edges"
        return f"<{type(self).__name__}: {size}, log probability {self.log_probability:.2f}>"

    @property
    def n(self) -> int:
        """Number of words."""
        return self.forest.n

    def spans(self) -> Int64[Array, "nodes 2"]:
        """Return start and end of each node."""
        end = ((np.sqrt(8.0 * self.forest.node_cell + 1) + 1) / 2 + 1e-9).astype(np.int64)
        return np.stack([self.forest.node_cell - end * (end - 1) // 2, end], axis=1)

    def log_posteriors(self) -> tuple[Float[Array, "nodes"], Float[Array, "edges"]]:
        """Return the logarithms of the nodes' and edges' posteriors, -inf where they are not positive."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(self.node_posterior, 0)), np.log(np.maximum(self.edge_posterior, 0))

    def label_posteriors(self) -> dict[tuple[int, int, str], float]:
        """Return the posterior probability of each phrase `(start, end, label)`; tags are phrases of one word here.

        A label's posterior over a span is that of all symbols that stand for it there. Intermediate symbols stand for
        none. Real-valued grammars can give numbers outside [0, 1]; they are clipped.
        """
        chains = self.compiled.coarse.symbols.chain
        found: dict[tuple[int, int, str], float] = {}
        for symbol, (start, end), posterior in zip(
            self.forest.node_symbol, self.spans().tolist(), self.node_posterior.tolist(), strict=True
        ):
            for label in chains[symbol]:
                key = (start, end, label)
                found[key] = found.get(key, 0.0) + posterior
        return {key: min(max(value, 0.0), 1.0) for key, value in found.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Chart(Posteriors):
    """What inference with one grammar knows about a sentence.

    Attributes
    ----------
    vector_offsets, inside, outside, exponent
        Scaled vectors of the nodes' states and the exponents of the cells.
    """

    vector_offsets: Int64[Array, "node_bounds"]
    inside: Float[Array, "node_states"]
    outside: Float[Array, "node_states"]
    exponent: Int[Array, "cells"]

    def symbol_posteriors(self) -> tuple[Int[Array, "found"], Int[Array, "found"], Float[Array, "found"]]:
        """Return, for every fine symbol at every node, node number, symbol number and posterior."""
        compiled = self.compiled
        sizes = np.diff(self.vector_offsets)
        node = np.repeat(np.arange(len(sizes)), sizes)
        within = np.arange(len(node)) - self.vector_offsets[node]
        symbol = compiled.symbol_of_place[compiled.symbol_offsets[self.forest.node_symbol[node]] + within]
        keys, which = np.unique(node * len(compiled.grammar.symbols) + symbol, return_inverse=True)
        posterior = np.bincount(which, weights=self.inside.astype(float) * self.outside)
        return keys // len(compiled.grammar.symbols), keys % len(compiled.grammar.symbols), posterior


def build_chart(
    compiled: CompiledGrammar,
    leaves: Sequence[Leaf],
    *,
    threshold: float,
    workspace: Workspace | None = None,
    phrases: Sequence[Phrase] = (),
) -> Chart | None:
    """Return the chart of a sentence given its words' lexical weights; None if nothing survives.

    Parameters
    ----------
    compiled
        The grammar.
    leaves
        The lexical weights of each word (`compiled.leaf`).
    threshold
        Edges with a smaller posterior under the coarse grammar are pruned; 0 prunes only what no parse can use.
    workspace
        Memory to work in, worth keeping from one sentence to the next; the chart's arrays lie in it, so it is
        valid only until the next chart is built with the same workspace. Without one the chart is its own.
    phrases
        Phrases that must be there (`sapwood.inference.constraints`).
    """
    workspace = workspace or Workspace()
    forest = coarse_forest(compiled, leaves, threshold, workspace, phrases)
    if forest is None:
        return None
    forest = refine_forest(compiled, leaves, forest, threshold, workspace)
    return fine_chart(compiled, leaves, forest, workspace, NEGLIGIBLE * threshold)


def refine_forest(
    compiled: CompiledGrammar, leaves: Sequence[Leaf], forest: Forest, threshold: float, workspace: Workspace
) -> Forest:
    """Return what is left of a forest after pruning with the versions between the coarse grammar and the grammar."""
    if threshold == 0:
        return forest
    for level in compiled.levels:
        chart = fine_chart(level.compiled, level.leaves(leaves), forest, workspace, NEGLIGIBLE * threshold)
        if chart is None:
            continue
        is_leaf = np.arange(compiled.n_coarse) >= compiled.coarse.n_interminals
        top = forest.n * (forest.n - 1) // 2
        # A real-valued grammar with few states can be wrong about the sign of a posterior.
        posterior = np.abs(chart.edge_posterior)
        smaller = filter_forest(
            forest.node_offsets, forest.node_cell, forest.node_symbol, is_leaf, forest.group_parent, forest.group_rule,
            forest.group_offsets, forest.children, posterior, LEVEL * threshold, forest.node_offsets[top],
        )  # fmt: skip
        if smaller[0][top + 1] > smaller[0][top]:  # a tree is left
            offsets, symbols, cells, *edges = smaller
            forest = Forest(forest.n, offsets, symbols, cells, *edges)
    return forest


def fine_chart(
    compiled: CompiledGrammar, leaves: Sequence[Leaf], forest: Forest, workspace: Workspace, negligible: float = 0.0
) -> Chart | None:
    """Run the fine grammar over a forest; None if it has no parse there.

    Nodes whose posterior turns out to be `negligible` or less are not expanded further.
    """
    n = forest.n
    n_nodes, n_edges = len(forest.node_symbol), len(forest.children)
    vector_offsets = np.zeros(n_nodes + 1, np.int64)
    np.cumsum(compiled.vector_sizes[forest.node_symbol], out=vector_offsets[1:])
    take = workspace.take
    size = (int(vector_offsets[-1]),)
    inside = take("inside vectors", size, compiled.dtype, zero=True)
    outside = take("outside vectors", size, compiled.dtype, zero=True)
    rows = take("rows", (n, int(compiled.symbol_offsets[-1])), compiled.dtype)
    for row, leaf in zip(rows, leaves, strict=True):
        row[:] = leaf.row
    place_leaves(n, forest.node_offsets, forest.node_symbol, vector_offsets, rows, compiled.symbol_offsets, inside)
    exponent = take("exponents", (n * (n + 1) // 2,), np.int64)
    factor = take("factor", (n_edges,), np.float64)
    edges = (forest.group_parent, forest.group_rule, forest.group_offsets, forest.children)
    rules = (
        compiled.fine_offsets, compiled.fine_places, compiled.fine_states, compiled.tensor_offsets, compiled.tensors,
        compiled.widest,
    )  # fmt: skip
    fine_inside(
        n, forest.node_offsets, forest.node_cell, vector_offsets, *edges, *rules, inside,
        exponent, factor,
    )  # fmt: skip
    top = n * (n - 1) // 2
    total = 0.0
    roots = []
    for node in range(forest.node_offsets[top], forest.node_offsets[top + 1]):
        begin = compiled.symbol_offsets[forest.node_symbol[node]]
        size = vector_offsets[node + 1] - vector_offsets[node]
        weights = compiled.root[begin : begin + size]
        at = slice(vector_offsets[node], vector_offsets[node + 1])
        total += float(inside[at].astype(float) @ weights)
        roots.append((at, weights))
    if total == 0 or not np.isfinite(total):
        return None
    for at, weights in roots:
        outside[at] = weights / total
    edge_posterior = take("edge posterior", (n_edges,), np.float64, zero=True)
    node_posterior = np.empty(n_nodes)
    fine_outside(
        forest.node_cell, vector_offsets, *edges, *rules, inside, exponent, outside, factor,
        negligible, edge_posterior,
    )  # fmt: skip
    node_posteriors(vector_offsets, inside, outside, node_posterior)
    log_probability = float(np.log(total) + exponent[top] * np.log(2.0)) if total > 0 else float("nan")
    return Chart(
        compiled, forest, log_probability, node_posterior, edge_posterior, vector_offsets, inside, outside, exponent
    )


def coarse_forest(
    compiled: CompiledGrammar,
    leaves: Sequence[Leaf],
    threshold: float,
    workspace: Workspace,
    phrases: Sequence[Phrase] = (),
) -> Forest | None:
    """Return the edges whose posterior under the coarse grammar exceeds the threshold, None if there is no parse."""
    n, n_coarse = len(leaves), compiled.n_coarse
    n_cells, n_words = n * (n + 1) // 2, (n >> 6) + 1
    constraints = compile_constraints(phrases, n, compiled.coarse)
    leaf_offsets = np.zeros(n + 1, np.int64)
    np.cumsum([len(leaf.symbols) for leaf in leaves], out=leaf_offsets[1:])
    leaf_symbol = np.concatenate([leaf.symbols for leaf in leaves])
    words = (leaf_offsets, leaf_symbol, np.concatenate([leaf.values for leaf in leaves]))
    # Pruning needs no more than single precision.
    dtype = np.float64 if threshold == 0 else np.float32
    take = workspace.take
    size = (n_cells * n_coarse,)
    inside = take("by_start", size, dtype), take("by_end", size, dtype)
    outside = take("outside_start", size, dtype), take("outside_end", size, dtype)
    exponent = take("exponent", (n_cells,), np.int64)
    ends, starts = (take(name, (n + 1, n_coarse, n_words), np.uint64) for name in ("ends", "starts"))
    starting, n_starting = take("starting", (n, n_coarse), np.int32), take("n_starting", (n,), np.int64)
    start_slot, end_slot = (take(name, (n + 1, n_coarse), np.int32) for name in ("start_slot", "end_slot"))
    slots = (exponent, ends, starts, starting, n_starting, start_slot, end_slot)
    part_offsets = take("part_offsets", (n_cells + 1,), np.int64)
    merit, dense_row, dense_merit, pair_of_code = compiled.pair_tables
    pairs = (merit.astype(dtype, copy=False), dense_row, dense_merit.astype(dtype, copy=False), pair_of_code)
    merits = take("merits", (dense_merit.shape[1], n_coarse + LANES), dtype)
    fits = take("left_fit", (n + 1, n_coarse), np.float64), take("right_fit", (n + 1, n_coarse), np.float64)
    fit_exponents = take("left_exponent", (n + 1,), np.int64), take("right_exponent", (n + 1,), np.int64)
    expected, expected_exponent = 0.0, 0
    if threshold > 0 and not phrases:  # of which the estimates would know nothing
        expected, expected_exponent = estimate_fits(n, *words, *compiled.contexts, *fits, *fit_exponents)
    if not expected > 0:
        fits[0][:], fits[1][:] = compiled.prior, 1.0
        fit_exponents[0][:], fit_exponents[1][:] = 0, 0
    assumed = expected
    while True:
        n_starting[:], start_slot[:] = 0, -1
        total, part_rule, part = coarse_inside(
            n, *words, compiled.pair_offsets, compiled.pair_right, compiled.pair_rule_offsets, compiled.rule_parent,
            compiled.rule_weight, compiled.coarse.root, *pairs, merits, *fits, *fit_exponents, threshold * assumed,
            expected_exponent, _BEAM * threshold, threshold, *constraints, *inside, *outside, *slots, part_offsets,
            *workspace.parts(dtype, 1024 * n),
        )  # fmt: skip
        workspace.keep_parts(part_rule, part)
        # If the grammar finds the sentence much less probable than was assumed, too much was left out.
        found = math.ldexp(total, min(int(exponent[n_cells - n]) - expected_exponent, 1000)) if total > 0 else 0.0
        if assumed == 0 or found > _DOUBTFUL * assumed:
            break
        assumed = found
    if total == 0:
        return None
    groups, group_offsets, split = coarse_outside(
        n, total, compiled.coarse.root, compiled.rule_parent, compiled.rule_left, compiled.rule_right,
        compiled.rule_weight, *inside, *outside, *slots, part_offsets, part_rule, part, threshold,
    )  # fmt: skip
    node_offsets = np.empty(n_cells + 1, np.int64)
    node_number = take("node_number", size, np.int32)
    # An edge's posterior never exceeds those of its nodes, but for rounding.
    node_symbol, node_cell = number_nodes(
        n, inside[0], *outside, ends, starting, n_starting, end_slot, threshold * (1 - 1e-4), node_offsets, node_number
    )
    group_parent, children = np.empty(len(groups), np.int32), np.empty((len(split), 2), np.int32)
    missing = link_edges(
        n, groups, group_offsets, split, compiled.rule_parent, compiled.rule_left, compiled.rule_right, start_slot,
        node_number, group_parent, children,
    )  # fmt: skip
    rule = np.ascontiguousarray(groups[:, 1])
    if missing:
        # The inside pass leaves out what is far below the rest of its cell, the outside pass does not: an edge can pass
        # the threshold while one of its nodes does not. Such edges have nothing to stand on.
        sizes = np.diff(group_offsets)
        kept = (children >= 0).all(axis=1) & np.repeat(group_parent >= 0, sizes)
        left = np.bincount(np.repeat(np.arange(len(sizes)), sizes), weights=kept, minlength=len(sizes)).astype(np.int64)
        group_parent, rule, children = group_parent[left > 0], rule[left > 0], children[kept]
        group_offsets = offsets_of(left[left > 0])
    return Forest(n, node_offsets, node_symbol, node_cell, group_parent, rule, group_offsets, children)
