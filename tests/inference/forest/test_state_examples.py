"""Examples of states are phrases of the treebank, with the posterior of the state there."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood
from helpers.made_up import made_up_treebank
from sapwood.inference.estep.trees import TreeEStep
from sapwood.inference.forest.tree_states import state_examples
from sapwood.learn import SplitMerge
from sapwood.trees import Corpus


@pytest.fixture(scope="module")
def trees():
    return list(made_up_treebank(60))


@pytest.fixture(scope="module")
def grammar(trees):
    return SplitMerge(cycles=1, iterations=5).fit(Corpus.from_trees(trees))


def test_examples_are_the_surest_nodes(grammar, trees):
    found = state_examples(grammar, trees, count=3)
    assert found
    corpus = Corpus.from_trees(trees, normaliser=grammar.normaliser, transform=grammar.transform)
    corpus, _ = corpus.renumbered(grammar.symbols, grammar.n_interminals, grammar.rules)
    # By hand: the largest posterior of each state over all short nodes.
    best: dict[tuple[int, int], float] = {}
    for part in TreeEStep(corpus).inside_outside(grammar, dtype=np.float64):
        for place, node in enumerate(part.nodes.tolist()):
            vector = slice(part.offsets[place], part.offsets[place + 1])
            posterior = part.inside[vector] * part.outside[vector]
            posterior = posterior / posterior.sum()
            key = (int(corpus.symbol[node]), int(posterior.argmax()))
            if corpus.end[node] - corpus.start[node] <= 12:
                best[key] = max(best.get(key, 0.0), float(posterior.max()))
    sentences = {tuple(tree.words()) for tree in trees}
    for symbol, rows in found.items():
        assert len(rows) == grammar.states[symbol] > 1
        for state, examples in enumerate(rows):
            assert len(examples) <= 3
            texts = [" ".join(one.words[one.start : one.end]).lower() for one in examples]
            assert len(set(texts)) == len(texts)
            for one in examples:
                assert tuple(one.words) in sentences
                assert 0 <= one.start < one.end <= len(one.words)
            if examples:
                assert examples[0].probability == pytest.approx(best[symbol, state])
                assert [one.probability for one in examples] == sorted((e.probability for e in examples), reverse=True)


def test_trees_that_do_not_fit_give_none(grammar):
    assert state_examples(grammar, [sapwood.Tree.parse("(QQ (RR a) (TT b))")]) == {}
    assert state_examples(grammar, []) == {}
