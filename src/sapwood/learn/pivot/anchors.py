"""Pivot learning, step 1, for one symbol: the distribution of the hidden state given each feature.

Section 6.2. Nodes have several inside and several outside features. Canonical correlations of both kinds give each node
an inside and an outside vector; `v_f` is the mean outside vector of the nodes with inside feature `f`, and section 5.2
goes on from there with all inside features in one pool. So it does with outside features, and the alignment of both
(equation 3) maximises the sum over all pairs of features that occur together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from sapwood.errors import UsageError
from sapwood.learn.spectral.feature_matrices import scale
from sapwood.learn.spectral.projection import truncated_svd
from sapwood.numerics.anchor_nmf import Columns, align, fit_columns, half_from_points
from sapwood.numerics.simplex import Solver
from sapwood.storage.shapes import Array, Float, Int

# Node count from which smaller singular values are used, and growth of an anchor's required nodes with their root.
_MANY, _GROWTH = 1000, 0.25


@dataclass(frozen=True)
class SymbolSettings:
    """Settings of the decomposition of a symbol's features; see `Pivot`."""

    kappa: float
    tolerance: float
    shrinkage: float
    support: float
    columns: Columns
    solver: Solver
    iterations: int


@dataclass(frozen=True, eq=False)
class SymbolStates:
    """State distributions given the features of a symbol.

    Attributes
    ----------
    prior
        `p(h|a)`.
    inside, outside
        `p(h|f,a)` and `p(h|g,a)`.
    inside_anchors, outside_anchors
        Anchor features of states; outside ones in an order of their own, and only if aligned.
    alignment
        `t(h'|h)`: share of each outside anchor's state in each state.
    singular_values
        Singular values of the correlations between inside and outside features.
    """

    prior: Float[Array, "states"]
    inside: Float[Array, "inside_features states"]
    outside: Float[Array, "outside_features states"]
    inside_anchors: Int[Array, "inside_anchors"]
    outside_anchors: Int[Array, "outside_anchors"]
    alignment: Float[Array, "states outside_states"]
    singular_values: Float[Array, "values"]

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.prior)

    def outside_order(self) -> Int[Array, "inside_anchors"]:
        """Return for each state the outside anchor that has most of it, -1 if there are none."""
        if not len(self.outside_anchors):
            return np.full(len(self.inside_anchors), -1)
        return self.outside_anchors[self.alignment.argmax(axis=1)]


def one_state(inside: int, outside: int) -> SymbolStates:
    """Return the states of a symbol with one state."""
    nothing = np.zeros(0, np.int64)
    return SymbolStates(
        np.ones(1), np.ones((inside, 1)), np.ones((outside, 1)), nothing, nothing, np.ones((1, 1)), np.zeros(0)
    )


def find_states(
    phi: scipy.sparse.csr_array,
    psi: scipy.sparse.csr_array,
    states: int,
    settings: SymbolSettings,
    rng: np.random.Generator,
) -> SymbolStates:
    """Decompose a symbol's features.

    Parameters
    ----------
    phi, psi
        Non-negative inside and outside features of its nodes, `(nodes, d)` and `(nodes, d')`.
    states
        Maximum number of states; there are fewer if the features cannot distinguish them.
    settings, rng
        Settings, and the random generator of the decomposition's start.
    """
    if (phi.data < 0).any() or (psi.data < 0).any():
        raise UsageError("pivot learning counts features: none may be negative")
    if states < 2 or min(phi.shape) < 2 or psi.shape[1] < 2:
        return one_state(phi.shape[1], psi.shape[1])
    scaled_phi, scaled_psi = scale(phi, settings.kappa), scale(psi, settings.kappa)
    left, values, right = truncated_svd(scaled_phi, scaled_psi, states, rng)
    least = settings.tolerance * min(1.0, np.sqrt(_MANY / phi.shape[0]))
    kept = int(np.count_nonzero(values > least * values[0])) if len(values) and values[0] > 0 else 0
    if kept < 2:
        return one_state(phi.shape[1], psi.shape[1])
    left, right = left[:, :kept], right[:, :kept]
    inside_mass, outside_mass = (np.asarray(matrix.sum(axis=0)).ravel() for matrix in (phi, psi))
    inside_points = mean_points(phi, scaled_psi @ right, inside_mass, settings.shrinkage)
    outside_points = mean_points(psi, scaled_phi @ left, outside_mass, settings.shrinkage)
    # Noise looks extreme: the required count grows with the data, but more slowly than the counts of true anchors.
    support = max(settings.support, _GROWTH * np.sqrt(phi.shape[0]))
    found = half_from_points(
        inside_points, inside_mass, kept, min_count=min(support, inside_mass.max()), solver=settings.solver
    )
    if found.states < 2:
        return one_state(phi.shape[1], psi.shape[1])
    pairs = scipy.sparse.csr_array(phi.T @ psi)
    if settings.columns == "fit":
        optimum = fit_columns(pairs, found.given, iterations=settings.iterations, tolerance=1e-7)
        columns, outside_anchors, alignment = optimum.weights, np.zeros(0, np.int64), np.eye(found.states)
    else:
        other = half_from_points(
            outside_points, outside_mass, found.states, min_count=min(support, outside_mass.max()),
            solver=settings.solver,
        )  # fmt: skip
        optimum = align(pairs, found.given, other.rows, iterations=settings.iterations, tolerance=1e-7)
        columns, outside_anchors, alignment = other.rows @ optimum.weights.T, other.anchors, optimum.weights
    joint = columns * found.prior
    totals = joint.sum(axis=1, keepdims=True)
    given = np.where(totals > 0, joint / np.where(totals > 0, totals, 1.0), found.prior)
    return SymbolStates(found.prior, found.given, given, found.anchors, outside_anchors, alignment, values)


def mean_points(
    features: scipy.sparse.csr_array,
    vectors: Float[Array, "nodes dimensions"],
    mass: Float[Array, "features"],
    shrinkage: float,
) -> Float[Array, "features dimensions"]:
    """Return the mean vector of the nodes with each feature, shrunk to the overall mean.

    `features` are those of the nodes, `(nodes, features)`, and `mass` the count of each.
    """
    totals = features.T @ vectors + shrinkage * vectors.mean(axis=0)
    return np.asarray(totals / np.maximum(mass + shrinkage, 1e-300)[:, None])
