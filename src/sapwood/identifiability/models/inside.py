"""Dynamic programs over the spans of constituency trees and over the half trees of dependency trees.

Both compute `sum over x of w_1(x_1) ... w_L(x_L) p(x)`, unnormalised, where every position of the sentence has a
*weight* for each word. With one word of weight 1 at each position this is the likelihood of a sentence; with weights 1
for all words at a position, that position is unobserved. As a function of the weights it is linear in each position, so
it contains all moments of the model, and everything else is a derivative of it.

**Marks.** For moments of any two or three words of a sentence (`phi_**`, `phi_***`), a position's weights are a
polynomial `1 + a_i t` in a *mark* `t`; the coefficient of `t^2` in the result is then the sum of `E[a_i(x_i) a_j(x_j)]`
over all pairs. So each cell of a chart keeps a vector for each number of marks inside its span (`Marks`), and all pairs
cost little more than one.

Axes of a chart are (batch, marks, spans, states), one tensor for each width, spans ordered by their first word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product

import numpy as np

from sapwood.identifiability.algebra.autodiff import Tensor, constant
from sapwood.identifiability.algebra.fields import PRODUCTS, Field
from sapwood.storage.shapes import Array, Float


class Marks:
    """Polynomials in a few marks, each up to some degree, and the multiplication of their coefficients.

    Parameters
    ----------
    degrees
        The highest degree of each mark; without marks there is one coefficient.
    """

    def __init__(self, *degrees: int) -> None:
        self.exponents = list(product(*(range(degree + 1) for degree in degrees)))
        self.size = len(self.exponents)
        index = {exponent: number for number, exponent in enumerate(self.exponents)}
        # For each coefficient of a product: the pairs of factors' coefficients that are multiplied for it.
        self.pairs: list[tuple[list[int], list[int]]] = []
        for total in self.exponents:
            lefts = list(product(*(range(degree + 1) for degree in total)))
            rights = [tuple(all_ - left for all_, left in zip(total, each, strict=True)) for each in lefts]
            self.pairs.append(([index[left] for left in lefts], [index[right] for right in rights]))


def one(field: Field, marks: Marks, *shape: int) -> Tensor:
    """Return the multiplicative identity, `(1, marks, ...)`."""
    value = np.zeros((1, marks.size, *shape))
    value[:, 0] = 1
    return constant(field, value)


def convolve(lefts: Sequence[Tensor], rights: Sequence[Tensor], marks: Marks) -> Tensor:
    """Return the sum over pieces of the product of each left with its right, `(batch, marks, spans, states)`."""
    field = lefts[0].field
    left, right = _stacked(lefts), _stacked(rights)
    value = np.stack([_summed(field, left[:, these], right[:, those], (1, 2)) for these, those in marks.pairs], axis=1)

    def pull(g: np.ndarray, _: bool) -> list[np.ndarray | None]:
        to_left, to_right = (np.zeros((len(g), *array.shape[1:])) for array in (left, right))
        for total, (these, those) in enumerate(marks.pairs):
            part = g[:, total, None]
            for here, there in zip(these, those, strict=True):
                to_left[:, here] += field.reduce(part * right[:, there])
                to_right[:, there] += field.reduce(part * left[:, here])
        pieces = [*np.moveaxis(to_left, 2, 0), *np.moveaxis(to_right, 2, 0)]
        return [field.reduce(piece) for piece in pieces]

    return Tensor(field, value, [*lefts, *rights], pull)


def _stacked(tensors: Sequence[Tensor]) -> np.ndarray:
    """Return `(batch, marks, pieces, spans, states)`."""
    batch = max(len(tensor.value) for tensor in tensors)
    return np.stack([np.broadcast_to(tensor.value, (batch, *tensor.shape[1:])) for tensor in tensors], axis=2)


def _summed(field: Field, left: np.ndarray, right: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Multiply and sum along axes."""
    terms = int(np.prod([left.shape[axis] for axis in axes]))
    products = left * right
    if terms > PRODUCTS:
        products = field.reduce(products)
    return field.reduce(products.sum(axes))


def outer(lefts: Sequence[Tensor], rights: Sequence[Tensor], marks: Marks) -> Tensor:
    """Return the sum over pieces of the outer products, `(batch, marks, spans, states * states)`."""
    field = lefts[0].field
    # (batch, marks, spans, pieces, states)
    left, right = (np.moveaxis(_stacked(side), 2, 3) for side in (lefts, rights))
    states = left.shape[-1], right.shape[-1]

    def gathered(array: np.ndarray, which: list[int]) -> np.ndarray:
        """Return (batch, spans, marks * pieces, states)."""
        chosen = np.moveaxis(array[:, which], 1, 2)
        return chosen.reshape(*chosen.shape[:2], -1, chosen.shape[-1])

    sides = [(gathered(left, these), gathered(right, those)) for these, those in marks.pairs]
    value = np.stack([field.matmul(a.swapaxes(2, 3), b) for a, b in sides], axis=1)

    def pull(g: np.ndarray, _: bool) -> list[np.ndarray | None]:
        to_left, to_right = (np.zeros((len(g), *array.shape[1:])) for array in (left, right))
        for total, (these, those) in enumerate(marks.pairs):
            part = g[:, total].reshape(*g[:, total].shape[:2], *states)
            a, b = sides[total]
            for target, which, found in (
                (to_left, these, field.matmul(b, part.swapaxes(2, 3))),
                (to_right, those, field.matmul(a, part)),
            ):
                found = found.reshape(*found.shape[:2], len(which), -1, found.shape[-1])
                for number, mark in enumerate(which):
                    target[:, mark] += found[:, :, number]
        pieces = [*np.moveaxis(to_left, 3, 0), *np.moveaxis(to_right, 3, 0)]
        return [field.reduce(piece) for piece in pieces]

    return Tensor(field, value.reshape(*value.shape[:3], -1), [*lefts, *rights], pull)


def inside_constituents(
    leaves: Tensor, rule: InsideRule, marks: Marks, spans: Sequence[Tensor] | None = None
) -> Tensor:
    """Return the inside vector of the whole sentence, summed over all binary trees, `(batch, marks, states)`.

    Parameters
    ----------
    leaves
        `(batch, marks, words, states)`: the weight of each word, given the state above it.
    rule
        Combination of children into their parent.
    marks
        The polynomials that elements are.
    spans
        Optional factors for each span, by width (from 1), `(batch, 1, spans, 1)`.
    """
    length = leaves.shape[2]
    cell = leaves if spans is None else leaves * spans[0]
    cells = [rule.sides(cell)]
    for width in range(2, length + 1):
        count = length - width + 1
        lefts = [cells[left - 1][0][:, :, :count] for left in range(1, width)]
        rights = [cells[width - left - 1][1][:, :, left : left + count] for left in range(1, width)]
        cell = rule.join(lefts, rights, marks)
        if spans is not None:
            cell = cell * spans[width - 1]
        if width < length:
            cells.append(rule.sides(cell))
    return cell[:, :, 0]


class InsideRule(ABC):
    """Combination of the inside vectors of two children into that of their parent."""

    def sides(self, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Return a cell as a left and as a right child: by default both are the cell itself."""
        return cell, cell

    @abstractmethod
    def join(self, lefts: Sequence[Tensor], rights: Sequence[Tensor], marks: Marks) -> Tensor:
        """Return the parents of pairs of children, summed over the pairs."""

    @abstractmethod
    def dense(self) -> Float[Array, "states states states"]:
        """Return `B[a, b, c]`."""


class DenseRule(InsideRule):
    """Arbitrary binary rules: `B[(a, b), c]`, `(1, states * states, states)`."""

    def __init__(self, binary: Tensor) -> None:
        self.binary = binary

    def join(self, lefts: Sequence[Tensor], rights: Sequence[Tensor], marks: Marks) -> Tensor:
        """Return `sum of B[(a, b), c] left(a) right(b)`."""
        return outer(lefts, rights, marks) @ self.binary

    def dense(self) -> Float[Array, "states states states"]:
        """Return `B[a, b, c]`."""
        states = self.binary.shape[2]
        return self.binary.value[0].reshape(states, states, states)


class IndependentChildren(InsideRule):
    """Independent children: `B[(a, b), c] = left[a, c] right[b, c]`, each `(1, states, states)`."""

    def __init__(self, left: Tensor, right: Tensor) -> None:
        self.left = left
        self.right = right

    def sides(self, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cell given its parent's state."""
        as_left = cell @ self.left
        return as_left, as_left if self.right is self.left else cell @ self.right

    def join(self, lefts: Sequence[Tensor], rights: Sequence[Tensor], marks: Marks) -> Tensor:
        """Return the products of children given the same parent."""
        return convolve(lefts, rights, marks)

    def dense(self) -> Float[Array, "states states states"]:
        """Return `B[a, b, c]`."""
        return self.left.field.reduce(self.left.value[0][:, None] * self.right.value[0])


def inside_dependencies(words: Tensor, left: Tensor, right: Tensor, marks: Marks) -> Tensor:
    """Return, for each word that may be the root, the sum over all projective trees, `(batch, marks, words)`.

    A tree over a span is a left half and a right half that share their head. A right half is empty, or a smaller one
    followed by the tree of the last argument; a left half is its mirror image. Since the tree of an argument is summed
    over all heads in it, this takes `L^3 d + L^2 d^2` steps.

    Parameters
    ----------
    words
        `(batch, marks, positions, words)`: the weight of each word at each position.
    left, right
        `A[argument, head]`, `(1, words, words)`, for arguments to the left and to the right of their heads.
    marks
        The polynomials that elements are.
    """
    length, kinds = words.shape[2:]
    # By width, the head included; the weight of a head's own word is in the left half.
    lefts, rights = [words], [one(words.field, marks, length, kinds)]
    as_left: list[Tensor] = []
    as_right: list[Tensor] = []
    for width in range(1, length + 1):
        count = length - width + 1
        trees = convolve(
            [lefts[head][:, :, :count] for head in range(width)],
            [rights[width - head - 1][:, :, head : head + count] for head in range(width)],
            marks,
        )
        if width == length:
            break
        as_left.append(trees @ left)
        as_right.append(trees @ right)
        # One word wider: an argument of each width, and the remaining smaller half.
        count -= 1
        widths = range(1, width + 1)
        lefts.append(
            convolve(
                [as_left[argument - 1][:, :, :count] for argument in widths],
                [lefts[width - argument][:, :, argument : argument + count] for argument in widths],
                marks,
            )
        )
        rights.append(
            convolve(
                [rights[width - argument][:, :, :count] for argument in widths],
                [
                    as_right[argument - 1][:, :, width + 1 - argument : width + 1 - argument + count]
                    for argument in widths
                ],
                marks,
            )
        )
    return trees[:, :, 0]
