"""Cohen and Collins (2014): with pivots, exact statistics give the grammar's own parameters back, states permuted."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from helpers.decompositions import errors
from helpers.figure_1 import dense_triples, equation_1, figure_1, run_em
from sapwood.numerics.anchor_nmf import decompose, half_decompose
from sapwood.research import match_columns, match_grammars
from sapwood.research.exact_moments import population
from sapwood.research.pivot_grammars import (
    learn_pivot,
    population_statistics,
    random_pivot_grammar,
    strengths,
)
from sapwood.research.separable_matrices import mixed, separable

EXACT = 1e-6
# States, rows and columns.
SIZES = [(1, 3, 4), (2, 2, 2), (2, 5, 3), (3, 3, 9), (4, 12, 10), (6, 20, 35), (10, 60, 40), (20, 50, 60)]
REPRESENTATIONS = ("cca", "random")


def as_given(q, seed):
    """Return the matrix dense or sparse, as probabilities or as counts."""
    scaled = q if seed % 3 else 1e5 * q
    return scaled if seed % 2 else scipy.sparse.csr_array(scaled)


# Theorem 2, and the two problems of section 5.


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize(("states", "rows", "columns"), SIZES)
def test_theorem_2(states, rows, columns, representation):
    """Figure 2 solves matrix decomposition problem 1: all three parts, by one permutation."""
    for seed in range(12):
        rng = np.random.default_rng([seed, states])
        true = (
            rng.dirichlet(np.full(states, 2.0)),
            separable(rng, rows, states, weakest=0.02, density=0.5 if seed % 4 else 1.0),
            separable(rng, columns, states, weakest=0.02, density=0.5 if seed % 4 else 1.0),
        )
        q = true[1] * true[0] @ true[2].T
        found = decompose(as_given(q, seed), states, representation=representation, random_state=seed)
        assert max(errors(true, list(found))) < EXACT


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize(("states", "rows", "columns"), [size for size in SIZES if size[2] > size[0]])
def test_matrix_decomposition_problem_2(states, rows, columns, representation):
    """Section 5.2: with anchors among the rows alone, `pi` and `r`."""
    for seed in range(12):
        rng = np.random.default_rng([seed, states])
        true = rng.dirichlet(np.full(states, 2.0)), separable(rng, rows, states, weakest=0.02)
        s = mixed(rng, columns, states)
        q = as_given(true[1] * true[0] @ s.T, seed)
        found = half_decompose(q, states, representation=representation, random_state=seed)
        assert max(errors(true, list(found))) < EXACT


@pytest.mark.parametrize(("states", "rows", "columns"), [size for size in SIZES if 10 > size[0] < size[2]])
def test_remark_of_section_5_3(states, rows, columns):
    """The most likely `s` given `r` is the true one, with anchors among the rows alone."""
    for seed in range(6):
        rng = np.random.default_rng([seed, states])
        true = rng.dirichlet(np.full(states, 2.0)), separable(rng, rows, states), mixed(rng, columns, states)
        q = true[1] * true[0] @ true[2].T
        found = decompose(as_given(q, seed), states, columns="fit", iterations=20_000, tolerance=1e-13)
        assert max(errors(true, list(found))) < EXACT


def test_alignment_needs_anchors_among_the_columns():
    """Figure 2 does not apply where only rows have anchors, and the remark's alternative does."""
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.full(3, 2.0)), separable(rng, 9, 3), mixed(rng, 8, 3)
    q = true[1] * true[0] @ true[2].T
    *halves, aligned = errors(true, list(decompose(q, 3)))
    assert max(halves) < EXACT
    assert aligned > 0.01


def test_order_of_columns_does_not_depend_on_luck():
    """The second half finds the states in another order; after the alignment both have the same."""
    other_orders = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        true = rng.dirichlet(np.full(3, 2.0)), separable(rng, 8, 3), separable(rng, 9, 3)
        q = true[1] * true[0] @ true[2].T
        found = decompose(q, 3)
        other_orders += not np.allclose(found.alignment, np.eye(3), atol=1e-3)
        assert max(errors(true, list(found))) < EXACT
    assert other_orders >= 5


# Theorem 1.

GRAMMARS = [
    {"states": (2, 2)},
    {"states": (1, 3), "interminals": 3, "preterminals": 3, "words": 8},
    {"states": (3, 3), "preterminals": 3, "words": 8, "alpha": 0.1, "beta": 0.05},
    {"states": (4, 4), "interminals": 3, "preterminals": 3, "words": 10, "alpha": 0.2},
]


def pivot_grammars(settings, count):
    for seed in range(count):
        yield random_pivot_grammar(np.random.default_rng(seed), **settings)


@pytest.mark.parametrize("settings", GRAMMARS)
@pytest.mark.slow
def test_theorem_1_step_by_step(settings):
    """Figure 1 with sums written out, on exact statistics."""
    for grammar in pivot_grammars(settings, 4):
        statistics = population_statistics(grammar)
        found = figure_1(statistics, grammar.states, grammar.lexicon.words, iterations=600)
        match = match_grammars(grammar, found)
        assert match.is_complete
        assert match.largest < 1e-4


@pytest.mark.parametrize("settings", [*GRAMMARS, {"states": (8, 8), "interminals": 4, "preterminals": 4, "words": 20}])
def test_theorem_1(settings):
    """All parameters of the grammar, by one permutation of each symbol's states."""
    for grammar in pivot_grammars(settings, 6 if settings["states"][1] < 8 else 1):
        match = match_grammars(grammar, learn_pivot(grammar))
        assert match.is_complete
        assert match.rules.largest < 1e-5
        assert match.words.largest < EXACT
        assert match.roots.largest < EXACT


def test_distributions_of_features_given_states():
    """Step 1 finds `p(f | h, a)`, `p(g | h, a)` and `p(h | a)`, as they are in the grammar."""
    for grammar in pivot_grammars(GRAMMARS[1], 5):
        statistics, source = population_statistics(grammar), population(grammar, depth=1)
        for a, pairs in enumerate(statistics.pairs):
            inside, outside, gamma = source.given_state(a)
            true = gamma, inside[inside.any(axis=1)], outside[outside.any(axis=1)]
            assert max(errors(true, list(decompose(pairs, int(grammar.states[a]))))) < EXACT


def test_strict_concavity():
    """Assumption 2 need not be assumed: pivots make the optimum of equation 1 unique.

    `kappa` sums to one, so it is `p(g, f2, f3 | a -> b c)` at the optimum, and it determines `t`, because pivots make
    the map from `t` to `kappa` injective.
    """
    for grammar in pivot_grammars(GRAMMARS[1], 3):
        statistics, source = population_statistics(grammar), population(grammar, depth=1)
        for rule, (a, b, c) in enumerate(grammar.rules.tolist()):
            inside, outside = (
                [given[given.any(axis=1)] for given in (source.given_state(s)[side] for s in (a, b, c))]
                for side in (0, 1)
            )
            maps = outside[0], inside[1], inside[2]
            for matrix in maps:
                assert np.linalg.matrix_rank(matrix) == matrix.shape[1]
            joint = dense_triples(statistics, rule)
            # The true p(h1, h2, h3 | a -> b c) is the optimum, and EM finds it.
            occupancy = np.split(grammar.occupancy, grammar.state_offsets[1:-1])[a]
            true = occupancy[:, None, None] * grammar.tensor(rule)
            true /= true.sum()
            np.testing.assert_allclose(np.einsum("hij,gh,xi,yj->gxy", true, *maps), joint, atol=1e-12)
            found = run_em(joint, *maps, 1000)
            np.testing.assert_allclose(found, true, atol=1e-6)
            assert equation_1(joint, *maps, found) == pytest.approx(equation_1(joint, *maps, true), abs=1e-9)


@pytest.mark.slow
def test_one_node_of_each_tree():
    """Section 3.2 picks one node of each tree. Then `p(f, g | a)` has more than m terms, and Theorem 1 is not true."""
    wrong = 0
    for grammar in pivot_grammars(GRAMMARS[0], 5):
        exact, one = population(grammar, depth=1), population(grammar, depth=1, scheme="one node")
        for a, m in enumerate(grammar.states.tolist()):
            values = [np.linalg.svd(source.omega(a), compute_uv=False) for source in (exact, one)]
            assert values[0][m:].max(initial=0) < 1e-12
            wrong += values[1][m:].max(initial=0) > 1e-4
            inside = exact.given_state(a)[0]
            found = half_decompose(one.omega(a), m).rows
            if a < grammar.n_interminals:
                assert np.abs(inside - found[:, match_columns(inside, found)]).max() > 1e-3
    assert wrong >= 10


def test_without_pivots():
    """With pivots that leak into other states the limit is another one, as far away as they leak."""
    distances = []
    for epsilon in (0.0, 0.001, 0.01, 0.1):
        grammar = random_pivot_grammar(np.random.default_rng(3), epsilon=epsilon)
        assert (min(row.min() for row in strengths(grammar)[0]) > 0) == (epsilon == 0)
        match = match_grammars(grammar, learn_pivot(grammar))
        distances.append(match.total / (2 * int(grammar.states.sum())))
    assert distances[0] < EXACT
    for epsilon, distance in zip((0.001, 0.01, 0.1), distances[1:], strict=True):
        assert epsilon / 4 < distance < 2 * epsilon
