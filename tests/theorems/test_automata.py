"""Theorems 1-6 and Lemma 1 of Rabusseau, Balle and Cohen (2016), on random strongly convergent automata.

Each holds sort by sort where there are several. Infinite sums are compared with those over all trees and contexts up to
a size beyond which less than 1e-8 is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from helpers.enumerate_terms import (
    all_contexts,
    all_trees,
    context_vectors,
    plug,
    random_terms,
    slow_weight,
    stacked,
    tree_vectors,
)
from sapwood.automata.algebra import conjugate, scale_by_size, subtract
from sapwood.automata.automaton import HOLE, TreeAutomaton
from sapwood.automata.distance import l2_distance, l2_norm
from sapwood.automata.gram import GramMatrices, gram_matrices, largest_gamma
from sapwood.automata.minimal import minimal
from sapwood.automata.product_operator import PairOperator, add, inner, norm
from sapwood.automata.svta import project, singular_states, svta
from sapwood.automata.tensors import dense
from sapwood.research.random_automata import is_strongly_convergent, random_automaton, redundant
from sapwood.research.truncation_bounds import truncation_bound
from sapwood.trees.tree import Tree

CLOSE = 1e-8
CASES = [(sorts, seed) for sorts in (1, 2) for seed in range(3)]
cases = pytest.mark.parametrize(("sorts", "seed"), CASES)


@dataclass(frozen=True, eq=False)
class Case:
    """A strongly convergent automaton, its Gram matrices, and vectors of all trees and contexts up to a size."""

    automaton: TreeAutomaton
    grams: GramMatrices
    trees: list[np.ndarray]
    contexts: list[np.ndarray]


@cache
def case(sorts: int, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    kind = {"states": 2, "words": 2} if sorts == 1 else {"sorts": 2, "states": [2, 1], "words": 1}
    size = 6 if sorts == 1 else 5
    automaton = scale_by_size(random_automaton(rng, **kind), 0.5 if sorts == 1 else 0.15)
    assert is_strongly_convergent(automaton)
    trees, contexts = tree_vectors(automaton, size), context_vectors(automaton, size)
    return Case(automaton, gram_matrices(automaton), stacked(trees), stacked(contexts))


def check_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, atol=CLOSE * max(1e-300, np.abs(expected).max()))


@cases
def test_theorem_1(sorts, seed):
    """rank(f), the states of a minimal automaton, is rank(H_f)."""
    given = case(sorts, seed)
    rng = np.random.default_rng(seed)
    wide = redundant(given.automaton, rng, 4)
    found = minimal(wide)
    for sort, (rows, columns) in enumerate(zip(given.contexts, given.trees, strict=True)):
        # Rows and columns of the Hankel matrix on one scale: its rank stays what it is.
        block = unit(rows[:500]) @ unit(columns[:500]).T
        assert np.linalg.matrix_rank(block, tol=CLOSE) == found.ranks[sort] == given.automaton.sizes[sort]
    assert found.automaton.sizes.tolist() == found.ranks.tolist()
    for tree in random_terms(wide, rng, 10):
        assert found.automaton.weight(tree) == pytest.approx(given.automaton.weight(tree), rel=CLOSE, abs=1e-12)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)


@cases
def test_theorem_2(sorts, seed):
    """From any rank factorisation `H = P S` of a block, the automaton with `P_A = P` and `S_A = S`."""
    automaton = case(sorts, seed).automaton
    automaton = scale_by_size(automaton, 2.0 if sorts == 1 else 6.0)
    rng = np.random.default_rng(seed)
    contexts, trees = all_contexts(automaton, 1), all_trees(automaton, 1)
    left, right = [], []
    for rows, columns, n in zip(contexts, trees, automaton.sizes, strict=True):
        # Only weights of trees are used.
        block = np.array([[slow_weight(automaton, plug(context, tree)) for tree in columns] for context in rows])
        u, d, v = np.linalg.svd(block)
        basis = np.linalg.qr(rng.normal(size=(n, n)))[0] * rng.uniform(0.5, 2.0, size=n)
        left.append(u[:, :n] * d[:n] @ basis)
        right.append(np.linalg.solve(basis, v[:n]))
        check_close(left[-1] @ right[-1], block)
    built = from_factorisation(automaton, contexts, trees, left, right)
    for sort in range(sorts):
        check_close(np.array([built.vector(tree) for tree in trees[sort]]).T, right[sort])
        check_close(np.array([built.context_vector(context) for context in contexts[sort]]), left[sort])
    for tree in random_terms(automaton, rng, 30):
        expected = slow_weight(automaton, tree)
        assert built.weight(tree) == pytest.approx(expected, rel=CLOSE, abs=1e-10)


def from_factorisation(automaton: TreeAutomaton, contexts, trees, left, right) -> TreeAutomaton:
    """The automaton of the theorem's proof; of the given one only rules, words and weights of trees are asked for."""
    plain = len(automaton.sorts) == 1

    def star(sort: int):
        return HOLE if plain else Tree(automaton.sorts[sort], word=HOLE)

    words = [[word if plain else Tree(name, word=word) for word in automaton.words] for name in automaton.sorts]
    root = tuple(rows[part.index(star(sort))] for sort, (rows, part) in enumerate(zip(left, contexts, strict=True)))
    leaves = tuple(
        np.array([columns[:, part.index(word)] for word in words[sort]])
        for sort, (columns, part) in enumerate(zip(right, trees, strict=True))
    )
    transitions = []
    for a, b, c in automaton.rules.tolist():
        values = np.array(
            [
                [
                    [
                        slow_weight(automaton, plug(context, (x, y) if plain else Tree(automaton.sorts[a], (x, y))))
                        for y in trees[c]
                    ]
                    for x in trees[b]
                ]
                for context in contexts[a]
            ]
        )
        inverses = np.linalg.pinv(left[a]), np.linalg.pinv(right[b]), np.linalg.pinv(right[c])
        transitions.append(np.einsum("CTU,iC,Tj,Uk->ijk", values, *inverses, optimize=True))
    return TreeAutomaton(automaton.sorts, root, automaton.rules, tuple(transitions), leaves, automaton.words)


@cases
def test_lemma_1(sorts, seed):
    """Gram matrices are finite and positive definite, and their eigenvectors give the singular value decomposition."""
    given = case(sorts, seed)
    found = singular_states(given.grams)
    for sort, (rows, columns) in enumerate(zip(given.contexts, given.trees, strict=True)):
        context, tree = given.grams.contexts[sort], given.grams.trees[sort]
        # 1)
        check_close(rows.T @ rows, context)
        check_close(columns.T @ columns, tree)
        (d_c, v_c), (d_t, v_t) = np.linalg.eigh(context), np.linalg.eigh(tree)
        assert d_c.min() > 0
        assert d_t.min() > 0
        # 2)
        u, d, v = np.linalg.svd((v_c * np.sqrt(d_c)).T @ (v_t * np.sqrt(d_t)))
        left = rows @ (v_c / np.sqrt(d_c)) @ u
        right = columns @ (v_t / np.sqrt(d_t)) @ v.T
        some = slice(0, 300)
        check_close((left[some] * d) @ right[some].T, rows[some] @ columns[some].T)
        np.testing.assert_allclose(found.values[sort], d, rtol=CLOSE)
        # The block itself, by two QR decompositions.
        middle = np.linalg.qr(rows, mode="r") @ np.linalg.qr(columns, mode="r").T
        check_close(np.linalg.svd(middle, compute_uv=False), d)
        # Algorithm 1's `Q`, and ours without an inverse.
        q = v_c / np.sqrt(d_c) @ u * np.sqrt(d)
        signs = np.sign(np.sum(q * found.outside[sort], axis=0))
        np.testing.assert_allclose(found.outside[sort] * signs, q, rtol=1e-6, atol=CLOSE * np.abs(q).max())
        np.testing.assert_allclose(found.inside[sort].T @ found.outside[sort], np.eye(len(d)), atol=CLOSE)


@cases
def test_theorem_3(sorts, seed):
    """There is a singular value decomposition: `U` and `V` of the singular value automaton are orthonormal."""
    given = case(sorts, seed)
    found = singular_states(given.grams)
    canonical = svta(given.automaton)
    assert canonical.sizes.tolist() == given.automaton.sizes.tolist()
    size = 6 if sorts == 1 else 5
    trees, contexts = stacked(tree_vectors(canonical, size)), stacked(context_vectors(canonical, size))
    for values, rows, columns, old_rows, old_columns in zip(
        found.values, contexts, trees, given.contexts, given.trees, strict=True
    ):
        left, right = rows / np.sqrt(values), columns / np.sqrt(values)
        np.testing.assert_allclose(left.T @ left, np.eye(len(values)), atol=CLOSE)
        np.testing.assert_allclose(right.T @ right, np.eye(len(values)), atol=CLOSE)
        # And it is that of the same Hankel matrix.
        check_close(rows[:300] @ columns[:300].T, old_rows[:300] @ old_columns[:300].T)


@cases
def test_theorem_4(sorts, seed):
    """What the singular values say of the sizes of an SVTA's weights."""
    given = case(sorts, seed)
    values = singular_states(given.grams).values
    roots = [np.sqrt(part) for part in values]
    canonical = svta(given.automaton)
    for rows, bound in zip(stacked(tree_vectors(canonical, 5)), roots, strict=True):
        assert (np.abs(rows) <= bound * (1 + CLOSE)).all()
    for rows, bound in zip(stacked(context_vectors(canonical, 5)), roots, strict=True):
        assert (np.abs(rows) <= bound * (1 + CLOSE)).all()
    for (a, b, c), tensor in zip(canonical.rules.tolist(), canonical.transitions, strict=True):
        i, j, k = roots[a][:, None, None], roots[b][:, None], roots[c]
        bound = np.minimum(np.minimum(i / (j * k), j / (i * k)), k / (i * j))
        assert (np.abs(dense(tensor)) <= bound * (1 + CLOSE)).all()
        # Two states of children with singular values far apart have little to do with each other.
        together = np.abs(np.einsum("ijk,i->jk", dense(tensor), canonical.root[a]))
        pairs = np.minimum(j, k) / np.maximum(j, k)
        assert (together <= canonical.sizes[a] * pairs * (1 + CLOSE)).all()


def fixed_point_case(sorts: int, seed: int) -> TreeAutomaton:
    """An automaton whose iterations are slow enough to look at."""
    kind = {"states": 2, "words": 1} if sorts == 1 else {"sorts": 2, "states": [2, 1], "words": 1}
    automaton = random_automaton(np.random.default_rng(seed), real=False, **kind)
    assert is_strongly_convergent(automaton)
    return automaton


@cases
def test_theorem_5(sorts, seed):
    """`s` is a fixed point of `F`, the limit of its iterates from zero, and the convergence is linear, by `rho`."""
    automaton = fixed_point_case(sorts, seed)
    found = gram_matrices(automaton, method="newton")
    pairs = PairOperator(automaton, automaton)
    # (i)
    assert norm(add(pairs.grow(found.trees), found.trees, -1.0)) <= 1e-13 * norm(found.trees)
    # (ii) and (iii)
    state, errors = pairs.zeros(), []
    for _ in range(100):
        errors.append(norm(add(state, found.trees, -1.0)) / norm(found.trees))
        state = pairs.grow(state)
    assert errors[0] == 1.0
    assert errors[-1] < 1e-13
    assert 0 < found.rate < 1
    check_linear(errors, found.rate)


def check_linear(errors: list[float], rate: float) -> None:
    """Errors fall by about `rate` each time, until rounding stops them."""
    falling = np.array([error for error in errors if error > 1e-11])
    ratios = falling[1:] / falling[:-1]
    assert len(ratios) >= 3
    assert (ratios[1:] < 1).all()
    assert ratios[-1] == pytest.approx(rate, rel=0.05)


@cases
def test_theorem_6(sorts, seed):
    """After `k` iterations both Gram matrices of algorithm 2 are as near as `rho^k`, up to a constant."""
    automaton = fixed_point_case(sorts, seed)
    found = gram_matrices(automaton, method="newton")
    pairs = PairOperator(automaton, automaton)
    state, errors = pairs.zeros(), []
    for _ in range(40):
        state = pairs.grow(state)
        slope = np.stack([pairs.pack(pairs.slope(state, pairs.unpack(row))) for row in np.eye(len(pairs.pack(state)))])
        contexts = pairs.unpack(np.linalg.solve(np.eye(len(slope)) - slope, pairs.pack(pairs.roots())))
        errors.append(norm(add(contexts, found.contexts, -1.0)) / norm(found.contexts))
    assert errors[-1] < 1e-13
    check_linear(errors, found.rate)


@cases
def test_powers_of_the_derivative(sorts, seed):
    """`alpha^(x) E^k` sums over the contexts of drop `k` (section 3); here for holes right below the root."""
    given = case(sorts, seed)
    pairs = PairOperator(given.automaton, given.automaton)
    once = pairs.down(given.grams.trees, pairs.roots())
    expected = pairs.zeros()
    for (a, b, c), tensor in zip(given.automaton.rules.tolist(), given.automaton.transitions, strict=True):
        half = np.einsum("ijk,i->jk", dense(tensor), given.automaton.root[a])
        rows = given.trees[c] @ half.T
        expected[b] += rows.T @ rows
        rows = given.trees[b] @ half
        expected[c] += rows.T @ rows
    for found, block in zip(once, expected, strict=True):
        check_close(found, block)


@cases
def test_no_truncation_is_nearer_than_the_dropped_singular_values(sorts, seed):
    """Eckart and Young: in the Frobenius norm of Hankel matrices, and in the spectral norm."""
    given = case(sorts, seed)
    found = singular_states(given.grams)
    small = project(given.automaton, found.truncated(1))
    rest = subtract(given.automaton, small)
    grams = gram_matrices(rest)
    distance = np.sqrt(inner(grams.trees, grams.contexts))
    assert distance >= found.dropped(1) * (1 - CLOSE)
    assert found.dropped(1) > 0
    values = singular_states(grams).values
    for ours, theirs in zip(values, found.values, strict=True):
        if len(theirs) > 1:
            assert ours[0] >= theirs[1] * (1 - CLOSE)
    # The distance is the root of `sum of |t| (f - f')^2`.
    levels = tree_vectors(rest, 6 if sorts == 1 else 5)
    total = sum(
        (2 * size + 1) * float(np.sum((vectors @ root) ** 2))
        for size, level in enumerate(levels)
        for vectors, root in zip(level, rest.root, strict=True)
    )
    assert distance**2 == pytest.approx(total, rel=1e-6)


@cases
def test_conjugates(sorts, seed):
    """`omega` of `A^Q` is `Q^{-1} omega`, so singular values and the SVTA's function do not depend on the basis."""
    given = case(sorts, seed)
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.normal(size=(n, n)))[0] * rng.uniform(0.5, 2, size=n) for n in given.automaton.sizes]
    other = conjugate(given.automaton, bases)
    for tree in random_terms(other, rng, 10):
        sort = 0 if sorts == 1 else other.sorts.index(tree.label)
        expected = np.linalg.solve(bases[sort], given.automaton.vector(tree))
        np.testing.assert_allclose(other.vector(tree), expected, rtol=CLOSE, atol=1e-14)
    found, expected = singular_states(gram_matrices(other)).values, singular_states(given.grams).values
    for mine, its in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, its, rtol=CLOSE)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sorts", [1, 2])
def test_no_truncation_is_farther_than_its_bound(sorts, seed):
    """`research.truncation_bounds`: the l2 distance is at most the bound, which vanishes with the singular values."""
    rng = np.random.default_rng([sorts, seed])
    automaton = random_automaton(rng, sorts=sorts, states=4, words=4)
    automaton = scale_by_size(automaton, 0.3 * largest_gamma(automaton))
    found = singular_states(gram_matrices(automaton))
    bounds = []
    for kept in range(1, 5):
        bound = truncation_bound(automaton, found, kept)
        assert bound is not None
        distance = l2_distance(automaton, project(automaton, found.truncated(kept)))
        assert distance <= bound * (1 + 1e-9) + 1e-7 * l2_norm(automaton)
        bounds.append(bound)
    assert bounds[-1] <= 1e-6 * bounds[0]
    assert bounds[0] < 100 * l2_norm(automaton)


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_bounds_grow_as_all_weights_do(factor):
    """An automaton times a number is as far from its truncation as before, times that number; and so is the bound."""
    automaton = random_automaton(np.random.default_rng(3), states=4, words=4)
    automaton = scale_by_size(automaton, 0.3 * largest_gamma(automaton))
    larger = replace(automaton, root=[factor * weights for weights in automaton.root])
    one, other = (truncation_bound(each, singular_states(gram_matrices(each)), 2) for each in (automaton, larger))
    assert one is not None
    assert other == pytest.approx(factor * one, rel=1e-6, abs=0)
