"""Singular states: what they are, how many to keep, and what truncation leaves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.enumerate_terms import random_terms
from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.gram import gram_matrices
from sapwood.automata.svta import choose_states, project, singular_states, square_root, svta
from sapwood.errors import UsageError
from sapwood.research.random_automata import random_automaton, redundant

VALUES = [np.array([4.0, 2.0, 0.1]), np.array([1.0]), np.array([3.0, 0.5])]


def spread(rng: np.random.Generator, n: int, rank: int, decades: float) -> np.ndarray:
    """A Gram matrix of this rank whose states have scales so many orders of magnitude apart."""
    scale = 10 ** rng.uniform(-decades, 0, size=n)
    factor = rng.normal(size=(n, rank)) * scale[:, None]
    return factor @ factor.T


@pytest.mark.parametrize("decades", [0, 4, 12])
@pytest.mark.parametrize(("n", "rank"), [(1, 1), (5, 5), (6, 2), (4, 0)])
def test_square_roots(n, rank, decades):
    gram = spread(np.random.default_rng(n), n, rank, decades)
    root = square_root(gram)
    assert root.shape == (n, rank)
    # Right to rounding in each entry, relative to the states' own scales.
    size = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    np.testing.assert_allclose((root @ root.T) / np.outer(size, size), gram / np.outer(size, size), atol=1e-12)


def test_square_roots_with_states_without_weight():
    gram = np.diag([2.0, 0.0, 1e-30])
    root = square_root(gram)
    assert root.shape == (3, 2)
    np.testing.assert_allclose(root @ root.T, gram, rtol=1e-12)


@pytest.mark.parametrize(("context_rank", "tree_rank", "rank"), [(5, 5, 5), (3, 5, 3), (5, 2, 2), (3, 3, 3), (0, 5, 0)])
def test_singular_gram_matrices(context_rank, tree_rank, rank):
    """`Q^{-T T} Q = I`, both Gram matrices become the singular values, and those are the roots of `G_C G_T`'s."""
    rng = np.random.default_rng(rank)
    context, tree = spread(rng, 5, context_rank, 0), spread(rng, 5, tree_rank, 0)
    found = singular_states(([context], [tree]))
    if rank == 0:
        assert found.values[0].tolist() == [0.0]
        assert not found.inside[0].any()
        assert not found.outside[0].any()
        assert found.inside[0].shape == found.outside[0].shape == (5, 1)
        return
    values, inside, outside = found.values[0], found.inside[0], found.outside[0]
    assert found.ranks.tolist() == [rank]
    assert (np.diff(values) <= 0).all()
    np.testing.assert_allclose(inside.T @ outside, np.eye(rank), atol=1e-9)
    np.testing.assert_allclose(inside.T @ tree @ inside, np.diag(values), atol=1e-10 * values[0])
    np.testing.assert_allclose(outside.T @ context @ outside, np.diag(values), atol=1e-10 * values[0])
    eigenvalues = np.sort(np.linalg.eigvals(context @ tree).real)[::-1]
    np.testing.assert_allclose(values**2, eigenvalues[:rank], rtol=1e-8)


def test_signs_do_not_depend_on_rounding():
    gram = [np.diag([3.0, 2.0, 1.0])]
    found = singular_states((gram, gram))
    np.testing.assert_allclose(found.outside[0], np.eye(3), atol=1e-12)


@pytest.mark.parametrize("kind", [{}, {"sorts": 2, "states": [2, 3]}])
def test_the_function_stays_the_same(kind):
    rng = np.random.default_rng(0)
    automaton = random_automaton(rng, **kind)
    other = svta(automaton)
    assert other.sizes.tolist() == automaton.sizes.tolist()
    for tree in random_terms(automaton, rng, 30):
        assert other.weight(tree) == pytest.approx(automaton.weight(tree), rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("kind", [{"states": 3}, {"sorts": 2, "states": [1, 3]}])
def test_automata_that_are_not_minimal(kind):
    """Directions without weight are not there."""
    rng = np.random.default_rng(1)
    automaton = random_automaton(rng, **kind)
    wide = redundant(automaton, rng, 4)
    found = singular_states(gram_matrices(wide))
    expected = singular_states(gram_matrices(automaton))
    for mine, its in zip(found.values, expected.values, strict=True):
        np.testing.assert_allclose(mine[: len(its)], its, rtol=1e-6)
        assert (mine[len(its) :] < 1e-7 * its[0]).all()
    small = project(wide, found.truncated(automaton.sizes))
    for tree in random_terms(automaton, rng, 20):
        assert small.weight(tree) == pytest.approx(automaton.weight(tree), rel=1e-6, abs=1e-9)


def test_a_sort_that_no_root_needs():
    automaton = random_automaton(np.random.default_rng(2), sorts=2, states=[2, 3])
    kept = [number for number, rule in enumerate(automaton.rules.tolist()) if rule == [0, 0, 0]]
    apart = TreeAutomaton(
        automaton.sorts, (automaton.root[0], np.zeros(3)), automaton.rules[kept],
        tuple(automaton.transitions[number] for number in kept), automaton.leaves, automaton.words,
    )  # fmt: skip
    other = svta(apart)
    assert other.sizes.tolist() == [2, 1]
    assert not other.leaves[1].any()
    for tree in random_terms(apart, np.random.default_rng(0), 20):
        assert other.weight(tree) == pytest.approx(apart.weight(tree), rel=1e-7, abs=1e-14)


def test_truncation_shapes():
    automaton = random_automaton(np.random.default_rng(3), sorts=2, states=[2, 4])
    found = singular_states(gram_matrices(automaton))
    cut = found.truncated([1, 3])
    assert cut.ranks.tolist() == [1, 3]
    assert [matrix.shape for matrix in cut.inside] == [matrix.shape for matrix in cut.outside] == [(2, 1), (4, 3)]
    small = project(automaton, cut)
    assert small.sizes.tolist() == [1, 3]
    assert [tensor.shape for tensor in small.transitions] == [
        tuple([1, 3][sort] for sort in rule) for rule in small.rules
    ]
    assert svta(automaton, 2).sizes.tolist() == [2, 2]
    assert found.truncated(9).ranks.tolist() == [2, 4]
    assert found.truncated(0).ranks.tolist() == [1, 1]


def test_a_truncation_is_a_part_of_the_whole():
    """`<Pi alpha, T(Pi^T, Pi^T, Pi^T), {Pi omega}>` of section 2.3."""
    automaton = random_automaton(np.random.default_rng(4), states=4)
    whole, part = svta(automaton), svta(automaton, 2)
    np.testing.assert_allclose(part.root[0], whole.root[0][:2], atol=1e-12)
    np.testing.assert_allclose(part.leaves[0], whole.leaves[0][:, :2], atol=1e-12)
    np.testing.assert_allclose(part.transitions[0], whole.transitions[0][:2, :2, :2], atol=1e-12)


def test_states_by_another_gamma():
    """SVTA*: the states of `gamma^size f`, the function of `f`."""
    automaton = random_automaton(np.random.default_rng(5), states=3)
    other = svta(automaton, gamma=1.5)
    for tree in random_terms(automaton, np.random.default_rng(0), 20):
        assert other.weight(tree) == pytest.approx(automaton.weight(tree), rel=1e-7, abs=1e-12)
    found = gram_matrices(other, gamma=1.5)
    np.testing.assert_allclose(found.trees[0], found.contexts[0], atol=1e-9 * found.trees[0].max())
    assert not np.allclose(found.trees[0], gram_matrices(other).trees[0], rtol=1e-3)


def test_dropped():
    found = singular_states((VALUES_SQUARED, VALUES_SQUARED))
    assert found.dropped([3, 1, 2]) == 0.0
    assert found.dropped(1) == pytest.approx(np.sqrt(4 + 0.01 + 0.25))
    assert found.dropped([0, 1, 2]) == pytest.approx(np.sqrt(16 + 4 + 0.01))


VALUES_SQUARED = [np.diag(values) for values in VALUES]


def test_choose_a_number():
    assert choose_states(VALUES, states=2).tolist() == [2, 1, 2]
    assert choose_states(VALUES, states=9).tolist() == [3, 1, 2]


def test_choose_a_part():
    # Each sort's first state stays, then the largest of all.
    assert choose_states(VALUES, budget=0.5).tolist() == [1, 1, 1]
    assert choose_states(VALUES, budget=0.67).tolist() == [2, 1, 1]
    assert choose_states(VALUES, budget=0.01).tolist() == [1, 1, 1]
    assert choose_states(VALUES, budget=1.0).tolist() == [3, 1, 2]
    # As a part of the states that there are now, of which 6 have an effect.
    assert choose_states(VALUES, budget=0.25, sizes=[6, 8, 2]).tolist() == [2, 1, 1]


@given(
    st.lists(st.lists(st.floats(0, 10), min_size=1, max_size=5), min_size=1, max_size=4), st.floats(0, 0.999)
)  # fmt: skip
def test_choose_by_tolerance(lists, tolerance):
    values = [np.sort(part)[::-1] for part in map(np.array, lists)]
    counts = choose_states(values, tolerance=tolerance)
    ranks = [len(part) for part in values]
    assert ((counts >= 1) & (counts <= ranks)).all()
    total = sum(float(part @ part) for part in values)
    allowed = tolerance**2 * total

    def dropped(chosen) -> float:
        return sum(float(part[count:] @ part[count:]) for part, count in zip(values, chosen, strict=True))

    assert dropped(counts) <= allowed * (1 + 1e-9) + 1e-300
    # None more could go: any sort's next smallest would be too much.
    for sort in np.flatnonzero(counts > 1):
        fewer = counts.copy()
        fewer[sort] -= 1
        assert dropped(fewer) > allowed * (1 - 1e-9)


def test_larger_singular_values_keep_more_states():
    values = [np.array([1.0, 0.5, 0.4]), np.array([1.0, 0.01, 0.001])]
    assert choose_states(values, tolerance=0.02).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give one of"),
        ({"states": 2, "budget": 0.5}, "give one of"),
        ({"states": 0}, "at least 1, not 0"),
        ({"budget": 0.0}, "above 0"),
        ({"budget": 1.5}, "at most 1, not 1.5"),
        ({"tolerance": -0.1}, "at least 0"),
        ({"tolerance": 1.0}, "below 1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(UsageError, match=message):
        choose_states(VALUES, **settings)


def work_of(states: np.ndarray, rules: np.ndarray, uses: np.ndarray) -> float:
    return sum(float(use * states[a] * states[b] * states[c]) for use, (a, b, c) in zip(uses, rules, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_work_is_spread_to_where_it_serves_most(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranks = rng.integers(1, 9, size=5)
    values = [np.sort(rng.gamma(1.0, size=rank))[::-1] for rank in ranks]
    rules = np.array([(a, b, c) for a in range(3) for b in range(5) for c in range(5) if rng.random() < 0.4])
    uses = rng.gamma(1.0, size=len(rules))
    for work in (1, 3, 5):
        found = choose_states(values, work=work, rules=(rules, uses))
        limit = work_of(np.minimum(ranks, work), rules, uses)
        assert (found >= 1).all()
        assert (found <= ranks).all()
        assert work_of(found, rules, uses) <= limit * (1 + 1e-9)
        # A slow twin: the worst bargain goes, one state at a time.
        states = ranks.copy()
        while work_of(states, rules, uses) > limit * (1 + 1e-9):
            bargains = {}
            for sort in np.flatnonzero(states > 1):
                # Savings as if each use had the sort once more for each place it stands at.
                places = (rules == sort).sum(axis=1)
                each = [use * np.prod(states[rule]) for use, rule in zip(uses, rules, strict=True)]
                saved = float(places @ each) / states[sort]
                bargains[sort] = values[sort][states[sort] - 1] ** 2 / max(saved, 1e-300)
            states[min(bargains, key=lambda sort: bargains[sort])] -= 1
        assert found.tolist() == states.tolist()


def test_work_beyond_what_there_is() -> None:
    values = [np.array([3.0, 1.0]), np.array([2.0])]
    rules = np.array([[0, 0, 1]]), np.array([1.0])
    assert choose_states(values, work=9, rules=rules).tolist() == [2, 1]
    assert choose_states(values, work=1, rules=rules).tolist() == [1, 1]
    with pytest.raises(UsageError, match="rules must be known"):
        choose_states(values, work=1)
    with pytest.raises(UsageError, match="work must be at least 1"):
        choose_states(values, work=0, rules=rules)
