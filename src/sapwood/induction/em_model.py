"""EM problems: a model and the sentences it is learned from, as distributions, counts and an objective.

The state of EM is the *expected counts* of all choices, from which the distributions follow. With a prior of `a` for
each outcome there are two estimates:

- `smoothed`: `(count + a) / (total + a n)`. No iteration decreases the sentences' probability times the prior density
  `prod theta^a`; with a = 0 this is plain EM;
- `variational`: `exp(psi(count + a) - psi(total + a n))`, which uses the whole posterior of the parameters
  (Beal 2003; Kurihara and Sato 2004). With a < 1 it makes distributions sparse. Each iteration raises the lower bound
  of the evidence, which is the logarithm of the sum over trees minus the divergence of posterior and prior.

The *objective* is the one that belongs to the estimate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from sapwood.errors import UsageError
from sapwood.induction.estep import Shards
from sapwood.induction.text import Text
from sapwood.runtime.executor import Executor
from sapwood.storage.shapes import Array, Float64

Counts = dict[str, np.ndarray]
ESTIMATES = ("smoothed", "variational")


class Distributions(NamedTuple):
    """Distributions with the same outcomes: an array of counts.

    Attributes
    ----------
    name
        Name of the family.
    shape
        Shape of the array; outcomes are along the last axis.
    prior
        Pseudo-count of each outcome.
    """

    name: str
    shape: tuple[int, ...]
    prior: float


class Iteration(NamedTuple):
    """Position of an iteration in its run: the start, the stage, and the iteration within this start, from 0."""

    start: int
    stage: int
    iteration: int


class EMModel(ABC):
    """A model and the sentences it is learned from.

    Parameters
    ----------
    text
        The sentences.
    lengths
        Maximum length of the sentences of each stage.
    workers
        Executor.
    estimate
        Estimate of distributions from counts.
    least
        Minimum length of informative sentences.
    anneal, cooling
        In the first iteration weights are raised to the power of `anneal`, which makes trees more alike, and in each of
        the next `cooling` ones to a power closer to 1 (Ueda and Nakano 1998; Smith and Eisner 2004).
    """

    # Whether a full step never lowers the objective; otherwise it is shortened until it does not.
    exact: ClassVar[bool] = True

    def __init__(
        self,
        text: Text,
        lengths: Sequence[int],
        workers: Executor,
        estimate: str,
        *,
        least: int = 1,
        anneal: float = 1.0,
        cooling: int = 10,
    ) -> None:
        self.text, self.estimate, self.workers = text, estimate, workers
        self.anneal, self.cooling = anneal, cooling
        self.lengths, self._least = tuple(lengths), least
        self._stage: tuple[int, Text, Shards] | None = None
        if not len(self.sentences(len(self.lengths) - 1).word):
            raise UsageError(
                f"there are no sentences of {least} to {self.lengths[-1]} words to learn from; give longer lengths"
            )

    @property
    @abstractmethod
    def families(self) -> tuple[Distributions, ...]:
        """The distributions that are learned."""

    @abstractmethod
    def begin(self, rng: np.random.Generator) -> Counts:
        """Return the counts to start with."""

    @abstractmethod
    def expect(self, theta: Counts, when: Iteration) -> tuple[float, Counts]:
        """Return the sum of the logarithms of the sums over trees, and the expected counts."""

    def sentences(self, stage: int) -> Text:
        """Return the sentences of a stage."""
        return self._of(stage)[0]

    def shards(self, stage: int) -> Shards:
        """Return the sentences of a stage in shards."""
        return self._of(stage)[1]

    def _of(self, stage: int) -> tuple[Text, Shards]:
        if self._stage is None or self._stage[0] != stage:
            part = self.text.up_to(self.lengths[stage], self._least)
            self._stage = (stage, part, Shards(part, self.workers))
        return self._stage[1:]

    def steps(self, stage: int) -> float:
        """Return the relative cost of a pass over a stage."""
        lengths = self.text.lengths[(self.text.lengths <= self.lengths[stage]) & (self.text.lengths >= self._least)]
        return float((lengths.astype(float) ** 3 + 1).sum())

    def distributions(self, counts: Counts) -> Counts:
        """Return the weights estimated from counts."""
        return {one.name: estimated(counts[one.name], one.prior, self.estimate) for one in self.families}

    def normalised(self, counts: Counts) -> Counts:
        """Return the distributions estimated from counts, each with a sum of 1."""
        return {one.name: estimated(counts[one.name], one.prior, "smoothed") for one in self.families}

    def log_prior(self, counts: Counts) -> float:
        """Return the log prior, or for `variational` minus the divergence from it: the rest of the objective."""
        if self.estimate == "variational":
            return -sum(divergence(counts[one.name], one.prior) for one in self.families)
        theta = self.distributions(counts)
        total = 0.0
        for one in self.families:
            if one.prior > 0:
                total += one.prior * float(np.log(np.maximum(theta[one.name], 1e-300)).sum())
        return total

    def inverse_temperature(self, when: Iteration) -> float:
        """Return the power to which weights are raised: below 1 while annealing."""
        return min(1.0, self.anneal + (1 - self.anneal) * when.iteration / max(self.cooling, 1))

    def is_final(self, when: Iteration) -> bool:
        """Return whether the objective is the final one, without annealing."""
        return self.inverse_temperature(when) == 1

    def em_step(self, counts: Counts, when: Iteration) -> tuple[float, float, Counts]:
        """Return the sum of logarithms and the objective of counts, and the counts after an iteration."""
        theta = self.distributions(counts)
        if (power := self.inverse_temperature(when)) < 1:
            theta = {name: array**power for name, array in theta.items()}
        value, new = self.expect(theta, when)
        return value, value + self.log_prior(counts), new


def estimated(counts: Float64[Array, "*outcomes"], prior: float, how: str) -> Float64[Array, "*outcomes"]:
    """Return the estimate from counts of outcomes, along the last axis; uniform where there are none.

    >>> estimated(np.array([[3.0, 1.0], [0.0, 0.0]]), 0.0, "smoothed")
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """
    shape = counts + prior
    totals = shape.sum(-1, keepdims=True)
    if how == "variational" and prior > 0:
        # Below this psi is about -1 / x, and e^(-1000) underflows.
        return np.exp(digamma(np.maximum(shape, 1e-3)) - digamma(np.maximum(totals, 1e-3)))
    return np.where(totals > 0, shape / np.where(totals > 0, totals, 1.0), 1.0 / counts.shape[-1])


def divergence(counts: Float64[Array, "*outcomes"], prior: float) -> float:
    """Return the divergence of Dirichlet posteriors, whose parameters are `counts + prior`, from the priors."""
    if prior <= 0:
        return 0.0
    shape, n = counts + prior, counts.shape[-1]
    totals = shape.sum(-1, keepdims=True)
    gain = gammaln(totals[..., 0]) - gammaln(shape).sum(-1) - gammaln(prior * n) + n * gammaln(prior)
    return float((gain + (counts * (digamma(shape) - digamma(totals))).sum(-1)).sum())
