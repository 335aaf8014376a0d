"""Distances and inner products of automata, against sums over all trees up to a size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.enumerate_terms import all_trees, n_nodes, slow_weight
from sapwood.automata.algebra import add, conjugate, scale, scale_by_size, subtract
from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.distance import Distances, compare, inner_product, l2_distance, l2_norm
from sapwood.automata.gram import DivergenceError, gram_matrices
from sapwood.automata.svta import project, singular_states, svta
from sapwood.errors import UsageError
from sapwood.research.random_automata import random_automaton
from sapwood.testing.grammars import random_grammar

SEEDS = st.integers(0, 10_000)
# Differences of sums lose half of the digits in the root.
CANCELLED = 3e-7


def automaton(seed: int, *, sorts: int = 1, states: int = 3, radius: float = 0.4, real: bool = True) -> TreeAutomaton:
    return random_automaton(
        np.random.default_rng(seed), states=states, sorts=sorts, words=2, radius=radius, real=real, strong=False
    )


def quick(seed: int, sorts: int) -> TreeAutomaton:
    """Return an automaton for which few trees give nearly the whole sum."""
    return scale_by_size(automaton(seed, sorts=sorts, states=2), 0.3)


def similar(one: TreeAutomaton, seed: int) -> TreeAutomaton:
    """Return the automaton with slightly other weights."""
    rng = np.random.default_rng(seed)

    def with_weights(array: np.ndarray) -> np.ndarray:
        return np.asarray(array) * rng.uniform(0.8, 1.2, size=np.shape(array))

    return replace(
        one,
        root=tuple(moved(vector) for vector in one.root),
        transitions=tuple(moved(tensor) for tensor in one.transitions),
        leaves=tuple(moved(rows) for rows in one.leaves),
    )


def bases(one: TreeAutomaton, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    rotations = [np.linalg.qr(rng.normal(size=(n, n)))[0] for n in one.sizes]
    return [rotation * np.exp(rng.uniform(-0.5, 0.5, len(rotation))) for rotation in rotations]


@pytest.mark.parametrize(("sorts", "size"), [(1, 5), (2, 3)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_sums_over_all_trees(sorts: int, size: int, seed: int) -> None:
    one = quick(seed, sorts)
    other = quick(seed + 100, sorts)
    trees = [tree for of_sort in all_trees(one, size) for tree in of_sort]
    assert len(trees) > 500
    f, g = (np.array([slow_weight(found, tree) for tree in trees]) for found in (one, other))
    nodes = np.array([n_nodes(tree) for tree in trees])
    assert inner_product(one, other) == pytest.approx(float(f @ g), rel=1e-3, abs=1e-3 * l2_norm(one) * l2_norm(other))
    assert l2_norm(one) == pytest.approx(float(np.sqrt(f @ f)), rel=1e-3)
    found = compare(one, other)
    assert found.l2 == pytest.approx(float(np.sqrt(((f - g) ** 2).sum())), rel=1e-3)
    assert found.hankel == pytest.approx(float(np.sqrt((nodes * (f - g) ** 2).sum())), rel=1e-3)
    assert found.l2_norm == l2_norm(one)
    assert found.hankel_norm == pytest.approx(float(np.sqrt((nodes * f**2).sum())), rel=1e-3)
    assert found.relative == found.l2 / found.l2_norm
    # What is left out is all that is missing: with fewer trees the sums are smaller, and farther away.
    few = nodes < 2 * size
    assert (f[few] ** 2).sum() < (f**2).sum() < l2_norm(one) ** 2 * (1 + 1e-12)
    assert (nodes * (f - g) ** 2).sum() < found.hankel**2 * (1 + 1e-12)


def test_a_geometric_series() -> None:
    # Over one state and one word f(t) = r w^(n + 1) c^n for each of the Catalan(n) trees with n inner nodes, and
    # sum Catalan(n) z^n = (1 - sqrt(1 - 4 z)) / (2 z) with z = w^2 c^2 for squares.
    r, c, w = 0.7, 0.8, 0.5
    one = TreeAutomaton.single([r], [[[c]]], {"a": [w]})
    z = (w * c) ** 2
    square = r**2 * w**2 * (1 - np.sqrt(1 - 4 * z)) / (2 * z)
    assert l2_norm(one) ** 2 == pytest.approx(square, rel=1e-12)
    # Such a tree has 2 n + 1 nodes, and (n + 1) Catalan(n) are the coefficients of 1 / sqrt(1 - 4 z).
    nodes = r**2 * w**2 * (2 / np.sqrt(1 - 4 * z) - (1 - np.sqrt(1 - 4 * z)) / (2 * z))
    assert compare(one, scale(one, 0.0)).hankel ** 2 == pytest.approx(nodes, rel=1e-12)
    assert inner_product(one, scale(one, -3.0)) == pytest.approx(-3 * square, rel=1e-12)


@examples(5)
@given(SEEDS, SEEDS, SEEDS, st.sampled_from([1, 2]))
@pytest.mark.slow
def test_it_is_a_metric(first: int, second: int, third: int, sorts: int) -> None:
    one, other, last = (automaton(seed, sorts=sorts) for seed in (first, second, third))
    pairs = [compare(*pair) for pair in ((one, other), (other, last), (one, last))]
    for name in ("l2", "hankel"):
        there, on, direct = (getattr(pair, name) for pair in pairs)
        size = sum(getattr(pair, f"{name}_norm") for pair in pairs)
        assert direct <= there + on + CANCELLED * size
        assert getattr(compare(other, one), name) == pytest.approx(there, rel=1e-6, abs=CANCELLED * size)
        assert getattr(compare(one, one), name) <= CANCELLED * size
    assert inner_product(one, other) == pytest.approx(inner_product(other, one), rel=1e-9, abs=1e-12)
    assert abs(inner_product(one, other)) <= l2_norm(one) * l2_norm(other) * (1 + 1e-9)
    # Each tree has at least one node.
    assert pairs[0].l2 <= pairs[0].hankel * (1 + 1e-9) + CANCELLED
    assert pairs[0].l2_norm <= pairs[0].hankel_norm


@examples(5)
@given(SEEDS, st.sampled_from([1, 2, 3]))
def test_conjugates_are_no_distance_away(seed: int, sorts: int) -> None:
    one = automaton(seed, sorts=sorts)
    same = conjugate(one, bases(one, seed))
    found = compare(one, same)
    assert found.l2 <= CANCELLED * found.l2_norm
    assert found.hankel <= CANCELLED * found.hankel_norm
    assert found.relative <= CANCELLED
    other = automaton(seed + 1, sorts=sorts)
    far = compare(one, other)
    there = compare(same, conjugate(other, bases(other, seed + 1)))
    assert far.l2 > 1e-3 * far.l2_norm
    for name in ("l2", "hankel", "l2_norm", "hankel_norm"):
        assert getattr(there, name) == pytest.approx(getattr(far, name), rel=1e-6)


@examples(5)
@given(SEEDS, st.floats(-2, 2), st.sampled_from([1, 2]))
@pytest.mark.slow
def test_inner_products_are_linear(seed: int, factor: float, sorts: int) -> None:
    one, other, last = (automaton(seed + number, sorts=sorts) for number in range(3))
    together = add(scale(one, factor), other)
    size = (l2_norm(one) + l2_norm(other)) * l2_norm(last)
    expected = factor * inner_product(one, last) + inner_product(other, last)
    assert inner_product(together, last) == pytest.approx(expected, rel=1e-8, abs=1e-10 * size)
    # The distance is the norm of the difference, computed another way.
    assert l2_norm(subtract(one, other)) == pytest.approx(l2_distance(one, other), rel=1e-6)
    assert l2_distance(one, other) == compare(one, other).l2


@examples(5)
@given(SEEDS, st.sampled_from([1, 2, 3]), st.floats(0.1, 0.9))
def test_the_hankel_norm_is_that_of_the_singular_values(seed: int, sorts: int, radius: float) -> None:
    one = automaton(seed, sorts=sorts, radius=radius)
    found = singular_states(gram_matrices(one))
    assert compare(one, scale(one, 0.0)).hankel == pytest.approx(found.dropped(0), rel=1e-7)
    assert compare(one, one).hankel_norm == pytest.approx(found.dropped(0), rel=1e-7)


@examples(6)
@given(SEEDS, st.sampled_from([1, 2]), st.floats(0.1, 0.7), st.booleans())
@pytest.mark.slow
def test_nothing_is_closer_than_what_is_dropped(seed: int, sorts: int, radius: float, real: bool) -> None:
    one = automaton(seed, sorts=sorts, states=4, radius=radius, real=real)
    found = singular_states(gram_matrices(one))
    for states in (1, 2, 3, 4):
        least = found.dropped(states)
        candidates = [project(one, found.truncated(states)), automaton(seed + states, sorts=sorts, states=states)]
        for candidate in candidates:
            try:
                close = compare(one, candidate)
            except DivergenceError:
                continue  # truncations need not have finite sums
            assert close.hankel >= least * (1 - 1e-6) - CANCELLED * close.hankel_norm
        if states == 4:
            assert compare(one, candidates[0]).hankel <= CANCELLED * found.dropped(0)


def test_truncations_are_close() -> None:
    # Not only is the bound kept, it is nearly reached.
    for seed in range(4):
        one = automaton(seed, states=4, radius=0.2)
        found = singular_states(gram_matrices(one))
        ratios = [compare(one, svta(one, states)).hankel / found.dropped(states) for states in (1, 2, 3)]
        assert all(1 <= ratio < 3 for ratio in ratios)


def test_divergence() -> None:
    finite = TreeAutomaton.single([1.0], [[[0.9]]], {"a": [0.5]})
    infinite = TreeAutomaton.single([1.0], [[[1.1]]], {"a": [0.5]})
    assert l2_norm(finite) < np.inf
    for call in (
        lambda: l2_norm(infinite),
        lambda: compare(infinite, finite),
        lambda: compare(finite, infinite),
        lambda: l2_distance(infinite, infinite),
    ):
        with pytest.raises(DivergenceError, match=r"not finite|border of divergence"):
            call()
    # Products can be summable where squares are not.
    assert inner_product(TreeAutomaton.single([1.0], [[[0.5]]], {"a": [0.5]}), infinite) == pytest.approx(
        0.25 * (1 - np.sqrt(1 - 4 * 0.55 * 0.25)) / (2 * 0.55 * 0.25)
    )
    # The border is at a weight of 1.
    near = TreeAutomaton.single([1.0], [[[0.999]]], {"a": [0.5]})
    z = 0.25 * 0.999**2
    assert l2_norm(near) ** 2 == pytest.approx(0.25 * (1 - np.sqrt(1 - 4 * z)) / (2 * z), rel=1e-9)


def test_automata_of_different_sorts() -> None:
    one, other = automaton(0, sorts=1), automaton(0, sorts=2)
    for call in (compare, inner_product, l2_distance):
        with pytest.raises(UsageError, match="different sorts"):
            call(one, other)
    with pytest.raises(UsageError, match="different sorts"):
        compare(other, replace(other, sorts=["A1", "A0"]))


def test_automata_of_different_words() -> None:
    one = TreeAutomaton.single([1.0], [[[0.5]]], {"a": [0.5], "b": [0.25]})
    fewer = TreeAutomaton.single([1.0], [[[0.5]]], {"a": [0.5]})
    swapped = TreeAutomaton.single([1.0], [[[0.5]]], {"b": [0.25], "a": [0.5]})
    others = TreeAutomaton.single([1.0], [[[0.5]]], {"a": [0.5], "c": [0.25]})
    nameless = replace(fewer, words=None)
    for other in (fewer, swapped, others, nameless):
        for call in (compare, inner_product, l2_distance):
            with pytest.raises(UsageError, match="words"):
                call(one, other)


def test_words_may_be_left_out() -> None:
    # Gram matrices do not depend on how many rows there are; distances of projections do not either.
    grammar = random_grammar(np.random.default_rng(3), states=(2, 3))
    whole, short = (TreeAutomaton.from_grammar(grammar, words=words) for words in (True, False))
    found = singular_states(gram_matrices(whole))
    expected = compare(whole, project(whole, found.truncated(1)))
    close = compare(short, project(short, found.truncated(1)))
    assert expected.l2 > 0
    for name in ("l2", "hankel", "l2_norm", "hankel_norm"):
        assert getattr(close, name) == pytest.approx(getattr(expected, name), rel=1e-8)


def test_rules_that_only_one_has() -> None:
    # A rule that is not there is one without weight.
    one = automaton(1, sorts=2)
    kept = np.arange(len(one.rules)) % 3 > 0
    transitions = [
        tensor if keep else 0 * np.asarray(tensor) for tensor, keep in zip(one.transitions, kept, strict=True)
    ]
    zeros = replace(one, transitions=tuple(transitions))
    fewer = replace(
        one,
        rules=one.rules[kept],
        transitions=tuple(tensor for tensor, keep in zip(one.transitions, kept, strict=True) if keep),
    )
    assert compare(one, fewer).l2 == pytest.approx(compare(one, zeros).l2, rel=1e-9)
    assert compare(fewer, one).hankel == pytest.approx(compare(zeros, one).hankel, rel=1e-9)
    assert compare(zeros, fewer).l2 <= CANCELLED * l2_norm(zeros)


def test_nothing_at_all() -> None:
    zero = TreeAutomaton.single([0.0], [[[0.5]]], {"a": [0.5]})
    one = TreeAutomaton.single([1.0], [[[0.5]]], {"a": [0.5]})
    assert compare(zero, zero) == Distances(0.0, 0.0, 0.0, 0.0)
    assert compare(zero, zero).relative == 0.0
    assert compare(zero, one).relative == 1.0
    assert compare(one, zero).relative == pytest.approx(1.0)
