"""Points as convex combinations of others: least squares over the simplex, for many points at once."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.run.workers import Threads
from sapwood.shapes import Array, Float

Solver = Literal["active-set", "frank-wolfe"]
# Points solved at a time by one thread, what is added to the diagonal, and how close gradients count as equal; the last
# two in parts of the size of the anchors.
_CHUNK = 2048
_RIDGE = 1e-14
_LEVEL = 1e-13
_ITERATIONS = 500


def simplex_weights(
    points: Float[Array, "points dimensions"],
    corners: Float[Array, "corners dimensions"],
    *,
    solver: Solver = "active-set",
    threads: int = 1,
) -> Float[Array, "points corners"]:
    """Return for each point the weights, at least 0 and with sum 1, of the closest mixture of the corners.

    `argmin || sum_h gamma_h corner_h - point ||^2` (step 4 of section 5.2). The active-set method is exact and, as most
    solutions are sparse, also the faster one; Frank and Wolfe's, which the paper uses, comes close in 500 steps.

    Parameters
    ----------
    points, corners, solver
        What to write as mixtures, of what, and how.
    threads
        How many points' chunks are solved at a time.

    Examples
    --------
    >>> simplex_weights(np.array([[0.25, 0.0], [9.0, -1.0]]), np.array([[0.0, 0.0], [1.0, 0.0]])).round(6).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    if solver not in get_args(Solver):
        raise UsageError(f"the solver is one of {', '.join(get_args(Solver))}, not {solver!r}")
    corners = np.ascontiguousarray(corners, float)
    # Weights sum to 1: moving everything by the same vector, or adding a constant to the Gram matrix, changes nothing,
    # and makes that matrix regular unless a corner is a mixture of others.
    centre = corners.mean(axis=0)
    moved = corners - centre
    scale = float((moved**2).sum(axis=1).max()) or 1.0
    gram = moved @ moved.T / scale
    gram += 1.0 + _RIDGE * np.eye(len(corners))

    def solve(begin: int) -> np.ndarray:
        products = (points[begin : begin + _CHUNK] - centre) @ moved.T / scale
        weights = np.empty_like(products)
        if solver == "active-set":
            kernels.active_set(gram, products, _LEVEL, weights)
        else:
            kernels.frank_wolfe(gram, products, _LEVEL, _ITERATIONS, weights)
        return weights

    parts = list(Threads(threads).map(solve, range(0, len(points), _CHUNK)))
    return np.concatenate(parts) if parts else np.zeros((0, len(corners)))
