"""Reverse-mode automatic differentiation: arrays that record how they were computed.

A `Tensor` is an array over a field (`sapwood.identifiability.algebra.fields`) whose first axis is the *batch*: each row
is a run of the same program, with parameters shared by all rows (batch 1) and data of its own. `gradients` goes back
over the computation once and returns exact derivatives of the result with respect to the parameters: one gradient for
each row (the Jacobian of as many functions as there are rows) or their sum (sufficient for EM).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sapwood.identifiability.algebra.fields import Field
from sapwood.storage.shapes import Array, Float

# Maps the gradient of a tensor, and whether each row has its own, to the gradients of the tensors it was computed from.
Pullback = Callable[[np.ndarray, bool], Sequence[np.ndarray | None]]


class Tensor:
    """An array over a field, with its history.

    Arithmetic between tensors broadcasts as NumPy does, but both must have the same number of axes.

    Parameters
    ----------
    field
        The kind of numbers.
    value
        The array, with a batch of 1 if all rows share it.
    parents, pullback
        Tensors it was computed from, and the function that maps gradients back to them.
    tracked
        Whether derivatives with respect to it may be requested.
    """

    __slots__ = ("field", "key", "parents", "pullback", "tracked", "value")

    def __init__(
        self,
        field: Field,
        value: Float[Array, "batch *axes"],
        parents: Sequence[Tensor] = (),
        pullback: Pullback | None = None,
        *,
        tracked: bool = True,
    ) -> None:
        self.field = field
        self.value = value
        self.tracked: bool = any(parent.tracked for parent in parents) if parents else tracked
        self.parents = tuple(parents) if self.tracked else ()
        self.pullback = pullback if self.tracked else None
        self.key: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array, batch first."""
        return self.value.shape

    def __add__(self, other: Tensor) -> Tensor:
        value = self.field.reduce(self.value + other.value)
        return Tensor(self.field, value, [self, other], lambda g, _: [g, g])

    def __sub__(self, other: Tensor) -> Tensor:
        value = self.field.reduce(self.value - other.value)
        return Tensor(self.field, value, [self, other], lambda g, _: [g, -g])

    def __mul__(self, other: Tensor) -> Tensor:
        reduce = self.field.reduce

        def pull(g: np.ndarray, _: bool) -> list[np.ndarray | None]:
            return [reduce(g * b.value) if a.tracked else None for a, b in ((self, other), (other, self))]

        return Tensor(self.field, reduce(self.value * other.value), [self, other], pull)

    def __matmul__(self, other: Tensor) -> Tensor:
        """Multiply `(batch, ..., m, n)` by `(batch, n, p)`."""
        return _matmul(self, other)

    def __getitem__(self, key: Any) -> Tensor:
        """Return a part, by integers and slices; the batch is not cut: `tensor[:, 2, 1:3]`."""
        part = Tensor(self.field, self.value[key], [self], lambda g, _: [g])
        part.key = key
        return part

    def times(self, numerator: int, denominator: int = 1) -> Tensor:
        """Return the tensor times a fraction."""
        factor, reduce = self.field.number(numerator, denominator), self.field.reduce
        return Tensor(self.field, reduce(self.value * factor), [self], lambda g, _: [reduce(g * factor)])

    def sum(self, axis: int) -> Tensor:
        """Return the sums along an axis that is not the batch."""

        def pull(g: np.ndarray, _: bool) -> list[np.ndarray]:
            g = np.expand_dims(g, axis)
            return [np.broadcast_to(g, (len(g), *self.shape[1:]))]

        return Tensor(self.field, self.field.reduce(self.value.sum(axis)), [self], pull)

    def reshape(self, *shape: int) -> Tensor:
        """Return the same elements in another shape, given without the batch."""

        def pull(g: np.ndarray, _: bool) -> list[np.ndarray]:
            return [g.reshape(len(g), *self.shape[1:])]

        return Tensor(self.field, self.value.reshape(len(self.value), *shape), [self], pull)

    def transpose(self) -> Tensor:
        """Return the tensor with its last two axes swapped."""
        return Tensor(self.field, self.value.swapaxes(-1, -2), [self], lambda g, _: [g.swapaxes(-1, -2)])

    def reciprocal(self) -> Tensor:
        """Return one divided by each element."""
        reduce, value = self.field.reduce, self.field.reciprocal(self.value)
        square = reduce(value * value)
        return Tensor(self.field, value, [self], lambda g, _: [reduce(g * -square)])

    def inverse(self) -> Tensor:
        """Return the inverse of a square matrix, `(1, n, n)`, that all rows share."""
        field, inverse = self.field, self.field.inverse(self.value[0])

        def pull(g: np.ndarray, _: bool) -> list[np.ndarray]:
            return [-field.matmul(field.matmul(inverse.T[None], g), inverse.T[None])]

        return Tensor(field, inverse[None], [self], pull)


def constant(field: Field, value: Float[Array, "batch *axes"]) -> Tensor:
    """Return a tensor without derivatives."""
    return Tensor(field, value, tracked=False)


def concatenate(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Concatenate tensors of the same batch along an axis that is not the batch."""
    ends = np.cumsum([tensor.shape[axis] for tensor in tensors])[:-1]
    value = np.concatenate([tensor.value for tensor in tensors], axis)
    return Tensor(tensors[0].field, value, tensors, lambda g, _: np.split(g, ends, axis))


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    field, shape = left.field, left.shape
    many = left.value.reshape(shape[0], -1, shape[-1])

    def pull(g: np.ndarray, rows: bool) -> list[np.ndarray | None]:
        g = g.reshape(len(g), -1, g.shape[-1])
        to_left = to_right = None
        if left.tracked:
            to_left = _product(field, g, right.value.swapaxes(1, 2)).reshape(-1, *shape[1:])
        if right.tracked:
            if rows or len(right.value) > 1:
                to_right = field.matmul(many.swapaxes(1, 2), g)
            else:  # the sum over the batch, as one product
                every = np.broadcast_to(many, (len(g), *many.shape[1:])).reshape(1, -1, shape[-1])
                to_right = field.matmul(every.swapaxes(1, 2), g.reshape(1, -1, g.shape[-1]))
        return [to_left, to_right]

    value = _product(field, many, right.value)
    return Tensor(field, value.reshape(len(value), *shape[1:-1], right.shape[-1]), [left, right], pull)


def _product(field: Field, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Multiply `(batch, m, n)` by `(batch, n, p)`, as one matrix if all rows share the second."""
    if len(right) > 1:
        return field.matmul(left, right)
    flat = field.matmul(left.reshape(-1, left.shape[-1]), right[0])
    return flat.reshape(*left.shape[:-1], right.shape[-1])


def gradients(result: Tensor, inputs: Sequence[Tensor], *, rows: bool = True) -> list[Float[Array, "batch *axes"]]:
    """Return the derivatives of a result, `(batch,)`, with respect to each of the inputs.

    Parameters
    ----------
    result
        One number for each row.
    inputs
        Tensors from which it was computed, with a batch of 1 if all rows share them.
    rows
        Whether to return a gradient for each row, `(batch, ...)`, or the sum over all rows for shared inputs,
        `(1, ...)`.
    """
    kept = {id(tensor) for tensor in inputs}
    found: dict[int, np.ndarray] = {id(result): np.ones(result.shape)}
    owned: set[int] = set()
    for tensor in _order(result):
        name, reduce = id(tensor), tensor.field.reduce
        if name not in found:
            continue
        # Sums of reduced parts are exact, so they are reduced once, here.
        gradient = found[name] = reduce(found[name])
        if tensor.pullback is None:
            continue
        for parent, part in zip(tensor.parents, tensor.pullback(gradient, rows), strict=True):
            if part is None or not parent.tracked:
                continue
            there = id(parent)
            if tensor.key is not None:
                if there not in owned:
                    whole = np.zeros((len(part), *parent.shape[1:]))
                    if there in found:
                        whole += found[there]
                    found[there] = whole
                    owned.add(there)
                found[there][tensor.key] += _narrowed(part, tensor.shape, rows)
                continue
            part = _narrowed(part, parent.shape, rows)
            if there in owned:
                found[there] += part
            elif there in found:
                found[there] = found[there] + part
                owned.add(there)
            else:
                found[there] = part
        if name not in kept:
            del found[name]
    return [found.get(id(tensor), np.zeros((len(result.value) if rows else 1, *tensor.shape[1:]))) for tensor in inputs]


def _narrowed(gradient: np.ndarray, shape: tuple[int, ...], rows: bool) -> np.ndarray:
    """Sum a gradient along the axes along which its tensor was broadcast."""
    first = 1 if rows else 0
    axes = tuple(axis for axis in range(first, len(shape)) if shape[axis] == 1 < gradient.shape[axis])
    return gradient.sum(axes, keepdims=True) if axes else gradient


def _order(result: Tensor) -> list[Tensor]:
    """Return all ancestors of the result in topological order, each before its own inputs."""
    order: list[Tensor] = []
    seen: set[int] = set()
    stack: list[tuple[Tensor, bool]] = [(result, False)]
    while stack:
        tensor, finished = stack.pop()
        if finished:
            order.append(tensor)
        elif id(tensor) not in seen:
            seen.add(id(tensor))
            stack.append((tensor, True))
            stack.extend((parent, False) for parent in tensor.parents if parent.tracked)
    return order[::-1]
