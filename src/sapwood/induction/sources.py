"""Where moments come from: the exact ones of a model, or those of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sapwood.induction.model import Model, by_length, different
from sapwood.induction.moments import Joint, empirical_joint, exact_joint
from sapwood.induction.simplices import Parameters


class Source(Protocol):
    """Where moments come from."""

    lengths: Sequence[int]
    exact: bool

    def joint(self, length: int, eta: np.ndarray) -> Joint:
        """Return the function that gives joint moments of sentences of a length."""
        ...

    def precision(self, length: int) -> float:
        """Return how many sentences of a length there are."""
        ...


class Population:
    """The exact moments of a model, for sentences of these lengths."""

    exact = True

    def __init__(self, model: Model, parameters: Parameters, lengths: Sequence[int]) -> None:
        model.check(parameters)
        self.model = model
        self.parameters = parameters
        self.lengths = sorted(set(lengths))

    def joint(self, length: int, eta: np.ndarray) -> Joint:
        """Return the function that gives joint moments of sentences of a length."""
        return exact_joint(self.model, self.parameters, length, eta)

    def precision(self, length: int) -> float:  # noqa: ARG002
        """Return 1: all moments are as good."""
        return 1.0


class Sentences:
    """The moments of a sample, `words` different words in it."""

    exact = False

    def __init__(self, sentences: Sequence[Sequence[int]] | np.ndarray, words: int) -> None:
        self.words = words
        self.groups = {length: different(rows, words) for length, (_, rows) in by_length(sentences, words).items()}
        self.lengths = list(self.groups)

    def joint(self, length: int, eta: np.ndarray) -> Joint:
        """Return the function that gives joint moments of sentences of a length."""
        rows, counts = self.groups[length]
        return empirical_joint(rows, self.words, eta, counts)

    def precision(self, length: int) -> float:
        """Return the number of sentences of a length."""
        return float(self.groups[length][1].sum())
