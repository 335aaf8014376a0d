"""The reference algorithms against enumeration of all trees and all state assignments."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.enumerate_trees import all_trees, summarise
from oracles.reference import (
    best_labelled_recall,
    inside_outside,
    tree_inside_outside,
    tree_probability,
    viterbi,
)
from sapwood.errors import GrammarError, InputError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.research.matrix_form import tree_probability as tree_probability_matrix_form
from sapwood.testing.grammars import random_grammar
from sapwood.trees.lexicon.lexicon import Lexicon
from sapwood.trees.lexicon.signatures import SignatureModel
from sapwood.trees.tree import Tree

pytestmark = pytest.mark.slow

CLOSE = 1e-10
seeds = st.integers(0, 2**32 - 1)
many = examples(100)


def small(seed: int, *, real: bool = False, longest: int = 4) -> tuple[TensorGrammar, list[str]]:
    """Return a small grammar with mixed state counts and a sentence of 1 to `longest` words."""
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=2, preterminals=2, words=3, states=(1, 3), density=0.5, real=real)
    return grammar, [f"w{number}" for number in rng.integers(0, 3, size=rng.integers(1, longest + 1))]


def plain_probability(grammar: TensorGrammar, tree: Tree, first: bool = True) -> np.ndarray:
    """Return the inside vector by a literal sum over the children's states (recursion: tiny trees only)."""
    if tree.word is not None:
        return grammar.lexical_vector(grammar.symbol_number(tree.label, preterminal=True), tree.word, initial=first)
    left, right = tree.children
    lefts = plain_probability(grammar, left, first)
    rights = plain_probability(grammar, right, False)
    key = [
        grammar.symbol_number(tree.label),
        grammar.symbol_number(left.label, preterminal=left.word is not None),
        grammar.symbol_number(right.label, preterminal=right.word is not None),
    ]
    tensor = grammar.tensor(grammar.rules.tolist().index(key))
    sums = np.zeros(tensor.shape[0])
    for h, h2, h3 in product(*(range(size) for size in tensor.shape)):
        sums[h] += tensor[h, h2, h3] * lefts[h2] * rights[h3]
    return sums


@many
@given(seeds, st.booleans())
def test_tree_probability(seed, real):
    grammar, sentence = small(seed, real=real)
    scale = 0.0
    for item in all_trees(grammar, sentence):
        scale = max(scale, item.weight)
        expected = pytest.approx(item.weight, rel=CLOSE, abs=CLOSE * scale)
        assert tree_probability(grammar, item.tree) == expected
        assert tree_probability_matrix_form(grammar, item.tree) == expected
        root = grammar.symbol_number(item.tree.label, preterminal=item.tree.word is not None)
        assert plain_probability(grammar, item.tree) @ grammar.root_vector(root) == expected


@many
@given(seeds, st.booleans())
def test_inside_outside(seed, real):
    grammar, sentence = small(seed, real=real, longest=5 if seed % 8 == 0 else 4)
    n = len(sentence)
    chart = inside_outside(grammar, sentence)
    total = summarise(grammar, all_trees(grammar, sentence))
    absolute = CLOSE * total.probability
    assert chart.probability == pytest.approx(total.probability, rel=CLOSE)
    marginals = np.zeros((len(grammar.symbols), n, n + 1))
    for cell, value in total.marginals.items():
        marginals[cell] = value
    np.testing.assert_allclose(chart.marginals, marginals, rtol=CLOSE, atol=absolute)
    rules = np.zeros((len(grammar.rules), n, n + 1, n + 1))
    for cell, value in total.rules.items():
        rules[cell] = value
    np.testing.assert_allclose(chart.rule_marginals(), rules, rtol=CLOSE, atol=absolute)
    for (a, i, j), states in total.states.items():
        np.testing.assert_allclose(chart.alpha[a][i, j] * chart.beta[a][i, j], states, rtol=CLOSE, atol=absolute)
        if not real:
            np.testing.assert_allclose(chart.state_posteriors(a, i, j), states / states.sum(), rtol=CLOSE)


@many
@given(seeds, st.booleans())
def test_marginals_are_consistent(seed, real):
    """Every word has exactly one tag, and every inner constituent exactly one rule."""
    grammar, sentence = small(seed, real=real, longest=7)
    chart = inside_outside(grammar, sentence)
    absolute = CLOSE * chart.probability
    for i in range(len(sentence)):
        assert chart.marginals[grammar.n_interminals :, i, i + 1].sum() == pytest.approx(chart.probability)
    by_rule = np.zeros_like(chart.marginals)
    np.add.at(by_rule, grammar.rules[:, 0], chart.rule_marginals().sum(axis=2))
    inner = grammar.n_interminals
    np.testing.assert_allclose(by_rule[:inner], chart.marginals[:inner], rtol=CLOSE, atol=absolute)


@many
@given(seeds)
def test_given_tree(seed):
    grammar, sentence = small(seed)
    for item in all_trees(grammar, sentence)[:40]:
        result = tree_inside_outside(grammar, item.tree)
        assert result.probability == pytest.approx(item.weight, rel=CLOSE)
        for node, (symbol, _, _, _) in enumerate(item.nodes):
            assert result.tree.symbol[node] == symbol
            assert result.inside[node] @ result.outside[node] == pytest.approx(item.weight, rel=CLOSE)
            np.testing.assert_allclose(
                result.state_posteriors(node), item.state_weights(node) / item.weight, rtol=CLOSE
            )
            if result.tree.rule[node] >= 0:
                kept = (node, result.tree.left[node], result.tree.right[node])
                others = tuple(axis for axis in range(item.joint.ndim) if axis not in kept)
                expected = item.joint.sum(axis=others) / item.weight
                np.testing.assert_allclose(result.rule_posteriors(node), expected, rtol=CLOSE)


@many
@given(seeds)
def test_viterbi(seed):
    grammar, sentence = small(seed)
    trees = all_trees(grammar, sentence)
    found = viterbi(grammar, sentence)
    assert found.value == pytest.approx(summarise(grammar, trees).best, rel=CLOSE)
    if trees:
        (item,) = (item for item in trees if item.tree == found.tree)
        assert item.joint[found.states] == pytest.approx(found.value, rel=CLOSE)
    else:
        assert found.tree is None


@many
@given(seeds, st.booleans())
def test_best_labelled_recall(seed, real):
    grammar, sentence = small(seed, real=real)
    trees = all_trees(grammar, sentence)
    found = best_labelled_recall(grammar, sentence)
    if not trees:
        assert found.tree is None
        return
    total = summarise(grammar, trees)
    values = {item.tree: sum(total.marginals[a, i, j] for a, i, j, _ in item.nodes) for item in trees}
    assert found.value == pytest.approx(max(values.values()), rel=CLOSE)
    assert values[found.tree] == pytest.approx(found.value, rel=CLOSE)


def test_worked_example():
    """A PCFG small enough to compute by hand."""
    grammar = TensorGrammar.from_parts(
        root={"S": 0.75, "N": 0.25},
        rules={("S", "N", "V"): 0.5, ("S", "N", "S"): 0.25, ("S", "S", "V"): 0.25},
        words={("N", "up"): 0.5, ("N", "down"): 0.5, ("V", "up"): 1.0},
    )
    assert inside_outside(grammar, ["down"]).probability == 0.25 * 0.5
    assert tree_probability(grammar, Tree.parse("(S (N down) (V up))")) == 0.75 * 0.5 * 0.5
    chart = inside_outside(grammar, ["down", "up", "up"])
    # (S N (S N V)) and (S (S N V) V)
    right, left = 0.75 * 0.25 * 0.5 * 0.5 * 0.5, 0.75 * 0.25 * 0.5 * 0.5
    assert chart.probability == right + left
    number = grammar.symbol_number("S")
    assert chart.marginals[number, 1, 3] == right
    assert chart.marginals[number, 0, 2] == left
    best = viterbi(grammar, ["down", "up", "up"])
    assert best.tree == Tree.parse("(S (S (N down) (V up)) (V up))")
    assert best.value == left


def test_an_unknown_word_looks_different_at_the_start():
    model = SignatureModel()
    lexicon = Lexicon.build(["x"], [("Anna", True), ("Anna", False)] * 50, model)
    plain = TensorGrammar.from_parts(root={"S": 1.0}, rules={("S", "N", "N"): 1.0}, words={("N", "x"): 1.0})
    first, later = lexicon.terminal("Berta", True), lexicon.terminal("Berta", False)
    values = np.zeros(lexicon.n_terminals)
    values[[0, first, later]] = 0.5, 0.125, 0.375
    emissions = replace(
        plain.emissions,
        lexicon=lexicon,
        offsets=np.arange(lexicon.n_terminals + 1),
        symbol=np.zeros(lexicon.n_terminals, np.int32),
        values=values,
        backoff=np.r_[0, np.ones(lexicon.n_terminals - 1)],
        climb=np.zeros(len(lexicon.signatures)),
        tag_offsets=np.zeros(lexicon.n_terminals + 1, np.int64),
    )
    grammar = replace(plain, emissions=emissions).validate()
    sentence, tree = ["Berta", "Berta"], Tree.parse("(S (N Berta) (N Berta))")
    for value in (
        tree_probability(grammar, tree),
        tree_probability_matrix_form(grammar, tree),
        tree_inside_outside(grammar, tree).probability,
        inside_outside(grammar, sentence).probability,
        viterbi(grammar, sentence).value,
    ):
        assert value == 0.125 * 0.375
    assert tree_probability(grammar, Tree.parse("(S (N x) (N Berta))")) == 0.5 * 0.375


def test_a_label_in_both_roles():
    plain = TensorGrammar.from_parts(
        root={"X": 1.0}, rules={("X", "Y", "Y"): 0.75, ("X", "X", "Y"): 0.25}, words={("Y", "on"): 1.0}
    )
    grammar = replace(plain, symbols=["X", "X"])
    tree = Tree.parse("(X (X (X on) (X on)) (X on))")
    assert tree_probability(grammar, tree) == 0.25 * 0.75
    assert viterbi(grammar, ["on", "on", "on"]).tree == tree


def test_what_the_grammar_cannot_build():
    grammar, _ = small(0)
    known = grammar.symbols[-1]
    foreign = Tree("NOPE", (Tree(known, word="w0"), Tree(known, word="w1")))
    assert tree_probability(grammar, foreign) == 0
    assert tree_probability_matrix_form(grammar, foreign) == 0
    with pytest.raises(GrammarError, match="no interminal NOPE"):
        tree_inside_outside(grammar, foreign)
    with pytest.raises(InputError, match="1 children"):
        tree_probability(grammar, Tree("A0", (foreign,)))
    with pytest.raises(InputError, match="empty sentence"):
        inside_outside(grammar, [])
    chart = inside_outside(grammar, ["unheard"])
    assert chart.probability == 0
    assert not chart.state_posteriors(len(grammar.symbols) - 1, 0, 1).any()
    assert viterbi(grammar, ["unheard"]).tree is None
    assert best_labelled_recall(grammar, ["unheard"]).tree is None


def test_viterbi_refuses_real_weights():
    grammar, sentence = small(1, real=True)
    with pytest.raises(GrammarError, match="real-valued"):
        viterbi(grammar, sentence)


def test_deep_trees_need_no_recursion():
    grammar = TensorGrammar.from_parts(
        root={"S": 1.0}, rules={("S", "N", "S"): 0.5, ("S", "N", "N"): 0.5}, words={("N", "x"): 1.0}
    )
    tree = Tree("N", word="x")
    for _ in range(1050):
        tree = Tree("S", (Tree("N", word="x"), tree))
    result = tree_inside_outside(grammar, tree)
    assert len(result.inside) == 2101
    assert tree_probability(grammar, tree) == result.probability == 0.5**1050 > 0
