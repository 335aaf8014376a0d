"""Gram matrices against the paper's algorithm written out with Kronecker products, and against sums over trees."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse.linalg

from helpers.enumerate_terms import context_vectors, stacked, tree_vectors
from sapwood.automata.algebra import add, scale, scale_by_size
from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.gram import (
    DivergenceError,
    GramMatrices,
    gram_matrices,
    largest_gamma,
    pair_sums,
)
from sapwood.automata.product_operator import PairOperator, inner, norm
from sapwood.automata.tensors import ProductTensor, SparseTensor, Tensor, dense
from sapwood.errors import GrammarError, UsageError
from sapwood.research.random_automata import random_automaton

METHODS = ["auto", "fixed-point", "newton"]


@cache
def drawn(seed: int, **kind) -> TreeAutomaton:
    return random_automaton(np.random.default_rng(seed), **kind)


def written_out(automaton: TreeAutomaton, gamma: float = 1.0) -> tuple[np.ndarray, np.ndarray, float]:
    """Algorithm 2 as the paper has it, for one sort: `G_T`, `G_C`, and the spectral radius of `E`."""
    n = automaton.n_states
    tensor = gamma * dense(automaton.transitions[0])
    square = np.einsum("ijk,abc->iajbkc", tensor, tensor).reshape(n * n, n * n, n * n)
    leaves = sum(np.kron(row, row) for row in automaton.leaves[0])
    s = np.zeros(n * n)
    for _ in range(3000):
        s = np.einsum("ijk,j,k->i", square, s, s, optimize=True) + leaves
    slope = np.einsum("ijk,j->ik", square, s) + np.einsum("ijk,k->ij", square, s)
    q = np.linalg.solve((np.eye(n * n) - slope).T, np.kron(automaton.root[0], automaton.root[0]))
    return s.reshape(n, n), q.reshape(n, n), float(np.abs(np.linalg.eigvals(slope)).max())


def check_same(one: GramMatrices, other: GramMatrices, rtol: float = 1e-9) -> None:
    for ours, theirs in ((one.trees, other.trees), (one.contexts, other.contexts)):
        size = max(norm(ours), norm(theirs))
        for mine, its in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, its, rtol=rtol, atol=rtol * size)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("states", [1, 2, 4])
@pytest.mark.parametrize("radius", [0.2, 0.9])
def test_against_the_algorithm_written_out(method, states, radius):
    automaton = drawn(states, states=states, radius=radius, strong=False)
    trees, contexts, rate = written_out(automaton)
    found = gram_matrices(automaton, method=method)
    np.testing.assert_allclose(found.trees[0], trees, rtol=1e-9, atol=1e-10 * np.abs(trees).max())
    np.testing.assert_allclose(found.contexts[0], contexts, rtol=1e-8, atol=1e-9 * np.abs(contexts).max())
    assert found.rate == pytest.approx(rate, rel=1e-8)
    assert found.rate == pytest.approx(radius, rel=2e-2)
    assert found.residual < 1e-12
    assert found.iterations > 0


def test_the_spectral_radius_of_larger_automata():
    """Beyond a few states it is found by Arnoldi's method."""
    automaton = random_automaton(np.random.default_rng(0), states=8, radius=0.7, strong=False)
    assert gram_matrices(automaton).rate == pytest.approx(written_out(automaton)[2], rel=1e-4)


def test_the_spectral_radius_where_the_method_of_arnoldi_gives_up(monkeypatch):
    """It is found by powers then."""

    def give_up(*args, **options):
        raise scipy.sparse.linalg.ArpackNoConvergence("none", np.zeros(0), np.zeros((0, 0)))

    monkeypatch.setattr("scipy.sparse.linalg.eigs", give_up)
    automaton = random_automaton(np.random.default_rng(0), states=8, radius=0.7, strong=False)
    assert gram_matrices(automaton).rate == pytest.approx(written_out(automaton)[2], rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "size"),
    [({"states": 3, "words": 2, "radius": 0.02}, 6), ({"sorts": 2, "states": [2, 1], "words": 1, "radius": 0.005}, 4)],
)
@pytest.mark.parametrize("seed", range(2))
def test_against_sums_over_trees(kind, size, seed):
    automaton = random_automaton(np.random.default_rng(seed), **kind, strong=False)
    found = gram_matrices(automaton)
    levels = tree_vectors(automaton, size), context_vectors(automaton, size)
    for sums, blocks in zip(levels, (found.trees, found.contexts), strict=True):
        # What larger trees and contexts add is less than those of the largest size did.
        rest = sum(np.linalg.norm(vectors) ** 2 for vectors in sums[-1])
        assert rest < 1e-8 * norm(blocks)
        for vectors, block in zip(stacked(sums), blocks, strict=True):
            np.testing.assert_allclose(vectors.T @ vectors, block, atol=rest)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [{"states": 3}, {"sorts": 2, "states": (1, 3)}, {"states": 9, "density": 0.3}])
def test_methods_agree(method, kind):
    automaton = drawn(7, radius=0.95, strong=False, **kind)
    check_same(gram_matrices(automaton, method=method), gram_matrices(automaton), rtol=1e-8)


def test_matrices_are_symmetric_and_positive():
    automaton = random_automaton(np.random.default_rng(1), sorts=2, states=[3, 4], strong=False)
    found = gram_matrices(automaton)
    for block in (*found.trees, *found.contexts):
        np.testing.assert_array_equal(block, block.T)
        assert np.linalg.eigvalsh(block).min() > 0


def kinds_of(tensor: np.ndarray) -> list[Tensor]:
    n, j, k = tensor.shape
    factors = tensor.reshape(n, -1), np.repeat(np.eye(j), k, axis=1), np.tile(np.eye(k), (1, j))
    return [tensor, SparseTensor.from_dense(tensor), ProductTensor(*factors)]


def test_kinds_of_tensors_agree():
    automaton = random_automaton(np.random.default_rng(2), sorts=2, states=[2, 3], density=0.6, strong=False)
    variants = [kinds_of(tensor) for tensor in automaton.transitions]
    expected = gram_matrices(automaton)
    for choice in ([1] * 8, [2] * 8, [0, 1, 2, 0, 1, 2, 0, 1]):
        transitions = tuple(kinds[pick] for kinds, pick in zip(variants, choice, strict=True))
        check_same(gram_matrices(replace(automaton, transitions=transitions)), expected)


def test_many_rules_of_one_shape_and_large_tensors():
    """Small tensors are stacked, large ones are not: both ways give the same."""
    automaton = random_automaton(np.random.default_rng(3), sorts=2, states=[2, 33], density=0.05, strong=False)
    assert {tensor.size > 1 << 15 for tensor in map(dense, automaton.transitions)} == {True, False}
    sparse = replace(automaton, transitions=tuple(SparseTensor.from_dense(dense(t)) for t in automaton.transitions))
    check_same(gram_matrices(sparse), gram_matrices(automaton))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("transition", "leaf"), [(0.5, 0.4), (2.0, 0.1), (0.25, 1.9)])
def test_divergence_exactly_at_the_border(method, transition, leaf):
    """With one state and one word, `s = t^2 s^2 + x^2` has a solution if and only if `2 t x <= 1`."""
    automaton = TreeAutomaton.single([1.0], [[[transition]]], {"a": [leaf]})
    border = 1 / (2 * transition * leaf)
    below = gram_matrices(automaton, gamma=border * (1 - 1e-5), method=method)
    assert below.rate == pytest.approx(1 - np.sqrt(1 - (1 - 1e-5) ** 2), rel=1e-6)
    assert below.gamma == border * (1 - 1e-5)
    with pytest.raises(DivergenceError, match="not finite"):
        gram_matrices(automaton, gamma=border * (1 + 1e-5), method=method)
    assert largest_gamma(automaton, tolerance=1e-7) == pytest.approx(border, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_digits_beyond_those_there_are(seed):
    """Newton's method ends where rounding keeps it from coming closer."""
    automaton = drawn(seed, states=6)
    gamma = 0.99 * border_of(automaton)
    found, expected = (gram_matrices(automaton, gamma=gamma, method="newton", tolerance=t) for t in (1e-18, 1e-13))
    check_same(found, expected)


def test_sums_over_contexts_that_are_not_solved(monkeypatch):
    """Where the solver's answer is wrong there is an error, and no result."""
    automaton = TreeAutomaton.single([1.0], [[[0.5]]], {"a": [0.4]})
    gamma = 0.99 * largest_gamma(automaton)
    assert (
        gram_matrices(automaton, gamma=gamma, method="fixed-point").rate > 0.8
    )  # so that equations are solved, not summed up
    solve = scipy.sparse.linalg.gmres

    def a_little_off(*arguments, **options):
        found, code = solve(*arguments, **options)
        return found * (1 + 1e-4), code

    monkeypatch.setattr(scipy.sparse.linalg, "gmres", a_little_off)
    with pytest.raises(DivergenceError, match="known to a part of"):
        gram_matrices(automaton, gamma=gamma, method="fixed-point")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [{}, {"sorts": 2, "states": (1, 2)}, {"states": 8}, {"real": False}])
def test_divergence_at_the_border(method, kind):
    automaton = drawn(11, **kind)
    border = border_of(automaton)
    below = gram_matrices(automaton, gamma=border * (1 - 1e-3), method=method, limit=1_000_000)
    assert below.rate == pytest.approx(1, abs=0.06)
    with pytest.raises(DivergenceError, match="not finite"):
        gram_matrices(automaton, gamma=border * (1 + 1e-3), method=method, limit=1_000_000)


@cache
def border_of(automaton: TreeAutomaton) -> float:
    return largest_gamma(automaton, tolerance=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("states", [1, 12])
def test_divergence_far_from_the_border(method, states):
    automaton = TreeAutomaton.single(np.ones(states), np.full((states,) * 3, 1e5), {"a": np.full(states, 1e5)})
    with pytest.raises(DivergenceError, match="not finite"):
        gram_matrices(automaton, method=method)


def test_gamma_scales_by_size():
    automaton = random_automaton(np.random.default_rng(5), sorts=2, states=2)
    check_same(gram_matrices(automaton, gamma=1.3), gram_matrices(scale_by_size(automaton, 1.3)), rtol=1e-11)


def test_largest_gamma_of_automata_far_from_the_border():
    automaton = random_automaton(np.random.default_rng(6))
    gamma = largest_gamma(automaton)
    assert largest_gamma(scale_by_size(automaton, 64.0)) == pytest.approx(gamma / 64, rel=2e-3)
    assert largest_gamma(scale_by_size(automaton, 1 / 64)) == pytest.approx(gamma * 64, rel=2e-3)
    with pytest.raises(DivergenceError):
        largest_gamma(scale_by_size(automaton, 1e9))


def test_finitely_many_trees():
    """Words of one sort, pairs of them of another, and nothing else."""
    tensor = np.arange(1.0, 9.0).reshape(2, 2, 2)
    automaton = TreeAutomaton(
        ["A", "P"], (np.array([1.0, 2.0]), np.zeros(2)), np.array([[0, 1, 1]]), (tensor,),
        (np.zeros((2, 2)), np.array([[1.0, 0.5], [0.25, 2.0]])), ["a", "b"],
    )  # fmt: skip
    found = gram_matrices(automaton)
    assert found.rate == pytest.approx(0, abs=1e-6)
    trees, contexts = stacked(tree_vectors(automaton, 1)), stacked(context_vectors(automaton, 1))
    for vectors, block in zip(trees + contexts, found.trees + found.contexts, strict=True):
        np.testing.assert_allclose(vectors.T @ vectors, block, rtol=1e-12)
    with pytest.raises(GrammarError, match="finitely many trees"):
        largest_gamma(automaton)


def test_no_trees_at_all():
    automaton = TreeAutomaton.single([1.0, 1.0], np.ones((2, 2, 2)), {"a": [0.0, 0.0]})
    found = gram_matrices(automaton)
    assert not found.trees[0].any()
    assert found.rate == 0.0


def test_two_automata():
    """`sum of omega omega'^T` is a block of the Gram matrices of their sum."""
    rng = np.random.default_rng(8)
    one = random_automaton(rng, sorts=2, states=[2, 3], radius=0.6, strong=False)
    other = random_automaton(rng, sorts=2, states=[3, 1], radius=0.6, strong=False)
    both = gram_matrices(add(one, other))
    trees, contexts = pair_sums(one, other)
    for sort, n in enumerate(one.sizes):
        np.testing.assert_allclose(trees[sort], both.trees[sort][:n, n:], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(contexts[sort], both.contexts[sort][:n, n:], rtol=1e-9, atol=1e-12)


def test_the_sum_of_squares():
    """`alpha^T G_T alpha` sums `f(t)^2`, and the inner product of both Gram matrices `|t| f(t)^2`."""
    automaton = random_automaton(np.random.default_rng(9), states=2, words=2, radius=0.02, strong=False)
    found = gram_matrices(automaton)
    by_size = [level[0] @ automaton.root[0] for level in tree_vectors(automaton, 7)]
    total = sum(float(values @ values) for values in by_size)
    assert automaton.root[0] @ found.trees[0] @ automaton.root[0] == pytest.approx(total, rel=1e-8)
    weighted = sum((2 * size + 1) * float(values @ values) for size, values in enumerate(by_size))
    assert inner(found.trees, found.contexts) == pytest.approx(weighted, rel=1e-8)


def test_multiples():
    automaton = random_automaton(np.random.default_rng(10))
    one, three = gram_matrices(automaton), gram_matrices(scale(automaton, 3.0))
    np.testing.assert_allclose(three.contexts[0], 9 * one.contexts[0], rtol=1e-12)
    np.testing.assert_allclose(three.trees[0], one.trees[0], rtol=1e-12)


def test_operators_are_adjoint():
    automaton = random_automaton(np.random.default_rng(12), sorts=2, states=[2, 3])
    pairs = PairOperator(automaton, automaton, scale=0.5)
    rng = np.random.default_rng(0)
    at, x, y = ([rng.normal(size=shape) for shape in pairs.shapes] for _ in range(3))
    at = [block @ block.T for block in at]
    assert inner(pairs.slope(at, x), y) == pytest.approx(inner(x, pairs.down(at, y)), rel=1e-10)
    # The derivative of F, by differences.
    step = 1e-6
    ahead, behind = (pairs.grow([a + sign * step * b for a, b in zip(at, x, strict=True)]) for sign in (1, -1))
    for found, one, other in zip(pairs.slope(at, x), ahead, behind, strict=True):
        np.testing.assert_allclose(found, (one - other) / (2 * step), rtol=1e-6, atol=1e-8)
    packed = pairs.pack(x)
    assert all(np.array_equal(a, b) for a, b in zip(pairs.unpack(packed), x, strict=True))


def test_different_sorts():
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="different sorts"):
        pair_sums(random_automaton(rng), random_automaton(rng, sorts=2))


def test_too_few_iterations():
    automaton = random_automaton(np.random.default_rng(13), radius=0.99, strong=False)
    with pytest.raises(DivergenceError, match="after 10 iterations"):
        gram_matrices(automaton, method="fixed-point", limit=10)


def test_methods_that_there_are_not():
    automaton = random_automaton(np.random.default_rng(0), states=2)
    with pytest.raises(UsageError, match="must be one of auto, fixed-point, newton, not 'Newton'"):
        gram_matrices(automaton, method="Newton")
