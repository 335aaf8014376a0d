"""Compiled loops over the entries of sparse tensors."""

from __future__ import annotations

import numpy as np
from numba import njit

# Pairs of states taken together in `sandwich`: their columns of two matrices should fit into a core's cache.
_CHUNK = 512


@njit(cache=True, nogil=True)
def apply(places: np.ndarray, values: np.ndarray, left: np.ndarray, right: np.ndarray, result: np.ndarray) -> None:
    """Add `T(I, x, y)` of each row to `result`, `(rows, n_a)`."""
    for row in range(len(left)):
        for entry in range(len(values)):
            i, j, k = places[entry]
            result[row, i] += values[entry] * left[row, j] * right[row, k]


@njit(cache=True, nogil=True)
def contract_last(places: np.ndarray, values: np.ndarray, matrix: np.ndarray, result: np.ndarray) -> None:
    """Add `sum over k of T(i, j, k) M(k, d)` to `result`, `(n_a, n_b, d)`."""
    for entry in range(len(values)):
        i, j, k = places[entry]
        for d in range(matrix.shape[1]):
            result[i, j, d] += values[entry] * matrix[k, d]


@njit(cache=True, nogil=True)
def sandwich(
    rows: np.ndarray,
    places: np.ndarray,
    values: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    pairs: np.ndarray,
    parents: np.ndarray,
    pair_of: np.ndarray,
    other_values: np.ndarray,
    result: np.ndarray,
) -> None:
    """Add `Z` to `result`, `(n_a, n_a')`.

    For each state `i` the sums over `j` and `k` are found for all `pairs` `(j', k')` of the other tensor, a chunk of
    them at a time, and then distributed to its entries, which stand at `(parents, pairs[pair_of])`.
    """
    n_pairs = len(pairs)
    order = np.argsort(pair_of)
    buffer = np.empty(_CHUNK)
    first = 0
    for begin in range(0, n_pairs, _CHUNK):
        size = min(_CHUNK, n_pairs - begin)
        x = np.empty((left.shape[0], size))
        y = np.empty((right.shape[0], size))
        for p in range(size):
            j, k = pairs[begin + p]
            x[:, p] = left[:, j]
            y[:, p] = right[:, k]
        last = first
        while last < len(order) and pair_of[order[last]] < begin + size:
            last += 1
        for i in range(len(rows) - 1):
            if rows[i] == rows[i + 1]:
                continue
            buffer[:size] = 0.0
            for entry in range(rows[i], rows[i + 1]):
                value, j, k = values[entry], places[entry, 1], places[entry, 2]
                for p in range(size):
                    buffer[p] += value * x[j, p] * y[k, p]
            for at in range(first, last):
                entry = order[at]
                result[i, parents[entry]] += buffer[pair_of[entry] - begin] * other_values[entry]
        first = last


@njit(cache=True, nogil=True)
def half_sandwich(
    half: np.ndarray, right: np.ndarray, places: np.ndarray, values: np.ndarray, result: np.ndarray
) -> None:
    """Add `sum over k, j', k' of H(i, k, j') Y(k, k') T'(i', j', k')` to `result`, `(n_a, n_a')`."""
    for i in range(half.shape[0]):
        for entry in range(len(values)):
            above, j, k = places[entry]
            total = 0.0
            for state in range(half.shape[1]):
                total += half[i, state, j] * right[state, k]
            result[i, above] += total * values[entry]
