"""Words of states from anchors: section 5.2 of Cohen and Collins (2014) on the transpose of `Q`.

A word that only one state says is an anchor. What stands before words, seen through canonical correlations, puts each
word at a point that is a mixture of the anchors' points; the weights of the mixture are `p(h|w2)`, and Bayes' rule
makes them `s(w2|h)`.

Plain canonical correlations would be of no use: words that were seen only with each other have a correlation of 1, and
a corpus has hundreds of such pairs. So words are scaled by `(count + kappa)^-1/2`. With the exact `Q` of a model any
scaling will do, for the points are mixtures of the anchors' whatever the representation is.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sapwood.anchors.decomposition import half_from_points
from sapwood.errors import UsageError
from sapwood.lm.tiles import BigramTiles
from sapwood.run.parallel import one_blas_thread
from sapwood.shapes import Array, Float64

# Up to this many cells the singular vectors are exact.
_DENSE = 1 << 22
# Dimensions beyond those asked for, and how often the matrix and its transpose are applied.
_MORE, _POWERS = 32, 4
# Directions with a smaller part of the largest squared length are rounding.
_FLAT = 1e-12


def pivot_words(
    tiles: BigramTiles, states: int, *, kappa: float, anchor_count: float, random_state: int = 0, threads: int = 1
) -> Float64[Array, "words found"]:
    """Return `s(w2|h)` in the inner order of columns; there can be fewer states than asked for.

    Parameters
    ----------
    tiles
        The counts.
    states
        How many, which is also the dimension of the representation.
    kappa
        See above.
    anchor_count
        Words seen less often are no anchors.
    random_state
        Seed of the projection with which singular vectors are sought.
    threads
        Of the least squares.
    """
    if not (tiles.column_totals >= anchor_count).any():
        raise UsageError(
            f"no word was seen {anchor_count:g} times or more after another one, so none can stand for a state; lower "
            "anchor_count, or use method em"
        )
    with one_blas_thread():
        points = word_points(tiles, states, kappa=kappa, random_state=random_state)
        # Words never seen are nowhere, and would take the longest.
        seen = tiles.column_totals > 0
        totals = tiles.column_totals[seen]
        half = half_from_points(points[seen], totals, states, least=anchor_count, threads=threads)
    result = np.zeros((len(seen), half.states))
    result[seen] = half.rows
    return result


def word_points(
    tiles: BigramTiles, dimensions: int, *, kappa: float, random_state: int = 0
) -> Float64[Array, "words _"]:
    """Return `E[phi(w1) | w2]` in the inner order of columns, with `phi` from canonical correlations."""
    rows, columns = tiles.row_totals, tiles.column_totals
    left, right = _scales(rows, kappa), _scales(columns, kappa)
    if len(rows) * len(columns) <= _DENSE or dimensions + _MORE >= len(rows):
        matrix = tiles.dense()
        u = np.linalg.svd(left[:, None] * matrix * right, full_matrices=False)[0][:, :dimensions]
        together = matrix.T @ (left[:, None] * u)
    else:
        u = _left_vectors(tiles, left, right, dimensions, np.random.default_rng(random_state))
        together = tiles.multiply(left[:, None] * u, transposed=True).astype(np.float64)
    return np.asarray(together * np.divide(np.sqrt(tiles.total), columns, where=columns > 0, out=columns * 0)[:, None])


def _scales(totals: np.ndarray, kappa: float) -> np.ndarray:
    return np.divide(1.0, np.sqrt(totals + kappa), out=np.zeros_like(totals), where=totals > 0)


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
    # The images of the basis are a small matrix away from singular vectors: that of their inner products' eigenvectors.
    values, rotation = scipy.linalg.eigh(images.T @ images)
    return np.asarray(basis @ rotation[:, np.argsort(-values)[:dimensions]])


def _orthonormal(vectors: np.ndarray, times: int = 1) -> np.ndarray:
    """Return orthonormal vectors that span the same space, without directions that are but rounding.

    By the eigenvectors of the inner products: for tall matrices many times faster than Householder's reflections, and
    exact when done twice.
    """
    for _ in range(times):
        values, rotation = scipy.linalg.eigh(vectors.T @ vectors)
        kept = values > _FLAT * values[-1]
        vectors = vectors @ (rotation[:, kept] / np.sqrt(values[kept]))
    return vectors
