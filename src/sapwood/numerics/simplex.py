"""Optimisation over the simplex: least squares of many points at once, and EM for concave problems.

All three problems of the pivot algorithm have the form `sum_i q_i log sum_j A_ij x_j` over distributions `x`. EM
multiplies each `x_j` by the gradient `g_j = sum_i q_i A_ij / z_i`, and never decreases the objective. If the model is
correct, however, `g_j` is 1 at the optimum for all `j`, including those with `x_j = 0`, and EM converges to these zeros
only as `1 / iterations`. So steps `x_j g_j^eta` are tried, with `eta` growing as long as the objective does
(Salakhutdinov and Roweis 2003); when it falls, a plain EM step is taken instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.runtime.executor import Threads
from sapwood.storage.shapes import Array, Float

Solver = Literal["active-set", "frank-wolfe"]
# Points per batch and thread, the constant added to the diagonal, and the tolerance for equal gradients; the last two
# relative to the size of the anchors.
_CHUNK = 2048
_RIDGE = 1e-14
_LEVEL = 1e-13
_ITERATIONS = 500
_GROWTH = 1.5
_LARGEST = 1e6


def simplex_weights(
    points: Float[Array, "points dimensions"],
    corners: Float[Array, "corners dimensions"],
    *,
    solver: Solver = "active-set",
    threads: int = 1,
) -> Float[Array, "points corners"]:
    """Return the weights, non-negative and summing to 1, of the mixture of corners closest to each point.

    `argmin || sum_h gamma_h corner_h - point ||^2` (step 4 of section 5.2). The active-set method is exact and, as most
    solutions are sparse, also faster; Frank-Wolfe, which the paper uses, comes close in 500 steps.

    Parameters
    ----------
    points, corners, solver
        Points to approximate, corners of the simplex, and the method.
    threads
        Number of batches of points solved in parallel.

    Examples
    --------
    >>> simplex_weights(np.array([[0.25, 0.0], [9.0, -1.0]]), np.array([[0.0, 0.0], [1.0, 0.0]])).round(6).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    if solver not in get_args(Solver):
        raise UsageError(f"the solver is one of {', '.join(get_args(Solver))}, not {solver!r}")
    corners = np.ascontiguousarray(corners, float)
    # As weights sum to 1, translating everything or adding a constant to the Gram matrix does not change the solution,
    # but makes the matrix regular unless a corner is a mixture of others.
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


@dataclass(frozen=True, eq=False)
class Optimum:
    """Result of EM.

    Attributes
    ----------
    weights
        The distributions.
    objective
        Final objective; `objectives` holds those of all iterations.
    converged
        True if the iterations stopped by the tolerance.
    power
        Step size (`eta`) of the next iteration, if any.
    """

    weights: Float[Array, "..."]
    objectives: list[float]
    converged: bool = False
    power: float = 1.0

    @property
    def objective(self) -> float:
        """Final objective."""
        return self.objectives[-1]


def maximise(
    evaluate: Callable[[Float[Array, "..."]], tuple[float, Float[Array, "..."]]],
    start: Float[Array, "..."] | Optimum,
    *,
    iterations: int,
    tolerance: float,
    axis: int | tuple[int, ...] | None = None,
    accelerate: bool = True,
    note: Callable[[Optimum], None] | None = None,
) -> Optimum:
    """Return the distributions that maximise a concave objective.

    Parameters
    ----------
    evaluate
        Returns the objective and its gradient, which is never negative, for given weights.
    start
        Distributions along `axis` (None: one over all elements), positive wherever the result may be; or the result of
        earlier iterations, to continue from there.
    iterations, tolerance
        Stop after `iterations`, or when no weight changes by more than `tolerance` and the objective grows by no more
        (relative to its size).
    accelerate
        Try longer steps than plain EM.
    note
        Callback, called with the current result after each iteration.
    """

    def normalise(weights: np.ndarray) -> np.ndarray:
        totals = weights.sum(axis=axis, keepdims=True)
        return np.asarray(weights / np.where(totals > 0, totals, 1.0))

    before = start if isinstance(start, Optimum) else Optimum(start, [])
    weights, power, converged = before.weights, before.power, before.converged
    value, gradient = evaluate(weights)
    objectives = [*before.objectives[:-1], value]
    while not converged and len(objectives) <= iterations:
        plain = normalise(weights * gradient)
        new = plain
        if accelerate and power > 1.0:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                ratio = np.where(weights > 0, plain / np.where(weights > 0, weights, 1.0), 0.0) ** power
                tried = normalise(weights * ratio)
            new = tried if np.isfinite(tried).all() else plain
        new_value, new_gradient = evaluate(new)
        if new is not plain and not new_value >= value:
            power, new = 1.0, plain
            new_value, new_gradient = evaluate(new)
        else:
            power = min(power * _GROWTH, _LARGEST)
        change = float(np.abs(new - weights).max(initial=0.0))
        gained = new_value - value
        weights, value, gradient = new, new_value, new_gradient
        objectives.append(value)
        converged = change <= tolerance and gained <= tolerance * max(1.0, abs(value))
        if note is not None:
            note(Optimum(weights, objectives, converged, power))
    return Optimum(weights, objectives, converged, power)
