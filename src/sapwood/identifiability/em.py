"""EM for parsing models from sentences without trees: a baseline for unmixing, and a refinement of its results.

The expected number of uses of a parameter is the parameter times the derivative of the log-likelihood with respect to
it, so one backward pass over the dynamic program is the E-step of any model. The M-step normalises these counts. Where
a model's likelihood is not a polynomial in its parameters (`dep-ies`, whose root follows from `A`; `pcfg-ies`, which is
conditioned on lengths) this is only a direction, and the step is halved until the likelihood does not fall. Either way
no iteration decreases the likelihood. The maximum that is reached depends on the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.autodiff import constant, gradients
from sapwood.identifiability.algebra.fields import Reals
from sapwood.identifiability.algebra.simplices import Parameters, inwards, to_tensors
from sapwood.identifiability.models.base import Model, by_length, different, one_hot
from sapwood.numerics.convergence import ConvergenceMonitor, halved_steps
from sapwood.runtime.params import HasParams, integer, number, opaque
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.shapes import Array, Float, Int

# Number of different sentences to process at once.
_SENTENCES = 2048
# Relative decrease of the log-likelihood that rounding may cause.
_ROUNDING = 1e-12
# Number of times that a step is halved.
_HALVINGS = 14


@dataclass(frozen=True, eq=False)
class EMResult:
    """Result of EM.

    Attributes
    ----------
    parameters
        The best parameters found.
    log_likelihoods
        Log-likelihood of all sentences before each iteration and after the last one, for the best start.
    converged
        Whether that start reached the tolerance.
    """

    parameters: dict[str, Float[Array, "outcomes *conditions"]]
    log_likelihoods: list[float]
    converged: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class EMSettings(HasParams):
    """Settings of EM.

    Attributes
    ----------
    iterations
        Maximum number of iterations.
    tolerance
        Stop when an iteration gains less than this per sentence.
    restarts
        Number of random starts; the best result is returned.
    accelerate
        Whether each iteration tries to go further in the direction of EM's steps, at the cost of one more pass.
    random_state
        Seed of the starts.
    """

    iterations: int = integer(200, "Maximum number of iterations.", low=1)
    tolerance: float = number(1e-9, "Gain per sentence at which EM stops.")
    restarts: int = integer(1, "Number of random starts; the best is kept.", low=1)
    accelerate: bool = opaque(True, "Try longer steps than those of EM.", bool)
    random_state: int = integer(0, "Random seed.")


class _Data:
    """Different sentences with their counts, by length, as weights of words."""

    def __init__(self, model: Model, sentences: Sequence[Sequence[int]] | np.ndarray) -> None:
        self.model = model
        self.groups = []
        self.total = 0
        # Weights that keep products of many small probabilities in range.
        self.scale = max(model.words / 4, 1.0)
        for length, (_, rows) in by_length(sentences, model.words).items():
            kinds, counts = different(rows, model.words)
            self.groups.append((length, kinds, counts.astype(float)))
            self.total += len(rows)
        if not self.total:
            raise UsageError("there are no sentences to learn from")

    def expectations(self, parameters: Parameters) -> tuple[float, dict[str, np.ndarray]]:
        """Return the log-likelihood, and its derivatives if it is finite."""
        field, blocks = Reals(), self.model.blocks
        tensors = to_tensors(blocks, parameters)
        inputs = list(tensors.values())
        total, slopes = 0.0, [np.zeros(tensor.shape[1:]) for tensor in inputs]
        for length, rows, counts in self.groups:
            for begin in range(0, len(rows), _SENTENCES):
                part = slice(begin, begin + _SENTENCES)
                weights = constant(field, self.scale * one_hot(rows[part], self.model.words))
                value = self.model.expectation(tensors, weights)[:, 0]
                if np.any(value.value <= 0):
                    return -np.inf, {}
                logarithms = np.log(value.value) - length * np.log(self.scale)
                total += float(counts[part] @ logarithms)
                weighted = value * constant(field, counts[part] / value.value)
                for slope, gradient in zip(slopes, gradients(weighted, inputs, rows=False), strict=True):
                    slope += gradient[0]
        return total, {block.name: slope.reshape(block.shape) for block, slope in zip(blocks, slopes, strict=True)}


def fit_em(
    model: Model,
    sentences: Sequence[Sequence[int]] | Int[Array, "sentences length"],
    *,
    start: Parameters | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> EMResult:
    """Learn the parameters of a model from sentences by EM.

    Parameters
    ----------
    model
        The model.
    sentences
        Rows of word numbers; they may have different lengths.
    start
        Initial parameters; random by default. Zeros stay zeros, so a start with zeros is moved a little inwards.
    progress
        Progress display.
    settings
        Those of `EMSettings`: `iterations`, `tolerance`, `restarts`, `accelerate` and `random_state`.

    Examples
    --------
    >>> from sapwood.identifiability.models.zoo import make_model
    >>> model = make_model("dep-ie", words=2)
    >>> found = fit_em(model, [[0, 0], [1, 1], [0, 0], [0, 1]], iterations=50)
    >>> bool(found.log_likelihoods[-1] > found.log_likelihoods[0])
    True
    """
    chosen = EMSettings(**settings)
    data = _Data(model, sentences)
    starts = chosen.restarts if start is None else 1
    best: EMResult | None = None
    with (progress or Silent()).stage("em", starts * chosen.iterations, "iterations") as stage:
        for number in range(starts):
            if start is None:
                begin = model.random(np.random.default_rng([chosen.random_state, number]))
            else:
                model.check(start)
                begin = _inwards(start)
            found = _climb(data, begin, chosen, stage.step)
            if best is None or found.log_likelihoods[-1] > best.log_likelihoods[-1]:
                best = found
    assert best is not None
    return best


@dataclass(frozen=True, eq=False)
class _Place:
    """Parameters with their log-likelihood and its derivatives."""

    parameters: dict[str, np.ndarray]
    value: float
    slopes: dict[str, np.ndarray]


def _climb(
    data: _Data, parameters: dict[str, np.ndarray], settings: EMSettings, report: Callable[..., None]
) -> EMResult:
    """Iterate from one start."""
    here = _Place(parameters, *data.expectations(parameters))
    if here.value == -np.inf:
        raise UsageError("a sentence has probability zero under the starting point; start elsewhere")
    values, tolerance = [here.value], settings.tolerance * data.total
    monitor = ConvergenceMonitor(objective=here.value)
    while monitor.iteration < settings.iterations and not monitor.has_converged(tolerance):
        there = _step(data, here)
        if settings.accelerate and there.value > here.value:
            there = _leap(data, here, there)
        report(log_likelihood=round(there.value, 3))
        monitor = monitor.after(there.value)
        if monitor.gain > 0:
            here = there
            values.append(here.value)
    return EMResult(here.parameters, values, monitor.has_converged(tolerance))


def _step(data: _Data, here: _Place) -> _Place:
    """Return the result of an EM iteration, the step halved while the likelihood would fall."""
    target = {name: _distributions(here.parameters[name], slope) for name, slope in here.slopes.items()}
    for moved in halved_steps(here.parameters, target, _HALVINGS):
        there = _Place(moved, *data.expectations(moved))
        if there.value >= here.value - _ROUNDING * abs(here.value):
            return there
    return here


def _leap(data: _Data, here: _Place, there: _Place) -> _Place:
    """Return a point further in the direction of two EM steps, if that is better than one step.

    The length is that of Varadhan and Roland (2008): from the ratio of the second step to the first.
    """
    names = list(here.parameters)
    second = {name: _distributions(there.parameters[name], there.slopes[name]) for name in names}
    first = {name: there.parameters[name] - here.parameters[name] for name in names}
    bend = {name: second[name] - there.parameters[name] - first[name] for name in names}
    squares = [sum(float(np.sum(part[name] ** 2)) for name in names) for part in (first, bend)]
    if not squares[1] > 0:
        return there
    length = max(1.0, float(np.sqrt(squares[0] / squares[1])))
    moved = {}
    for name in names:
        far = here.parameters[name] + 2 * length * first[name] + length**2 * bend[name]
        far = np.maximum(far, 0.1 * np.minimum(here.parameters[name], second[name]))  # zeros would stay zeros
        moved[name] = far / far.sum(0)
    reached = _Place(moved, *data.expectations(moved))
    return reached if reached.value > there.value else there


def _distributions(parameters: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the expected counts as distributions; unused distributions are unchanged.

    Counts that are not those of a polynomial can be negative. Adding a constant to all slopes of a distribution changes
    the length of the step but not its fixed point, so a constant is added that makes them positive.
    """
    counts = parameters * (slopes + 2 * np.maximum(-slopes.min(0), 0))
    totals = counts.sum(0)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1), parameters)


def _inwards(parameters: Parameters, amount: float = 1e-3) -> dict[str, np.ndarray]:
    """Return parameters without zeros."""
    found = {name: np.asarray(array, float) for name, array in parameters.items()}
    return {name: array if np.all(array > 0) else inwards(array, amount) for name, array in found.items()}
