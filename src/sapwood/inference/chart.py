"""From a sentence to its chart of posteriors: prune with the coarse grammar, then run the fine one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.inference.compiled import CompiledGrammar, Leaf
from sapwood.inference.constraints import Constraints, compile_constraints
from sapwood.shapes import Array, Float, Int, Int32, Int64

# What is negligible in the fine pass, as a multiple of the threshold.
NEGLIGIBLE = 0.01
# How much harder than the coarse grammar finer versions prune: they know better.
LEVEL = 5.0


class Workspace(threading.local):
    """Memory for charts, kept from one sentence to the next; each thread has its own.

    Fresh memory costs more than the work done in it: the system hands it out page by page.
    """

    def __init__(self) -> None:
        self.native = kernels.Workspace()


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
    constraints: Constraints | None = None,
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
        Memory to work in, worth keeping from one sentence to the next.
    constraints
        What cells may hold (`sapwood.inference.constraints`).
    """
    workspace = workspace or Workspace()
    forest = coarse_forest(compiled, leaves, threshold, workspace, constraints)
    if forest is None:
        return None
    forest = refine_forest(compiled, leaves, forest, threshold, workspace)
    return fine_chart(compiled, leaves, forest, workspace, NEGLIGIBLE * threshold)


def refine_forest(
    compiled: CompiledGrammar,
    leaves: Sequence[Leaf],
    forest: Forest,
    threshold: float,
    workspace: Workspace,
    members: int = 1,
) -> Forest:
    """Return what is left of a forest after pruning with the versions between the coarse grammar and the grammar.

    Their rows in the leaves stand behind those of so many members.
    """
    if threshold == 0:
        return forest
    for row, level in enumerate(compiled.levels, members):
        chart = fine_chart(level.compiled, leaves, forest, workspace, NEGLIGIBLE * threshold, row)
        if chart is not None:
            smaller = kernels.filter_forest(
                kernels.forest(*forest), compiled.coarse.n_interminals, LEVEL * threshold, chart.edge_posterior,
                workspace.native,
            )  # fmt: skip
            forest = forest if smaller is None else Forest(*smaller.arrays())
    return forest


def fine_chart(
    compiled: CompiledGrammar,
    leaves: Sequence[Leaf],
    forest: Forest,
    workspace: Workspace,
    negligible: float = 0.0,
    row: int = 0,
) -> Chart | None:
    """Run the fine grammar over a forest; None if it has no parse there.

    Nodes whose posterior turns out to be `negligible` or less are not expanded further. The grammar's lexical weights
    are in that row of the leaves.
    """
    total, node_posterior, edge_posterior, *vectors = kernels.fine_chart(
        compiled.native, leaves, row, kernels.forest(*forest), negligible, workspace.native
    )
    if total == 0:
        return None
    exponent = vectors[-1][forest.n * (forest.n - 1) // 2]
    log_probability = float(np.log(total) + exponent * np.log(2.0)) if total > 0 else float("nan")
    return Chart(compiled, forest, log_probability, node_posterior, edge_posterior, *vectors)


def coarse_forest(
    compiled: CompiledGrammar,
    leaves: Sequence[Leaf],
    threshold: float,
    workspace: Workspace,
    constraints: Constraints | None = None,
) -> Forest | None:
    """Return the edges whose posterior under the coarse grammar exceeds the threshold, None if there is no parse."""
    if constraints is None:
        constraints = compile_constraints((), len(leaves), compiled.coarse)
    found = kernels.coarse_forest(compiled.native_coarse, leaves, threshold, *constraints, workspace.native)
    return None if found is None else Forest(*found.arrays())
