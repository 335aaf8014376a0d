"""Forward and backward over the tags of a sentence, and what they say of each symbol at each boundary."""

# mypy: ignore-errors
from __future__ import annotations

import math

import numba
import numpy as np

from sapwood.inference._coarse_kernels import power_of_two


@numba.njit(cache=True, nogil=True)
def _rescale(values):
    """Bring the largest value into [1/2, 1); returns the exponent taken out."""
    largest = values.max()
    if not 0.0 < largest < math.inf:
        return 0
    _, shift = math.frexp(largest)
    for x in range(values.shape[0]):
        values[x] *= power_of_two(-shift)
    return shift


@numba.njit(cache=True, nogil=True)
def estimate_fits(
    n, leaf_offsets, leaf_symbol, leaf_value, tag, share, begins, follows, steps, left, right, left_exponent,
    right_exponent,
):  # fmt: skip
    """Fill `left (n + 1, S)` and `right (n + 1, S)` with exponents: how well each symbol fits at each boundary.

    An inside value of span `(i, j)` times `left[i] right[j] 2 ** (left_exponent[i] + right_exponent[j])` estimates its
    probability together with all words. Returns the sentence's probability under the Markov model over tags, as a
    number and an exponent. See `contexts` for the tables.
    """
    n_tags = steps.shape[0] - 1
    words = np.zeros((n, n_tags))
    word_exponent = np.zeros(n, np.int64)
    for i in range(n):
        for x in range(leaf_offsets[i], leaf_offsets[i + 1]):
            words[i, tag[leaf_symbol[x]]] += share[leaf_symbol[x]] * leaf_value[x]
        word_exponent[i] = _rescale(words[i])
    here = np.zeros(n_tags + 1)
    there = np.zeros(n_tags + 1)
    here[n_tags] = 1.0
    left_exponent[0] = 0
    for i in range(n + 1):
        left[i] = 0
        for t in range(n_tags + 1):
            if here[t] > 0:
                for s in range(begins.shape[1]):
                    left[i, s] += here[t] * begins[t, s]
        if i < n:
            there[:] = 0
            for t in range(n_tags + 1):
                if here[t] > 0:
                    for u in range(n_tags + 1):
                        there[u] += here[t] * steps[t, u]
            for t in range(n_tags):
                here[t] = there[t] * words[i, t]
            here[n_tags] = 0
            left_exponent[i + 1] = left_exponent[i] + word_exponent[i] + _rescale(here)
    total = 0.0
    for t in range(n_tags):
        total += here[t] * steps[t, n_tags]
    here[:] = 0
    here[n_tags] = 1.0
    right_exponent[n] = 0
    for j in range(n, -1, -1):
        right[j] = 0
        for t in range(n_tags + 1):
            if here[t] > 0:
                for s in range(follows.shape[1]):
                    right[j, s] += here[t] * follows[t, s]
        if j > 0:
            for t in range(n_tags):
                there[t] = 0.0
                if words[j - 1, t] > 0:
                    value = 0.0
                    for u in range(n_tags + 1):
                        value += steps[t, u] * here[u]
                    there[t] = value * words[j - 1, t]
            here[:n_tags] = there[:n_tags]
            here[n_tags] = 0
            right_exponent[j - 1] = right_exponent[j] + word_exponent[j - 1] + _rescale(here)
    return total, left_exponent[n]
