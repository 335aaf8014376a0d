"""Theorem 1 of Cohen et al. (long paper): a change of basis changes no probability and no marginal."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.reference import inside_outside, tree_inside_outside, tree_probability
from sapwood.testing.grammars import random_bases, random_grammar

CLOSE = 1e-9


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_theorem_1(first):
    some_negative = 0
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        grammar = random_grammar(rng, interminals=int(rng.integers(1, 4)), preterminals=2, words=3)
        bases = random_bases(rng, grammar)
        other = grammar.conjugate(bases)
        some_negative += bool((other.tensors < 0).any())
        # 1) The algorithm in figure 4 computes p(r_1 ... r_N); f^i = b^i (G^a)^{-1} at every node.
        for tree in grammar.sample(5, random_state=rng, max_words=12):
            ours, theirs = tree_inside_outside(grammar, tree), tree_inside_outside(other, tree)
            assert ours.probability > 0
            assert tree_probability(other, tree) == pytest.approx(ours.probability, rel=CLOSE)
            for node, symbol in enumerate(ours.tree.symbol):
                basis = bases[symbol]
                np.testing.assert_allclose(
                    theirs.inside[node] @ basis,
                    ours.inside[node],
                    rtol=CLOSE,
                    atol=CLOSE * ours.inside[node].max(),
                )
                np.testing.assert_allclose(
                    theirs.outside[node],
                    basis @ ours.outside[node],
                    rtol=CLOSE,
                    atol=CLOSE * ours.outside[node].max(),
                )
        # 2) The algorithm in figure 5 computes mu(a, i, j); alpha and beta are transformed alike.
        sentence = [f"w{number}" for number in rng.integers(0, 3, size=int(rng.integers(1, 5)))]
        chart, turned = inside_outside(grammar, sentence), inside_outside(other, sentence)
        scale = CLOSE * chart.probability
        assert turned.probability == pytest.approx(chart.probability, rel=CLOSE)
        np.testing.assert_allclose(turned.marginals, chart.marginals, rtol=CLOSE, atol=scale)
        np.testing.assert_allclose(turned.rule_marginals(), chart.rule_marginals(), rtol=CLOSE, atol=scale)
        for symbol, basis in enumerate(bases):
            np.testing.assert_allclose(turned.alpha[symbol] @ basis, chart.alpha[symbol], rtol=CLOSE, atol=CLOSE)
            np.testing.assert_allclose(turned.beta[symbol], chart.beta[symbol] @ basis.T, rtol=CLOSE, atol=CLOSE)
    assert some_negative > 10


def test_the_way_back():
    rng = np.random.default_rng(11)
    grammar = random_grammar(rng)
    bases = random_bases(rng, grammar)
    back = grammar.conjugate(bases).conjugate([np.linalg.inv(basis) for basis in bases])
    for name in ("tensors", "root", "occupancy"):
        np.testing.assert_allclose(getattr(back, name), getattr(grammar, name), rtol=CLOSE, atol=1e-12)
    np.testing.assert_allclose(back.emissions.values, grammar.emissions.values, rtol=CLOSE, atol=1e-12)
