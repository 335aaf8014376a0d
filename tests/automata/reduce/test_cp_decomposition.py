"""Nonnegative sums of products, against dense NumPy references, SciPy's bounded minimiser, and cases solved by hand."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, minimize

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from sapwood import kernels
from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.reduce import cp_decomposition as cp
from sapwood.automata.reduce.cp_decomposition import CPFit, decompose, divergence
from sapwood.automata.tensors import ProductTensor, SparseTensor
from sapwood.automata.tensors import dense as as_dense
from sapwood.errors import GrammarError, SapwoodError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn import EM

METHODS = ["mu", "pqn"]
STEPS = [cp.MULTIPLY, cp.QUASI_NEWTON]


def sparse_weights(seed: int, shape: tuple[int, ...] = (6, 5, 7), part: float = 0.4) -> np.ndarray:
    """A random tensor of which about this part is not zero."""
    rng = np.random.default_rng(seed)
    tensor: np.ndarray = rng.gamma(0.5, size=shape) * (rng.random(shape) < part)
    tensor[0, 0, 0] = 1.0
    return tensor


def slow_divergence(tensor: np.ndarray, model: np.ndarray) -> float:
    """The generalised divergence, over all places."""
    total = float(model.sum() - tensor.sum())
    for x, m in zip(tensor.ravel(), model.ravel(), strict=True):
        if x > 0:
            total += x * math.log(x / m) if m > 0 else math.inf
    return total


def slow_violation(tensor: np.ndarray, model: ProductTensor) -> float:
    """The largest violation of the conditions for a stationary point, from dense derivatives."""
    worst = 0.0
    factors = [model.parent, model.left, model.right]
    weights = np.prod([factor.sum(axis=0) for factor in factors], axis=0)
    units = [factor / np.where(factor.sum(axis=0) > 0, factor.sum(axis=0), 1) for factor in factors]
    dense = model.dense()
    ratio = np.divide(tensor, dense, out=np.zeros_like(tensor), where=tensor > 0)
    for axis in range(3):
        one, two = (units[other] for other in range(3) if other != axis)
        gradient = 1.0 - np.einsum("ijk,jr,kr->ir", np.moveaxis(ratio, axis, 0), one, two)
        sums = np.moveaxis(tensor, axis, 0).sum(axis=(1, 2))
        shares = (units[axis] * weights)[sums > 0] / sums[sums > 0, None]
        worst = max(worst, float(np.abs(np.minimum(shares, gradient[sums > 0])).max()))
    return worst


class OneFactor:
    """The problem of one factor: a tensor, two factors that are held, and where the third begins."""

    def __init__(self, seed: int, axis: int = 0) -> None:
        rng = np.random.default_rng(seed)
        shape = tuple(int(size) for size in rng.integers(2, 10, 3))
        self.rank = int(rng.integers(1, 7))
        self.tensor = sparse_weights(seed, shape, 0.5)
        self.axis = axis
        held = [rng.random((shape[other], self.rank)) for other in range(3) if other != axis]
        self.one, self.two = (factor / factor.sum(axis=0) for factor in held)
        self.mode = cp._Mode.of(SparseTensor.from_dense(self.tensor), axis)
        self.start = rng.random((shape[axis], self.rank)) * self.mode.filled[:, None]

    @property
    def front(self) -> np.ndarray:
        """The tensor with the factor's axis first."""
        return np.moveaxis(self.tensor, self.axis, 0)

    def model(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("ir,jr,kr->ijk", rows, self.one, self.two))

    def objective(self, rows: np.ndarray) -> float:
        held = self.front > 0
        return float(rows.sum() - (self.front[held] * np.log(self.model(rows)[held])).sum())

    def ratios(self, rows: np.ndarray) -> np.ndarray:
        ratio = np.divide(self.front, self.model(rows), out=np.zeros_like(self.front), where=self.front > 0)
        return np.asarray(np.einsum("ijk,jr,kr->ir", ratio, self.one, self.two))

    def update(self, rows: np.ndarray, method: int, inner: int, tolerance: float = 0.0) -> tuple[float, float]:
        mode = self.mode
        objectives, violations = np.empty(len(rows)), np.empty(len(rows))
        kernels.update_factor(
            mode, self.one, self.two, rows, 0, len(rows), method, inner, tolerance, objectives, violations
        )
        return float(objectives.sum()), float(violations.max())


# The objective


@examples(30)
@given(st.integers(0, 10**6))
def test_divergence_is_that_of_the_dense_tensors(seed: int) -> None:
    tensor = sparse_weights(seed)
    rng = np.random.default_rng(seed)
    model = ProductTensor(*(rng.random((size, 3)) for size in tensor.shape))
    expected = slow_divergence(tensor, model.dense())
    assert divergence(tensor, model) == pytest.approx(expected, rel=1e-10)
    assert divergence(SparseTensor.from_dense(tensor), model) == pytest.approx(expected, rel=1e-10)


def test_divergence_where_the_model_is_zero() -> None:
    tensor = np.zeros((2, 2, 2))
    tensor[0, 0, 0] = tensor[1, 1, 1] = 1.0
    e = np.eye(2)
    assert divergence(tensor, ProductTensor(e, e, e)) == 0.0
    assert divergence(tensor, ProductTensor(e[:, :1], e[:, :1], e[:, :1])) == math.inf
    # Weight where the tensor has none costs just itself.
    tensor[1, 1, 1] = 0.0
    assert divergence(tensor, ProductTensor(e, e, e)) == pytest.approx(1.0)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("seed", range(5))
def test_a_check_gives_objective_and_violation_and_changes_nothing(seed: int, axis: int) -> None:
    problem = OneFactor(seed, axis)
    rows = problem.start.copy()
    objective, violation = problem.update(rows, cp.CHECK, 5)
    assert objective == pytest.approx(problem.objective(rows), rel=1e-12)
    totals = np.maximum(problem.front.sum(axis=(1, 2))[:, None], 1e-300)
    expected = np.abs(np.minimum(rows / totals, 1 - problem.ratios(rows)))[problem.mode.filled].max()
    assert violation == pytest.approx(expected, rel=1e-9)
    assert np.array_equal(rows, problem.start)


def test_violations_are_relative_to_the_row() -> None:
    # One entry of 4 in a row: the model is 4, the derivatives are 0 and 0.5, the shares 0.8 and 0.4.
    offsets, places, values = np.array([0, 1]), np.zeros(1, np.int32), np.array([4.0])
    one, two = np.array([[1.0, 0.5], [0.0, 0.5]]), np.ones((1, 2))
    rows = np.array([[3.2, 1.6]])
    mode, found = cp._Mode(offsets, places, places, values), np.empty(1)
    kernels.update_factor(mode, one, two, rows, 0, 1, cp.CHECK, 0, 0.0, np.empty(1), found)
    violation = float(found[0])
    assert violation == pytest.approx(0.4)


def test_one_minus_the_ratios_is_the_gradient() -> None:
    problem = OneFactor(3)
    rows = problem.start + 0.1 * problem.mode.filled[:, None]
    expected = (1 - problem.ratios(rows))[problem.mode.filled]
    measured = np.empty_like(rows)
    for place in np.ndindex(rows.shape):
        step = np.zeros_like(rows)
        step[place] = 1e-6
        measured[place] = (problem.objective(rows + step) - problem.objective(rows - step)) / 2e-6
    assert measured[problem.mode.filled] == pytest.approx(expected, abs=1e-6, rel=1e-6)


# One factor


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("inner", [1, 4])
def test_multiplicative_steps_are_those_of_the_twin(axis: int, inner: int) -> None:
    problem = OneFactor(11 + axis, axis)
    rows, expected = problem.start.copy(), problem.start.copy()
    problem.update(rows, cp.MULTIPLY, inner)
    for _ in range(inner):
        expected *= problem.ratios(expected)
    assert rows == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.parametrize("seed", range(8))
def test_one_factor_reaches_the_minimum_that_scipy_finds(seed: int, method: int) -> None:
    problem = OneFactor(seed, seed % 3)
    rows = problem.start.copy()
    for _ in range(300):
        objective, _ = problem.update(rows, method, 20)
    filled = problem.mode.filled
    full = np.zeros_like(rows)

    def function(vector: np.ndarray) -> tuple[float, np.ndarray]:
        full[filled] = vector.reshape(-1, problem.rank)
        return problem.objective(full), (1 - problem.ratios(full))[filled].ravel()

    bounds = Bounds(1e-9, np.inf)
    options: Any = {"maxiter": 5000, "maxfun": 10**5, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(
        function, problem.start[filled].ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    # The bounds of SciPy's are just above zero, so its minimum can only be higher.
    assert objective <= found.fun + 1e-8
    assert objective == pytest.approx(found.fun, abs=1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_quasi_newton_steps_for_one_factor_are_no_worse_than_as_many_multiplicative_ones(seed: int) -> None:
    problem = OneFactor(seed, seed % 3)
    multiplied, stepped = problem.start.copy(), problem.start.copy()
    slow, _ = problem.update(multiplied, cp.MULTIPLY, 10)
    fast, _ = problem.update(stepped, cp.QUASI_NEWTON, 10)
    assert fast <= slow + 1e-12 * abs(slow)
    assert fast == pytest.approx(problem.objective(stepped), rel=1e-12)


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.parametrize("seed", range(10))
def test_after_an_update_the_model_has_the_marginals_of_the_data(seed: int, method: int) -> None:
    problem = OneFactor(seed, seed % 3)
    rows = problem.start.copy()
    problem.update(rows, method, 3)
    assert problem.model(rows).sum(axis=(1, 2)) == pytest.approx(problem.front.sum(axis=(1, 2)), rel=1e-12)


@pytest.mark.parametrize("method", STEPS)
def test_zeros_that_should_not_be_are_raised(method: int) -> None:
    problem = OneFactor(4)
    best = problem.start.copy()
    for _ in range(100):
        lowest, _ = problem.update(best, method, 20)
    # Where the minimum is largest, start from zero.
    rows = problem.start.copy()
    used = problem.mode.filled
    rows[used, best[used].argmax(axis=1)] = 0.0
    before, _ = problem.update(rows.copy(), cp.CHECK, 0)
    assert before > lowest + 0.1
    for _ in range(100):
        objective, _ = problem.update(rows, method, 20)
    assert objective == pytest.approx(lowest, abs=1e-7)


@pytest.mark.parametrize("method", STEPS)
def test_rows_within_the_tolerance_are_left(method: int) -> None:
    problem = OneFactor(9)
    rows = problem.start.copy()
    _, violation = problem.update(rows, method, 5, math.inf)
    assert violation > 0
    assert np.array_equal(rows, problem.start)


# All three


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_the_divergence_falls_and_is_what_it_says(method: cp.Method, seed: int) -> None:
    tensor = sparse_weights(seed)
    whole = decompose(tensor, 4, method=method, iterations=12, tolerance=0.0, random_state=seed)
    assert whole.divergences.shape == (whole.iterations,) == (12,)
    assert (np.diff(whole.divergences) <= 0).all()
    assert whole.divergences[-1] < 0.9 * whole.divergences[0]
    for iterations in (1, 2, 5, 12):
        part = decompose(tensor, 4, method=method, iterations=iterations, tolerance=0.0, random_state=seed)
        expected = slow_divergence(tensor, part.tensor.dense())
        assert part.divergence == pytest.approx(expected, rel=1e-10)
        assert whole.divergences[iterations - 1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(4))
def test_stationary_points_by_dense_derivatives(method: cp.Method, seed: int) -> None:
    tensor = sparse_weights(seed, part=0.3)
    result = decompose(tensor, 3, method=method, iterations=3000, tolerance=1e-6, random_state=seed)
    assert result.converged
    assert result.iterations < 3000
    assert result.violation <= 1e-6
    assert slow_violation(tensor, result.tensor) <= 1.01e-6
    # The sums over any two axes are then those of the data.
    model = result.tensor.dense()
    for axes in ((0, 1), (0, 2), (1, 2)):
        assert model.sum(axis=axes) == pytest.approx(tensor.sum(axis=axes), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_the_violation_of_an_unfinished_descent(method: cp.Method) -> None:
    tensor = sparse_weights(2)
    result = decompose(tensor, 3, method=method, iterations=3)
    assert not result.converged
    assert result.violation > 1e-4
    assert result.violation == pytest.approx(slow_violation(tensor, result.tensor), rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_last_factor_has_the_marginals_of_the_data(method: cp.Method) -> None:
    tensor = sparse_weights(5)
    model = decompose(tensor, 3, method=method, iterations=2, tolerance=0.0).tensor.dense()
    assert model.sum(axis=(0, 1)) == pytest.approx(tensor.sum(axis=(0, 1)), rel=1e-12)
    assert model.sum(axis=(1, 2)) != pytest.approx(tensor.sum(axis=(1, 2)), rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_one_product_is_that_of_the_marginals(method: cp.Method) -> None:
    tensor = sparse_weights(1)
    model = decompose(tensor, 1, method=method, tolerance=1e-9).tensor
    total = tensor.sum()
    assert model.parent[:, 0] == pytest.approx(tensor.sum(axis=(1, 2)), rel=1e-6)
    assert model.left[:, 0] == pytest.approx(tensor.sum(axis=(0, 2)) / total, rel=1e-6)
    assert model.right[:, 0] == pytest.approx(tensor.sum(axis=(0, 1)) / total, rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_few_products_are_found_again(method: cp.Method, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = [rng.random((size, 3)) * (rng.random((size, 3)) < 0.7) for size in (9, 8, 7)]
    tensor = np.einsum("ir,jr,kr->ijk", *factors)
    result = decompose(tensor, 3, method=method, iterations=1000, restarts=4)
    assert result.divergence < 1e-5 * tensor.sum()
    assert result.tensor.dense() == pytest.approx(tensor, abs=0.01 * tensor.max())


@pytest.mark.parametrize("method", METHODS)
def test_entries_apart_need_a_product_each(method: cp.Method) -> None:
    places = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    tensor = SparseTensor.from_entries((3, 3, 3), places, np.array([0.5, 2.0, 1.0]))
    result = decompose(tensor, 3, method=method, tolerance=1e-7, restarts=8)
    assert result.divergence < 1e-6
    # The heaviest first, and all their weight in the parent.
    assert result.tensor.parent.sum(axis=0) == pytest.approx([2.0, 1.0, 0.5], rel=1e-3)
    assert decompose(tensor, 2, method=method, restarts=8).divergence > 0.5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rank", [1, 3, 40])
def test_factors_are_nonnegative_and_normalised(method: cp.Method, rank: int) -> None:
    tensor = sparse_weights(8)
    tensor[2] = tensor[:, 3] = tensor[:, :, 4] = 0.0
    result = decompose(tensor, rank, method=method, iterations=40)
    model = result.tensor
    assert model.shape == tensor.shape
    assert model.rank == rank
    for factor in (model.parent, model.left, model.right):
        assert np.isfinite(factor).all()
        assert (factor >= 0).all()
    assert model.left.sum(axis=0) == pytest.approx(np.ones(rank))
    assert model.right.sum(axis=0) == pytest.approx(np.ones(rank))
    assert (np.diff(model.parent.sum(axis=0)) <= 1e-12).all()
    assert not model.parent[2].any()
    assert not model.left[3].any()
    assert not model.right[4].any()


@pytest.mark.parametrize("method", METHODS)
def test_more_products_than_entries(method: cp.Method) -> None:
    tensor = np.zeros((2, 3, 2))
    tensor[0, 1, 1], tensor[1, 2, 0] = 3.0, 0.25
    result = decompose(tensor, 20, method=method, iterations=2000)
    assert result.divergence < 1e-6
    assert result.converged
    assert result.tensor.dense() == pytest.approx(tensor, abs=1e-3)


def contents(result: CPFit) -> list[np.ndarray]:
    return [result.tensor.parent, result.tensor.left, result.tensor.right, result.divergences]


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_bytes_however_the_tensor_is_given(method: cp.Method) -> None:
    tensor = sparse_weights(6)
    sparse = SparseTensor.from_dense(tensor)
    # Zeros among the entries, and entries in another order, are of no account.
    zeros = np.argwhere(tensor == 0)[:3]
    places = np.concatenate([sparse.places, zeros])[::-1].astype(np.int32)
    untidy = SparseTensor(sparse.shape, places, np.concatenate([sparse.values, np.zeros(3)])[::-1])
    one, *others = (
        contents(decompose(given, 3, method=method, iterations=5, random_state=3))
        for given in (tensor, tensor.copy(order="F"), sparse, untidy)
    )
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    elsewhere = decompose(tensor, 3, method=method, iterations=5, random_state=4)
    assert not np.array_equal(one[0], elsewhere.tensor.parent)


@pytest.mark.parametrize("method", METHODS)
def test_the_best_of_several_starts_is_kept(method: cp.Method) -> None:
    tensor = sparse_weights(10, (8, 8, 8))
    best = [
        decompose(tensor, 5, method=method, iterations=20, restarts=restarts, random_state=1).divergence
        for restarts in range(1, 7)
    ]
    assert (np.diff(best) <= 0).all()
    assert best[-1] < best[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("exponent", [-700, -20, 3, 1020])
def test_multiples_have_multiples_of_the_decomposition(method: cp.Method, exponent: int) -> None:
    tensor = sparse_weights(7) / 64
    factor = 2.0**exponent  # which rounds nothing
    one = decompose(tensor, 3, method=method, iterations=10)
    other = decompose(tensor * factor, 3, method=method, iterations=10)
    assert np.array_equal(other.tensor.parent / factor, one.tensor.parent)
    assert np.array_equal(other.tensor.left, one.tensor.left)
    assert np.array_equal(other.tensor.right, one.tensor.right)
    assert np.array_equal(other.divergences / factor, one.divergences)
    assert other.divergence / factor == one.divergence
    assert other.violation == one.violation


@pytest.mark.parametrize("method", METHODS)
def test_weights_far_apart(method: cp.Method) -> None:
    tensor = sparse_weights(12)
    tensor[3] *= 1e-25
    tensor[:, 2] *= 1e-25
    result = decompose(tensor, 4, method=method, iterations=60)
    assert np.isfinite(result.divergence)
    assert (np.diff(result.divergences) <= 0).all()
    assert result.tensor.parent[3].sum() == pytest.approx(tensor[3].sum(), rel=0.01)


def test_long_multiplicative_runs_do_not_underflow() -> None:
    tensor = sparse_weights(13)
    result = decompose(tensor, 5, method="mu", iterations=2000, tolerance=0.0)
    factors = np.concatenate([result.tensor.parent, result.tensor.left, result.tensor.right])
    assert factors[factors > 0].min() > 1e-90
    assert (np.diff(result.divergences) <= 0).all()


def test_the_dense_tensor_is_never_formed() -> None:
    rng = np.random.default_rng(0)
    size = 100_000
    data = SparseTensor.from_entries((size, size, size), rng.integers(0, size, (30, 3)), rng.random(30))
    result = decompose(data, 3, iterations=3)
    assert result.tensor.shape == (size, size, size)
    assert np.isfinite(result.divergence)
    assert np.count_nonzero(result.tensor.parent.sum(axis=1)) == 30


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_tensor_of_zeros(method: cp.Method, sparse: bool) -> None:
    tensor = np.zeros((2, 3, 4))
    result = decompose(SparseTensor.from_dense(tensor) if sparse else tensor, 2, method=method)
    assert not result.tensor.dense().any()
    assert result.tensor.shape == (2, 3, 4)
    assert result.tensor.left.sum(axis=0) == pytest.approx(np.ones(2))
    assert (result.divergence, result.iterations, result.converged, result.violation) == (0.0, 0, True, 0.0)
    assert len(result.divergences) == 0


class Counting:
    """Progress that is counted."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.steps = 0
        self.figures: list[dict[str, object]] = []

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "it") -> Iterator[Counting]:
        self.total = total
        yield self

    def step(self, amount: int = 1, **figures: object) -> None:
        self.steps += amount
        self.figures.append(figures)

    def note(self, message: str) -> None:
        pass


def test_progress() -> None:
    progress = Counting()
    decompose(sparse_weights(0), 2, iterations=3, restarts=2, tolerance=0.0, progress=progress)
    assert (progress.total, progress.steps) == (6, 6)
    assert all("divergence" in figures for figures in progress.figures)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be at least 1, not 0"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"restarts": 0}, "restarts must be at least 1"),
        ({"method": "als"}, "method must be one of mu, pqn, not 'als'"),
        ({"tolerance": -1.0}, "tolerance must be 0 or more"),
        ({"tolerance": math.nan}, "tolerance must be 0 or more"),
        ({"tensor": -np.ones((2, 2, 2))}, "negative weights .the lowest is -1"),
        ({"tensor": np.full((2, 2, 2), math.nan)}, "not numbers"),
        ({"tensor": np.full((2, 2, 2), math.inf)}, "infinite"),
        ({"tensor": np.ones((2, 2))}, "three axes"),
        ({"tensor": np.ones((2, 2, 2), complex)}, "real weights"),
        ({"tensor": np.ones((2, 0, 2))}, "has no entries"),
        ({"tensor": np.array([1e-40, 1e40]).reshape(1, 1, 2)}, "too far apart"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    arguments = {"tensor": sparse_weights(0), "rank": 2, **options}
    with pytest.raises(UsageError, match=message):
        decompose(**arguments)


def test_negative_entries_are_found_even_if_they_would_cancel() -> None:
    places = np.zeros((2, 3), np.int32)
    with pytest.raises(UsageError, match="negative"):
        decompose(SparseTensor((1, 1, 1), places, np.array([2.0, -1.0])), 1)


def test_bad_models() -> None:
    tensor = np.ones((2, 2, 2))
    ones = np.ones((2, 1))
    with pytest.raises(UsageError, match="shape"):
        divergence(tensor, ProductTensor(ones, ones, np.ones((3, 1))))
    with pytest.raises(UsageError, match="not negative"):
        divergence(tensor, ProductTensor(ones, -ones, -ones))


def test_a_divergence_that_rises_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(10**6))

    def rise(*arguments: Any) -> None:
        *_, objectives, violations = arguments
        objectives[:], violations[:] = float(next(calls)), 1.0

    monkeypatch.setattr(cp.kernels, "update_factor", rise, raising=False)
    with pytest.raises(SapwoodError, match="rose"):
        decompose(sparse_weights(0), 2)


# Threads, ranks and grammars


@pytest.mark.parametrize("method", METHODS)
def test_any_number_of_threads_gives_the_same_bytes(method: Any) -> None:
    tensor = sparse_weights(3, (30, 20, 25), 0.1)
    one, again, three, hundred = (
        decompose(tensor, 4, method=method, iterations=15, random_state=7, threads=threads)
        for threads in (1, 1, 3, 100)
    )
    other = decompose(tensor, 4, method=method, iterations=15, random_state=8)
    for name in ("parent", "left", "right"):
        bits = [getattr(found.tensor, name).tobytes() for found in (one, again, three, hundred, other)]
        assert len(set(bits[:4])) == 1
        assert bits[4] != bits[0]
    assert one.divergences.tobytes() == three.divergences.tobytes()


def test_the_divergence_falls_with_the_rank() -> None:
    tensor = sparse_weights(5, (12, 12, 12), 0.2)
    found = [decompose(tensor, rank, restarts=3).divergence for rank in (1, 3, 9, 27, 144)]
    assert all(more < less for less, more in pairwise(found))
    # The rank of a tensor is never above the product of its two smallest sizes.
    assert found[-1] < 1e-3 * found[0]


@pytest.fixture(scope="module")
def grammar() -> TensorGrammar:
    return EM(states=2, iterations=4).fit(EM.prepare(made_up_treebank(80)))


def test_the_tensor_of_a_grammar_has_all_its_rules(grammar: TensorGrammar) -> None:
    found = cp.rule_tensor(grammar)
    assert len(found.values) == (grammar.tensors != 0).sum()
    offsets, dense = grammar.state_offsets, found.dense()
    for rule, symbols in enumerate(grammar.rules):
        block = tuple(slice(offsets[symbol], offsets[symbol + 1]) for symbol in symbols)
        np.testing.assert_allclose(dense[block], grammar.tensor(rule), rtol=1e-12)
    # And it is the transitions of the automaton without labels.
    joined = TreeAutomaton.from_grammar(grammar).joined()
    np.testing.assert_allclose(dense, as_dense(joined.transitions[0]), rtol=1e-12)


def test_grammars(grammar: TensorGrammar) -> None:
    component, found = cp.decompose_grammar(grammar, 6, iterations=20, random_state=3, threads=2)
    assert component.rank == 6
    np.testing.assert_array_equal(component.parent, found.tensor.parent.astype(np.float32))
    np.testing.assert_array_equal(component.right, found.tensor.right.astype(np.float32))
    with pytest.raises(GrammarError, match=r"negative rule weights.*--method projection"):
        cp.decompose_grammar(grammar.conjugate([-np.eye(m) for m in grammar.states]), 6)
