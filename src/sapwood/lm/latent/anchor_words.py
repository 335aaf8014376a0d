"""Emission probabilities from anchor words: section 5.2 of Cohen and Collins (2014) on the transpose of `Q`.

A word emitted by only one state is an anchor. Canonical correlations with the preceding words map each word to a point
that is a mixture of the anchors' points; the weights of the mixture are `p(h|w2)`, and Bayes' rule makes them
`s(w2|h)`.

Plain canonical correlations would be useless: words seen only with each other have a correlation of 1, and a corpus has
hundreds of such pairs. So words are scaled by `(count + shrinkage)^-1/2`. With the exact `Q` of a model any scaling
works, because the points are mixtures of the anchors' points in any representation.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sapwood.errors import UsageError
from sapwood.lm.latent.tiles import BigramTiles
from sapwood.numerics.anchor_nmf import half_from_points
from sapwood.runtime.blas import one_blas_thread
from sapwood.storage.shapes import Array, Float64

# Up to this many cells the singular vectors are exact.
_DENSE = 1 << 22
# Extra dimensions, and number of applications of the matrix and its transpose.
_MORE, _POWERS = 32, 4
# Directions with a smaller squared length, relative to the largest, are rounding errors.
_FLAT = 1e-12


def pivot_words(
    tiles: BigramTiles, states: int, *, shrinkage: float, anchor_count: float, random_state: int = 0, threads: int = 1
) -> Float64[Array, "words found"]:
    """Return `s(w2|h)` in the inner order of columns; there can be fewer states than requested.

    Parameters
    ----------
    tiles
        The counts.
    states
        Number of states, which is also the dimension of the representation.
    shrinkage
        See above.
    anchor_count
        Words seen less often are not anchors.
    random_state
        Seed of the projection for the singular vectors.
    threads
        Number of threads for least squares.
    """
    if not (tiles.column_totals >= anchor_count).any():
        raise UsageError(
            f"no word was seen {anchor_count:g} times or more after another one, so none can stand for a state; lower "
            "anchor_count, or use method em"
        )
    with one_blas_thread():
        points = word_points(tiles, states, shrinkage=shrinkage, random_state=random_state)
        # Words never seen have no point, and would take the longest.
        seen = tiles.column_totals > 0
        totals = tiles.column_totals[seen]
        half = half_from_points(points[seen], totals, states, min_count=anchor_count, threads=threads)
    result = np.zeros((len(seen), half.states))
    result[seen] = half.rows
    return result


def word_points(
    tiles: BigramTiles, dimensions: int, *, shrinkage: float, random_state: int = 0
) -> Float64[Array, "words _"]:
    """Return `E[phi(w1) | w2]` in the inner order of columns, with `phi` from canonical correlations."""
    rows, columns = tiles.row_totals, tiles.column_totals
    left, right = _scales(rows, shrinkage), _scales(columns, shrinkage)
    if len(rows) * len(columns) <= _DENSE or dimensions + _MORE >= len(rows):
        matrix = tiles.dense()
        u = np.linalg.svd(left[:, None] * matrix * right, full_matrices=False)[0][:, :dimensions]
        together = matrix.T @ (left[:, None] * u)
    else:
        u = _left_vectors(tiles, left, right, dimensions, np.random.default_rng(random_state))
        together = tiles.multiply(left[:, None] * u, transposed=True).astype(np.float64)
    return np.asarray(together * np.divide(np.sqrt(tiles.total), columns, where=columns > 0, out=columns * 0)[:, None])


def _scales(totals: np.ndarray, shrinkage: float) -> np.ndarray:
    return np.divide(1.0, np.sqrt(totals + shrinkage), out=np.zeros_like(totals), where=totals > 0)


def _left_vectors(
    tiles: BigramTiles, left: np.ndarray, right: np.ndarray, dimensions: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the first left singular vectors of the scaled counts by subspace iteration from random vectors."""
    images = rng.standard_normal((len(right), dimensions + _MORE), np.float32)
    for power in range(_POWERS):
        times = 1 if power < _POWERS - 1 else 2
        basis = _orthonormal(left[:, None] * tiles.multiply(right[:, None] * images), times)
        images = right[:, None] * tiles.multiply(left[:, None] * basis, transposed=True)
        if power < _POWERS - 1:
            images = _orthonormal(images)
    # The images of the basis differ from singular vectors by a small matrix: the eigenvectors of their inner products.
    values, rotation = scipy.linalg.eigh(images.T @ images)
    return np.asarray(basis @ rotation[:, np.argsort(-values)[:dimensions]])


def _orthonormal(vectors: np.ndarray, times: int = 1) -> np.ndarray:
    """Return orthonormal vectors that span the same space, without directions that are rounding errors.

    Computed from the eigenvectors of the inner products: for tall matrices many times faster than Householder
    reflections, and exact when done twice.
    """
    for _ in range(times):
        values, rotation = scipy.linalg.eigh(vectors.T @ vectors)
        kept = values > _FLAT * values[-1]
        vectors = vectors @ (rotation[:, kept] / np.sqrt(values[kept]))
    return vectors
