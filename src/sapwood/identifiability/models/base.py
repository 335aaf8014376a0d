"""Base classes of parsing models: parameters on simplices, and a chart.

A model defines how its parameters make the weights of one of the two dynamic programs
(`sapwood.identifiability.models.inside`), which computes expected products of weights of words. Probabilities, trees
and samples follow from these two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import ClassVar

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.autodiff import Tensor, constant
from sapwood.identifiability.algebra.fields import Reals
from sapwood.identifiability.algebra.simplices import (
    Block,
    Distributions,
    Parameters,
    check_parameters,
    count_free,
    from_chart,
    random_parameters,
    to_chart,
    to_tensors,
)
from sapwood.identifiability.models.inside import InsideRule, Marks, inside_constituents, inside_dependencies
from sapwood.identifiability.models.posterior import (
    ConstituencyPosterior,
    DependencyPosterior,
    constituency_posterior,
    dependency_posterior,
)
from sapwood.identifiability.models.sampling import (
    ConstituencySample,
    DependencySample,
    sample_constituents,
    sample_dependencies,
)
from sapwood.storage.shapes import Array, Float, Int, Shaped

# Number of sentences to process at once.
_SENTENCES = 4096


class Model(ABC):
    """A distribution over sentences of each length, with hidden trees.

    Parameters
    ----------
    words
        Number of different words; a word is a number from 0.
    states
        Number of hidden states, for models that have any.
    """

    name: ClassVar[str]
    # Whether all trees of a length are equally probable. Otherwise results are conditioned on the length.
    uniform: ClassVar[bool] = True

    def __init__(self, words: int, states: int | None = None) -> None:
        if words < 1:
            raise UsageError(f"a model needs at least one word, not {words}")
        self.words = words
        self.states = states

    @property
    @abstractmethod
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of parameters."""

    @abstractmethod
    def mass(self, parameters: Mapping[str, Tensor], weights: Tensor, marks: Marks) -> Tensor:
        """Return the sum over all sentences of the product of their words' weights and the weights of their trees.

        Parameters
        ----------
        parameters
            The blocks, `(1, outcomes, conditions)`.
        weights
            `(batch, marks, positions, words)`.
        marks
            The polynomials that elements of `weights` are, see `sapwood.identifiability.models.inside`.

        Returns
        -------
        Tensor
            `(batch, marks)`. For a uniform model each tree has prior weight 1.
        """

    @abstractmethod
    def trees(self, length: int) -> int:
        """Return the number of trees of sentences of a length."""

    @abstractmethod
    def degree(self, length: int) -> int:
        """Return a bound on the degree in the parameters of any derivative of a moment.

        For moments that are quotients of polynomials, this is the degree of the numerators when all derivatives of a
        moment have a common denominator.
        """

    @abstractmethod
    def sample(
        self, parameters: Parameters, length: int, count: int, rng: np.random.Generator
    ) -> ConstituencySample | DependencySample:
        """Draw sentences of a length with their trees."""

    @abstractmethod
    def posterior(self, parameters: Parameters, sentence: Sequence[int]) -> ConstituencyPosterior | DependencyPosterior:
        """Return the posterior over the trees of a sentence."""

    @property
    def n_parameters(self) -> int:
        """The number of free parameters."""
        return count_free(self.blocks)

    def random(self, rng: np.random.Generator, concentration: float = 1.0) -> dict[str, Distributions]:
        """Return random parameters; a smaller `concentration` makes distributions more uneven."""
        return random_parameters(self.blocks, rng, concentration)

    def chart(self, parameters: Parameters) -> Float[Array, "coordinates"]:
        """Return the free coordinates of parameters."""
        return to_chart(self.blocks, parameters)

    def parameters(self, chart: Float[Array, "coordinates"]) -> dict[str, Distributions]:
        """Return the parameters with these free coordinates."""
        return from_chart(self.blocks, chart)

    def check(self, parameters: Parameters) -> None:
        """Raise a `UsageError` unless these are parameters of the model."""
        check_parameters(self.blocks, parameters)

    def expectation(self, parameters: Mapping[str, Tensor], weights: Tensor, marks: Marks | None = None) -> Tensor:
        """Return the expected product of the weights of the words of a sentence, given its length, `(batch, marks)`."""
        marks = marks or Marks()
        mass, length = self.mass(parameters, weights, marks), weights.shape[2]
        if self.uniform:
            return mass.times(1, self.trees(length))
        everything = constant(weights.field, np.ones((1, 1, length, self.words)))
        return mass * self.mass(parameters, everything, Marks()).reciprocal()

    def log_likelihood(
        self, parameters: Parameters, sentences: Sequence[Sequence[int]] | Int[Array, "sentences length"]
    ) -> Float[Array, "sentences"]:
        """Return the log-probability of each sentence among those of its length.

        Examples
        --------
        >>> from sapwood.identifiability.models.zoo import make_model
        >>> model = make_model("dep-ie", words=2)
        >>> even = {"pi": np.array([0.5, 0.5]), "A": np.full((2, 2), 0.5)}
        >>> np.exp(model.log_likelihood(even, [[0, 1, 1], [0]]))
        array([0.125, 0.5  ])
        """
        self.check(parameters)
        tensors = to_tensors(self.blocks, parameters, tracked=False)
        found = np.zeros(len(sentences))
        # Weights that keep products of many small probabilities in range.
        scale = max(self.words / 4, 1.0)
        for length, (which, rows) in by_length(sentences, self.words).items():
            for begin in range(0, len(which), _SENTENCES):
                part = slice(begin, begin + _SENTENCES)
                weights = constant(Reals(), scale * one_hot(rows[part], self.words))
                value = self.expectation(tensors, weights).value[:, 0]
                with np.errstate(divide="ignore"):
                    found[which[part]] = np.log(value) - length * np.log(scale)
        return found


def by_length(
    sentences: Sequence[Sequence[int]] | Shaped[Array, "..."], words: int
) -> dict[int, tuple[Int[Array, "sentences"], Int[Array, "sentences length"]]]:
    """Return, for each length, the indices of its sentences and their words."""
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    if isinstance(sentences, np.ndarray) and sentences.ndim == 2 and sentences.size:
        found[sentences.shape[1]] = (np.arange(len(sentences)), sentences)
    else:
        groups: dict[int, list[int]] = {}
        for index, sentence in enumerate(sentences):
            groups.setdefault(len(sentence), []).append(index)
        for length, which in sorted(groups.items()):
            if not length:
                raise UsageError(f"sentence {which[0]} (counted from 0) is empty")
            found[length] = (np.array(which), np.array([sentences[index] for index in which]))
    for _, rows in found.values():
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= words:
            raise UsageError(f"words must be whole numbers from 0 to {words - 1}")
    return found


def different(
    rows: Int[Array, "sentences length"], words: int
) -> tuple[Int[Array, "kinds length"], Int[Array, "kinds"]]:
    """Return the different sentences among some of the same length, in order, and their counts."""
    length = rows.shape[1]
    if words**length >= 2**62:
        return np.unique(rows, axis=0, return_counts=True)
    every = rows @ words ** np.arange(length)[::-1]
    if words**length <= max(len(rows), 1000):  # counting is faster than sorting
        counts = np.bincount(every)
        codes = np.flatnonzero(counts)
        counts = counts[codes]
    else:
        codes, counts = np.unique(every, return_counts=True)
    return np.stack([codes // words ** (length - 1 - place) % words for place in range(length)], axis=1), counts


def one_hot(sentences: Int[Array, "sentences positions"], words: int) -> Float[Array, "sentences 1 positions words"]:
    """Return the weights that select exactly these sentences."""
    return np.eye(words)[sentences][:, None]


@dataclass(frozen=True)
class ConstituencyWeights:
    """The weights of a chart over spans.

    Attributes
    ----------
    root
        `(1, states, 1)`.
    rule
        Combination of children into their parent.
    lexical
        `O[word, state]`, `(1, words, states)`.
    """

    root: Tensor
    rule: InsideRule
    lexical: Tensor


class ConstituencyModel(Model):
    """A model with binary trees whose nodes have hidden states."""

    # The block in which words depend only on the state above them, if there is one.
    emission: ClassVar[str | None] = "O"

    def __init__(self, words: int, states: int | None = None) -> None:
        if states is None or states < 1:
            raise UsageError(f"{self.name} has hidden states: give their number, at least 1")
        super().__init__(words, states)
        self.states: int = states

    @abstractmethod
    def weights(self, parameters: Mapping[str, Tensor]) -> ConstituencyWeights:
        """Return the weights of the chart, given the blocks of parameters."""

    def mass(self, parameters: Mapping[str, Tensor], weights: Tensor, marks: Marks) -> Tensor:
        """See `Model.mass`."""
        chart = self.weights(parameters)
        return (inside_constituents(weights @ chart.lexical, chart.rule, marks) @ chart.root)[:, :, 0]

    def sample(self, parameters: Parameters, length: int, count: int, rng: np.random.Generator) -> ConstituencySample:
        """Draw sentences of a length with their trees.

        Examples
        --------
        >>> from sapwood.identifiability.models.zoo import make_model
        >>> model = make_model("pcfg-ie", words=2, states=2)
        >>> alternating = {"pi": np.array([1.0, 0.0]), "T": np.array([[0.0, 1.0], [1.0, 0.0]]), "O": np.eye(2)}
        >>> print(model.sample(alternating, length=2, count=1, rng=np.random.default_rng(0)).tree(0))
        (0 (1 1) (1 1))
        """
        self.check(parameters)
        chart = self.weights(to_tensors(self.blocks, parameters, tracked=False))
        root, lexical = chart.root.value[0, :, 0], chart.lexical.value[0]
        return sample_constituents(root, chart.rule.dense(), lexical, _positive(length, "length"), count, rng)

    def posterior(self, parameters: Parameters, sentence: Sequence[int]) -> ConstituencyPosterior:
        """Return the posterior over the trees of a sentence: probabilities of spans, and of any tree."""
        self.check(parameters)
        tensors = to_tensors(self.blocks, parameters, tracked=False)
        ((length, (_, rows)),) = by_length([sentence], self.words).items()
        chart = self.weights(tensors)
        normaliser = float(self.trees(length))
        if not self.uniform:
            everything = constant(Reals(), np.ones((1, 1, length, self.words)))
            normaliser = float(self.mass(tensors, everything, Marks()).value[0, 0])
        root, leaves = chart.root.value[0, :, 0], chart.lexical.value[0][rows[0]]
        return constituency_posterior(leaves, chart.rule, root, float(np.log(normaliser)))

    def trees(self, length: int) -> int:
        """Return a Catalan number."""
        return comb(2 * length - 2, length - 1) // length

    def degree(self, length: int) -> int:
        """Return the number of choices in a tree: a root, two children of each node, and words."""
        return 3 * length - 1


@dataclass(frozen=True)
class DependencyWeights:
    """The weights of a chart over half trees.

    Attributes
    ----------
    root
        `(1, words, 1)`.
    left, right
        `A[argument, head]`, `(1, words, words)`, for arguments to the left and to the right of their heads.
    """

    root: Tensor
    left: Tensor
    right: Tensor


class DependencyModel(Model):
    """A model with projective dependency trees and without hidden states: each word is drawn given its head."""

    def __init__(self, words: int, states: int | None = None) -> None:
        if states is not None:
            raise UsageError(f"{self.name} has no hidden states; omit their number")
        super().__init__(words)

    @abstractmethod
    def weights(self, parameters: Mapping[str, Tensor]) -> DependencyWeights:
        """Return the weights of the chart, given the blocks of parameters."""

    def mass(self, parameters: Mapping[str, Tensor], weights: Tensor, marks: Marks) -> Tensor:
        """See `Model.mass`."""
        chart = self.weights(parameters)
        return (inside_dependencies(weights, chart.left, chart.right, marks) @ chart.root)[:, :, 0]

    def sample(self, parameters: Parameters, length: int, count: int, rng: np.random.Generator) -> DependencySample:
        """Draw sentences of a length with their trees."""
        root, left, right = self._arrays(parameters)
        return sample_dependencies(root, left, right, _positive(length, "length"), count, rng)

    def posterior(self, parameters: Parameters, sentence: Sequence[int]) -> DependencyPosterior:
        """Return the posterior over the trees of a sentence: probabilities of edges, and of any tree."""
        root, left, right = self._arrays(parameters)
        ((length, (_, rows)),) = by_length([sentence], self.words).items()
        words = rows[0]
        pairs = np.ix_(words, words)
        return dependency_posterior(root[words], left[pairs], right[pairs], float(np.log(self.trees(length))))

    def _arrays(self, parameters: Parameters) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self.check(parameters)
        chart = self.weights(to_tensors(self.blocks, parameters, tracked=False))
        return chart.root.value[0, :, 0], chart.left.value[0], chart.right.value[0]

    def trees(self, length: int) -> int:
        """Return the number of projective trees."""
        return comb(3 * length - 2, length - 1) // length

    def degree(self, length: int) -> int:
        """Return the number of words, each of which is chosen once."""
        return length


def _positive(value: int, name: str) -> int:
    if value < 1:
        raise UsageError(f"{name} must be at least 1, not {value}")
    return value
