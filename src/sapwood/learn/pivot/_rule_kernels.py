"""Compiled loops of equation 1: the states of a rule's node and of its two children, from what features say."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def rule_pass(
    outside: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    weights: np.ndarray,
    tensor: np.ndarray,
    chunk: int,
    gradient: np.ndarray,
) -> float:
    """Return `sum w log z` over triples, `z = sum t(h1,h2,h3) outside(h1) left(h2) right(h3)`; fill in its gradient.

    `outside`, `left`, `right` are `(n, m_a)`, `(n, m_b)`, `(n, m_c)`; `tensor` and `gradient` are `(m_a, m_b m_c)`.
    """
    n, m_b, m_c = len(outside), left.shape[1], right.shape[1]
    gradient[:] = 0
    value = 0.0
    size = min(chunk, n)
    pairs = np.empty((size, m_b * m_c), tensor.dtype)
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        some = pairs[: end - begin]
        for row in range(end - begin):
            for j in range(m_b):
                factor = left[begin + row, j]
                for k in range(m_c):
                    some[row, j * m_c + k] = factor * right[begin + row, k]
        own = outside[begin:end]
        mixed = np.dot(own, tensor)
        shares = np.empty((end - begin, own.shape[1]), tensor.dtype)
        for row in range(end - begin):
            z = 0.0
            for j in range(m_b * m_c):
                z += mixed[row, j] * some[row, j]
            weight = weights[begin + row]
            value += weight * math.log(max(z, 1e-300))
            share = weight / max(z, 1e-300)
            for i in range(own.shape[1]):
                shares[row, i] = share * own[row, i]
        gradient += np.dot(shares.T, some)
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def rule_em(
    outside: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    strength: float,
    chunk: int,
    iterations: int,
    tensor: np.ndarray,
) -> None:
    """Run EM for equation 1 from `tensor`, with `strength` pseudo-counts distributed like `start`."""
    gradient = np.empty_like(tensor)
    total = 0.0
    for row in range(len(weights)):
        total += weights[row]
    for _ in range(iterations):
        rule_pass(outside, left, right, weights, tensor, chunk, gradient)
        for i in range(tensor.shape[0]):
            for j in range(tensor.shape[1]):
                tensor[i, j] = (tensor[i, j] * gradient[i, j] + strength * start[i, j]) / (total + strength)
