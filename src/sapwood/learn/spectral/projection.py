"""Inside and outside vectors of all nodes of a corpus: features, projected by one SVD per symbol.

For symbol `a` with `M` nodes, `Phi` and `Psi` have a row of scaled inside and outside features for each node (scaling
by `sqrt(M / (count + kappa))` brings the decomposition close to canonical correlations). The top singular vectors of
`Omega^a = Phi^T Psi / M` (long paper, figure 8) project them to

    Y = Phi U,    Z = Psi V S^{-1}

so that `Sigma^a = Y^T Z / M` is the identity. `Omega^a` itself, large and sparse, is never computed: randomised
subspace iteration (Halko, Martinsson and Tropp 2011) needs only its products with thin matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from sapwood.learn.spectral.feature_matrices import Chosen, SymbolFeatures, extract, scale
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.runtime.executor import LOCAL, Executor
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.storage.shapes import Array, Float, Float64, Int, Int32, Int64
from sapwood.trees.corpus import Corpus

# Oversampling and power iterations: feature spectra decay slowly.
_EXTRA = 10
_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class ProjectedNodes:
    """Vectors of all nodes, by symbol.

    Attributes
    ----------
    corpus
        The trees.
    states
        Dimension of each symbol's vectors.
    place
        Row of each node in its symbol's arrays.
    inside, outside
        `Y` and `Z`, by symbol.
    singular_values
        Computed singular values by symbol, largest first; empty where there was nothing to decompose.
    """

    corpus: Corpus
    states: Int32[Array, "symbols"]
    place: Int64[Array, "nodes"]
    inside: list[Float64[Array, "nodes_of_symbol states"]]
    outside: list[Float64[Array, "nodes_of_symbol states"]]
    singular_values: list[Float64[Array, "values"]]

    def truncated(self, states: Int[Array, "symbols"]) -> ProjectedNodes:
        """Return the vectors truncated to the given number of states of each symbol."""
        sizes = np.minimum(states, self.states).astype(np.int32)
        inside, outside = (
            [vectors[:, :size] for vectors, size in zip(side, sizes.tolist(), strict=True)]
            for side in (self.inside, self.outside)
        )
        return ProjectedNodes(self.corpus, sizes, self.place, inside, outside, self.singular_values)


@dataclass(frozen=True, kw_only=True)
class ProjectionSettings:
    """Settings of the projection of nodes.

    Attributes
    ----------
    inside, outside, least
        Features (see `features.extract`).
    kappa
        Smoothing constant of the scaling.
    dropout
        Fraction of features to drop at random.
    tolerance
        Singular values below this fraction of the largest are discarded.
    seed
        Seed of the randomised decomposition.
    """

    inside: Chosen = "rich"
    outside: Chosen = "rich"
    least: int = 2
    kappa: float = 5.0
    dropout: float = 0.0
    tolerance: float = 0.01
    seed: int = 0


def project_nodes(
    table: NodeTable,
    states: Int[Array, "symbols"],
    *,
    weights: Float[Array, "nodes"] | None = None,
    workers: Executor = LOCAL,
    progress: Progress | None = None,
    **settings: Any,
) -> ProjectedNodes:
    """Project the features of all nodes.

    Parameters
    ----------
    table
        The corpus.
    states
        Maximum number of states of each symbol; symbols with one state get the constant vector.
    weights
        Weight of each node in `Omega^a`; equal by default. Nodes without weight are projected too.
    workers, progress
        Executor, and receiver of progress reports.
    settings
        Those of `ProjectionSettings`.
    """
    chosen = ProjectionSettings(**settings)
    with (progress or Silent()).stage("features", total=1, unit="passes") as stage:
        features = extract(table, chosen.inside, chosen.outside, least=chosen.least)
        stage.step()
    return project_features(table.corpus, features, states, chosen, weights=weights, workers=workers, progress=progress)


def project_features(
    corpus: Corpus,
    features: SymbolFeatures,
    states: Int[Array, "symbols"],
    chosen: ProjectionSettings,
    *,
    weights: Float[Array, "nodes"] | None = None,
    workers: Executor = LOCAL,
    progress: Progress | None = None,
) -> ProjectedNodes:
    """Project features that are extracted already; parameters as for `project_nodes`."""
    # Items hold only the matrices of one symbol, to be cheap to send to other processes.
    items = (_Symbol.of(features, symbol, int(states[symbol]), weights) for symbol in range(len(corpus.symbols)))
    # The features themselves are extracted, and functions of users need not be sent.
    numbers = chosen.kappa, chosen.dropout, chosen.tolerance, chosen.seed
    found = workers.map(partial(_project_symbol, *numbers), items)
    parts = list(track(found, progress or Silent(), "decomposing", total=len(corpus.symbols), unit="symbols"))
    place = np.empty(corpus.n_nodes, np.int64)
    for symbol in range(len(corpus.symbols)):
        own = features.nodes(symbol)
        place[own] = np.arange(len(own))
    return ProjectedNodes(
        corpus=corpus,
        states=np.array([part[0].shape[1] for part in parts], np.int32),
        place=place,
        inside=[part[0] for part in parts],
        outside=[part[1] for part in parts],
        singular_values=[part[2] for part in parts],
    )


class _Symbol(NamedTuple):
    """Work item of one symbol: its index, requested states, features of its nodes, and their weights if any."""

    number: int
    states: int
    inside: scipy.sparse.csr_array
    outside: scipy.sparse.csr_array
    weights: np.ndarray | None

    @classmethod
    def of(cls, features: SymbolFeatures, number: int, states: int, weights: np.ndarray | None) -> _Symbol:
        own = None if weights is None else weights[features.nodes(number)]
        return cls(number, states, features.inside(number), features.outside(number), own)


def _project_symbol(
    kappa: float, dropout: float, tolerance: float, seed: int, symbol: _Symbol
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `Y`, `Z` and the singular values of one symbol."""
    constant = np.ones((symbol.inside.shape[0], 1))
    if symbol.states < 2:
        return constant, constant, np.zeros(0)
    phi, psi = scale(symbol.inside, kappa), scale(symbol.outside, kappa)
    if dropout:
        chance = np.random.default_rng([seed, symbol.number, 1])
        phi, psi = (_without_some(matrix, dropout, chance) for matrix in (phi, psi))
    used_phi, used_psi = (phi, psi) if symbol.weights is None else _weighted(phi, psi, symbol.weights)
    if min(used_phi.shape) < 2 or used_psi.shape[1] < 2:
        return constant, constant, np.zeros(0)
    rng = np.random.default_rng([seed, symbol.number])
    left, values, right = truncated_svd(used_phi, used_psi, symbol.states, rng)
    kept = int(np.count_nonzero(values > tolerance * values[0])) if len(values) and values[0] > 0 else 0
    if kept < 2:
        return constant, constant, values
    return phi @ left[:, :kept], (psi @ right[:, :kept]) / values[:kept], values


def _weighted(
    phi: scipy.sparse.csr_array, psi: scipy.sparse.csr_array, weights: np.ndarray
) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
    """Return the rows with weight, scaled in `phi` so that `phi^T psi / rows` is the weighted mean of products."""
    rows = np.flatnonzero(weights)
    phi, psi = phi[rows], psi[rows]
    own = np.repeat(weights[rows] / weights.sum() * len(rows), np.diff(phi.indptr))
    return scipy.sparse.csr_array((phi.data * own, phi.indices, phi.indptr), shape=phi.shape), psi


def _without_some(matrix: scipy.sparse.csr_array, part: float, rng: np.random.Generator) -> scipy.sparse.csr_array:
    """Return the matrix with a random subset of columns set to zero."""
    kept = rng.random(matrix.shape[1]) >= part
    return scipy.sparse.csr_array((matrix.data * kept[matrix.indices], matrix.indices, matrix.indptr), matrix.shape)


def truncated_svd(
    phi: scipy.sparse.csr_array, psi: scipy.sparse.csr_array, rank: int, rng: np.random.Generator
) -> tuple[Float64[Array, "inside_features k"], Float64[Array, "k"], Float64[Array, "outside_features k"]]:
    """Return the top singular vectors and values of `phi^T psi / rows`.

    The largest element of each left vector is positive, which makes the output deterministic.
    """
    n, width = phi.shape[0], min(phi.shape[1], psi.shape[1])
    size = min(rank + _EXTRA, width)
    start = rng.standard_normal((psi.shape[1], size))
    basis, _ = np.linalg.qr(phi.T @ (psi @ start))
    for _ in range(_ROUNDS):
        other, _ = np.linalg.qr(psi.T @ (phi @ basis))
        basis, _ = np.linalg.qr(phi.T @ (psi @ other))
    right, values, turned = np.linalg.svd(psi.T @ (phi @ basis) / n, full_matrices=False)
    left = basis @ turned.T
    kept = min(rank, len(values))
    left, values, right = left[:, :kept], values[:kept], right[:, :kept]
    signs = np.where(left[np.abs(left).argmax(axis=0), np.arange(kept)] < 0, -1.0, 1.0)
    return left * signs, values, right * signs


def diagnostics(projected: ProjectedNodes, wanted: Int[Array, "symbols"]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a record for each symbol with singular values, and remarks on symbols with fewer states than requested."""
    corpus = projected.corpus
    counts = corpus.symbol_counts()
    records: list[dict[str, Any]] = []
    remarks: list[str] = []
    for symbol, values in enumerate(projected.singular_values):
        states = int(projected.states[symbol])
        if states < wanted[symbol]:
            support = "1 state" if states == 1 else f"{states} states"
            remarks.append(f"{corpus.symbols[symbol]}: {counts[symbol]:,} nodes support only {support}")
        if not len(values):
            continue
        smallest = float(values[min(states, len(values)) - 1])
        records.append(
            {
                "symbol": corpus.symbols[symbol],
                "count": int(counts[symbol]),
                "states": states,
                "smallest": smallest,
                "condition": float(values[0] / smallest) if smallest > 0 else None,
                "singular_values": [float(f"{value:.6g}") for value in values],
            }
        )
    return records, remarks
