"""Automata made from automata compute what they are named for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.enumerate_terms import all_trees, n_nodes, random_terms, size_of, slow_weight
from sapwood.automata.algebra import (
    absolute,
    add,
    change_states,
    conjugate,
    product,
    scale,
    scale_by_size,
    subtract,
)
from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.gram import DivergenceError, gram_matrices
from sapwood.automata.tensors import ProductTensor, SparseTensor, Tensor, dense
from sapwood.errors import UsageError
from sapwood.research.random_automata import is_strongly_convergent, random_automaton, redundant, total_weight

KINDS = ["dense", "sparse", "product"]
SORTS = ["A", "B"]
RULES = [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 0)]


def make(rng: np.random.Generator, sizes: list[int], kind: str, words: str, rules=RULES) -> TreeAutomaton:
    """An automaton of two sorts; convergence is of no importance here."""

    def tensor(shape: list[int]) -> Tensor:
        if kind == "product":
            return ProductTensor(*(rng.normal(size=(n, 3)) for n in shape))
        drawn = rng.normal(size=shape) * (rng.random(shape) < 0.6)
        return SparseTensor.from_dense(drawn) if kind == "sparse" else drawn

    return TreeAutomaton(
        list(SORTS),
        tuple(rng.normal(size=n) for n in sizes),
        np.array(rules, np.int32),
        tuple(tensor([sizes[sort] for sort in rule]) for rule in rules),
        tuple(rng.normal(size=(len(words), n)) for n in sizes),
        list(words),
    )


def weight(automaton: TreeAutomaton, tree) -> float:
    """The weight of a tree, zero for words that the automaton does not know."""
    known = set(automaton.words)
    return slow_weight(automaton, tree) if set(tree.words()) <= known else 0.0


def check(found: TreeAutomaton, expected, count: int = 40) -> None:
    for tree in random_terms(found, np.random.default_rng(0), count, size=4):
        value = expected(tree)
        assert found.weight(tree) == pytest.approx(value, rel=1e-9, abs=1e-9 * max(1, abs(value)))


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1))
@examples(10)
def test_conjugates(kind, seed):
    rng = np.random.default_rng(seed)
    automaton = make(rng, [2, 3], kind, "ab")
    matrices = [np.linalg.qr(rng.normal(size=(n, n)))[0] * rng.uniform(0.5, 2, size=n) for n in (2, 3)]
    other = conjugate(automaton, matrices)
    check(other, lambda tree: weight(automaton, tree), 10)
    # The paper's convention: omega becomes Q^{-1} omega, alpha becomes Q^T alpha.
    for sort, matrix in enumerate(matrices):
        np.testing.assert_allclose(other.leaves[sort] @ matrix.T, automaton.leaves[sort], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other.root[sort], matrix.T @ automaton.root[sort], rtol=1e-12)
    assert isinstance(other.transitions[0], ProductTensor) == (kind == "product")
    back = conjugate(other, [np.linalg.inv(matrix) for matrix in matrices])
    for mine, its in zip(back.transitions, automaton.transitions, strict=True):
        np.testing.assert_allclose(dense(mine), dense(its), rtol=1e-9, atol=1e-9)


def test_sorts_that_stay_keep_their_tensors():
    automaton = make(np.random.default_rng(0), [2, 3], "sparse", "ab", [(0, 0, 0), (0, 1, 0), (1, 1, 1)])
    matrix = np.array([[1.0, 2.0], [0.0, 1.0]])
    other = change_states(automaton, [np.linalg.inv(matrix).T, None], [matrix, None])
    assert [isinstance(tensor, SparseTensor) for tensor in other.transitions] == [False, False, True]
    assert other.transitions[2] is automaton.transitions[2]
    check(other, lambda tree: weight(automaton, tree))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other_kind", KINDS)
@pytest.mark.parametrize("name", ["add", "subtract", "product"])
def test_sums_and_products(kind, other_kind, name):
    """Words and rules that one of them lacks have no weight in it."""
    rng = np.random.default_rng(1)
    one = make(rng, [2, 3], kind, "abc", RULES[:3])
    other = make(rng, [1, 2], other_kind, "cda", RULES[1:])
    function, combine = {
        "add": (add, lambda x, y: x + y),
        "subtract": (subtract, lambda x, y: x - y),
        "product": (product, lambda x, y: x * y),
    }[name]
    found = function(one, other)
    assert found.words == ["a", "b", "c", "d"]
    assert found.sizes.tolist() == ([2, 6] if name == "product" else [3, 5])
    check(found, lambda tree: combine(weight(one, tree), weight(other, tree)))
    if kind == other_kind:
        assert all(type(tensor) is type(one.transitions[0]) for tensor in found.transitions)


@pytest.mark.parametrize("kind", KINDS)
def test_an_automaton_with_itself(kind):
    automaton = make(np.random.default_rng(2), [2, 2], kind, "ab")
    check(product(automaton, automaton), lambda tree: weight(automaton, tree) ** 2)
    check(add(automaton, automaton), lambda tree: 2 * weight(automaton, tree))
    check(subtract(automaton, automaton), lambda tree: 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_multiples(kind):
    automaton = make(np.random.default_rng(3), [2, 2], kind, "ab")
    check(scale(automaton, -2.5), lambda tree: -2.5 * weight(automaton, tree))
    check(scale_by_size(automaton, 1.5), lambda tree: 1.5 ** size_of(tree) * weight(automaton, tree))
    for other in (scale(automaton, 2.0), scale_by_size(automaton, 2.0)):
        assert all(type(tensor) is type(automaton.transitions[0]) for tensor in other.transitions)


def test_sums_of_large_sparse_and_small_dense_tensors_are_sparse():
    rng = np.random.default_rng(4)
    large = np.zeros((40, 40, 40))
    large[tuple(rng.integers(40, size=(3, 100)))] = 1.0
    one = TreeAutomaton.single(np.ones(40), SparseTensor.from_dense(large), np.ones((1, 40)), ["a"])
    other = TreeAutomaton.single(np.ones(3), np.ones((3, 3, 3)), np.ones((1, 3)), ["a"])
    assert isinstance(add(one, other).transitions[0], SparseTensor)
    assert isinstance(add(other, one).transitions[0], SparseTensor)
    assert isinstance(add(other, other).transitions[0], np.ndarray)
    for tree in random_terms(one, rng, 10, size=3):
        assert add(one, other).weight(tree) == pytest.approx(one.weight(tree) + other.weight(tree), rel=1e-12)


def test_rows_without_words_go_by_position():
    rng = np.random.default_rng(5)
    one, other = (replace(make(rng, [2, 3], "dense", "abc"), words=None) for _ in range(2))
    both = add(one, other)
    assert both.words is None
    np.testing.assert_array_equal(both.leaves[1], np.concatenate([one.leaves[1], other.leaves[1]], axis=1))
    with pytest.raises(UsageError, match="make both with words"):
        add(one, make(rng, [2, 3], "dense", "abc"))
    with pytest.raises(UsageError, match="make both with words"):
        product(one, replace(make(rng, [2, 3], "dense", "ab"), words=None))


def test_bad_bases():
    automaton = make(np.random.default_rng(6), [2, 3], "dense", "ab")
    with pytest.raises(UsageError, match="one square matrix for each sort"):
        conjugate(automaton, [np.eye(2), np.eye(2)])
    with pytest.raises(UsageError, match="singular"):
        conjugate(automaton, [np.zeros((2, 2)), np.eye(3)])


def test_different_sorts():
    one = make(np.random.default_rng(7), [2, 3], "dense", "ab")
    other = replace(one, sorts=["A", "C"])
    for function in (add, subtract, product):
        with pytest.raises(UsageError, match="different sorts"):
            function(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_absolute_weights(kind):
    automaton = make(np.random.default_rng(8), [2, 2], kind, "ab")
    positive = absolute(automaton)
    for mine, its in zip(positive.transitions, automaton.transitions, strict=True):
        np.testing.assert_allclose(dense(mine), np.abs(dense(its)))
    for tree in random_terms(automaton, np.random.default_rng(0), 20, size=4):
        assert positive.weight(tree) >= abs(weight(automaton, tree)) * (1 - 1e-12)


# Random automata and their sums.


@pytest.mark.parametrize(
    "kind", [{}, {"real": False}, {"sorts": 2, "states": [1, 3]}, {"density": 0.3, "states": 6}, {"words": 1}]
)
def test_random_automata(kind):
    automaton = random_automaton(np.random.default_rng(9), **kind)
    again, another = (random_automaton(np.random.default_rng(seed), **kind) for seed in (9, 10))
    assert is_strongly_convergent(automaton)
    assert gram_matrices(automaton).rate < 0.5 * 1.02
    assert np.array_equal(dense(automaton.transitions[0]), dense(again.transitions[0]))
    assert not np.array_equal(automaton.root[0], another.root[0])
    negative = any((dense(tensor) < 0).any() for tensor in automaton.transitions)
    assert negative == kind.get("real", True)


@pytest.mark.parametrize("radius", [0.01, 0.5, 0.95])
def test_radius(radius):
    automaton = random_automaton(np.random.default_rng(0), radius=radius, strong=False)
    assert gram_matrices(automaton).rate == pytest.approx(radius, abs=0.011 * min(radius, 1 - radius))


def test_density():
    automaton = random_automaton(np.random.default_rng(0), states=12, density=0.25)
    assert np.count_nonzero(dense(automaton.transitions[0])) / 12**3 == pytest.approx(0.25, abs=0.05)
    none = random_automaton(np.random.default_rng(0), density=0.0)
    assert none.rules.shape == (0, 3)
    assert total_weight(absolute(none)) == pytest.approx(np.abs(none.leaves[0]).sum(axis=0) @ np.abs(none.root[0]))


@pytest.mark.parametrize("kind", [{"words": 0}, {"sorts": 0}, {"states": 0}, {"sorts": 2, "states": [1]}])
def test_random_automata_need_parts(kind):
    with pytest.raises(UsageError, match="at least one sort"):
        random_automaton(np.random.default_rng(0), **kind)


@pytest.mark.parametrize("kind", [{"density": 1.5}, {"radius": 1.0}, {"radius": 0.0}])
def test_random_automata_need_sense(kind):
    with pytest.raises(UsageError, match="density must be"):
        random_automaton(np.random.default_rng(0), **kind)


@pytest.mark.parametrize("kind", [{"states": 2, "words": 1}, {"sorts": 2, "states": [1, 2], "words": 1}])
def test_total_weights(kind):
    automaton = scale_by_size(random_automaton(np.random.default_rng(1), real=False, **kind), 0.1)
    sizes = 5 if len(automaton.sorts) == 1 else 3
    sums = [0.0] * (sizes + 1)
    for sort in all_trees(automaton, sizes):
        for tree in sort:
            sums[size_of(tree)] += slow_weight(automaton, tree)
    total = total_weight(automaton)
    # Each size adds less than a quarter of the one before.
    assert sum(sums) < total < sum(sums) + sums[-1] / 3
    assert sums[-1] < 1e-2 * total


@pytest.mark.parametrize(("transition", "leaf"), [(0.5, 0.4), (3.0, 0.05), (0.25, 0.99)])
def test_total_weights_of_one_state(transition, leaf):
    """`s = t s^2 + x`: finite if `4 t x <= 1`, and strongly convergent if it is less."""
    automaton = TreeAutomaton.single([2.0], [[[transition]]], {"a": [leaf]})
    expected = (1 - np.sqrt(1 - 4 * transition * leaf)) / (2 * transition)
    assert total_weight(automaton) == pytest.approx(2 * expected, rel=1e-12)
    border = 1 / (4 * transition * leaf)
    assert is_strongly_convergent(scale_by_size(automaton, border * (1 - 1e-6)))
    assert not is_strongly_convergent(scale_by_size(automaton, border))
    assert not is_strongly_convergent(scale_by_size(automaton, border * (1 + 1e-6)))
    with pytest.raises(DivergenceError, match="not finite"):
        total_weight(scale_by_size(automaton, border * (1 + 1e-6)))


@pytest.mark.parametrize("kind", KINDS)
def test_total_weights_of_all_kinds_of_tensors(kind):
    """With real weights on one side only: absolute values of the others are taken before."""
    automaton = absolute(make(np.random.default_rng(10), [2, 3], "product" if kind == "product" else "sparse", "ab"))
    automaton = scale_by_size(automaton, 0.005)
    n, m = 2, 3
    sums = [rows.sum(axis=0) for rows in automaton.leaves]
    for _ in range(200):
        new = [rows.sum(axis=0) for rows in automaton.leaves]
        for (a, b, c), tensor in zip(automaton.rules.tolist(), automaton.transitions, strict=True):
            new[a] = new[a] + np.einsum("ijk,j,k->i", dense(tensor), sums[b], sums[c])
        sums = new
    assert [len(part) for part in sums] == [n, m]
    expected = sum(float(root @ part) for root, part in zip(automaton.root, sums, strict=True))
    if kind == "dense":
        automaton = replace(automaton, transitions=tuple(map(dense, automaton.transitions)))
    assert total_weight(automaton) == pytest.approx(expected, rel=1e-10)


def test_states_of_no_importance_do_not_count():
    """One is not reached, one has no effect, and both would make the sum infinite."""
    tensor = np.zeros((3, 3, 3))
    tensor[0, 0, 0] = 0.2
    tensor[1, 1, 1] = tensor[1, 0, 1] = tensor[0, 1, 0] = 100.0
    tensor[2, 2, 2] = tensor[2, 0, 2] = 100.0
    automaton = TreeAutomaton.single([1.0, 1.0, 0.0], tensor, {"a": [0.5, 0.0, 1.0]})
    assert is_strongly_convergent(automaton)
    assert total_weight(automaton) == pytest.approx((1 - np.sqrt(1 - 0.4)) / 0.4, rel=1e-12)
    nothing = TreeAutomaton.single([0.0], [[[5.0]]], {"a": [5.0]})
    assert total_weight(nothing) == 0.0
    assert is_strongly_convergent(nothing)


def test_total_weights_of_many_states():
    """Beyond some hundreds of states the linear systems are sparse."""
    n = 600
    places = np.stack([np.arange(n), np.roll(np.arange(n), 1), np.arange(n)], axis=1)
    tensor = SparseTensor.from_entries((n, n, n), places, np.full(n, 0.5))
    automaton = TreeAutomaton.single(np.ones(n), tensor, np.full((1, n), 0.4), ["a"])
    assert total_weight(automaton) == pytest.approx(n * (1 - np.sqrt(1 - 0.8)), rel=1e-10)
    with pytest.raises(DivergenceError):
        total_weight(scale_by_size(automaton, 1.3))


def test_sums_need_words_and_positive_weights():
    automaton = random_automaton(np.random.default_rng(0))
    with pytest.raises(UsageError, match="negative"):
        total_weight(automaton)
    with pytest.raises(UsageError, match="with words"):
        is_strongly_convergent(replace(automaton, words=None))


@pytest.mark.parametrize("extra", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("kind", [{"states": 2}, {"sorts": 2, "states": [1, 2]}])
def test_redundant_states_change_nothing(extra, kind):
    rng = np.random.default_rng(extra)
    automaton = random_automaton(rng, **kind)
    wide = redundant(automaton, rng, extra)
    assert wide.sizes.tolist() == (automaton.sizes + extra).tolist()
    assert all(np.count_nonzero(tensor) == tensor.size for tensor in wide.transitions)
    for tree in random_terms(automaton, rng, 20):
        expected = automaton.weight(tree)
        assert wide.weight(tree) == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_sizes():
    assert size_of(("a", ("a", "b"))) == 2
    assert n_nodes(("a", ("a", "b"))) == 5
