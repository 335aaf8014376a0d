"""Minimal automata: the same function, and as many states as Hankel matrices have ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.enumerate_terms import context_vectors, random_terms, stacked, tree_vectors
from helpers.made_up import made_up_treebank
from sapwood.automata.algebra import add, conjugate, product, scale_by_size, subtract
from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.minimal import minimal
from sapwood.automata.tensors import ProductTensor, SparseTensor, dense
from sapwood.grammar.state_ops import merge_symbols
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.research.random_automata import random_automaton, redundant
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.transform import TreeTransform


def same_function(one: TreeAutomaton, other: TreeAutomaton, *, count: int = 30, relative: float = 1e-8) -> None:
    for tree in random_terms(one, np.random.default_rng(0), count):
        expected = one.weight(tree)
        assert other.weight(tree) == pytest.approx(expected, rel=relative, abs=1e-12)


def exact_ranks(automaton: TreeAutomaton, size: int) -> list[int]:
    """The ranks of the Hankel matrices' blocks of all trees and contexts up to a size."""
    trees, contexts = stacked(tree_vectors(automaton, size)), stacked(context_vectors(automaton, size))
    ranks = []
    for rows, columns in zip(contexts, trees, strict=True):
        # Each row and column on its own scale: this changes no rank.
        rows, columns = (part / np.maximum(np.linalg.norm(part, axis=1), 1e-300)[:, None] for part in (rows, columns))
        ranks.append(int(np.linalg.matrix_rank(rows @ columns.T, tol=1e-9)))
    return ranks


@examples(40)
@example(150, [4, 1, 4], 5)  # a root weight that is small by chance
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 7))
def test_redundant_states_go(seed, sizes, extra):
    rng = np.random.default_rng(seed)
    n_sorts = len(sizes)
    automaton = TreeAutomaton(
        [f"A{number}" for number in range(n_sorts)],
        tuple(rng.normal(size=n) for n in sizes),
        np.array(list(np.ndindex(n_sorts, n_sorts, n_sorts)), np.int32),
        tuple(0.2 * rng.normal(size=[sizes[s] for s in rule]) for rule in np.ndindex(n_sorts, n_sorts, n_sorts)),
        tuple(rng.normal(size=(2, n)) for n in sizes),
        ["a", "b"],
    )
    wide = redundant(automaton, rng, extra)
    found = minimal(wide)
    kinds = np.bincount(np.arange(extra) % 3, minlength=3)
    assert found.ranks.tolist() == sizes
    assert found.automaton.sizes.tolist() == sizes
    assert found.forward.tolist() == [n + kinds[1] for n in sizes]
    assert found.backward.tolist() == [n + kinds[2] for n in sizes]
    assert (found.automaton is wide) == (extra == 0)
    same_function(wide, found.automaton, count=10)


def test_automata_that_are_minimal_stay_as_they_are():
    automaton = random_automaton(np.random.default_rng(1), states=12, density=0.01, sorts=2)
    automaton = replace(
        automaton, transitions=tuple(SparseTensor.from_dense(dense(tensor)) for tensor in automaton.transitions)
    )
    assert minimal(automaton).automaton is automaton


@pytest.mark.parametrize("seed", range(3))
def test_ranks_are_those_of_hankel_matrices(seed):
    """Theorem 1, on automata with and without redundant states, and on sums and products."""
    rng = np.random.default_rng(seed)
    one, other = (random_automaton(rng, states=2, words=2) for _ in range(2))
    for automaton, rank in (
        (one, 2),
        (add(one, other), 4),
        (add(one, scale_by_size(one, 2.0)), 4),
        (add(one, one), 2),
        (subtract(one, conjugate(one, [np.array([[1.0, 2.0], [0.5, 3.0]])])), 0),
        (product(one, one), 3),
        (product(one, other), 4),
    ):
        found = minimal(automaton)
        assert found.ranks.tolist() == [rank]
        assert exact_ranks(automaton, 4) == [rank]
        same_function(automaton, found.automaton)


def test_several_sorts():
    rng = np.random.default_rng(3)
    one = random_automaton(rng, sorts=2, states=[1, 2], words=1)
    square = product(one, one)
    found = minimal(square)
    assert found.ranks.tolist() == [1, 3] == exact_ranks(square, 3)
    same_function(square, found.automaton)


def test_a_sort_of_no_importance():
    """No root needs it, or no tree reaches it: its rank is zero, and it keeps one state without weight."""
    rng = np.random.default_rng(4)
    automaton = TreeAutomaton(
        ["A", "B", "C"], (rng.normal(size=2), np.zeros(2), rng.normal(size=3)),
        np.array([[0, 0, 0], [1, 0, 1], [0, 0, 2], [2, 2, 0]]),
        tuple(0.3 * rng.normal(size=shape) for shape in [(2, 2, 2), (2, 2, 2), (2, 2, 3), (3, 3, 2)]),
        (rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), np.zeros((2, 3))), ["a", "b"],
    )  # fmt: skip
    found = minimal(automaton)
    assert found.ranks.tolist() == [2, 0, 0]
    assert found.forward.tolist() == [2, 2, 0]
    assert found.automaton.sizes.tolist() == [2, 1, 1]
    same_function(automaton, found.automaton)


@pytest.mark.parametrize("gap", [1e-8, 1e-30])
def test_rare_states_are_not_lost(gap):
    """Each level is reached with a tiny weight only, and states differ there alone; another rank would be wrong."""
    n = 4
    tensor = np.zeros((n, n, n))
    tensor[0, 0, 0] = 0.3
    for level in range(1, n):
        tensor[level, level - 1, 0] = gap
        tensor[level, level, level] = 0.1 * level
    root = np.array([1.0] + [gap] * (n - 1))
    automaton = TreeAutomaton.single(root, tensor, {"a": [0.5, 0.0, 0.0, 0.0]})
    found = minimal(automaton)
    assert found.forward.tolist() == found.backward.tolist() == found.ranks.tolist() == [n]
    # Beside a copy of it, too, half of the states are redundant, no more.
    twice = minimal(add(automaton, automaton))
    assert twice.ranks.tolist() == [n]


def test_scales_of_states_do_not_matter():
    rng = np.random.default_rng(5)
    automaton = redundant(random_automaton(rng, states=3), rng, 3)
    factors = np.diag(10 ** rng.uniform(-12, 12, size=6))
    found = minimal(conjugate(automaton, [factors]))
    assert found.ranks.tolist() == [3]
    assert found.forward.tolist() == found.backward.tolist() == [4]
    same_function(automaton, found.automaton)


@pytest.mark.parametrize("kind", ["sparse", "product"])
def test_other_kinds_of_tensors(kind):
    rng = np.random.default_rng(6)
    if kind == "sparse":
        tensor = SparseTensor.from_dense(rng.normal(size=(5, 5, 5)) * (rng.random((5, 5, 5)) < 0.3))
    else:
        tensor = ProductTensor(*0.3 * rng.normal(size=(3, 5, 4)))
    one = TreeAutomaton.single(rng.normal(size=5), tensor, rng.normal(size=(2, 5)), ["a", "b"])
    for automaton in (one, add(one, one)):
        found = minimal(automaton)
        assert found.ranks.tolist() == minimal(replace(one, transitions=(dense(tensor),))).ranks.tolist()
        assert isinstance(found.automaton.transitions[0], type(tensor))
        same_function(automaton, found.automaton)


def test_copies_of_sparse_automata_leave_the_original_sparse():
    """Redundant states are folded into others, which stay as they are."""
    rng = np.random.default_rng(7)
    n = 30
    drawn = rng.normal(size=(n, n, n)) * (rng.random((n, n, n)) < 0.005)
    one = TreeAutomaton.single(rng.normal(size=n), SparseTensor.from_dense(drawn), rng.normal(size=(40, n)),
                               [f"w{number}" for number in range(40)])  # fmt: skip
    assert minimal(one).automaton is one
    found = minimal(add(one, one)).automaton
    assert found.n_states == n
    tensor = found.transitions[0]
    assert isinstance(tensor, SparseTensor)
    assert len(tensor.values) == np.count_nonzero(drawn)
    same_function(add(one, one), found, relative=1e-9)


def test_the_same_seed_gives_the_same_automaton():
    rng = np.random.default_rng(8)
    automaton = redundant(random_automaton(rng, states=3), rng, 3)
    one, other = (minimal(automaton, random_state=5).automaton for _ in range(2))
    np.testing.assert_array_equal(one.transitions[0], other.transitions[0])


def test_grammars():
    """Random grammars need all their states; merged with copies of themselves, half."""
    grammar = random_grammar(np.random.default_rng(9), states=(1, 3), words=6)
    automaton = TreeAutomaton.from_grammar(grammar)
    found = minimal(automaton)
    assert found.ranks.tolist() == grammar.states.tolist()
    twice = minimal(add(automaton, automaton))
    assert twice.ranks.tolist() == grammar.states.tolist()
    assert twice.forward.tolist() == twice.backward.tolist() == grammar.states.tolist()


def test_annotations_as_states():
    """Of a treebank grammar whose parents' labels have become states: no tree's probability changes."""
    corpus = Corpus.from_trees(
        made_up_treebank(150), transform=TreeTransform(vertical=2, horizontal=1, annotate_tags=True)
    )
    grammar = merge_symbols(PCFG().fit(corpus))
    automaton = TreeAutomaton.from_grammar(grammar)
    found = minimal(automaton)
    assert (found.ranks <= automaton.sizes).all()
    assert found.automaton.n_states < automaton.n_states
    checked = 0
    for tree in grammar.sample(40, random_state=np.random.default_rng(0), max_words=12):
        if set(tree.words()) <= set(automaton.words):
            assert found.automaton.weight(tree) == pytest.approx(automaton.weight(tree), rel=1e-7)
            checked += 1
    assert checked > 10
