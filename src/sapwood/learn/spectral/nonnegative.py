"""Nearest probabilistic grammar to a spectral one, in a basis in which its weights are nearly probabilities.

A spectral grammar is an L-PCFG up to an invertible matrix for each symbol; in the right basis its weights would be
probabilities. If the rows of `G^a` are the mean inside vectors `E[Y | h]` of the states of symbol `a`, then

    Y (G^a)^{-1}   has the mean  1(h)  given the state h,        p(h) G^a Z   likewise,

so moments become expected counts of states: the moment of a rule, multiplied by its count and the parent's `p(h)`,

    C^{a -> b c}(G^a, (G^b)^{-1}, (G^c)^{-1})

is the expected count of the rule with each triple of states. The means are unknown. Here they are the means of clusters
of inside vectors (k-means), a heuristic and not a consistent estimate; inverses are regularised because clusters can
lie close together. Negative counts are then clipped to zero, which gives the nearest non-negative table (by the sum of
squares, in this basis), and states are normalised: the result is an L-PCFG. Clipping is coarse, and a few iterations of
EM on the treebank repair much of it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.weights import LatentCounts, LatentWeights
from sapwood.learn.spectral.clustering import standardised
from sapwood.learn.spectral.moments import Statistics
from sapwood.learn.spectral.projection import ProjectedNodes
from sapwood.numerics.kmeans import k_means
from sapwood.runtime.executor import Executor
from sapwood.storage.shapes import Array, Float64

# Regularisation of inverses: damps singular values below this fraction of the largest.
_RIDGE = 0.2
_LEAST_SHARE = 1e-6


def state_means(projected: ProjectedNodes, workers: Executor, seed: int) -> list[Float64[Array, "m_a m_a"]]:
    """Return the mean inside vectors of each symbol's clusters, one cluster per state."""
    items = [
        (symbol, inside, values[: inside.shape[1]])
        for symbol, (inside, values) in enumerate(zip(projected.inside, projected.singular_values, strict=True))
    ]
    return list(workers.map(partial(_means_of_symbol, seed), items))


def _means_of_symbol(seed: int, item: tuple[int, np.ndarray, np.ndarray]) -> np.ndarray:
    symbol, inside, values = item
    size = inside.shape[1]
    if size == 1:
        return np.ones((1, 1))
    labels = k_means(standardised(inside) * values, size, np.random.default_rng([seed, symbol, 2]))
    sums = np.zeros((size, size))
    np.add.at(sums, labels, inside)
    counts = np.bincount(labels, minlength=size)
    # An empty cluster gets the overall mean.
    return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], inside.mean(axis=0))


def regularised_inverse(matrix: Float64[Array, "n n"], ridge: float) -> Float64[Array, "n n"]:
    """Return `(M^T M + c^2)^{-1} M^T`, where `c` is `ridge` times the largest singular value."""
    left, values, right = np.linalg.svd(matrix)
    held = values / (values**2 + (ridge * values[0]) ** 2)
    return (right.T * held) @ left.T


def nearest_counts(
    problem: LPCFGProblem,
    statistics: Statistics,
    means: list[Float64[Array, "m_a m_a"]],
    backoff: float,
    layout: LatentWeights,
    ridge: float = _RIDGE,
) -> tuple[LatentWeights, LatentCounts]:
    """Return a layout with the statistics' states, and non-negative expected counts of states."""
    corpus = problem.trees.corpus
    inverses = [regularised_inverse(matrix, ridge) for matrix in means]
    shares = [_shares(mean @ inverse) for mean, inverse in zip(statistics.inside, inverses, strict=True)]
    tensors = []
    for (a, b, c), weights in zip(corpus.rules.tolist(), statistics.tensors(corpus.rules, backoff), strict=True):
        turned = np.tensordot(means[a], weights, axes=1)
        turned = np.einsum("abc,bx,cy->axy", turned, inverses[b], inverses[c], optimize=True)
        tensors.append((turned * (shares[a] * statistics.totals[a])[:, None, None]).ravel())
    first = corpus.n_interminals
    words = [(sums @ means[a].T * shares[a]).ravel() for a, sums in enumerate(statistics.words, first)]
    root = [sums @ inverse for sums, inverse in zip(statistics.root, inverses, strict=True)]
    by_word, roots = (np.maximum(np.concatenate(parts), 0) for parts in (words, root))
    counts = LatentCounts(
        np.maximum(np.concatenate([np.zeros(0), *tensors]), 0),
        problem.trees.by_class(statistics.states, by_word),
        roots,
    )
    return replace(layout, states=statistics.states.astype(np.int32), root=roots), counts


def _shares(values: np.ndarray) -> np.ndarray:
    """Return the probabilities of states, all positive."""
    values = np.maximum(values, _LEAST_SHARE)
    return values / values.sum()
