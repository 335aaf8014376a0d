"""Arithmetic modulo primes, against Python's whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.identifiability.algebra.fields import PRIMES, PrimeField, Reals

LARGE = PrimeField(PRIMES[0])


def whole(array: np.ndarray) -> np.ndarray:
    return array.astype(np.int64).astype(object)


def same(found: np.ndarray, wanted: np.ndarray, prime: int) -> bool:
    """Return whether arrays stand for the same elements, and the first is reduced."""
    reduced = np.abs(found).max(initial=0) <= (prime + 3) / 2 and np.array_equal(found, np.rint(found))
    return bool(reduced and not np.any((whole(found) - wanted) % prime))


def extremes(rng: np.random.Generator, prime: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return elements of the largest size there are, where rounding would show first."""
    return rng.choice([-1.0, 1.0], shape) * ((prime - 1) // 2 - rng.integers(0, 3, shape))


@given(st.sampled_from([3, 5, 251, *PRIMES]), st.integers(-(2**53) + 2**26, 2**53 - 2**26))
def test_reduce(prime: int, number: int) -> None:
    found = PrimeField(prime).reduce(np.array([float(number)]))
    assert same(found, np.array([number], object), prime)


@pytest.mark.parametrize("prime", [5, PRIMES[0], PRIMES[-1]])
@pytest.mark.parametrize("terms", [1, 8, 9, 100, 3000])
def test_products_of_matrices_do_not_round(prime: int, terms: int) -> None:
    rng, field = np.random.default_rng(terms), PrimeField(prime)
    for make in (lambda *shape: field.random(rng, shape), lambda *shape: extremes(rng, prime, shape)):
        left, right = make(2, 3, terms), make(2, terms, 4)
        wanted = np.stack([whole(a) @ whole(b) for a, b in zip(left, right, strict=True)])
        assert same(field.matmul(left, right), wanted, prime)


def test_too_long_products_are_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        LARGE.matmul(np.ones((1, 2**15 + 1)), np.ones((2**15 + 1, 1)))


@given(st.integers(1, PRIMES[0] - 1), st.integers(-(10**30), 10**30))
def test_fractions(denominator: int, numerator: int) -> None:
    found = LARGE.number(numerator, denominator)
    assert (int(found) * denominator - numerator) % LARGE.prime == 0
    reciprocal = LARGE.reciprocal(LARGE.reduce(np.array([float(denominator)])))
    assert (int(reciprocal[0]) * denominator - 1) % LARGE.prime == 0


def test_division_by_zero() -> None:
    with pytest.raises(ZeroDivisionError):
        LARGE.reciprocal(np.array([1.0, float(LARGE.prime)]))
    with pytest.raises(ZeroDivisionError):
        LARGE.inverse(np.array([[1.0, 2.0], [2.0, 4.0]]))


@pytest.mark.parametrize("prime", [1, 2, 9, 2**26 + 15, 67108861])
def test_other_numbers_are_no_primes(prime: int) -> None:
    with pytest.raises(ValueError, match="not a prime"):
        PrimeField(prime)


@pytest.mark.parametrize("size", [1, 4, 60, 130])
def test_inverse(size: int) -> None:
    matrix = LARGE.random(np.random.default_rng(size), (size, size))
    np.testing.assert_array_equal(LARGE.matmul(matrix, LARGE.inverse(matrix)), np.eye(size))


@pytest.mark.parametrize(("rows", "columns", "rank"), [(7, 5, 3), (5, 7, 5), (150, 110, 97), (60, 200, 60), (3, 3, 0)])
def test_rank_and_null_space(rows: int, columns: int, rank: int) -> None:
    rng = np.random.default_rng(rank)
    matrix = LARGE.matmul(LARGE.random(rng, (rows, rank)), LARGE.random(rng, (rank, columns)))
    # Zero columns and repeated rows make pivots jump.
    matrix[:, 0] = 0
    matrix[-1] = matrix[0]
    rank = min(rank, columns - 1, rows - 1)
    assert LARGE.rank(matrix) == rank
    basis = LARGE.null_space(matrix)
    assert basis.shape == (columns, columns - rank)
    assert not LARGE.matmul(matrix, basis).any()
    assert LARGE.rank(basis) == columns - rank


def test_rank_of_small_numbers_is_the_usual_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        matrix = rng.integers(-2, 3, rng.integers(1, 6, 2)).astype(float)
        assert LARGE.rank(matrix) == np.linalg.matrix_rank(matrix)


def test_rank_depends_on_the_prime() -> None:
    matrix = np.array([[1.0, 2.0], [3.0, 11.0]])  # the determinant is 5
    assert PrimeField(5).rank(matrix) == 1
    assert PrimeField(7).rank(matrix) == 2


def test_random_elements_are_spread() -> None:
    drawn = LARGE.random(np.random.default_rng(0), (10000,))
    assert abs(drawn.mean()) < LARGE.prime / 100
    assert np.abs(drawn).max() > 0.49 * LARGE.prime
    assert len(np.unique(drawn)) > 9990


def test_reals() -> None:
    field = Reals()
    matrix = np.array([[2.0, 0.0], [1.0, 4.0]])
    assert field.number(1, 4) == 0.25
    np.testing.assert_array_equal(field.matmul(matrix, field.inverse(matrix)), np.eye(2))
    np.testing.assert_array_equal(field.reciprocal(np.array([4.0])), [0.25])
