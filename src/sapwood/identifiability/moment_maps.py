"""Moments as functions of parameters, with derivatives: those of models, and user-defined ones.

`sapwood.identifiability.identify` checks a `MomentMap`. `ModelMoments` has the moments of a parsing model,
`FunctionMoments` those of any function written with tensors, and `JacobianMoments` takes derivatives as floats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Literal, Self, TypeAlias

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.autodiff import Tensor, constant, gradients
from sapwood.identifiability.algebra.fields import Field, Reals
from sapwood.identifiability.algebra.simplices import Block, Parameters, chart_gradient, count_free, to_tensors
from sapwood.identifiability.models.base import Model
from sapwood.identifiability.moments import Observation, check_observation, unit
from sapwood.storage.shapes import Array, Float

# Some rows of a Jacobian.
Rows: TypeAlias = Float[Array, "moments coordinates"]
# A word's number, from 1, for its unit vector; or any vector.
Eta = int | Literal["random"]
# With more moments than this, singular values are those of random combinations.
_MOST_ROWS = 50_000
CHUNK = 2048


class MomentMap(ABC):
    """Moments as a function of parameters.

    Attributes
    ----------
    blocks
        The parameters.
    exact
        Whether the map can be computed in a prime field.
    """

    blocks: Sequence[Block]
    exact: bool = True

    def drawn(self, field: Field, rng: np.random.Generator) -> Self:
        """Return the map with the random part of the moments drawn once for all their rows."""
        return self

    @abstractmethod
    def functionals(self, parameters: Mapping[str, Tensor], rng: np.random.Generator, count: int) -> Tensor:
        """Return random linear combinations of all moments, `(count,)`."""

    @abstractmethod
    def jacobian(self, parameters: Parameters, rng: np.random.Generator) -> Iterator[Rows]:
        """Yield batches of rows of the Jacobian in float64, with respect to the chart."""

    @property
    def degree(self) -> int | None:
        """A bound on the degree of each element of the Jacobian of `functionals`, if known."""
        return None

    @property
    def size(self) -> int | None:
        """Number of different moments, if known."""
        return None


class ModelMoments(MomentMap):
    """The moments of a parsing model.

    Parameters
    ----------
    model
        The model.
    names
        One or more names of observation functions, see `sapwood.identifiability.moments`.
    lengths
        One or more lengths of sentences; all moments of all lengths are observed.
    eta
        A word's number from 1, for the unit vector; or `"random"`.
    """

    def __init__(self, model: Model, names: Sequence[str], lengths: Sequence[int], eta: Eta = 1) -> None:
        self.model = model
        self.blocks = model.blocks
        self.observed = [(name, length) for name in names for length in lengths]
        self.eta = eta
        self._vector: np.ndarray | None = None
        if not self.observed:
            raise UsageError("name at least one kind of moments and one length")
        for name, length in self.observed:
            check_observation(name, length)
        if eta != "random":
            unit(model.words, eta)

    def describe(self) -> str:
        """Return a description of the model and its observed moments."""
        model, names = self.model, dict.fromkeys(name for name, _ in self.observed)
        sizes = f"{model.words} words" + ("" if model.states is None else f", {model.states} states")
        of = " and ".join(str(length) for length in dict.fromkeys(length for _, length in self.observed))
        eta = "random" if self.eta == "random" else f"= e_{self.eta}"
        shown = " and ".join(f"{name} (eta {eta})" if name.endswith("eta") else name for name in names)
        return f"{model.name}, {sizes}, sentences of length {of}, moments {shown}"

    def drawn(self, field: Field, rng: np.random.Generator) -> Self:
        """Return the moments with one random `eta`; a different one for each row would observe more of them."""
        if self.eta != "random" or self._vector is not None:
            return self
        found = copy(self)
        found._vector = field.random(rng, (self.model.words,))
        return found

    def observations(self, field: Field, rng: np.random.Generator) -> list[Observation]:
        """Return the observation functions, all with the same `eta`."""
        words, eta = self.model.words, self.drawn(field, rng)._vector
        if self.eta != "random":
            eta = unit(words, self.eta)
        assert eta is not None
        return [Observation(name, words, length, eta) for name, length in self.observed]

    def functionals(self, parameters: Mapping[str, Tensor], rng: np.random.Generator, count: int) -> Tensor:
        """Return random linear combinations of all moments, `(count,)`: a run of the dynamic program for each."""
        field = next(iter(parameters.values())).field
        found: Tensor | None = None
        for observation in self.observations(field, rng):
            marks, coefficient, weights = observation.functionals(field, rng, count)
            part = self.model.expectation(parameters, constant(field, weights), marks)[:, coefficient]
            found = part if found is None else found + part
        assert found is not None
        return found

    def jacobian(self, parameters: Parameters, rng: np.random.Generator) -> Iterator[Rows]:
        """Yield the rows of the Jacobian: of all different moments, or of combinations if there are too many."""
        drawn = self.drawn(Reals(), rng)
        observations = drawn.observations(Reals(), rng)
        tensors = to_tensors(self.blocks, parameters)
        if sum(observation.size for observation in observations) > _MOST_ROWS:
            wanted = 2 * count_free(self.blocks)
            for begin in range(0, wanted, CHUNK):
                yield rows_of(self.blocks, tensors, drawn.functionals(tensors, rng, min(CHUNK, wanted - begin)))
            return
        for observation in observations:
            for weights in observation.entries(CHUNK):
                result = self.model.expectation(tensors, constant(Reals(), weights))[:, 0]
                yield rows_of(self.blocks, tensors, result)

    @property
    def degree(self) -> int:
        """A bound on the degree: that of the moments, and of the weights that combine them."""
        return max(self.model.degree(length) + length for _, length in self.observed)

    @property
    def size(self) -> int:
        """Number of different moments."""
        return sum(observation.size for observation in self.observations(Reals(), np.random.default_rng(0)))


class FunctionMoments(MomentMap):
    """Moments by any function that is written with tensors: `+`, `-`, `*`, `@`, sums, parts, reciprocals, inverses.

    Parameters
    ----------
    blocks
        The parameters.
    function
        Takes the blocks by name, `(1, outcomes, conditions)`, and returns the moments, `(1, moments)`.
    degree
        An optional bound on the degree of its derivatives, if it is a polynomial; required for a bound on the error.

    Examples
    --------
    Two tosses of one of two coins, where the coin is unknown: two moments cannot determine three parameters.

    >>> def throws(p):
    ...     coin, heads = p["coin"].reshape(2), p["heads"][:, 0]
    ...     return concatenate([(coin * heads).sum(1).reshape(1), (coin * heads * heads).sum(1).reshape(1)], axis=1)
    >>> from sapwood.identifiability.identify import check_identifiability
    >>> from sapwood.identifiability.algebra.autodiff import concatenate
    >>> blocks = [Block("coin", 2), Block("heads", 2, 2)]
    >>> found = check_identifiability(FunctionMoments(blocks, throws))
    >>> found.identifiable, found.rank, found.parameters
    (False, 2, 3)
    """

    def __init__(
        self, blocks: Sequence[Block], function: Callable[[Mapping[str, Tensor]], Tensor], degree: int | None = None
    ) -> None:
        self.blocks = blocks
        self.function = function
        self._degree = degree

    def functionals(self, parameters: Mapping[str, Tensor], rng: np.random.Generator, count: int) -> Tensor:
        """Return random linear combinations of all moments, `(count,)`."""
        found = self._moments(parameters)
        return (found * constant(found.field, found.field.random(rng, (count, found.shape[1])))).sum(1)

    def jacobian(self, parameters: Parameters, _: np.random.Generator) -> Iterator[Rows]:
        """Yield the rows of the Jacobian."""
        tensors = to_tensors(self.blocks, parameters)
        found = self._moments(tensors)
        size = found.shape[1]
        for begin in range(0, size, CHUNK):
            choice = constant(found.field, np.eye(size)[begin : begin + CHUNK])
            yield rows_of(self.blocks, tensors, (found * choice).sum(1))

    def _moments(self, parameters: Mapping[str, Tensor]) -> Tensor:
        found = self.function(parameters)
        if len(found.shape) != 2 or found.shape[0] != 1:
            raise UsageError(f"a moment function returns a tensor of shape (1, moments), not {found.shape}")
        return found

    @property
    def degree(self) -> int | None:
        """The given bound, plus one for the random combination."""
        return None if self._degree is None else self._degree + 1


class JacobianMoments(MomentMap):
    """Moments known only by their Jacobian, as a function of floats: the rank is by singular values alone.

    Parameters
    ----------
    blocks
        The parameters.
    function
        Takes the chart, see `sapwood.identifiability.algebra.simplices`, and returns the Jacobian.
    """

    exact = False

    def __init__(self, blocks: Sequence[Block], function: Callable[[Float[Array, "coordinates"]], Rows]) -> None:
        self.blocks = blocks
        self.function = function

    def functionals(self, parameters: Mapping[str, Tensor], rng: np.random.Generator, count: int) -> Tensor:
        """Raise an error: there are no moments, only their derivatives."""
        raise NotImplementedError

    def jacobian(self, parameters: Parameters, _: np.random.Generator) -> Iterator[Rows]:
        """Yield the Jacobian."""
        chart = np.concatenate([parameters[block.name][:-1].reshape(-1) for block in self.blocks])
        found = np.asarray(self.function(chart), float)
        if found.ndim != 2 or found.shape[1] != len(chart):
            raise UsageError(f"a Jacobian has shape (moments, {len(chart)}), not {found.shape}")
        yield found


def rows_of(
    blocks: Sequence[Block], parameters: Mapping[str, Tensor], result: Tensor
) -> Float[Array, "batch coordinates"]:
    """Return the Jacobian of a result, `(batch,)`, with respect to the chart."""
    found = gradients(result, [parameters[block.name] for block in blocks])
    return chart_gradient(blocks, found, result.field)
