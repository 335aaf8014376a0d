"""Number fields for exact and numerical computation: real numbers, and integers modulo a prime.

Every polynomial in the parameters (the probability of a sentence, a moment, a derivative) is computed by
`sapwood.identifiability.algebra.autodiff` with the operations of a *field*. With `Reals` the result is the usual one.
With `PrimeField` it is exact: it has no rounding, and no tolerance below which a number counts as zero.

Elements of a prime field are stored as integers in float64 arrays, between `-p/2` and `p/2`, with `p < 2**26`:
products are then at most `2**50`, eight of them can be added without rounding (`2**53`), and matrices are multiplied
by BLAS. So the same NumPy code runs in both fields; they differ only in `reduce`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from sapwood.storage.shapes import Array, Float

# Elements of a field.
Numbers: TypeAlias = Float[Array, "..."]

# The largest primes below 2**26.
PRIMES = (67108859, 67108837, 67108819, 67108777, 67108763, 67108757, 67108753, 67108747)
# Number of products of two elements that can be added before their sum must be reduced.
PRODUCTS = 8
# Longer sums of products split one factor into two parts of half its bits.
_HALF = 2.0**13
_PANEL = 48


class Field:
    """Operations on numbers in float64 arrays; this base class implements the real numbers."""

    def reduce(self, array: Numbers) -> Numbers:
        """Return the canonical representative of each number."""
        return array

    def number(self, numerator: int, denominator: int = 1) -> float:
        """Return a fraction."""
        return numerator / denominator

    def matmul(self, left: Float[Array, "*a m n"], right: Float[Array, "*b n p"]) -> Float[Array, "*c m p"]:
        """Return the product of (stacks of) matrices."""
        return np.asarray(left @ right)

    def reciprocal(self, array: Numbers) -> Numbers:
        """Return one divided by each element."""
        return np.asarray(1.0 / array)

    def inverse(self, matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """Return the inverse of a square matrix."""
        return np.linalg.inv(matrix)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
        """Return random elements; real ones are normal."""
        return rng.standard_normal(shape)


class Reals(Field):
    """The real numbers, as float64."""


class PrimeField(Field):
    """The integers modulo a prime below `2**26`.

    Examples
    --------
    >>> field = PrimeField(7)
    >>> field.reduce(np.array([10.0, 3.0, 4.0]))
    array([ 3.,  3., -3.])
    >>> field.reduce(3 * field.reciprocal(np.array([3.0])))
    array([1.])
    >>> field.rank(np.array([[1.0, 2.0], [4.0, 1.0]]))  # the determinant is -7
    1
    """

    def __init__(self, prime: int = PRIMES[0]) -> None:
        if not (2 < prime < 2**26 and all(prime % divisor for divisor in range(2, int(prime**0.5) + 1))):
            raise ValueError(f"{prime} is not a prime between 3 and 2**26")
        self.prime = prime

    def reduce(self, array: Numbers) -> Numbers:
        """Return the canonical representative of each integer of at most `2**53 - p`."""
        multiples = np.multiply(array, 1.0 / self.prime)
        np.rint(multiples, out=multiples)
        multiples *= self.prime
        return np.subtract(array, multiples, out=multiples)

    def number(self, numerator: int, denominator: int = 1) -> float:
        """Return a fraction whose denominator is not a multiple of the prime."""
        element = numerator * pow(denominator, -1, self.prime) % self.prime
        return float(element if 2 * element < self.prime else element - self.prime)

    def matmul(self, left: Float[Array, "*a m n"], right: Float[Array, "*b n p"]) -> Float[Array, "*c m p"]:
        """Return the product of (stacks of) matrices."""
        terms = left.shape[-1]
        if terms <= PRODUCTS:
            return self.reduce(left @ right)
        if terms > 2**15:
            raise ValueError(f"{terms} products are too many to add up exactly")
        high = np.rint(right * (1 / _HALF))
        product = self.reduce(left @ high)
        product *= _HALF
        product += left @ (right - _HALF * high)
        return self.reduce(product)

    def reciprocal(self, array: Numbers) -> Numbers:
        """Return one divided by each element: its power `p - 2`, by Fermat's little theorem."""
        square = self.reduce(array)
        if not np.all(square):
            raise ZeroDivisionError(f"division by zero modulo {self.prime}")
        result, exponent = np.ones_like(square), self.prime - 2
        while exponent:
            if exponent & 1:
                result = self.reduce(result * square)
            square = self.reduce(square * square)
            exponent >>= 1
        return result

    def inverse(self, matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """Return the inverse of a square matrix."""
        size = len(matrix)
        # M X - I Y = 0 with Y = I.
        basis = self.null_space(np.concatenate([matrix, -np.eye(size)], axis=1))
        if basis.shape[1] != size or not np.array_equal(basis[size:], np.eye(size)):
            raise ZeroDivisionError(f"a matrix is singular modulo {self.prime}")
        return basis[:size]

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
        """Return uniformly random elements."""
        return self.reduce(rng.integers(0, self.prime, shape).astype(float))

    def rank(self, matrix: Float[Array, "m n"]) -> int:
        """Return the rank of a matrix."""
        return len(self._upper(matrix)[1])

    def null_space(self, matrix: Float[Array, "m n"]) -> Float[Array, "n free"]:
        """Return a basis of the null space as columns; free coordinates are 0 or 1."""
        upper, pivots = self._upper(matrix)
        free = np.setdiff1d(np.arange(matrix.shape[1]), pivots)
        basis = np.zeros((matrix.shape[1], len(free)))
        basis[free, np.arange(len(free))] = 1
        for end in range(len(pivots), 0, -_PANEL):  # from the last rows to the first
            begin = max(0, end - _PANEL)
            block = -self.matmul(upper[begin:end], basis)
            for row in range(end - 1, begin - 1, -1):
                here = pivots[row]
                basis[here] = self.reduce(block[row - begin] * self.number(1, int(upper[row, here])))
                above = upper[begin:row, here, None]
                block[: row - begin] = self.reduce(block[: row - begin] - self.reduce(above * basis[here]))
        return basis

    def _upper(self, matrix: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """Return an echelon form of a matrix, and the first column of each of its rows.

        Columns are eliminated in panels, so that most of the work is matrix multiplication.
        """
        rest = self.reduce(np.asarray(matrix, float))
        columns = rest.shape[1]
        rows, pivots = [np.zeros((0, columns))], []
        for begin in range(0, columns, _PANEL):
            panel, rest = rest[:, :_PANEL].copy(), rest[:, _PANEL:]
            order, multipliers, found = self._eliminate(panel)
            size, rest = len(found), rest[order]
            # Pivot rows first eliminate each other, then all other rows.
            for step in range(size - 1):
                below = slice(step + 1, size)
                rest[below] = self.reduce(rest[below] - self.reduce(multipliers[below, step, None] * rest[step]))
            row = np.zeros((size, columns))
            row[:, begin : begin + panel.shape[1]] = panel[:size]
            row[:, begin + panel.shape[1] :] = rest[:size]
            rows.append(row)
            pivots += [begin + column for column in found]
            rest = self.reduce(rest[size:] - self.matmul(multipliers[size:], rest[:size]))
        return np.concatenate(rows), pivots

    def _eliminate(self, panel: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Bring a panel into echelon form, in place.

        Returns the new order of its rows, the multiples of each pivot's row that were subtracted from later ones, and
        the columns of the pivots.
        """
        order = np.arange(len(panel))
        multipliers = np.zeros((len(panel), min(panel.shape)))
        found: list[int] = []
        for column in range(panel.shape[1]):
            here = len(found)
            if here == len(panel):
                break
            row = int(np.argmax(panel[here:, column] != 0)) + here
            if panel[row, column] == 0:
                continue
            for array in (panel, order, multipliers):
                array[[here, row]] = array[[row, here]]
            factors = self.reduce(panel[here + 1 :, column] * self.number(1, int(panel[here, column])))
            multipliers[here + 1 :, here] = factors
            panel[here + 1 :] = self.reduce(panel[here + 1 :] - self.reduce(factors[:, None] * panel[here]))
            found.append(column)
        return order, multipliers[:, : len(found)], found
