"""Observation functions and their moments, exact and empirical (Hsu, Kakade and Liang 2012, section 4.1).

    1          x_1                          123        x_1 (x) x_2 (x) x_3
    12         x_1 (x) x_2                  123eta     (x_1 (x) x_2) (eta^T x_3)
    **         x_i (x) x_j, all i, j        ***        x_i (x) x_j (x) x_l, all i, j, l
    all        x_1 (x) ... (x) x_L          ***eta     (x_i (x) x_j) (eta^T x_l), all i, j, l

A word `x_i` is a unit vector with one dimension for each word, so moments are probabilities of words at positions.
Indices `i, j, l` may coincide: then a moment has the distribution of fewer words on its diagonal. (This matters for
`***eta`: `(x_i (x) x_j) (eta^T x_i)` gives the distribution of `x_i` and `x_j` for each word for which `eta` is not
zero.)

An observation function is used in two ways. `Observation.entries` lists its different elements, each with the weights
(see `sapwood.identifiability.models.inside`) under which the dynamic program computes its mean.
`Observation.functionals` gives weights under which it computes *random linear combinations* of all its elements, each
in one run, however many elements there are: the mean of `x_1 (x) ... (x) x_L` times `a_1 (x) ... (x) a_L` is one run
with weights `a_i`, and its derivatives for n random choices of the `a_i` have the same span as those of all `d^L`
elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Literal, Protocol, get_args

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.autodiff import constant
from sapwood.identifiability.algebra.fields import Field, Reals
from sapwood.identifiability.algebra.simplices import Parameters, to_tensors
from sapwood.identifiability.models.base import ConstituencyModel, Model, by_length, different
from sapwood.identifiability.models.inside import Marks
from sapwood.storage.shapes import Array, Float, Int, Num, Shaped

MomentName = Literal["1", "12", "**", "123", "123eta", "***", "***eta", "all"]
MOMENTS: tuple[str, ...] = get_args(MomentName)
# Number of initial words that each observation function uses, if not all of them.
_FIRST = {"1": 1, "12": 2, "123": 3, "123eta": 3}
# Weights by position: the columns of the matrix are multiplied with the word there.
Roles = dict[int, np.ndarray]
# The mean of the product of the words at different positions, in their order, and of `eta^T x` at one more, if any.
Joint = Callable[[tuple[int, ...], int | None], np.ndarray]
_ROWS = 8192


@dataclass(frozen=True, eq=False)
class Observation:
    """An observation function for sentences of one length.

    Parameters
    ----------
    name
        One of `MOMENTS`.
    words, length
        Number of words, and length of sentences.
    eta
        The vector of the functions that have one.
    """

    name: str
    words: int
    length: int
    eta: Float[Array, "..."]

    def __post_init__(self) -> None:
        check_observation(self.name, self.length)
        if self.eta.shape != (self.words,):
            raise UsageError(f"eta must have one element for each of the {self.words} words")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of moments."""
        d, length = self.words, self.length
        if self.name == "all":
            return (d,) * length
        order = {"1": 1, "12": 2, "**": 2, "123": 3, "123eta": 2, "***": 3, "***eta": 2}[self.name]
        positions = {"**": 2, "***": 3, "***eta": 3}.get(self.name, 0)
        return (length,) * positions + (d,) * order

    @property
    def roles(self) -> list[Roles]:
        """The weights of words at each position: each gives the moments of all combinations of columns."""
        every, length = np.eye(self.words), self.length
        if self.name == "all":
            return [dict.fromkeys(range(length), every)]
        if self.name in _FIRST:
            first: Roles = dict.fromkeys(range(_FIRST[self.name]), every)
            return [{**first, 2: self.eta[:, None]}] if self.name == "123eta" else [first]
        if self.name != "***eta":
            order = min(len(self.name), length)
            return [
                dict.fromkeys(positions, every)
                for size in range(order, 0, -1)
                for positions in combinations(range(length), size)
            ]
        one, some = self.eta[:, None], np.diag(self.eta)[:, self.eta != 0]
        found: list[Roles] = [
            {i: every, j: every, other: one}
            for i, j in combinations(range(length), 2)
            for other in range(length)
            if other not in (i, j)
        ]
        for i, j in permutations(range(length), 2):
            found += [{i: every, j: some}, {i: every, j: one}]
        return found + [{i: some} for i in range(length)]

    @property
    def size(self) -> int:
        """Number of different moments (some of them may be sums of others)."""
        return sum(int(np.prod([matrix.shape[1] for matrix in roles.values()])) for roles in self.roles)

    def entries(self, rows: int = _ROWS) -> Iterator[Float[Array, "entries 1 positions words"]]:
        """Yield weights for all different moments, up to `rows` at a time."""
        for roles in self.roles:
            yield from _weights(roles, self.words, self.length, rows)

    def functionals(
        self, field: Field, rng: np.random.Generator, count: int
    ) -> tuple[Marks, int, Float[Array, "count marks positions words"]]:
        """Return weights for random linear combinations of all moments.

        Returns the marks, the coefficient of the result that is the combination, and the weights.
        """
        length, words = self.length, self.words

        def draw(*shape: int) -> np.ndarray:
            return field.random(rng, (count, *shape))

        if self.name in _FIRST or self.name == "all":
            first = _FIRST.get(self.name, length)
            weights = np.ones((count, 1, length, words))
            weights[:, 0, :first] = draw(first, words)
            if self.name == "123eta":
                weights[:, 0, 2] = field.reduce(self.eta)
            return Marks(), 0, weights
        if self.name != "***eta":
            # A word is observed not at all, once, or by several indices: each case has its own random weights.
            order = len(self.name)
            return (
                Marks(order),
                order,
                np.concatenate([np.ones((count, 1, length, words)), draw(order, length, words)], 1),
            )
        marks = Marks(2, 1)
        weights = np.ones((count, marks.size, length, words))
        for number, (looked_at, by_eta) in enumerate(marks.exponents):
            if by_eta:
                weights[:, number] = field.reduce(draw(length, words if looked_at else 1) * field.reduce(self.eta))
            elif looked_at:
                weights[:, number] = draw(length, words)
        return marks, marks.size - 1, weights


def _weights(roles: Roles, words: int, length: int, rows: int) -> Iterator[np.ndarray]:
    """Yield weights for all combinations of columns, `(up to rows, 1, positions, words)` at a time."""
    shape = [matrix.shape[1] for matrix in roles.values()]
    total = int(np.prod(shape))
    for begin in range(0, total, rows):
        which = np.unravel_index(np.arange(begin, min(total, begin + rows)), shape)
        weights = np.ones((len(which[0]), 1, length, words))
        for (position, matrix), columns in zip(roles.items(), which, strict=True):
            weights[:, 0, position] = matrix.T[columns]
        yield weights


def check_observation(name: str, length: int) -> None:
    """Raise a `UsageError` for an observation function that sentences of this length do not have."""
    if name not in MOMENTS:
        raise UsageError(f"there are no moments {name!r}; they are named {', '.join(MOMENTS)}")
    if length < _FIRST.get(name, 1):
        raise UsageError(f"moments {name} look at {_FIRST[name]} words; sentences of length {length} have fewer")


def unit(words: int, number: int = 1) -> Float[Array, "words"]:
    """Return the unit vector `e_number`, counted from 1."""
    if not 1 <= number <= words:
        raise UsageError(f"eta = e_{number}: the words are numbered from 1 to {words}")
    return np.eye(words)[number - 1]


def exact_moments(
    model: Model, parameters: Parameters, name: str, length: int, *, eta: Float[Array, "..."] | None = None
) -> Float[Array, "..."]:
    """Return exact moments, computed by dynamic programming.

    Parameters
    ----------
    model, parameters
        The distribution.
    name
        One of `MOMENTS`.
    length
        Length of the sentences.
    eta
        A number for each word; `e_1` by default.

    Returns
    -------
    array
        Axes for positions `i, j, l`, if there are any, then for words: `**` is `(length, length, words, words)`.

    Examples
    --------
    >>> from sapwood.identifiability.models.zoo import make_model
    >>> model = make_model("dep-ie", words=2)
    >>> parameters = {"pi": np.array([0.5, 0.5]), "A": np.array([[0.9, 0.2], [0.1, 0.8]])}
    >>> exact_moments(model, parameters, "12", length=2)
    array([[0.45 , 0.075],
           [0.075, 0.4  ]])
    """
    model.check(parameters)
    observation = Observation(name, model.words, length, _eta(eta, model.words))
    return _assemble(observation, exact_joint(model, parameters, length, observation.eta))


def empirical_moments(
    sentences: Sequence[Sequence[int]] | Shaped[Array, "..."],
    name: str,
    words: int,
    *,
    eta: Float[Array, "..."] | None = None,
    counts: Num[Array, "sentences"] | None = None,
) -> Float[Array, "..."]:
    """Return the means of an observation function over sentences of the same length.

    Parameters
    ----------
    sentences
        The numbers of their words.
    name, eta
        As for `exact_moments`.
    words
        Number of different words.
    counts
        Count of each sentence; 1 by default.

    Examples
    --------
    >>> empirical_moments([[0, 1], [0, 0], [1, 1], [0, 1]], "12", words=2)
    array([[0.25, 0.5 ],
           [0.  , 0.25]])
    """
    rows = np.asarray(sentences)
    if rows.ndim != 2 or not rows.size or rows.dtype.kind not in "iu":
        raise UsageError("empirical moments are means over sentences of one length, given as rows of whole numbers")
    if rows.min() < 0 or rows.max() >= words:
        raise UsageError(f"words must be numbers from 0 to {words - 1}")
    observation = Observation(name, words, rows.shape[1], _eta(eta, words))
    return _assemble(observation, empirical_joint(rows, words, observation.eta, counts))


def empirical_joint(
    rows: Int[Array, "sentences length"],
    words: int,
    eta: Float[Array, "words"],
    counts: Num[Array, "sentences"] | None = None,
) -> Joint:
    """Return the function that computes joint moments of sentences."""
    total = len(rows) if counts is None else counts.sum()

    def joint(positions: tuple[int, ...], other: int | None) -> np.ndarray:
        shape = (words,) * len(positions)
        codes = np.ravel_multi_index(tuple(rows[:, position] for position in positions), shape)
        weights = counts
        if other is not None:
            weights = eta[rows[:, other]] * (1 if counts is None else counts)
        return (np.bincount(codes, weights, minlength=words ** len(positions)) / total).reshape(shape)

    return joint


def _eta(eta: np.ndarray | None, words: int) -> np.ndarray:
    return unit(words) if eta is None else np.asarray(eta, float)


def exact_joint(model: Model, parameters: Parameters, length: int, eta: Float[Array, "words"]) -> Joint:
    """Return the function that computes joint moments of sentences of a length under a model."""
    emission = None
    if isinstance(model, ConstituencyModel) and model.emission and model.states < model.words:
        # Moments of the states above words are smaller, and words are independent given these states.
        emission = np.asarray(parameters[model.emission], float)
        parameters = {**parameters, model.emission: np.eye(model.states)}
        model, eta = type(model)(model.states, model.states), emission.T @ eta
    tensors = to_tensors(model.blocks, parameters, tracked=False)

    def joint(positions: tuple[int, ...], other: int | None) -> np.ndarray:
        roles: Roles = dict.fromkeys(positions, np.eye(model.words))
        if other is not None:
            roles[other] = eta[:, None]
        parts = [
            model.expectation(tensors, constant(Reals(), weights)).value[:, 0]
            for weights in _weights(roles, model.words, length, _ROWS)
        ]
        found = np.concatenate(parts).reshape((model.words,) * len(positions))
        if emission is not None:
            for _ in positions:  # the first axis becomes the last, once for each axis
                found = np.tensordot(found, emission, axes=(0, 1))
        return found

    return joint


def _assemble(observation: Observation, joint: Joint) -> np.ndarray:
    """Return the array of moments from joint moments of different positions."""
    name, length, eta = observation.name, observation.length, observation.eta
    if name == "all":
        return joint(tuple(range(length)), None)
    if name == "123eta":
        return joint((0, 1), 2)
    if name in _FIRST:
        return joint(tuple(range(_FIRST[name])), None)
    every = np.arange(observation.words)
    found = np.zeros(observation.shape)
    single = [joint((i,), None) for i in range(length)]
    pair = {(i, j): joint((i, j), None) for i, j in combinations(range(length), 2)}
    pair |= {(j, i): matrix.T for (i, j), matrix in pair.items()}
    if name == "**":
        for i in range(length):
            found[i, i, every, every] = single[i]
        for (i, j), matrix in pair.items():
            found[i, j] = matrix
    elif name == "***":
        for i in range(length):
            found[i, i, i, every, every, every] = single[i]
        for (i, j), matrix in pair.items():
            found[i, i, j, every, every] = matrix
            found[i, j, i, every, :, every] = matrix
            found[j, i, i][:, every, every] = matrix.T
        for positions in combinations(range(length), 3):
            tensor = joint(positions, None)
            for order in permutations(range(3)):
                found[tuple(positions[axis] for axis in order)] = tensor.transpose(order)
    else:
        for i in range(length):
            found[i, i, i, every, every] = single[i] * eta
        for (i, j), matrix in pair.items():
            found[i, i, j, every, every] = matrix @ eta
            found[i, j, i] = matrix * eta[:, None]
            found[i, j, j] = matrix * eta
        for i, j in combinations(range(length), 2):
            for other in set(range(length)) - {i, j}:
                found[i, j, other] = joint((i, j), other)
                found[j, i, other] = found[i, j, other].T
    return found


class MomentSource(Protocol):
    """Source of moments."""

    lengths: Sequence[int]
    exact: bool

    def joint(self, length: int, eta: Float[Array, "words"]) -> Joint:
        """Return the function that gives joint moments of sentences of a length."""
        ...

    def precision(self, length: int) -> float:
        """Return the number of sentences of a length."""
        ...


class Population:
    """The exact moments of a model, for sentences of these lengths."""

    exact = True

    def __init__(self, model: Model, parameters: Parameters, lengths: Sequence[int]) -> None:
        model.check(parameters)
        self.model = model
        self.parameters = parameters
        self.lengths = sorted(set(lengths))

    def joint(self, length: int, eta: Float[Array, "words"]) -> Joint:
        """Return the function that gives joint moments of sentences of a length."""
        return exact_joint(self.model, self.parameters, length, eta)

    def precision(self, length: int) -> float:
        """Return 1: all moments are equally precise."""
        return 1.0


class Sentences:
    """The moments of a sample with `words` different words."""

    exact = False

    def __init__(self, sentences: Sequence[Sequence[int]] | Int[Array, "sentences length"], words: int) -> None:
        self.words = words
        self.groups = {length: different(rows, words) for length, (_, rows) in by_length(sentences, words).items()}
        self.lengths = list(self.groups)

    def joint(self, length: int, eta: Float[Array, "words"]) -> Joint:
        """Return the function that gives joint moments of sentences of a length."""
        rows, counts = self.groups[length]
        return empirical_joint(rows, self.words, eta, counts)

    def precision(self, length: int) -> float:
        """Return the number of sentences of a length."""
        return float(self.groups[length][1].sum())
