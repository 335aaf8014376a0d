"""Convergence monitor of EM, and shorter steps for models whose M-step is only a direction.

EM never decreases its objective, so a decrease beyond rounding is a bug, and small gains mean that it has converged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from sapwood.errors import SapwoodError
from sapwood.storage.shapes import Array, Float


@dataclass(frozen=True, kw_only=True, eq=False)
class ConvergenceMonitor:
    """Progress of EM; its state in a run extends it.

    Attributes
    ----------
    iteration
        Number of iterations done.
    objective
        Objective that the last iteration computed.
    gain
        Its difference to that of the iteration before.
    """

    iteration: int = 0
    objective: float = -math.inf
    gain: float = math.nan

    def after(self, objective: float, *, rounding: float | None = None, **changes: Any) -> Self:
        """Return the monitor after another iteration; if `rounding` is given, the objective must not fall by more."""
        iteration = self.iteration + 1
        if rounding is not None:
            check_rise(iteration, self.objective, objective, rounding)
        return replace(self, iteration=iteration, objective=objective, gain=objective - self.objective, **changes)

    def has_converged(self, tolerance: float) -> bool:
        """Return True if the last iteration gained no more than the tolerance."""
        return self.gain <= tolerance


def check_rise(iteration: int, before: float, after: float, rounding: float) -> None:
    """Raise an error if an objective fell by more than rounding explains; before the first, `before` is nan or -inf."""
    if not (math.isnan(before) or after >= before - rounding):
        raise SapwoodError(
            f"iteration {iteration}: the objective fell from {before:.9g} to {after:.9g}, "
            "but EM must not decrease it; please report this"
        )


def halved_steps(
    start: Mapping[str, Float[Array, "..."]], target: Mapping[str, Float[Array, "..."]], halvings: int
) -> Iterator[dict[str, Float[Array, "..."]]]:
    """Yield the target, then the middle between it and the start, a quarter of the way, and so on.

    Examples
    --------
    >>> import numpy as np
    >>> [step["p"].tolist() for step in halved_steps({"p": np.zeros(1)}, {"p": np.ones(1)}, 2)]
    [[1.0], [0.5], [0.25]]
    """
    for number in range(halvings + 1):
        size = 0.5**number
        yield {name: (1 - size) * start[name] + size * target[name] for name in target}
