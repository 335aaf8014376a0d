"""Non-negative factorisation of co-occurrences: `pi`, `r` and `s` of `Q_{f,g} = sum_h pi(h) r(f|h) s(g|h)`.

Cohen and Collins (2014), section 5. If each `h` has an anchor `f`, one that occurs with no other `h`, then the
normalised rows of `Q` lie in a simplex whose corners are the rows of anchors. Finding the corners and writing each row
as a mixture of them gives `p(h|f)`, hence `pi` and `r` (section 5.2, `half_decompose`). The same on columns gives `s`,
but with the states in another order; a concave problem aligns the two (figure 2, `decompose`). Corners are found as in
FastAnchorWords (Arora et al. 2013).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, cast, get_args

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.numerics.simplex import Optimum, Solver, maximise, simplex_weights
from sapwood.storage.files import atomic_write
from sapwood.storage.shapes import Array, Bool, Float, Int

Matrix: TypeAlias = np.ndarray | scipy.sparse.sparray | scipy.sparse.spmatrix
Representation = Literal["cca", "random"]
Columns = Literal["align", "fit"]
# Sparse matrices with fewer cells than this are decomposed as dense ones.
_DENSE = 1 << 20
# Numbers above this, or below its inverse, cannot be multiplied safely.
_LARGE = 1e100
# Smaller probabilities are treated as zeros.
_SHOWN = 1e-6
# Dimensions of a random projection: per state, and at least.
_RANDOM, _RANDOM_LEAST = 8, 64
# Points closer to the hull of the anchors than this fraction of the longest point's length are not new corners.
_FLAT = 1e-7
# Relative tolerance for equal distances.
_EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class HalfDecomposition:
    """Factors identified by the rows alone: `pi, r = half_decompose(q, m)`.

    Attributes
    ----------
    prior
        `pi(h)`.
    rows
        `r(f|h)`: columns are distributions.
    given
        `p(h|f)`: rows are distributions. Rows of `Q` without entries get the prior.
    anchors
        The anchor row of each state.
    residual
        Fraction of the rows' squared length (weighted by mass) not explained by mixtures of the anchors.
    """

    prior: Float[Array, "states"]
    rows: Float[Array, "rows states"]
    given: Float[Array, "rows states"]
    anchors: Int[Array, "states"]
    residual: float

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.prior, self.rows))

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.prior)


@dataclass(frozen=True, eq=False)
class Decomposition:
    """All three factors, with states in the same order: `pi, r, s = decompose(q, m)`.

    Attributes
    ----------
    prior, rows, columns
        `pi(h)`, `r(f|h)` and `s(g|h)`.
    row_anchors, column_anchors
        The anchor row and, unless the columns were fitted, the anchor column of each state; a column may be the anchor
        of several states, or of none.
    alignment
        `t(h'|h)`: the weight of the columns' state `h'` in state `h`; the identity if they were fitted.
    log_likelihood
        `sum Q log sum_h pi(h) r(f|h) s(g|h) / sum Q`.
    iterations, converged
        Iterations of the concave problem, and whether it converged.
    """

    prior: Float[Array, "states"]
    rows: Float[Array, "rows states"]
    columns: Float[Array, "columns states"]
    row_anchors: Int[Array, "states"]
    column_anchors: Int[Array, "column_states"]
    alignment: Float[Array, "states t_states"]
    log_likelihood: float
    iterations: int
    converged: bool

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.prior, self.rows, self.columns))

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.prior)

    def describe(self, rows: Sequence[str], columns: Sequence[str], *, top: int = 5) -> list[dict[str, Any]]:
        """Describe each state as JSON values: its prior, its anchors, its `top` most probable rows and columns.

        `rows` and `columns` are their names.
        """
        found = []
        for state in range(self.states):
            anchor = None
            if len(self.column_anchors):
                anchor = columns[self.column_anchors[self.alignment[state].argmax()]]
            found.append(
                {
                    "prior": float(self.prior[state]),
                    "row_anchor": rows[self.row_anchors[state]],
                    "column_anchor": anchor,
                    "rows": _largest(self.rows[:, state], rows, top),
                    "columns": _largest(self.columns[:, state], columns, top),
                }
            )
        return found

    def save(self, path: str | Path) -> None:
        """Write the arrays to a `.npz` file, as `pi`, `r`, `s`, `row_anchors`, `column_anchors` and `alignment`."""
        with atomic_write(path) as stream:
            np.savez_compressed(
                stream, pi=self.prior, r=self.rows, s=self.columns, row_anchors=self.row_anchors,
                column_anchors=self.column_anchors, alignment=self.alignment,
            )  # fmt: skip


def _largest(probabilities: np.ndarray, names: Sequence[str], top: int) -> list[dict[str, Any]]:
    order = (-probabilities).argsort(kind="stable")[:top]
    return [{"name": names[at], "probability": float(probabilities[at])} for at in order if probabilities[at] > _SHOWN]


class AnchorOptions(TypedDict, total=False):
    """Keyword arguments of `AnchorSettings`."""

    representation: Representation
    min_count: float
    solver: Solver
    random_state: int
    threads: int


@dataclass(frozen=True, kw_only=True)
class AnchorSettings:
    """Settings of the search for anchors.

    Attributes
    ----------
    representation
        Representation of columns: canonical correlations (the default, as in the paper), or a random projection, which
        needs no singular value decomposition.
    min_count
        Rows with a smaller sum are not anchors: the distributions of rare rows are noisy, and noise looks extreme.
    solver
        Method for least squares over the simplex.
    random_state
        Seed of projections.
    threads
        Threads for least squares.
    """

    representation: Representation = "cca"
    min_count: float = 0.0
    solver: Solver = "active-set"
    random_state: int = 0
    threads: int = 1

    def half(
        self, points: Float[Array, "rows dimensions"], mass: Float[Array, "rows"], states: int
    ) -> HalfDecomposition:
        """Return `half_from_points` with these settings."""
        return half_from_points(
            points, mass, states, min_count=self.min_count, solver=self.solver, threads=self.threads
        )


def half_decompose(
    q: Matrix,
    states: int,
    **settings: Unpack[AnchorOptions],
) -> HalfDecomposition:
    """Return `pi` and `r` of `Q_{f,g} = sum_h pi(h) r(f|h) s(g|h)`, given that each state has an anchor row.

    Section 5.2. With exact `Q` of rank `states` they are exact, up to the order of states. If the rows span fewer
    dimensions, there are fewer states.

    Parameters
    ----------
    q
        Counts or probabilities, dense or sparse.
    states
        Number of states.
    settings
        Those of `AnchorSettings`.
    """
    matrix, chosen = checked(q, states), AnchorSettings(**settings)
    points, _ = representations(matrix, states, chosen.representation, chosen.random_state)
    return chosen.half(points, _sums(matrix, 1), states)


def decompose(
    q: Matrix,
    states: int,
    *,
    columns: Columns = "align",
    iterations: int = 2000,
    tolerance: float = 1e-10,
    **settings: Unpack[AnchorOptions],
) -> Decomposition:
    """Return `pi`, `r` and `s` of `Q_{f,g} = sum_h pi(h) r(f|h) s(g|h)`, all with the states in the same order.

    Parameters
    ----------
    q, states
        As for `half_decompose`.
    columns
        `align`: find anchors among the columns too, and align their states with those of the rows by a concave problem
        (figure 2, equation 3). `fit`: the maximum-likelihood `s` given `r`, which is also concave, and requires anchors
        among the rows only (the remark in section 5.3).
    iterations, tolerance
        Stopping criteria of EM for the concave problem.
    settings
        `representation`, `min_count`, `solver`, `random_state` and `threads`, as for `half_decompose`; `min_count`
        applies to rows and columns.

    Examples
    --------
    >>> r = np.array([[0.5, 0.0], [0.0, 0.4], [0.5, 0.6]])
    >>> s = np.array([[0.7, 0.0], [0.0, 0.1], [0.3, 0.9]])
    >>> found = decompose(r @ np.diag([0.25, 0.75]) @ s.T, 2)
    >>> found.prior.round(6).tolist(), found.columns.round(6).tolist()
    ([0.25, 0.75], [[0.7, 0.0], [0.0, 0.1], [0.3, 0.9]])
    """
    if columns not in get_args(Columns):
        raise UsageError(f"columns are one of {', '.join(get_args(Columns))}, not {columns!r}")
    if iterations < 1:
        raise UsageError(f"iterations must be at least 1, not {iterations}")
    matrix, chosen = checked(q, states), AnchorSettings(**settings)
    row_points, column_points = representations(matrix, states, chosen.representation, chosen.random_state)
    row_mass, column_mass = _sums(matrix, 1), _sums(matrix, 0)
    rows = chosen.half(row_points, row_mass, states)
    sparse = scipy.sparse.csr_array(matrix)
    if columns == "fit":
        optimum = fit_columns(sparse, rows.given, iterations=iterations, tolerance=tolerance)
        s = optimum.weights
        alignment, anchors = np.eye(rows.states), np.zeros(0, np.int64)
    else:
        other = chosen.half(column_points, column_mass, rows.states)
        optimum = align(sparse, rows.given, other.rows, iterations=iterations, tolerance=tolerance)
        alignment = optimum.weights
        s = other.rows @ alignment.T
        anchors = other.anchors
    mass = float(row_mass.sum())
    own = row_mass[row_mass > 0] / mass
    return Decomposition(
        prior=rows.prior,
        rows=rows.rows,
        columns=s,
        row_anchors=rows.anchors,
        column_anchors=anchors,
        alignment=alignment,
        log_likelihood=optimum.objective + float(own @ np.log(own)),
        iterations=len(optimum.objectives) - 1,
        converged=optimum.converged,
    )


def half_from_points(
    points: Float[Array, "rows dimensions"],
    mass: Float[Array, "rows"],
    states: int,
    *,
    min_count: float = 0.0,
    candidates: Bool[Array, "rows"] | None = None,
    solver: Solver = "active-set",
    threads: int = 1,
) -> HalfDecomposition:
    """Return `pi` and `r` from points `v_f` that are mixtures of a few of them (steps 3 and 4).

    `mass` is `p(f)` up to a factor; points without mass are ignored, and only `candidates` with a mass of at least
    `min_count` can be anchors.
    """
    possible = (mass > 0) & (mass >= min_count)
    if candidates is not None:
        possible &= candidates
    if not possible.any():
        raise UsageError(
            f"no row has a sum of {min_count:g} or more (the largest is {mass.max(initial=0):g}): lower `min_count`"
        )
    anchors = find_anchors(points, states, possible, mass)
    given = simplex_weights(points, points[anchors], solver=solver, threads=threads)
    given[anchors] = np.eye(len(anchors))
    joint = given * mass[:, None]
    prior = joint.sum(axis=0) / mass.sum()
    given[mass <= 0] = prior
    rest = ((points - given @ points[anchors]) ** 2).sum(axis=1) @ mass
    return HalfDecomposition(
        prior=prior,
        rows=joint / joint.sum(axis=0),
        given=given,
        anchors=anchors,
        residual=float(rest / max((points**2).sum(axis=1) @ mass, 1e-300)),
    )


def representations(
    matrix: Float[Array, "rows columns"] | scipy.sparse.csr_array, states: int, kind: Representation, seed: int
) -> tuple[Float[Array, "rows row_dimensions"], Float[Array, "columns column_dimensions"]]:
    """Return `v_f = E[phi(g) | f]` for all rows, and the same for all columns (steps 1 and 2).

    For canonical correlations, `D^{-1/2} Q D'^{-1/2} = U S V^T` with the sums of rows and columns in `D` and `D'`:
    with `phi(g) = (D'^{-1/2} V)_g` the points of rows are `D^{-1/2} U S`, and those of columns `D'^{-1/2} V S`.
    """
    if kind not in get_args(Representation):
        raise UsageError(f"representations are {' or '.join(get_args(Representation))}, not {kind!r}")
    sums = [_sums(matrix, 1), _sums(matrix, 0)]
    inverse = [np.divide(1.0, each, out=np.zeros_like(each), where=each > 0) for each in sums]
    if kind == "random":
        rng = np.random.default_rng([seed, 0])
        width = max(_RANDOM * states, _RANDOM_LEAST)
        points = []
        for each, other, part in ((matrix, 1, 0), (matrix.T, 0, 1)):
            size = min(width, each.shape[1])
            # Dividing columns by the square root of their mass keeps frequent ones from dominating.
            seen = rng.standard_normal((each.shape[1], size)) * np.sqrt(inverse[other] * sums[0].sum())[:, None]
            points.append(np.asarray(each @ seen) * inverse[part][:, None] / np.sqrt(size))
        return points[0], points[1]
    left, right = (np.sqrt(each) for each in inverse)
    scaled = (
        scipy.sparse.csr_array(matrix.multiply(left[:, None]).multiply(right))
        if scipy.sparse.issparse(matrix)
        else matrix * left[:, None] * right
    )
    rank = min(states, *matrix.shape)
    if isinstance(scaled, np.ndarray) or np.prod(matrix.shape) <= _DENSE or rank >= min(matrix.shape):
        dense = scaled if isinstance(scaled, np.ndarray) else scaled.toarray()
        u, values, vt = np.linalg.svd(dense, full_matrices=False)
        u, values, vt = u[:, :rank], values[:rank], vt[:rank]
    else:
        start = np.random.default_rng([seed, 1]).standard_normal(min(matrix.shape))
        u, values, vt = scipy.sparse.linalg.svds(scaled, k=rank, v0=start)
    scale = np.sqrt(sums[0].sum())
    return u * values * left[:, None] * scale, vt.T * values * right[:, None] * scale


def align(
    q: scipy.sparse.csr_array,
    given: Float[Array, "rows states"],
    columns: Float[Array, "columns column_states"],
    *,
    iterations: int,
    tolerance: float,
) -> Optimum:
    """Maximise `sum Q_{f,g} log sum_{h,h'} p(h|f) t(h'|h) s(g|h')` over `t` (equation 3), with `Q` normalised to sum 1.

    `given` is `p(h|f)`, `columns` is `s(g|h')`.
    """
    entries = _Entries(q)

    def evaluate(t: np.ndarray) -> tuple[float, np.ndarray]:
        mixed = given @ t
        value, ratio = entries.ratios(mixed, columns)
        return value, given.T @ (ratio @ columns)

    start = np.full((given.shape[1], columns.shape[1]), 1.0 / columns.shape[1])
    return maximise(evaluate, start, iterations=iterations, tolerance=tolerance, axis=1)


def fit_columns(
    q: scipy.sparse.csr_array, given: Float[Array, "rows states"], *, iterations: int, tolerance: float
) -> Optimum:
    """Maximise `sum Q_{f,g} log sum_h p(h|f) s(g|h)` over `s` (the remark of section 5.3)."""
    entries = _Entries(q)

    def evaluate(s: np.ndarray) -> tuple[float, np.ndarray]:
        value, ratio = entries.ratios(given, s)
        return value, ratio.T @ given

    mass = _sums(q, 0)
    start = np.repeat((mass / mass.sum())[:, None], given.shape[1], axis=1)
    return maximise(evaluate, start, iterations=iterations, tolerance=tolerance, axis=0)


class _Entries:
    """Entries of `Q`, in the form that the concave problems need."""

    def __init__(self, q: scipy.sparse.csr_array) -> None:
        q = scipy.sparse.csr_array(q)
        self._q = q
        self._weights = q.data / q.data.sum()
        self._row = np.repeat(np.arange(q.shape[0]), np.diff(q.indptr))

    def ratios(self, left: np.ndarray, right: np.ndarray) -> tuple[float, scipy.sparse.csr_array]:
        """Return `sum Q log z` and the matrix of `Q / z`, where `z = left[f] . right[g]`."""
        rows = np.ascontiguousarray(left), np.ascontiguousarray(right)
        z = kernels.entry_products(self._q.indptr, self._q.indices, *rows)
        seen = self._weights > 0
        with np.errstate(divide="ignore"):
            value = float(self._weights[seen] @ np.log(z[seen]))
        ratio = np.divide(self._weights, z, out=np.zeros_like(z), where=seen & (z > 0))
        return value, scipy.sparse.csr_array((ratio, self._q.indices, self._q.indptr), shape=self._q.shape)


def checked(q: Matrix, states: int) -> Float[Array, "rows columns"] | scipy.sparse.csr_array:
    """Return the matrix as floats, dense or sparse, after checks."""
    matrix: Any = np.asarray(q, float) if not scipy.sparse.issparse(q) else scipy.sparse.csr_array(cast(Any, q) * 1.0)
    if matrix.ndim != 2 or min(matrix.shape) < 1:
        raise UsageError(f"a matrix is needed, with rows and columns; this has the shape {matrix.shape}")
    values = matrix if isinstance(matrix, np.ndarray) else matrix.data
    if not np.isfinite(values).all() or (values < 0).any():
        raise UsageError("the matrix must hold finite numbers, none below 0: they are counts or probabilities")
    if not values.any():
        raise UsageError("the matrix is zero everywhere")
    if values.max() > _LARGE or values[values > 0].min() < 1 / _LARGE:
        raise UsageError(f"the matrix must hold numbers between {1 / _LARGE:g} and {_LARGE:g}, or zeros")
    if states < 1:
        raise UsageError(f"states must be at least 1, not {states}")
    return matrix


def _sums(matrix: np.ndarray | scipy.sparse.csr_array, axis: int) -> np.ndarray:
    return np.asarray(matrix.sum(axis=axis), float).ravel()


def find_anchors(
    points: Float[Array, "points dimensions"],
    anchors: int,
    candidates: Bool[Array, "points"] | None = None,
    mass: Float[Array, "points"] | None = None,
) -> Int[Array, "anchors"]:
    """Return the indices of up to `anchors` points, each as far as possible from the affine hull of those before it.

    The first one is the point farthest from the mean, the others follow, then each is replaced by the point farthest
    from the hull of all others (the second loop of FastAnchorWords, which gives its guarantee under noise). Fewer
    anchors are returned when the points span fewer dimensions.

    Parameters
    ----------
    points
        Coordinates.
    anchors
        Maximum number of anchors, at least 1.
    candidates
        Points that may be anchors; by default all. Better to exclude poorly estimated points.
    mass
        Breaks ties: the heaviest of equally distant points is chosen.
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
    """Points in the coordinates of a simplex of some of them, to compute distances from its faces.

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
