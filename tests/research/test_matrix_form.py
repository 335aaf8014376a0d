"""The matrix form of Cohen et al. (2012)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from oracles.reference import tree_probability as in_tensor_form
from sapwood.errors import InputError
from sapwood.research.exact_moments import learn_spectral
from sapwood.research.matrix_form import factors, independent_children, matrix_form, tree_probability
from sapwood.testing.grammars import random_grammar
from sapwood.trees.tree import Tree


def test_matrix_form_is_the_definition():
    rng = np.random.default_rng(3)
    tensor, y = rng.normal(size=(2, 3, 4)), rng.normal(size=3)
    matrix = matrix_form(tensor, y)
    assert matrix.shape == (4, 2)
    for c, a in product(range(4), range(2)):
        assert matrix[c, a] == pytest.approx(sum(tensor[a, b, c] * y[b] for b in range(3)))


@pytest.mark.parametrize("learned", [False, True])
def test_trees_have_the_probability_of_the_tensor_form(learned):
    rng = np.random.default_rng(4)
    grammar = random_grammar(rng, interminals=2, preterminals=2, states=(2, 3))
    trees = grammar.sample(20, random_state=1, max_words=12)
    form = learn_spectral(grammar) if learned else grammar
    for tree in trees:
        assert tree_probability(form, tree) == pytest.approx(in_tensor_form(form, tree), rel=1e-12)


def test_trees_that_the_grammar_lacks():
    grammar = random_grammar(np.random.default_rng(4), interminals=1, preterminals=1, density=0.0)
    assert tree_probability(grammar, Tree.parse("(A0 (P0 w0) (P0 w1))")) > 0
    for text in ("(X (P0 w0) (P0 w1))", "(A0 (P0 w0) (A0 (P0 w0) (P0 w1)))"):
        assert tree_probability(grammar, Tree.parse(text)) == 0
    with pytest.raises(InputError, match="not a skeletal tree: 'A0' has 1 children"):
        tree_probability(grammar, Tree.parse("(A0 (P0 w0))"))


def test_children_become_independent():
    grammar = random_grammar(np.random.default_rng(6), states=(2, 3))
    other = independent_children(grammar)
    for rule in range(len(grammar.rules)):
        for ours, theirs in zip(factors(other, rule), factors(grammar, rule), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        for slab in other.tensor(rule):
            assert np.linalg.matrix_rank(slab) == 1
    assert any(np.linalg.matrix_rank(slab) > 1 for rule in range(len(grammar.rules)) for slab in grammar.tensor(rule))
