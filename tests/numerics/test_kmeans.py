"""k-means: blobs are found, and every point is with the nearest mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from sapwood.numerics import kmeans
from sapwood.numerics.kmeans import k_means


def groups(labels: np.ndarray) -> list[list[int]]:
    """Return the clusters, whatever their numbers."""
    return sorted(np.flatnonzero(labels == label).tolist() for label in np.unique(labels))


@pytest.mark.parametrize("seed", range(5))
def test_blobs_are_found(seed):
    rng = np.random.default_rng(seed)
    centres = np.array([[0, 0, 0], [50, 0, 0], [0, 50, 0], [50, 50, 50], [-50, 0, 80]], float)
    truth = rng.permutation(np.repeat(np.arange(5), 30))
    labels = k_means(centres[truth] + rng.normal(size=(150, 3)), 5, np.random.default_rng(seed))
    assert groups(labels) == groups(truth)


def check_k_means(points: np.ndarray, clusters: int, labels: np.ndarray) -> None:
    """Every point is in the cluster with the nearest mean."""
    used = np.unique(labels)
    means = np.array([points[labels == label].mean(axis=0) for label in used])
    distances = ((points[:, None] - means[None]) ** 2).sum(axis=2)
    own = distances[np.arange(len(points)), np.searchsorted(used, labels)]
    np.testing.assert_allclose(own, distances.min(axis=1), atol=1e-9 * max(1.0, np.abs(points).max() ** 2))
    assert len(used) <= min(clusters, len(np.unique(points, axis=0)))
    assert labels.shape == (len(points),)
    assert labels.min() >= 0
    assert labels.max() < clusters


@examples(60)
@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 8), st.integers(0, 2**32 - 1), st.booleans())
def test_points_are_with_the_nearest_mean(count, dimensions, clusters, seed, coarse):
    rng = np.random.default_rng(seed)
    points = (
        rng.integers(0, 3, size=(count, dimensions)).astype(float) if coarse else rng.normal(size=(count, dimensions))
    )
    labels = k_means(points, clusters, np.random.default_rng(seed))
    # Forty points come to rest long before the rounds are over.
    check_k_means(points, clusters, labels)
    np.testing.assert_array_equal(labels, k_means(points, clusters, np.random.default_rng(seed)))


def test_never_more_clusters_than_different_points():
    points = np.repeat(np.array([[0.1, 0.7], [0.3, 0.2], [1 / 3, 5.0]]), [9, 1, 20], axis=0)
    for seed in range(10):
        labels = k_means(points, 8, np.random.default_rng(seed))
        assert groups(labels) == [list(range(9)), [9], list(range(10, 30))]
    assert k_means(np.zeros((7, 2)), 4, np.random.default_rng(0)).tolist() == [0] * 7
    assert k_means(np.ones((1, 2)), 4, np.random.default_rng(0)).tolist() == [0]


def test_points_by_the_part(monkeypatch):
    points = np.random.default_rng(0).normal(size=(300, 4))
    whole = k_means(points, 6, np.random.default_rng(1))
    monkeypatch.setattr(kmeans, "_CHUNK", 37)
    assert groups(k_means(points, 6, np.random.default_rng(1))) == groups(whole)
