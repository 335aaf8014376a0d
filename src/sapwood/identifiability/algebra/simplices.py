"""Parameters as blocks of probability distributions, and their free coordinates.

A model's parameters are matrices whose columns are distributions: `T[a, c]` is the probability of outcome `a` given
condition `c`, as in the papers. A column with n outcomes has n - 1 free coordinates, all its elements but the last; the
vector of all free coordinates is the parameters' *chart*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.autodiff import Tensor
from sapwood.identifiability.algebra.fields import Field, Reals
from sapwood.storage.shapes import Array, Float

# A block's array: a vector, or a matrix with a column for each condition.
Distributions: TypeAlias = Float[Array, "outcomes *conditions"]
Parameters: TypeAlias = Mapping[str, Distributions]


@dataclass(frozen=True)
class Block:
    """Distributions over the same outcomes.

    Parameters
    ----------
    name
        Its name in the model's formulas.
    outcomes
        Number of outcomes.
    conditions
        Number of distributions, one for each condition: the columns of a matrix. None is one distribution without a
        condition: a vector.
    """

    name: str
    outcomes: int
    conditions: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its array."""
        return (self.outcomes,) if self.conditions is None else (self.outcomes, self.conditions)

    @property
    def columns(self) -> int:
        """Number of distributions."""
        return 1 if self.conditions is None else self.conditions

    @property
    def free(self) -> int:
        """Number of coordinates in the chart."""
        return (self.outcomes - 1) * self.columns


def count_free(blocks: Sequence[Block]) -> int:
    """Return the number of coordinates of the chart."""
    return sum(block.free for block in blocks)


def to_chart(blocks: Sequence[Block], parameters: Parameters) -> Float[Array, "coordinates"]:
    """Return the free coordinates of all blocks, one after another, each row by row."""
    check_parameters(blocks, parameters)
    return np.concatenate([np.asarray(parameters[block.name], float)[:-1].reshape(-1) for block in blocks])


def from_chart(
    blocks: Sequence[Block], vector: Float[Array, "..."], field: Field | None = None
) -> dict[str, Distributions]:
    """Return the parameters with these coordinates; the omitted elements make the sums 1."""
    field = field or Reals()
    if np.shape(vector) != (count_free(blocks),):
        raise UsageError(f"the parameters have {count_free(blocks)} free coordinates, not {np.shape(vector)}")
    found, begin = {}, 0
    for block in blocks:
        part = np.asarray(vector, float)[begin : begin + block.free].reshape(block.outcomes - 1, block.columns)
        whole = np.concatenate([part, field.reduce(1 - part.sum(0, keepdims=True))])
        found[block.name] = whole.reshape(block.shape)
        begin += block.free
    return found


def chart_gradient(
    blocks: Sequence[Block], gradients: Sequence[Float[Array, "rows outcomes conditions"]], field: Field
) -> Float[Array, "rows coordinates"]:
    """Return derivatives with respect to the chart from those with respect to all elements of each block."""
    parts = [field.reduce(gradient[:, :-1] - gradient[:, -1:]) for gradient in gradients]
    return np.concatenate([part.reshape(len(part), block.free) for block, part in zip(blocks, parts, strict=True)], 1)


def whole_direction(
    blocks: Sequence[Block], vectors: Float[Array, "coordinates vectors"], field: Field
) -> dict[str, Float[Array, "outcomes conditions vectors"]]:
    """Return the change of all elements of each block along a direction of the chart."""
    found, begin = {}, 0
    for block in blocks:
        part = vectors[begin : begin + block.free].reshape(block.outcomes - 1, block.columns, vectors.shape[1])
        found[block.name] = np.concatenate([part, field.reduce(-part.sum(0, keepdims=True))])
        begin += block.free
    return found


def random_parameters(
    blocks: Sequence[Block], rng: np.random.Generator, concentration: float = 1.0
) -> dict[str, Distributions]:
    """Return random parameters from Dirichlet distributions; `concentration` 1 is uniform."""
    found = {}
    for block in blocks:
        columns = rng.dirichlet(np.full(block.outcomes, concentration), block.columns).T
        found[block.name] = columns.reshape(block.shape)
    return found


def random_point(blocks: Sequence[Block], field: Field, rng: np.random.Generator) -> dict[str, Distributions]:
    """Return random parameters in any field; they also sum to one in a prime field."""
    if isinstance(field, Reals):
        return random_parameters(blocks, rng)
    return from_chart(blocks, field.random(rng, (count_free(blocks),)), field)


def to_tensors(
    blocks: Sequence[Block], parameters: Parameters, field: Field | None = None, *, tracked: bool = True
) -> dict[str, Tensor]:
    """Return the parameters as tensors, `(1, outcomes, conditions)`."""
    field = field or Reals()
    return {
        block.name: Tensor(
            field,
            np.asarray(parameters[block.name], float).reshape(1, block.outcomes, block.columns),
            tracked=tracked,
        )
        for block in blocks
    }


def inwards(array: Distributions, amount: float) -> Distributions:
    """Return distributions without zeros, mixed with `amount` of the uniform distribution."""
    return (1 - amount) * array + amount / len(array)


def check_parameters(blocks: Sequence[Block], parameters: Parameters, tolerance: float = 1e-6) -> None:
    """Raise a `UsageError` if parameters are missing, have the wrong shape, or are not distributions."""
    names = [block.name for block in blocks]
    if set(parameters) != set(names):
        raise UsageError(f"the model's parameters are {', '.join(names)}, not {', '.join(map(str, parameters))}")
    for block in blocks:
        array = np.asarray(parameters[block.name], float)
        if array.shape != block.shape:
            raise UsageError(f"{block.name} must have shape {block.shape}, not {array.shape}")
        if not np.all(array >= -tolerance) or not np.allclose(array.sum(0), 1, rtol=0, atol=tolerance):
            raise UsageError(f"{block.name}: columns must be probabilities that sum to 1")
