"""EM for concave problems: mixture weights of known distributions, to the global optimum.

All three problems of the pivot algorithm are of one kind: `sum_i q_i log sum_j A_ij x_j` over distributions `x`. EM
multiplies each `x_j` by its share of what is explained, `g_j = sum_i q_i A_ij / z_i`, and never lowers the objective.
Where the model is right, though, `g_j` is 1 at the optimum for all `j`, those with `x_j = 0` too, and EM creeps towards
these zeros like `1 / iterations`. So steps `x_j g_j^eta` are tried, with `eta` growing as long as the objective does
(Salakhutdinov and Roweis 2003); when it falls, the step of plain EM is taken instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sapwood.shapes import Array, Float

_GROWTH = 1.5
_LARGEST = 1e6


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where EM ended.

    Attributes
    ----------
    weights
        The distributions.
    objective
        Their objective, and `objectives` those of all iterations.
    converged
        Whether the iterations ended because nothing changed any more.
    power
        The length of the next step, if there is one.
    """

    weights: Float[Array, "..."]
    objectives: list[float]
    converged: bool = False
    power: float = 1.0

    @property
    def objective(self) -> float:
        """The last one."""
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
        Gives for weights the objective and its gradient; the latter is never negative.
    start
        Distributions along `axis` (None: one over all elements), positive where the result may be; or where earlier
        iterations ended, to go on from there.
    iterations, tolerance
        When to stop: after so many, or when no weight changes by more and the objective grows by less than `tolerance`
        (of its size).
    accelerate
        Whether longer steps are tried.
    note
        Is told after each iteration where it ended.
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
