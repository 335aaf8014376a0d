"""The monitor of EM knows what an iteration gained, and refuses one that loses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sapwood.errors import SapwoodError
from sapwood.numerics.convergence import ConvergenceMonitor, check_rise, halved_steps


def test_gains_of_iterations() -> None:
    monitor = ConvergenceMonitor()
    assert not monitor.has_converged(math.inf)
    gains = []
    for objective in (-10.0, -8.0, -7.5, -7.5):
        monitor = monitor.after(objective, rounding=0.0)
        gains.append(monitor.gain)
    assert gains == [math.inf, 2.0, 0.5, 0.0]
    assert (monitor.iteration, monitor.objective) == (4, -7.5)
    assert monitor.has_converged(0.0)
    assert not monitor.has_converged(-1e-9)


def test_it_has_converged_when_an_iteration_gains_no_more_than_the_tolerance() -> None:
    monitor = ConvergenceMonitor(objective=-2.0).after(-1.75)
    assert monitor.has_converged(0.25)
    assert not monitor.has_converged(0.24)


def test_a_decrease_is_an_error_unless_rounding_explains_it() -> None:
    monitor = ConvergenceMonitor(iteration=4, objective=-1.0)
    assert monitor.after(-1.125, rounding=0.125).gain == -0.125
    assert monitor.after(-9.0).objective == -9.0  # where nothing promises a rise
    for objective in (-1.25, -math.inf, math.nan):
        with pytest.raises(SapwoodError, match=r"iteration 5: the objective fell from -1 to .* must not decrease it"):
            monitor.after(objective, rounding=0.125)


@pytest.mark.parametrize("before", [math.nan, -math.inf])
def test_there_may_be_nothing_before(before: float) -> None:
    check_rise(1, before, -100.0, 0.0)


def test_steps_are_halved() -> None:
    start, target = {"a": np.array([4.0, 0.0]), "b": np.zeros(1)}, {"a": np.array([0.0, 8.0]), "b": np.ones(1)}
    steps = list(halved_steps(start, target, 3))
    assert [step["a"].tolist() for step in steps] == [[0, 8], [2, 4], [3, 2], [3.5, 1]]
    assert [step["b"].tolist() for step in steps] == [[1], [0.5], [0.25], [0.125]]
