"""Projected vectors: the decomposition against NumPy's dense one, the vectors against the definition."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from sapwood.errors import UsageError
from sapwood.learn.lpcfg.problem import wanted_states
from sapwood.learn.lpcfg.unary import unfold
from sapwood.learn.spectral.feature_matrices import extract
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import (
    ProjectedNodes,
    diagnostics,
    project_nodes,
    truncated_svd,
)
from sapwood.runtime.executor import Threads
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

FOLDED = Corpus.from_trees(made_up_treebank(150))
MADE_UP = unfold(FOLDED).corpus
TABLE = NodeTable(MADE_UP)


# The decomposition.


def with_spectrum(rng, rows: int, left: int, right: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `phi (rows, left)` and `psi (rows, right)` such that `phi^T psi / rows` has these singular values."""
    rank = len(values)
    frame, _ = np.linalg.qr(rng.normal(size=(rows, rank)))
    u, _ = np.linalg.qr(rng.normal(size=(left, rank)))
    v, _ = np.linalg.qr(rng.normal(size=(right, rank)))
    return np.sqrt(rows) * frame @ u.T, np.sqrt(rows) * (frame * values) @ v.T


def decompose(phi: np.ndarray, psi: np.ndarray, rank: int, seed: int = 0):
    return truncated_svd(scipy.sparse.csr_array(phi), scipy.sparse.csr_array(psi), rank, np.random.default_rng(seed))


def check_decomposition(phi: np.ndarray, psi: np.ndarray, rank: int) -> None:
    """Compare with the dense decomposition: values, subspaces as far as gaps define them, shapes and signs."""
    omega = phi.T @ psi / len(phi)
    u, s, vt = np.linalg.svd(omega, full_matrices=False)
    left, values, right = decompose(phi, psi, rank)
    kept = min(rank, *omega.shape)
    assert (left.shape, values.shape, right.shape) == ((len(omega), kept), (kept,), (omega.shape[1], kept))
    scale = max(s[0], 1e-300)
    np.testing.assert_allclose(values, s[:kept], atol=1e-6 * scale)
    assert (np.diff(values) <= 0).all()
    np.testing.assert_allclose(left.T @ left, np.eye(kept), atol=1e-10)
    np.testing.assert_allclose(right.T @ right, np.eye(kept), atol=1e-10)
    np.testing.assert_allclose(left.T @ omega @ right, np.diag(values), atol=1e-10 * scale)
    for k in range(1, kept + 1):
        if s[k - 1] > 1e-3 * scale and (k == len(s) or s[k] < 0.8 * s[k - 1]):
            np.testing.assert_allclose(left[:, :k] @ left[:, :k].T, u[:, :k] @ u[:, :k].T, atol=1e-5)
            np.testing.assert_allclose(right[:, :k] @ right[:, :k].T, vt[:k].T @ vt[:k], atol=1e-5)
    largest = np.abs(left).argmax(axis=0)
    assert (left[largest, np.arange(kept)] >= 0).all()


@pytest.mark.parametrize(("rows", "left", "right"), [(400, 120, 60), (400, 60, 120), (300, 200, 250), (90, 80, 85)])
@pytest.mark.parametrize("rank", [1, 4, 12])
def test_decomposition_of_decaying_spectra(rows, left, right, rank):
    rng = np.random.default_rng([rows, left, rank])
    width = min(left, right)
    for values in (0.7 ** np.arange(width), np.arange(1, width + 1) ** -2.5):
        check_decomposition(*with_spectrum(rng, rows, left, right, values), rank)


@pytest.mark.parametrize("true_rank", [1, 2, 3, 7])
def test_decomposition_of_matrices_without_full_rank(true_rank):
    rng = np.random.default_rng(true_rank)
    phi, psi = with_spectrum(rng, 60, 40, 30, np.linspace(2, 1, true_rank))
    check_decomposition(phi, psi, true_rank)
    check_decomposition(phi, psi, true_rank + 5)
    _, values, _ = decompose(phi, psi, true_rank + 5)
    assert (values[true_rank:] < 1e-12).all()


@examples(60)
@given(
    st.integers(1, 12), st.integers(1, 8), st.integers(1, 8), st.integers(1, 10), st.integers(0, 2**32 - 1)
)  # fmt: skip
def test_decomposition_of_tiny_matrices(rows, left, right, rank, seed):
    """Smaller than the number of directions that are tried: nothing is random about the result."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(rows, left)) * (rng.random((rows, left)) < 0.6)
    psi = rng.normal(size=(rows, right)) * (rng.random((rows, right)) < 0.6)
    check_decomposition(phi, psi, rank)


def test_decomposition_of_nothing():
    _, values, _ = decompose(np.zeros((5, 4)), np.zeros((5, 3)), 2)
    assert values.tolist() == [0, 0]


def test_decomposition_is_repeatable_and_its_signs_are_the_data_s():
    rng = np.random.default_rng(0)
    phi, psi = with_spectrum(rng, 300, 80, 90, 0.6 ** np.arange(80))
    first, again, other = decompose(phi, psi, 6), decompose(phi, psi, 6), decompose(phi, psi, 6, seed=1)
    for one, two, three in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, three, atol=1e-7)
    # Turning the sign of one side turns that of the other's vectors, never of these: the largest element is positive.
    left, values, right = decompose(phi, -psi, 6)
    np.testing.assert_allclose(left, first[0], atol=1e-7)
    np.testing.assert_allclose(values, first[1], atol=1e-12)
    np.testing.assert_allclose(right, -first[2], atol=1e-7)


# Vectors of nodes.


def project(states: int | np.ndarray, **options) -> ProjectedNodes:
    most = np.full(len(MADE_UP.symbols), states) if isinstance(states, int) else states
    return project_nodes(TABLE, most, **options)


def dense_scaled(matrix: scipy.sparse.csr_array, kappa: float) -> np.ndarray:
    """Return the matrix with column i multiplied by `sqrt(M / (count_i + kappa))`."""
    dense = matrix.toarray()
    for column in range(dense.shape[1]):
        dense[:, column] *= np.sqrt(len(dense) / ((dense[:, column] ** 2).sum() + kappa))
    return dense


def same_vectors(one: ProjectedNodes, two: ProjectedNodes) -> bool:
    pairs = [
        pair
        for name in ("inside", "outside", "singular_values")
        for pair in zip(getattr(one, name), getattr(two, name), strict=True)
    ]
    pairs += [(one.states, two.states), (one.place, two.place)]
    return all(np.array_equal(left, right) for left, right in pairs)


@pytest.mark.parametrize("options", [{}, {"kappa": 0.0, "inside": "simple", "outside": "simple"}, {"least": 4}])
def test_sigma_is_the_identity(options):
    projected = project(8, **options)
    counts = MADE_UP.symbol_counts()
    assert (projected.states > 1).sum() >= 6
    for a, m in enumerate(projected.states.tolist()):
        y, z = projected.inside[a], projected.outside[a]
        assert y.shape == z.shape == (counts[a], m)
        if m > 1:
            np.testing.assert_allclose(y.T @ z / counts[a], np.eye(m), atol=1e-9)
        else:
            assert (y == 1).all()
            assert (z == 1).all()


def test_vectors_by_the_definition():
    """`Y = Phi U` and `Z = Psi V S^{-1}` with NumPy's decomposition of the dense `Omega^a`."""
    kappa, tolerance = 3.0, 0.05
    projected = project(4, kappa=kappa, tolerance=tolerance, least=2)
    features = extract(TABLE, least=2)
    several = 0
    for a, m in enumerate(projected.states.tolist()):
        phi, psi = dense_scaled(features.inside(a), kappa), dense_scaled(features.outside(a), kappa)
        if min(phi.shape) < 2 or psi.shape[1] < 2:
            assert m == 1
            continue
        u, s, vt = np.linalg.svd(phi.T @ psi / len(phi), full_matrices=False)
        values = projected.singular_values[a]
        np.testing.assert_allclose(values, s[: len(values)], rtol=2e-3, atol=1e-9)
        kept = int((values > tolerance * values[0]).sum())
        assert m == (kept if kept > 1 else 1)
        if m > 1 and (m == len(s) or s[m] < 0.7 * s[m - 1]):
            # Signs are lost in products: those of vectors of one node with another's.
            y, z = phi @ u[:, :m], psi @ vt[:m].T / s[:m]
            np.testing.assert_allclose(projected.inside[a] @ projected.outside[a].T, y @ z.T, atol=2e-2)
            several += 1
    assert several >= 3
    nodes = [np.flatnonzero(MADE_UP.symbol == a) for a in range(len(MADE_UP.symbols))]
    for own in nodes:
        np.testing.assert_array_equal(projected.place[own], np.arange(len(own)))


def test_no_more_states_than_wanted():
    wanted = np.ones(len(MADE_UP.symbols), np.int64)
    wanted[:3] = [2, 3, 5]
    projected = project(wanted)
    np.testing.assert_array_equal(projected.states, wanted)
    assert all(len(values) == 0 for values in projected.singular_values[3:])
    # The same vectors come first, however many are wanted (as far as the decomposition is exact).
    more = project(6)
    for a in range(3):
        np.testing.assert_allclose(np.abs(more.inside[a][:, :2]), np.abs(projected.inside[a][:, :2]), atol=2e-2)


def test_the_cut():
    """What is cut off is what the tolerance says, and a symbol with one vector left gets the constant one."""
    fine, rough = project(10, tolerance=0.01), project(10, tolerance=0.5)
    assert (rough.states <= fine.states).all()
    assert rough.states.sum() < fine.states.sum()
    for a, values in enumerate(fine.singular_values):
        np.testing.assert_array_equal(values, rough.singular_values[a])
        if len(values):
            assert fine.states[a] == max(1, int((values > 0.01 * values[0]).sum()))
            assert rough.states[a] == max(1, int((values > 0.5 * values[0]).sum()))
    assert (rough.states == 1).any()
    only_first = [a for a, values in enumerate(fine.singular_values) if len(values) and rough.states[a] == 1]
    assert only_first
    assert all((rough.inside[a] == 1).all() and (rough.outside[a] == 1).all() for a in only_first)


def test_threads_and_seeds():
    first = project(6)
    assert same_vectors(first, project(6))
    assert same_vectors(first, project(6, workers=Threads(2)))
    other = project(6, seed=1)
    assert not same_vectors(first, other)
    for one, two in zip(first.singular_values, other.singular_values, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-2, atol=1e-3)


class Noted:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []
        self.steps = 0

    def stage(self, name: str, total: int | None = None, unit: str = "it"):
        self.stages.append(name)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def step(self, amount: float = 1, **figures: object) -> None:
        self.steps += 1

    def note(self, message: str) -> None:
        self.notes.append(message)


def test_progress():
    noted = Noted()
    project(2, progress=noted)
    assert noted.stages == ["features", "decomposing"]
    assert noted.steps == 1 + len(MADE_UP.symbols)


# Numbers of states.


def test_wanted_states():
    corpus = Corpus.from_trees([Tree.parse("(S (N a) (V b))")] * 10 + [Tree.parse("(S (N a) (S (X c) (V b)))")] * 3)
    assert dict(zip(corpus.symbols, corpus.symbol_counts().tolist(), strict=True)) == {
        "S": 16,
        "N": 13,
        "V": 13,
        "X": 3,
    }

    def by_name(states, support):
        return dict(
            zip(
                corpus.symbols,
                wanted_states(states, corpus.symbols, corpus.symbol_counts(), support).tolist(),
                strict=True,
            )
        )

    assert by_name(5, 1) == {"S": 5, "N": 5, "V": 5, "X": 3}
    assert by_name(5, 4) == {"S": 4, "N": 3, "V": 3, "X": 1}
    assert by_name(5, 100) == {"S": 1, "N": 1, "V": 1, "X": 1}
    assert by_name({"S": 3, "X": 9}, 1) == {"S": 3, "N": 1, "V": 1, "X": 3}
    assert by_name({}, 1) == {"S": 1, "N": 1, "V": 1, "X": 1}


def test_wanted_states_that_make_no_sense():
    with pytest.raises(UsageError, match="given for QP, XP, but the trees have no such symbol"):
        wanted_states({"XP": 2, "NP": 2, "QP": 3}, MADE_UP.symbols, MADE_UP.symbol_counts(), 1)
    for states in (0, -2, {"NP": 0}):
        with pytest.raises(UsageError, match="states must be at least 1, not"):
            wanted_states(states, MADE_UP.symbols, MADE_UP.symbol_counts(), 1)


def test_diagnostics_in_words():
    wanted = np.where(MADE_UP.symbol_counts() >= 40, 12, 1)
    projected = project(wanted, tolerance=0.05)
    records, remarks = diagnostics(projected, wanted)
    assert [record["symbol"] for record in records] == [
        MADE_UP.symbols[a] for a, values in enumerate(projected.singular_values) if len(values)
    ]
    number = {name: a for a, name in enumerate(MADE_UP.symbols)}
    counts = MADE_UP.symbol_counts()
    for record in records:
        a = number[record["symbol"]]
        values = projected.singular_values[a]
        assert record["count"] == counts[a]
        assert record["states"] == projected.states[a]
        assert record["smallest"] == values[projected.states[a] - 1]
        assert record["condition"] == pytest.approx(values[0] / values[projected.states[a] - 1])
        assert record["condition"] <= 1 / 0.05
        np.testing.assert_allclose(record["singular_values"], values, rtol=1e-5)
    assert json.loads(json.dumps(records)) == records
    # Whoever got fewer states than wanted is told of, and nobody else.
    fewer = np.flatnonzero(projected.states < wanted).tolist()
    assert [remark.split(":")[0] for remark in remarks] == [MADE_UP.symbols[a] for a in fewer]
    assert 0 < len(remarks) < len(records)
    for a, remark in zip(fewer, remarks, strict=True):
        states = "1 state" if projected.states[a] == 1 else f"{projected.states[a]} states"
        assert remark == f"{MADE_UP.symbols[a]}: {counts[a]:,} nodes support only {states}"


def test_diagnostics_of_a_vanishing_value():
    projected = project(4)
    values = list(projected.singular_values)
    values[0] = np.zeros(1)
    ones = projected.states.copy()
    ones[0] = 1
    records, _ = diagnostics(replace(projected, singular_values=values, states=ones), ones)
    assert records[0]["condition"] is None
