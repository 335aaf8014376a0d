"""Compiled loops of simplex-constrained least squares."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def active_set(gram: np.ndarray, products: np.ndarray, tolerance: float, weights: np.ndarray) -> None:
    """Solve `min x' G x / 2 - c' x` over the simplex for each row `c` of `products`; the solutions go to `weights`.

    `G` is symmetric positive definite. Each solution is exact: a set of positive elements is grown by the element with
    the steepest descent, the equations on it are solved, and elements that would become negative leave it again
    (Lawson and Hanson's method for non-negative least squares, with the constraint on the sum).
    """
    n, m = products.shape
    chosen = np.empty(m, np.int64)
    inside = np.zeros(m, np.bool_)
    factor = np.empty((m, m))
    first, second = np.empty(m), np.empty(m)
    gradient = np.empty(m)
    for row in range(n):
        c = products[row]
        x = weights[row]
        x[:] = 0.0
        inside[:] = False
        best = 0
        for j in range(1, m):
            if gram[j, j] / 2 - c[j] < gram[best, best] / 2 - c[best]:
                best = j
        size, factored = 1, 0
        chosen[0] = best
        inside[best] = True
        x[best] = 1.0
        for _ in range(10 * m + 10):
            for j in range(m):
                total = -c[j]
                for p in range(size):
                    total += gram[j, chosen[p]] * x[chosen[p]]
                gradient[j] = total
            level = 0.0
            for p in range(size):
                level += x[chosen[p]] * gradient[chosen[p]]
            entering = -1
            steepest = level - tolerance
            for j in range(m):
                if not inside[j] and gradient[j] < steepest:
                    steepest = gradient[j]
                    entering = j
            if entering < 0:
                break
            chosen[size] = entering
            inside[entering] = True
            size += 1
            while True:
                _solve(gram, c, chosen, factored, size, factor, first, second)
                factored = size
                step = 1.0
                for p in range(size):
                    old = x[chosen[p]]
                    if first[p] <= 0.0 and old - first[p] > 0.0:
                        step = min(step, old / (old - first[p]))
                for p in range(size):
                    j = chosen[p]
                    x[j] += step * (first[p] - x[j])
                kept = 0
                for p in range(size):
                    j = chosen[p]
                    if first[p] <= 0.0 and x[j] <= 1e-14:
                        x[j] = 0.0
                        inside[j] = False
                        factored = min(factored, kept)
                    else:
                        chosen[kept] = j
                        kept += 1
                dropped = size - kept
                size = kept
                if dropped == 0:
                    break
            if not inside[entering]:  # nothing but rounding was left to gain
                break
        total = 0.0
        for j in range(m):
            total += x[j]
        for j in range(m):
            x[j] /= total


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(
    gram: np.ndarray,
    c: np.ndarray,
    chosen: np.ndarray,
    factored: int,
    size: int,
    factor: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Leave in `first` the minimum over sum one, any sign, on the chosen elements: by Cholesky's factors.

    The first `factored` rows of the factor are there already.
    """
    for i in range(factored, size):
        for j in range(i + 1):
            value = gram[chosen[i], chosen[j]]
            for k in range(j):
                value -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, i] = math.sqrt(max(value, 1e-300))
            else:
                factor[i, j] = value / factor[j, j]
    for i in range(size):
        a, b = c[chosen[i]], 1.0
        for k in range(i):
            a -= factor[i, k] * first[k]
            b -= factor[i, k] * second[k]
        first[i] = a / factor[i, i]
        second[i] = b / factor[i, i]
    total_first, total_second = 0.0, 0.0
    for i in range(size - 1, -1, -1):
        a, b = first[i], second[i]
        for k in range(i + 1, size):
            a -= factor[k, i] * first[k]
            b -= factor[k, i] * second[k]
        first[i] = a / factor[i, i]
        second[i] = b / factor[i, i]
        total_first += first[i]
        total_second += second[i]
    multiplier = (total_first - 1.0) / total_second
    for i in range(size):
        first[i] -= multiplier * second[i]


@njit(cache=True, nogil=True, error_model="numpy")
def frank_wolfe(gram: np.ndarray, products: np.ndarray, tolerance: float, iterations: int, weights: np.ndarray) -> None:
    """Approach the same solutions by Frank and Wolfe's steps towards a vertex, each as long as is best."""
    n, m = products.shape
    image = np.empty(m)
    for row in range(n):
        c = products[row]
        x = weights[row]
        best = 0
        for j in range(1, m):
            if gram[j, j] / 2 - c[j] < gram[best, best] / 2 - c[best]:
                best = j
        x[:] = 0.0
        x[best] = 1.0
        image[:] = gram[best]
        for _ in range(iterations):
            vertex = 0
            level = 0.0
            square = 0.0
            for j in range(m):
                if image[j] - c[j] < image[vertex] - c[vertex]:
                    vertex = j
                level += x[j] * (image[j] - c[j])
                square += x[j] * image[j]
            gap = level - (image[vertex] - c[vertex])
            if gap <= tolerance:
                break
            curvature = square - 2 * image[vertex] + gram[vertex, vertex]
            step = 1.0 if curvature <= gap else gap / curvature
            for j in range(m):
                x[j] *= 1 - step
                image[j] += step * (gram[vertex, j] - image[j])
            x[vertex] += step
