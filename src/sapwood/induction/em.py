"""EM for parsing models from sentences without trees: the baseline of unmixing, and what its results are polished by.

The expected number of times that a parameter is used is the parameter times the derivative of the log-likelihood with
respect to it, so one pass back over the dynamic program is the E-step of any model. The M-step makes distributions of
these counts. Where a model's likelihood is not a polynomial in its parameters (`dep-ies`, whose root follows from `A`;
`pcfg-ies`, which is conditioned on lengths) this is only a direction, and the step is halved until the likelihood does
not fall. Either way each iteration makes the sentences more probable, or no less, and ends where it ends: which
maximum it finds depends on the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.errors import UsageError
from sapwood.induction.fields import Reals
from sapwood.induction.model import Model, by_length, different, one_hot
from sapwood.induction.simplices import Parameters, inwards, to_tensors
from sapwood.induction.tape import constant, gradients
from sapwood.run.progress import Progress, Silent
from sapwood.shapes import Array, Float, Int

# How many different sentences to take at once.
_SENTENCES = 2048
# By what part of itself rounding may make the log-likelihood fall.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class EMResult:
    """Where EM ended.

    Attributes
    ----------
    parameters
        The best that were found.
    log_likelihoods
        Of all sentences, before each iteration and after the last one, for the start that ended best.
    converged
        Whether that start ended because there was nothing to gain any more.
    """

    parameters: dict[str, Float[Array, "outcomes *conditions"]]
    log_likelihoods: list[float]
    converged: bool


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
        """Return the log-likelihood, and its derivatives, if it is not minus infinity."""
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
    iterations: int = 200,
    tolerance: float = 1e-9,
    restarts: int = 1,
    accelerate: bool = True,
    random_state: int = 0,
    progress: Progress | None = None,
) -> EMResult:
    """Learn the parameters of a model from sentences by EM.

    Parameters
    ----------
    model
        The model.
    sentences
        Rows of word numbers; they may have different lengths.
    start
        Where to begin; at random, if not given. Zeros stay zeros, so a start with any is moved a little inwards.
    iterations
        The most iterations.
    tolerance
        End when an iteration gains less than this for each sentence.
    restarts
        How many random starts; the one that ends best is returned.
    accelerate
        Whether each iteration tries to go further in the direction of EM's steps, at the cost of one more pass.
    random_state
        Seed of the starts.
    progress
        What to report to.

    Examples
    --------
    >>> from sapwood.induction.models import make_model
    >>> model = make_model("dep-ie", words=2)
    >>> found = fit_em(model, [[0, 0], [1, 1], [0, 0], [0, 1]], iterations=50)
    >>> bool(found.log_likelihoods[-1] > found.log_likelihoods[0])
    True
    """
    for name, value in (("iterations", iterations), ("restarts", restarts)):
        if value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")
    data = _Data(model, sentences)
    starts = restarts if start is None else 1
    best: EMResult | None = None
    with (progress or Silent()).stage("em", starts * iterations, "iterations") as stage:
        for number in range(starts):
            if start is None:
                begin = model.random(np.random.default_rng([random_state, number]))
            else:
                model.check(start)
                begin = _inwards(start)
            found = _climb(data, begin, iterations, tolerance * data.total, accelerate, stage.step)
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
    data: _Data,
    parameters: dict[str, np.ndarray],
    iterations: int,
    least: float,
    accelerate: bool,
    report: Callable[..., None],
) -> EMResult:
    """Iterate from one start."""
    here = _Place(parameters, *data.expectations(parameters))
    if here.value == -np.inf:
        raise UsageError("a sentence has probability zero under the starting point; start elsewhere")
    values, converged = [here.value], False
    for _ in range(iterations):
        there = _step(data, here)
        if accelerate and there.value > here.value:
            there = _leap(data, here, there)
        report(log_likelihood=round(there.value, 3))
        gain = there.value - here.value
        if gain > 0:
            here = there
            values.append(here.value)
        if gain <= least:
            converged = True
            break
    return EMResult(here.parameters, values, converged)


def _step(data: _Data, here: _Place) -> _Place:
    """Return where an iteration of EM leads, the step halved while the likelihood would fall."""
    target = {name: _distributions(here.parameters[name], slope) for name, slope in here.slopes.items()}
    size = 1.0
    while True:
        moved = {name: (1 - size) * here.parameters[name] + size * target[name] for name in target}
        there = _Place(moved, *data.expectations(moved))
        if there.value >= here.value - _ROUNDING * abs(here.value):
            return there
        if size < 1e-4:
            return here
        size /= 2


def _leap(data: _Data, here: _Place, there: _Place) -> _Place:
    """Return a place further in the direction in which two steps of EM lead, if that is better than one step.

    The length is that of Varadhan and Roland (2008): from how much shorter the second step is than the first.
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
    """Return the expected counts as distributions; what was never used stays what it was.

    Counts that are not those of a polynomial can be negative. Adding a constant to all slopes of a distribution changes
    the step's length but not where it ends, so one is added that makes them positive.
    """
    counts = parameters * (slopes + 2 * np.maximum(-slopes.min(0), 0))
    totals = counts.sum(0)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1), parameters)


def _inwards(parameters: Parameters, amount: float = 1e-3) -> dict[str, np.ndarray]:
    """Return parameters without zeros, if there were any."""
    found = {name: np.asarray(array, float) for name, array in parameters.items()}
    return {name: array if np.all(array > 0) else inwards(array, amount) for name, array in found.items()}
