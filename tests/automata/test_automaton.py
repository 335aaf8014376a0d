"""Automata give trees and contexts the weights that their definition says."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.enumerate_terms import all_contexts, all_trees, plug, random_terms, slow_vector, slow_weight, tree_vectors
from helpers.made_up import made_up_treebank
from oracles.reference import tree_probability
from sapwood.automata.automaton import HOLE, TreeAutomaton
from sapwood.automata.gram import gram_matrices
from sapwood.automata.tensors import ProductTensor, SparseTensor, dense
from sapwood.errors import GrammarError, UsageError
from sapwood.learn.lpcfg.em import EM
from sapwood.research.random_automata import random_automaton
from sapwood.testing.grammars import random_bases, random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

KINDS = [{}, {"real": False, "density": 0.4}, {"sorts": 2, "states": [2, 3]}, {"sorts": 3, "states": [1, 3, 2]}]


@pytest.fixture(scope="module", params=range(len(KINDS)))
def automaton(request) -> TreeAutomaton:
    return random_automaton(np.random.default_rng(request.param), **KINDS[request.param])


def with_tensors(automaton: TreeAutomaton, change) -> TreeAutomaton:
    return TreeAutomaton(
        automaton.sorts, automaton.root, automaton.rules, tuple(change(dense(t)) for t in automaton.transitions),
        automaton.leaves, automaton.words,
    )  # fmt: skip


def test_weights(automaton):
    for tree in random_terms(automaton, np.random.default_rng(1), 50):
        expected = slow_vector(automaton, tree)[1]
        np.testing.assert_allclose(automaton.vector(tree), expected, rtol=1e-12, atol=1e-15)
        assert automaton.weight(tree) == pytest.approx(slow_weight(automaton, tree), rel=1e-10, abs=1e-15)


def test_weights_of_sparse_tensors_and_sums_of_products(automaton):
    rng = np.random.default_rng(2)
    sparse = with_tensors(automaton, SparseTensor.from_dense)

    def factored(tensor: np.ndarray) -> ProductTensor:
        """Every tensor is a sum of as many products as it has pairs of children."""
        n, j, k = tensor.shape
        return ProductTensor(tensor.reshape(n, -1), np.repeat(np.eye(j), k, axis=1), np.tile(np.eye(k), (1, j)))

    product = with_tensors(automaton, factored)
    for tree in random_terms(automaton, rng, 20):
        expected = slow_weight(automaton, tree)
        assert sparse.weight(tree) == pytest.approx(expected, rel=1e-10, abs=1e-15)
        assert product.weight(tree) == pytest.approx(expected, rel=1e-10, abs=1e-15)


def test_contexts(automaton):
    """`Xi(c) omega(t) = omega(c[t])` and `alpha(c)^T omega(t) = f(c[t])` (equation 1)."""
    contexts, trees = all_contexts(automaton, 1), all_trees(automaton, 1)
    rng = np.random.default_rng(3)
    checked = 0
    for hole in range(len(automaton.sorts)):
        for context in (contexts[hole][at] for at in rng.integers(len(contexts[hole]), size=12)):
            for tree in (trees[hole][at] for at in rng.integers(len(trees[hole]), size=4)):
                sort, expected = slow_vector(automaton, plug(context, tree))
                found = automaton.context_matrix(context)
                assert found.shape == (automaton.sizes[sort], automaton.sizes[hole])
                np.testing.assert_allclose(found @ automaton.vector(tree), expected, rtol=1e-10, atol=1e-14)
                weight = automaton.context_vector(context) @ automaton.vector(tree)
                assert weight == pytest.approx(float(automaton.root[sort] @ expected), rel=1e-9, abs=1e-14)
                checked += 1
    assert checked >= 48


def test_contexts_compose():
    """`Xi(c[c']) = Xi(c) Xi(c')`."""
    automaton = random_automaton(np.random.default_rng(4), sorts=2, states=[2, 3])
    contexts = all_contexts(automaton, 1)
    for inner in contexts[1][::7]:
        top = automaton.sorts.index(inner.label)
        for outer in contexts[top][::5]:
            whole = automaton.context_matrix(plug(outer, inner))
            parts = automaton.context_matrix(outer) @ automaton.context_matrix(inner)
            np.testing.assert_allclose(whole, parts, rtol=1e-10, atol=1e-14)


def test_hankel_blocks(automaton):
    contexts, trees = all_contexts(automaton, 1), all_trees(automaton, 1)
    for sort in range(len(automaton.sorts)):
        rows, columns = contexts[sort][:30], trees[sort][:20]
        expected = [[slow_weight(automaton, plug(context, tree)) for tree in columns] for context in rows]
        np.testing.assert_allclose(automaton.hankel(rows, columns), expected, rtol=1e-9, atol=1e-14)


def test_the_number_of_splits():
    """A tree is `c[t]` in `|t|` ways (section 2.1)."""
    automaton = random_automaton(np.random.default_rng(0), words=2, states=2)
    contexts, trees = all_contexts(automaton, 2)[0], all_trees(automaton, 2)[0]
    for whole in trees:
        splits = sum(plug(context, tree) == whole for context in contexts for tree in trees)
        assert splits == (1 if isinstance(whole, str) else 3 if all(isinstance(part, str) for part in whole) else 5)


def test_deep_trees():
    automaton = TreeAutomaton.single([1.0], [[[1.0]]], {"a": [1.0], "b": [0.5]})
    tree, context = "b", HOLE
    for _ in range(3000):
        tree, context = ("a", tree), (context, "a")
    assert automaton.weight(tree) == 0.5
    assert automaton.context_matrix(context) == np.ones((1, 1))


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_grammars(seed, real):
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, states=(1, 3))
    trees = grammar.sample(20, random_state=rng, max_words=8)
    if real:
        grammar = grammar.conjugate(random_bases(rng, grammar))
    automaton = TreeAutomaton.from_grammar(grammar)
    assert automaton.sorts == grammar.symbols
    assert automaton.sizes.tolist() == grammar.states.tolist()
    for tree in trees:
        expected = tree_probability(grammar, tree)
        assert expected != 0
        assert automaton.weight(tree) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_a_learned_grammar():
    """With words, signatures and preterminals that share their vectors."""
    trees = made_up_treebank(80)
    grammar = EM(states=2, iterations=2).fit(Corpus.from_trees(trees))
    assert grammar.emissions.emitter is not None
    automaton = TreeAutomaton.from_grammar(grammar)
    known = set(grammar.lexicon.words)
    checked = 0
    for tree in grammar.sample(30, random_state=np.random.default_rng(0), max_words=8):
        if set(tree.words()) <= known:
            assert automaton.weight(tree) == pytest.approx(tree_probability(grammar, tree), rel=1e-6)
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("real", [False, True])
def test_leaves_without_words_have_the_same_gram_matrices(real):
    grammar = random_grammar(np.random.default_rng(5), words=9, states=(2, 3), real=real)
    one, other = (TreeAutomaton.from_grammar(grammar, words=words) for words in (True, False))
    assert other.words is None
    assert max(len(rows) for rows in other.leaves) <= 3 < len(one.leaves[-1])
    ours, theirs = gram_matrices(one), gram_matrices(other)
    for name in ("trees", "contexts"):
        for mine, its in zip(getattr(ours, name), getattr(theirs, name), strict=True):
            np.testing.assert_allclose(its, mine, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_joined_automata_sum_over_labellings(sparse):
    automaton = random_automaton(np.random.default_rng(6), sorts=2, states=[2, 3], words=2)
    if sparse:
        automaton = with_tensors(automaton, SparseTensor.from_dense)
    joined = automaton.joined()
    assert joined.sorts == ["X"]
    assert joined.n_states == 5

    def bare(tree: Tree):
        return tree.fold(lambda node, below: tuple(below) if below else node.word)

    sums: dict[object, float] = {}
    for sort in all_trees(automaton, 2):
        for tree in sort:
            sums[bare(tree)] = sums.get(bare(tree), 0.0) + slow_weight(automaton, tree)
    assert len(sums) == 2 + 4 + 2 * 8
    for tree, expected in sums.items():
        assert joined.weight(tree) == pytest.approx(expected, rel=1e-9, abs=1e-13)


def test_joining_needs_words():
    """A word can be of several sorts, which rows that stand for all words do not know."""
    grammar = random_grammar(np.random.default_rng(0))
    with pytest.raises(UsageError, match="only if their leaves are words"):
        TreeAutomaton.from_grammar(grammar, words=False).joined()


def test_few_rows_stand_for_all_words():
    joined = TreeAutomaton.from_grammar(random_grammar(np.random.default_rng(0), words=30)).joined()
    few = joined.without_words()
    assert few.words is None
    assert len(few.leaves[0]) <= joined.n_states < len(joined.leaves[0])
    np.testing.assert_allclose(few.leaves[0].T @ few.leaves[0], joined.leaves[0].T @ joined.leaves[0], atol=1e-14)


def test_a_rule_that_is_there_twice():
    with pytest.raises(GrammarError, match="twice"):
        TreeAutomaton(
            ["X"], (np.ones(1),), np.zeros((2, 3), np.int32), (np.ones((1, 1, 1)),) * 2, (np.ones((1, 1)),), ["a"]
        )


def test_joint_tensors_are_sparse_if_that_pays():
    grammar = random_grammar(np.random.default_rng(0), interminals=12, preterminals=8, states=(1, 1), density=0.02)
    joined = TreeAutomaton.from_grammar(grammar).joined()
    assert isinstance(joined.transitions[0], SparseTensor)
    small = random_automaton(np.random.default_rng(0), sorts=2, states=1).joined()
    assert isinstance(small.transitions[0], np.ndarray)


def test_a_sort_in_both_roles():
    """Where an interminal and a preterminal share a name, the one with a word is the preterminal."""
    leaves = (np.zeros((1, 1)), np.full((1, 1), 0.5))
    automaton = TreeAutomaton(
        ["X", "X"], (np.ones(1), np.zeros(1)), np.array([[0, 1, 1]]), (np.ones((1, 1, 1)),), leaves, ["a"]
    )
    assert automaton.weight(Tree.parse("(X (X a) (X a))")) == 0.25
    assert automaton.weight(Tree("X", word="a")) == 0.0


def test_rules_that_are_not_there_weigh_nothing():
    automaton = TreeAutomaton(
        ["A", "B"], (np.ones(2), np.ones(1)), np.array([[0, 1, 1]]), (np.ones((2, 1, 1)),),
        (np.ones((1, 2)), np.ones((1, 1))), ["a"],
    )  # fmt: skip
    assert automaton.weight(Tree.parse("(A (B a) (B a))")) == 2.0
    assert automaton.weight(Tree.parse("(A (B a) (A a))")) == 0.0
    assert automaton.weight(Tree.parse("(A (B a) (A (A a) (B a)))")) == 0.0
    context = Tree("A", (Tree("B", word=HOLE), Tree("A", word="a")))
    np.testing.assert_array_equal(automaton.context_matrix(context), np.zeros((2, 1)))


def test_description():
    automaton = random_automaton(np.random.default_rng(0), sorts=2, states=[2, 3])
    assert repr(automaton) == "<TreeAutomaton: 2 sorts, 5 states, 8 rules>"


ONE = TreeAutomaton.single([1.0, 2.0], np.ones((2, 2, 2)), {"a": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ONE.weight(("a", ("a", "b"))), "does not know the word 'b'"),
        (lambda: ONE.weight(("a", "a", "a")), "binary trees, this node has 3 children"),
        (lambda: ONE.weight(Tree.parse("(X (X a))")), "X: automata read binary trees"),
        (lambda: ONE.weight(Tree("Y", word="a")), "no sort 'Y'; it has X"),
        (lambda: ONE.context_matrix(("a", "a")), "this one has none"),
        (lambda: ONE.context_vector("a"), "this one has none"),
        (lambda: ONE.context_vector((HOLE, HOLE)), "only one hole"),
        (lambda: TreeAutomaton.single([1.0], [[[1.0]]], np.ones((2, 1))).weight("a"), "no words"),
    ],
)
def test_bad_questions(call, message):
    with pytest.raises(UsageError, match=message):
        call()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"root": (np.ones(2), np.ones(2))}, "for each sort"),
        ({"sorts": [], "root": (), "leaves": ()}, "for each sort"),
        ({"rules": np.zeros((2, 3), int)}, "1 tensors for rules of shape"),
        ({"rules": np.array([[0, 0, 1]])}, "does not fit the sorts"),
        ({"rules": np.array([[0, -1, 0]])}, "does not fit the sorts"),
        ({"transitions": (np.ones((2, 2, 3)),)}, r"shape \(2, 2, 3\), which does not fit"),
        ({"leaves": (np.ones((1, 3)),)}, r"leaves of X have shape \(1, 3\)"),
        ({"words": ["a", "b"]}, r"not \(2, 2\)"),
    ],
)
def test_arrays_that_do_not_fit(changes, message):
    parts = {name: getattr(ONE, name) for name in ("sorts", "root", "rules", "transitions", "leaves", "words")}
    with pytest.raises(GrammarError, match=message):
        TreeAutomaton(**{**parts, **changes})


def test_the_enumeration_itself():
    """Matrices of vectors list the same trees in the same order."""
    automaton = random_automaton(np.random.default_rng(8), sorts=2, states=[2, 1], words=1)
    for sort, trees in enumerate(all_trees(automaton, 2)):
        vectors = np.concatenate([level[sort] for level in tree_vectors(automaton, 2)])
        np.testing.assert_allclose(vectors, [slow_vector(automaton, tree)[1] for tree in trees], rtol=1e-12)
