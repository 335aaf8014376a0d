"""Anchors: among points in a convex hull, those that are its corners (FastAnchorWords of Arora et al. 2013)."""

from __future__ import annotations

import numpy as np

from sapwood.shapes import Array, Bool, Float, Int

# Points closer to the hull of the anchors than this part of the longest point's length are no new corners.
_FLAT = 1e-7
# Distances that differ by no more than this part are equal.
_EQUAL = 1e-9


def find_anchors(
    points: Float[Array, "points dimensions"],
    anchors: int,
    candidates: Bool[Array, "points"] | None = None,
    mass: Float[Array, "points"] | None = None,
) -> Int[Array, "anchors"]:
    """Return the numbers of up to `anchors` points, each as far as can be from the affine hull of those before it.

    A first one is taken far from the mean, the others follow, then each is replaced by the point farthest from the hull
    of all others (the second loop of FastAnchorWords, which gives its guarantee under noise). There are fewer than
    asked for when the points span no more dimensions.

    Parameters
    ----------
    points
        Where they are.
    anchors
        How many, at least 1.
    candidates
        Which points may be anchors; by default all. Points known badly had better not be.
    mass
        Of points equally far away the one with the most is taken.
    """
    allowed = np.arange(len(points)) if candidates is None else np.flatnonzero(candidates)
    rows = points[allowed]
    weight = np.ones(len(rows)) if mass is None else mass[allowed]
    away = ((rows - rows.mean(axis=0)) ** 2).sum(axis=1)
    chosen = [_farthest(away, weight)]
    longest = float((rows**2).sum(axis=1).max())
    rest = rows - rows[chosen[0]]
    while len(chosen) < anchors:
        lengths = (rest**2).sum(axis=1)
        farthest = _farthest(lengths, weight)
        if lengths[farthest] <= _FLAT**2 * longest:
            break
        chosen.append(farthest)
        direction = rest[farthest] / np.sqrt(lengths[farthest])
        rest = rest - np.outer(rest @ direction, direction)
    if len(chosen) > 1:
        around = _Simplex(rows, chosen)
        for place in range(len(chosen)):
            lengths = around.distances(place)
            if lengths.max() > lengths[chosen[place]] * (1 + _EQUAL):
                chosen[place] = _farthest(lengths, weight)
                around = _Simplex(rows, chosen)
    return allowed[chosen]


def _farthest(lengths: np.ndarray, weight: np.ndarray) -> int:
    """Return the heaviest of the farthest points."""
    far = np.flatnonzero(lengths >= lengths.max() * (1 - _EQUAL))
    return int(far[weight[far].argmax()])


class _Simplex:
    """Where points are as seen from a simplex of some of them: what it takes to leave out one corner after the other.

    A point's squared distance from the affine hull of all corners but one is that from the hull of all plus the square
    of the corner's barycentric coordinate times its height above the others.
    """

    def __init__(self, rows: np.ndarray, chosen: list[int]) -> None:
        corners = rows[chosen]
        moved = rows - corners[0]
        inverse = np.linalg.pinv((corners[1:] - corners[0]).T)
        coordinates = moved @ inverse.T
        rest = moved - coordinates @ (corners[1:] - corners[0])
        self._rest = (rest**2).sum(axis=1)
        self._coordinates = np.column_stack([1 - coordinates.sum(axis=1), coordinates])
        gradients = np.vstack([-inverse.sum(axis=0), inverse])
        self._heights = 1 / np.maximum((gradients**2).sum(axis=1), 1e-300)

    def distances(self, place: int) -> np.ndarray:
        """Return `(n,)`: squared distances from the hull of all corners but one."""
        return self._rest + self._coordinates[:, place] ** 2 * self._heights[place]
