"""Posteriors of a sentence over its packed forest: what decoders, the CRF and lists of trees need of a chart."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.inference.chart.compiled import CompiledGrammar
from sapwood.storage.shapes import Array, Float, Int32, Int64
from sapwood.trees.tree import Tree


class Workspace(threading.local):
    """Buffers for charts, reused from sentence to sentence; each thread has its own.

    Allocating memory takes longer than the work done in it: the system hands it out page by page.
    """

    def __init__(self) -> None:
        self.native = kernels.Workspace()


class Forest(NamedTuple):
    """Packed forest that survives pruning: nodes (coarse symbols over spans) and edges (coarse rules at splits).

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
class Posteriors(ABC):
    """Posteriors of a sentence, as needed by decoders: a `sapwood.inference.decode.ParseDistribution`.

    Attributes
    ----------
    compiled
        The grammar; its coarse symbols and rules are those of the forest.
    forest
        The nodes and edges that were not pruned.
    log_probability
        Natural logarithm of the sentence's probability (of what was not pruned; NaN if it is negative, which is
        possible with real-valued grammars).
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

    @property
    def log_partition(self) -> float:
        """Natural logarithm of the sum of the weights of all trees."""
        return self.log_probability

    @abstractmethod
    def best(self, words: Sequence[str]) -> Tree | None:
        """Return the best skeletal tree, None if there is none."""

    @abstractmethod
    def sample(self, words: Sequence[str], count: int, rng: np.random.Generator) -> list[Tree]:
        """Sample skeletal trees."""

    def spans(self) -> Int64[Array, "nodes 2"]:
        """Return start and end of each node."""
        end = ((np.sqrt(8.0 * self.forest.node_cell + 1) + 1) / 2 + 1e-9).astype(np.int64)
        return np.stack([self.forest.node_cell - end * (end - 1) // 2, end], axis=1)

    def log_posteriors(self) -> tuple[Float[Array, "nodes"], Float[Array, "edges"]]:
        """Return the log posteriors of nodes and edges, -inf where a posterior is not positive."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(self.node_posterior, 0)), np.log(np.maximum(self.edge_posterior, 0))

    def entropy(self) -> float:
        """Return the entropy, in nats, of the distribution over trees.

        It is exact for a CRF and for a grammar with one state per symbol. For hidden states, and for several grammars,
        it is that of the distribution without states that has the same posteriors, and never less than that of the
        trees. Posteriors of real-valued grammars that are not positive count as zero.
        """
        top = self.n * (self.n - 1) // 2
        roots = self.node_posterior[self.forest.node_offsets[top] : self.forest.node_offsets[top + 1]]
        parent = np.repeat(self.forest.group_parent, np.diff(self.forest.group_offsets))
        choices = choice_entropy(roots, np.ones(len(roots)))
        return max(choices + choice_entropy(self.edge_posterior, self.node_posterior[parent]), 0.0)

    def label_posteriors(self) -> dict[tuple[int, int, str], float]:
        """Return the posterior probability of each phrase `(start, end, label)`, including tags as phrases of one word.

        The posterior of a label over a span is the sum over all symbols with that label. Intermediate symbols have no
        label. Real-valued grammars can give numbers outside [0, 1]; they are clipped.
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


def choice_entropy(chosen: Float[Array, "choices"], before: Float[Array, "choices"]) -> float:
    """Return the entropy of choices, given their probabilities and those of what is expanded by them (the chain rule).

    A tree is built top-down: its root is chosen, then an edge of each node reached, with that edge's share of the node.
    """
    some = (chosen > 0) & (before > 0)
    return -float(np.sum(chosen[some] * np.log(chosen[some] / before[some]), dtype=np.float64))
