"""Words as the passes see them, against averages by hand."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood.grammar.coarsen import averaging_weights
from sapwood.inference.chart.compiled import compile_grammar
from sapwood.learn import PCFG, SplitMerge
from sapwood.trees import Corpus, TreeTransform


@pytest.fixture(scope="module", params=["annotated", "states"])
def grammar(request):
    """Grammars whose coarse symbols stand for several symbols, and for symbols with several states."""
    trees = made_up_treebank(60)
    if request.param == "annotated":
        return PCFG().fit(Corpus.from_trees(trees, transform=TreeTransform(2, 1, annotate_tags=True)))
    return SplitMerge(cycles=2, iterations=3).fit(Corpus.from_trees(trees))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_leaf_has_averages_and_the_states_under_them(grammar, dtype):
    compiled = compile_grammar(grammar, dtype)
    fine = range(grammar.n_interminals, len(grammar.symbols))
    owner = compiled.coarse_of[grammar.n_interminals :][grammar.emissions.symbol_of_state]
    weights = averaging_weights(grammar, owner, compiled.n_coarse)
    inner = grammar.state_offsets[grammar.n_interminals]
    rng = np.random.default_rng(0)
    for _ in range(20):
        row = rng.random(len(owner)) * (rng.random(len(owner)) < 0.2)
        leaf = compiled.leaf(row)
        expected = sorted({int(owner[state]) for state in np.flatnonzero(row)})
        assert leaf.symbols.tolist() == expected
        averages = [(weights * row)[owner == symbol].sum() for symbol in expected]
        np.testing.assert_allclose(leaf.values, averages, rtol=1e-12)
        for symbol in expected:
            states = [
                row[grammar.state_offsets[s] - inner : grammar.state_offsets[s + 1] - inner]
                for s in fine
                if compiled.coarse_of[s] == symbol
            ]
            np.testing.assert_array_equal(leaf.vector(0, symbol), np.concatenate(states).astype(dtype))
        assert len(leaf.vector(0, int(owner[row == 0][0]))) == 0 or int(owner[row == 0][0]) in expected


def test_weights_far_below_the_largest_do_not_vanish(grammar):
    compiled = compile_grammar(grammar, np.float64)
    row = np.zeros(len(compiled.leaf_average))
    owner = compiled.coarse_of[grammar.n_interminals :][grammar.emissions.symbol_of_state]
    other = int(np.flatnonzero(owner != owner[0])[0])
    row[0], row[other] = 1.0, 1e-200
    leaf = compiled.leaf(row)
    assert leaf.values.min() == pytest.approx(leaf.values.max() * 1e-12)
