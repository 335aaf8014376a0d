"""Anchors, least squares over the simplex, concave problems: each against a slow twin, and what they give together."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.spatial
from hypothesis import given
from hypothesis import strategies as st

from helpers.decompositions import errors
from helpers.effort import examples
from sapwood.errors import UsageError
from sapwood.numerics.anchor_nmf import align, decompose, find_anchors, fit_columns, half_decompose
from sapwood.numerics.simplex import maximise, simplex_weights
from sapwood.research.separable_matrices import mixed, separable

EXACT = 1e-9


# Least squares over the simplex.


def closest_mixture(point: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the best weights and their squared distance: try all sets of corners."""
    best, least = np.zeros(len(corners)), np.inf
    for size in range(1, len(corners) + 1):
        for chosen in map(list, combinations(range(len(corners)), size)):
            base, others = corners[chosen[0]], corners[chosen[1:]]
            free = np.linalg.lstsq((others - base).T, point - base, rcond=None)[0]
            weights = np.zeros(len(corners))
            weights[chosen] = [1 - free.sum(), *free]
            distance = float(((weights @ corners - point) ** 2).sum())
            if weights.min() >= -1e-12 and distance < least - 1e-13:
                best, least = weights, distance
    return best, least


@pytest.mark.parametrize(("states", "size"), [(1, 3), (2, 2), (3, 2), (4, 3), (4, 6), (5, 5)])
def test_active_set_against_all_supports(states, size):
    for seed in range(10):
        rng = np.random.default_rng([seed, states, size])
        corners = rng.normal(size=(states, size))
        # Mixtures, points near and far, the corners.
        points = np.concatenate(
            [
                rng.dirichlet(np.ones(states), size=5) @ corners,
                rng.normal(size=(10, size)),
                10 * rng.normal(size=(5, size)),
                corners,
            ]
        )
        found = simplex_weights(points, corners)
        twin = np.array([closest_mixture(point, corners)[0] for point in points])
        assert found.min() >= 0
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-14)
        np.testing.assert_allclose(found, twin, atol=EXACT)


@examples(40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_active_set_where_solutions_are_not_unique(seed, states, size, doubled):
    """Corners in fewer dimensions than they span, and corners twice: the distance is the least all the same."""
    rng = np.random.default_rng(seed)
    corners = rng.integers(-2, 3, size=(states, size)).astype(float)
    if doubled:
        corners = np.concatenate([corners, corners[:2]])
    points = rng.integers(-3, 4, size=(6, size)).astype(float)
    found = simplex_weights(points, corners)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    distances = ((found @ corners - points) ** 2).sum(axis=1)
    np.testing.assert_allclose(distances, [closest_mixture(point, corners)[1] for point in points], atol=1e-7)


@pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 15), reason="SciPy's nnls was good to 1e-6 only"
)
def test_active_set_against_non_negative_least_squares():
    """With many corners: SciPy's `nnls`, the sum being one more equation with a large weight."""
    rng = np.random.default_rng(4)
    corners = rng.normal(size=(20, 25))
    points = np.concatenate([rng.dirichlet(np.full(20, 0.3), size=10) @ corners, rng.normal(size=(10, 25))])
    found = simplex_weights(points, corners)
    for row, point in zip(found, points, strict=True):
        large = 1e5
        twin, _ = scipy.optimize.nnls(np.vstack([corners.T, np.full(20, large)]), np.append(point, large))
        np.testing.assert_allclose(row, twin / twin.sum(), atol=1e-8)


def test_frank_wolfe_comes_close():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        corners = rng.normal(size=(6, 8))
        points = np.concatenate([rng.dirichlet(np.ones(6), size=20) @ corners, rng.normal(size=(20, 8))])
        exact, close = (simplex_weights(points, corners, solver=solver) for solver in ("active-set", "frank-wolfe"))
        assert close.min() >= 0
        np.testing.assert_allclose(close.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_allclose(close, exact, atol=0.2)
        least, ours = (((weights @ corners - points) ** 2).sum(axis=1) for weights in (exact, close))
        assert (ours >= least - 1e-12).all()
        assert (ours - least).max() < 0.02
        # The bound on Frank and Wolfe's steps, 500 of them.
        assert (ours - least).max() < 4 * max(scipy.spatial.distance.pdist(corners)) ** 2 / 502
        # A corner, and a point beyond it, are found at once.
        np.testing.assert_allclose(simplex_weights(corners, corners, solver="frank-wolfe"), np.eye(6), atol=1e-9)


def test_many_points_on_threads():
    rng = np.random.default_rng(0)
    corners, points = rng.normal(size=(4, 3)), rng.normal(size=(5000, 3))
    one, three = (simplex_weights(points, corners, threads=threads) for threads in (1, 3))
    np.testing.assert_array_equal(one, three)
    np.testing.assert_allclose(one[4990:], simplex_weights(points[4990:], corners), atol=1e-15)
    assert simplex_weights(points[:0], corners).shape == (0, 4)
    with pytest.raises(UsageError, match="simplex"):
        simplex_weights(points, corners, solver="simplex")


# Anchors.


@examples(60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(0, 5), st.integers(0, 40))
def test_corners_are_found(seed, anchors, more, others):
    rng = np.random.default_rng(seed)
    corners = rng.normal(size=(anchors, anchors - 1 + more)) if anchors > 1 else rng.normal(size=(1, 1 + more))
    points = np.concatenate([corners, rng.dirichlet(np.ones(anchors), size=others) @ corners])
    order = rng.permutation(len(points))
    found = find_anchors(points[order], anchors)
    if anchors == 1:
        assert len(found) == 1
    else:
        assert sorted(order[found].tolist()) == list(range(anchors))


def test_corners_with_noise():
    """The refinement of each corner by the others: corners, or points as good, though no point is exact."""
    rng = np.random.default_rng(1)
    corners = 3 * np.eye(6)
    points = np.concatenate([corners, rng.dirichlet(np.ones(6), size=200) @ corners])
    points += 0.01 * rng.normal(size=points.shape)
    assert sorted(find_anchors(points, 6).tolist()) == list(range(6))


def test_only_candidates_become_anchors():
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    points = np.concatenate([corners, [[5.0, 5.0], [-4.0, 0.0], [0.2, 0.3]]])
    allowed = np.array([True, True, True, False, False, True])
    assert sorted(find_anchors(points, 3, allowed).tolist()) == [0, 1, 2]
    assert 3 in find_anchors(points, 3).tolist()


def test_fewer_corners_than_asked_for():
    rng = np.random.default_rng(2)
    corners = rng.normal(size=(3, 5))
    points = rng.dirichlet(np.ones(3), size=50) @ corners
    points[:3] = corners
    assert sorted(find_anchors(points, 6).tolist()) == [0, 1, 2]
    assert len(find_anchors(np.ones((4, 2)), 3)) == 1


# Concave problems. The twins are the papers' sums, written out, and plain EM.


def log_sum(q: np.ndarray, z: np.ndarray) -> float:
    return float(sum(q[place] * np.log(z[place]) for place in zip(*np.nonzero(q), strict=True)))


def align_step(q: np.ndarray, given: np.ndarray, columns: np.ndarray, t: np.ndarray) -> tuple[float, np.ndarray]:
    """Return equation 3, and `t` after one iteration of EM: expected counts of `(h, h')`, normalised."""
    counts = np.zeros_like(t)
    z = np.zeros_like(q)
    for f, g in np.ndindex(q.shape):
        joint = np.array(
            [[given[f, h] * t[h, k] * columns[g, k] for k in range(t.shape[1])] for h in range(t.shape[0])]
        )
        z[f, g] = joint.sum()
        if q[f, g] > 0:
            counts += q[f, g] * joint / z[f, g]
    return log_sum(q, z), counts / counts.sum(axis=1, keepdims=True)


def fit_step(q: np.ndarray, given: np.ndarray, s: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the remark's function, and `s` after one iteration of EM."""
    counts = np.zeros_like(s)
    z = np.zeros_like(q)
    for f, g in np.ndindex(q.shape):
        joint = given[f] * s[g]
        z[f, g] = joint.sum()
        if q[f, g] > 0:
            counts[g] += q[f, g] * joint / z[f, g]
    return log_sum(q, z), counts / counts.sum(axis=0)


def noisy_problem(seed: int, states: int = 3):
    """Return a `Q` that no model explains, some entries zero, with `p(h|f)` and `s(g|h)` of another."""
    rng = np.random.default_rng(seed)
    q = rng.gamma(0.5, size=(6, 7)) * (rng.random((6, 7)) < 0.7)
    q[0] += 0.05
    return q / q.sum(), rng.dirichlet(np.ones(states), size=6), rng.dirichlet(np.ones(7), size=states).T


def never_falls(objectives: list[float]) -> bool:
    return bool((np.diff(objectives) >= -1e-13).all())


@pytest.mark.parametrize("seed", range(3))
def test_alignment_against_plain_em(seed):
    q, given, columns = noisy_problem(seed)
    t = np.full((3, 3), 1 / 3)
    values = []
    for iteration in range(500):
        value, t = align_step(q, given, columns, t)
        values.append(value)
        if iteration == 0:
            one = align(scipy.sparse.csr_array(q), given, columns, iterations=1, tolerance=0.0)
            np.testing.assert_allclose(one.weights, t, rtol=1e-12)
    found = align(scipy.sparse.csr_array(q), given, columns, iterations=2000, tolerance=1e-13)
    assert never_falls(found.objectives)
    assert found.objectives[0] == pytest.approx(values[0], abs=1e-13)
    assert found.objectives[1] == pytest.approx(values[1], abs=1e-13)
    assert found.converged
    assert found.objective >= values[-1] - 1e-12
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-13)
    assert found.objective == pytest.approx(align_step(q, given, columns, found.weights)[0], abs=1e-13)
    np.testing.assert_allclose(found.weights, t, atol=0.03)  # where plain EM is after so many iterations
    # The optimum, by the conditions of Karush, Kuhn and Tucker: no direction of ascent is left.
    z = given @ found.weights @ columns.T
    gradient = given.T @ np.divide(q, z, out=np.zeros_like(q), where=q > 0) @ columns
    level = (found.weights * gradient).sum(axis=1)
    assert (gradient <= level[:, None] + 1e-5).all()


@pytest.mark.parametrize("seed", range(3))
def test_fitted_columns_against_plain_em(seed):
    q, given, _ = noisy_problem(seed)
    s = np.repeat(q.sum(axis=0)[:, None], 3, axis=1)
    values = []
    for iteration in range(400):
        value, s = fit_step(q, given, s)
        values.append(value)
        if iteration == 0:
            one = fit_columns(scipy.sparse.csr_array(q), given, iterations=1, tolerance=0.0)
            np.testing.assert_allclose(one.weights, s, rtol=1e-12)
    found = fit_columns(scipy.sparse.csr_array(3 * q), given, iterations=3000, tolerance=1e-13)
    assert never_falls(found.objectives)
    assert found.objective >= values[-1] - 1e-12
    assert found.objective == pytest.approx(fit_step(q, given, found.weights)[0], abs=1e-13)
    np.testing.assert_allclose(found.weights.sum(axis=0), 1, atol=1e-13)
    np.testing.assert_allclose(found.weights, s, atol=0.02)
    gradient = np.divide(q, given @ found.weights.T, out=np.zeros_like(q), where=q > 0).T @ given
    level = (found.weights * gradient).sum(axis=0)
    assert (gradient <= level + 1e-4).all()


def test_longer_steps_come_closer_in_as_many_iterations():
    """Zeros are what EM is slow at."""
    rng = np.random.default_rng(6)
    known, true = rng.dirichlet(np.ones(30), size=5), np.array([0.6, 0.4, 0.0, 0.0, 0.0])
    q = true @ known

    def evaluate(x):
        z = x @ known
        return float(q @ np.log(z)), known @ (q / z)

    start = np.full(5, 0.2)
    runs = [
        maximise(evaluate, start, iterations=300, tolerance=1e-12, accelerate=accelerate)
        for accelerate in (True, False)
    ]
    for run in runs:
        assert never_falls(run.objectives)
        assert run.weights.sum() == pytest.approx(1, abs=1e-13)
        assert not run.converged
        assert len(run.objectives) == 301
    distances = [np.abs(run.weights - true).max() for run in runs]
    assert distances[0] < distances[1] / 3
    assert distances[1] < 0.01
    # Ends as soon as nothing changes.
    ended = maximise(evaluate, true, iterations=300, tolerance=1e-12)
    assert ended.converged
    assert len(ended.objectives) == 2


# The whole.


def model(rng, states=3, rows=9, columns=8):
    return rng.dirichlet(np.full(states, 3.0)), separable(rng, rows, states), separable(rng, columns, states)


def test_dense_sparse_counts_and_probabilities():
    rng = np.random.default_rng(0)
    true = model(rng)
    q = true[1] * true[0] @ true[2].T
    reference = decompose(q, 3)
    for other in (1e4 * q, scipy.sparse.csr_array(q), scipy.sparse.coo_matrix(q), scipy.sparse.csc_array(1e-3 * q)):
        found = decompose(other, 3)
        for ours, theirs in zip(reference, found, strict=True):
            np.testing.assert_allclose(theirs, ours, atol=1e-9)
        assert found.log_likelihood == pytest.approx(reference.log_likelihood, abs=1e-9)
    # The likelihood of the truth is the negative entropy of Q.
    assert reference.log_likelihood == pytest.approx(float((q * np.log(q, where=q > 0, out=np.zeros_like(q))).sum()))
    assert reference.states == 3


def test_large_sparse_matrices():
    """Large enough for iterated singular value decomposition."""
    rng = np.random.default_rng(1)
    true = rng.dirichlet(np.full(4, 3.0)), *(separable(rng, 1200, 4, density=0.03) for _ in range(2))
    q = scipy.sparse.csr_array(true[1] * true[0]) @ scipy.sparse.csr_array(true[2]).T
    assert np.prod(q.shape) > 1 << 20
    for representation in ("cca", "random"):
        assert max(errors(true, list(decompose(q, 4, representation=representation)))) < 1e-9


def test_anchors_are_reported():
    rng = np.random.default_rng(2)
    true = model(rng)
    found = decompose(true[1] * true[0] @ true[2].T, 3)
    for anchors, given_state in ((found.row_anchors, true[1]), (found.column_anchors, true[2])):
        assert (np.count_nonzero(given_state[anchors], axis=1) == 1).all()
    np.testing.assert_allclose(found.rows.sum(axis=0), 1)
    np.testing.assert_allclose(found.columns.sum(axis=0), 1)
    # The anchor of a state is a row of that state.
    assert (np.argmax(found.rows[found.row_anchors], axis=1) == np.arange(3)).all()
    # Columns are aligned by a permutation.
    np.testing.assert_allclose(np.sort(found.alignment, axis=1), np.sort(np.eye(3), axis=1), atol=1e-9)


def test_posteriors_of_states():
    rng = np.random.default_rng(3)
    prior, r, s = model(rng)
    gone = int(np.flatnonzero((r > 0).all(axis=1))[0])
    r[gone] = 0.0
    r /= r.sum(axis=0)
    half = half_decompose(r * prior @ s.T, 3)
    order = [int(np.argmin(np.abs(half.rows - r[:, [h]]).sum(axis=0))) for h in range(3)]
    joint = r * prior
    seen = joint.sum(axis=1) > 0
    np.testing.assert_allclose(half.given[seen][:, order], joint[seen] / joint[seen].sum(axis=1)[:, None], atol=1e-9)
    np.testing.assert_allclose(half.given[gone], half.prior)
    assert half.residual < 1e-12
    # Without anchors, rows are no mixtures of three of them.
    other = half_decompose(mixed(rng, 9, 4) * 0.25 @ mixed(rng, 8, 4).T, 3)
    assert other.residual > 1e-4


def test_rare_rows_are_no_anchors():
    """A row seen once or twice has an extreme distribution, which says nothing."""
    rng = np.random.default_rng(4)
    true = model(rng, rows=12, columns=10)
    counts = 1e6 * (true[1] * true[0] @ true[2].T)
    rare = np.zeros((3, 10))
    rare[[0, 1, 2], [1, 4, 7]] = 2.0
    noisy = np.concatenate([counts, rare])
    padded = (true[0], np.concatenate([true[1], np.zeros((3, 3))]))
    assert max(errors(padded, list(half_decompose(noisy, 3)))) > 0.05
    half = half_decompose(noisy, 3, min_count=10.0)
    assert half.anchors.max() < 12
    assert max(errors(padded, list(half))) < 1e-3
    with pytest.raises(UsageError, match="lower `min_count`"):
        half_decompose(noisy, 3, min_count=1e7)


def test_fewer_states_than_asked_for():
    rng = np.random.default_rng(5)
    true = model(rng, states=2)
    q = true[1] * true[0] @ true[2].T
    found = decompose(q, 5)
    assert found.states == 2
    assert max(errors(true, list(found))) < EXACT


def test_the_same_every_time():
    rng = np.random.default_rng(7)
    q = rng.gamma(0.4, size=(30, 40))
    for representation in ("cca", "random"):
        first, second = (decompose(q, 4, representation=representation, random_state=3) for _ in range(2))
        for ours, theirs in zip(first, second, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_bad_input():
    q = np.ones((3, 3))
    for matrix, message in (
        (-q, "none below 0"),
        (np.full((2, 2), np.nan), "finite"),
        (0 * q, "zero everywhere"),
        (np.ones(3), "shape"),
        (np.ones((0, 3)), "shape"),
    ):
        with pytest.raises(UsageError, match=message):
            decompose(matrix, 2)
    for settings_, message in (
        ({"columns": "guess"}, "align, fit"),
        ({"representation": "pca"}, "cca or random"),
        ({"iterations": 0}, "at least 1"),
    ):
        with pytest.raises(UsageError, match=message):
            decompose(q, 2, **settings_)
    with pytest.raises(UsageError, match="states must be"):
        half_decompose(q, 0)


def hull_distance(point: np.ndarray, corners: np.ndarray) -> float:
    """Return how far a point is from the affine hull of corners, by least squares."""
    sides = (corners[1:] - corners[0]).T
    return float(np.linalg.norm(point - corners[0] - sides @ np.linalg.lstsq(sides, point - corners[0], rcond=None)[0]))


def slow_anchors(points: np.ndarray, count: int, *, second_loop: bool = True) -> list[int]:
    """Return what FastAnchorWords chooses (Arora et al. 2013, algorithm 4), one distance after the other."""

    def farthest(others: list[int]) -> int:
        return int(np.argmax([hull_distance(point, points[others]) for point in points]))

    chosen = [int(np.argmax(np.linalg.norm(points - points.mean(axis=0), axis=1)))]
    while len(chosen) < count:
        chosen.append(farthest(chosen))
    for place in range(count if second_loop else 0):
        chosen[place] = farthest(chosen[:place] + chosen[place + 1 :])
    return chosen


def test_each_anchor_is_chosen_again_given_the_others():
    """The second loop of FastAnchorWords: among points that are in no simplex it changes what the first one chose."""
    changed = set()
    for seed in range(80):
        points, count = np.random.default_rng(seed).normal(size=(15, 5)), 2 + seed % 4
        wanted = slow_anchors(points, count)
        assert find_anchors(points, count).tolist() == wanted
        if wanted != slow_anchors(points, count, second_loop=False):
            changed.add(count)
    assert changed == {2, 3, 4, 5}


def test_rows_and_columns_are_solved_in_the_same_way():
    q = np.random.default_rng(0).gamma(0.5, size=(40, 30))
    for solver in ("active-set", "frank-wolfe"):
        found = decompose(q, 8, solver=solver)
        np.testing.assert_allclose(found.rows, half_decompose(q, 8, solver=solver).rows, atol=1e-12)
        other = half_decompose(q.T, 8, solver=solver).rows
        np.testing.assert_allclose(found.columns, other @ found.alignment.T, atol=1e-9)


def test_when_to_stop_does_not_depend_on_the_size_of_the_objective():
    rng = np.random.default_rng(1)
    known, q = rng.dirichlet(np.ones(20), size=4), rng.dirichlet(np.ones(20))

    def ended(size: float) -> int:
        def evaluate(x):
            return size * float(q @ np.log(x @ known)), size * (known @ (q / (x @ known)))

        return len(maximise(evaluate, np.full(4, 0.25), iterations=5000, tolerance=1e-5).objectives)

    assert ended(1.0) == ended(1e5) < 5000
