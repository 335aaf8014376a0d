"""k-means clustering: Lloyd's algorithm from the start of k-means++ (Arthur and Vassilvitskii 2007)."""

from __future__ import annotations

import numpy as np

from sapwood.storage.shapes import Array, Float, Int64

# Rounds at most, and points whose distances are computed at a time.
_ROUNDS = 30
_CHUNK = 1 << 16


def k_means(
    points: Float[Array, "points dimensions"], clusters: int, rng: np.random.Generator
) -> Int64[Array, "points"]:
    """Return the cluster of each point. A cluster that loses all its points is left empty.

    Examples
    --------
    >>> k_means(np.array([[0.0], [0.1], [9.0]]), 2, np.random.default_rng(0)).tolist()
    [1, 1, 0]
    """
    clusters = min(clusters, len(points))
    centres = points[rng.integers(len(points))][None]
    nearest = ((points - centres[0]) ** 2).sum(axis=1)
    while len(centres) < clusters:
        total = nearest.sum()
        if total <= 0:  # no more different points
            break
        drawn = int(np.searchsorted(np.cumsum(nearest), rng.random() * total, side="right"))
        chosen = points[min(drawn, len(points) - 1)]
        centres = np.concatenate([centres, chosen[None]])
        nearest = np.minimum(nearest, ((points - chosen) ** 2).sum(axis=1))
    labels = np.full(len(points), -1)
    for _ in range(_ROUNDS):
        before, labels = labels, _closest(points, centres)
        if np.array_equal(before, labels):
            break
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, points)
        counts = np.bincount(labels, minlength=len(centres))
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return labels


def _closest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    labels = np.empty(len(points), np.int64)
    norms = (centres**2).sum(axis=1) / 2
    for begin in range(0, len(points), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        labels[part] = np.argmax(points[part] @ centres.T - norms, axis=1)
    return labels
