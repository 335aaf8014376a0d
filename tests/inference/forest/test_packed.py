"""Forests of sentences against all their trees, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.elsewhere import Elsewhere
from helpers.enumerate_trees import all_trees
from helpers.forest_twins import derivations, skeleton
from helpers.made_up import made_up_treebank
from sapwood.inference.constraints import requirements
from sapwood.inference.forest.packed import (
    Forests,
    ParseRequest,
    entropy,
    is_leaf,
    parse_best,
    parse_forests,
    sentence_forest,
)
from sapwood.inference.parser import Parser
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.runtime.executor import Threads
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.transform import TreeTransform

TREEBANK = made_up_treebank(60)


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 5))
def test_an_exact_forest_has_all_trees(seed, size):
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=2, preterminals=2, words=3, states=(1, 2))
    words = [f"w{rng.integers(3)}" for _ in range(size)]
    every = [one for one in all_trees(grammar, words) if one.weight > 0]
    chart = Parser(grammar, threshold=0).chart(words)
    forest = None if chart is None else sentence_forest(chart, words)
    if not every:
        assert forest is None
        return
    assert forest is not None
    found = [str(skeleton(forest, grammar, nodes)) for nodes in derivations(forest)]
    assert sorted(found) == sorted(str(one.tree) for one in every)
    # Posteriors are those of all trees.
    total = sum(one.weight for one in every)
    expected: dict[tuple[int, int, int], float] = {}
    for one in every:
        for a, i, j, _ in one.nodes:
            expected[a, i, j] = expected.get((a, i, j), 0.0) + one.weight / total
    keys = zip(forest.symbol.tolist(), forest.start.tolist(), forest.end.tolist(), strict=True)
    assert dict(zip(keys, forest.posterior.tolist(), strict=True)) == pytest.approx(expected, rel=1e-6)


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 5))
def test_the_entropy_is_that_of_all_trees(seed, size):
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=2, preterminals=2, words=3, states=(1, 1))
    words = [f"w{rng.integers(3)}" for _ in range(size)]
    weights = np.array([one.weight for one in all_trees(grammar, words) if one.weight > 0])
    assume(len(weights) > 0)
    chart = Parser(grammar, threshold=0).chart(words)
    assert chart is not None
    forest = sentence_forest(chart, words)
    assert forest is not None
    share = weights / weights.sum()
    assert entropy(forest) == pytest.approx(-np.sum(share * np.log(share)), abs=1e-6)


def test_the_entropy_of_one_tree_is_none():
    parser = Parser(PCFG().fit(Corpus.from_trees(TREEBANK)))
    reading = ParseRequest(*requirements(parser.grammar.normaliser(TREEBANK[0]), "ROOT"))
    (forest,) = parse_forests(parser, [reading], min_posterior=0.0)
    assert forest is not None
    assert entropy(forest) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("settings", [{}, {"horizontal": 1, "vertical": 2}, {"vertical": 2, "annotate_tags": True}])
@pytest.mark.parametrize("least", [0.0, 0.01, 0.3])
def test_what_is_left_is_consistent(settings, least):
    corpus = Corpus.from_trees(TREEBANK, transform=TreeTransform(**settings))
    grammar = PCFG().fit(corpus)
    parser = Parser(grammar)
    sizes = []
    for tree in TREEBANK[:15]:
        words = tree.words()
        forest = sentence_forest(parser.chart(words), words, min_posterior=least)
        assert forest is not None
        leaf = is_leaf(forest)
        # Each word, and each sentence, counts once.
        by_word = np.bincount(forest.start[leaf], weights=forest.posterior[leaf])
        np.testing.assert_allclose(by_word, np.ones(len(words)), rtol=1e-9)
        assert forest.posterior[forest.root].sum() == pytest.approx(1)
        # What stands above a node is what stands below it.
        above = np.bincount(forest.edges[:, 0], weights=forest.edge_posterior, minlength=len(leaf))
        np.testing.assert_allclose(above[~leaf], forest.posterior[~leaf], rtol=1e-9)
        assert (forest.edges[:, 1:] < forest.edges[:, :1]).all()
        # Nodes and edges are of the grammar.
        rules = {tuple(rule) for rule in grammar.rules.tolist()}
        assert {tuple(edge) for edge in forest.symbol[forest.edges].tolist()} <= rules
        assert ((forest.symbol >= grammar.n_interminals) == leaf).all()
        sizes.append(len(forest.edges))
    assert sum(sizes) > 0


def test_a_higher_bound_leaves_less_and_always_a_tree():
    grammar = SplitMerge(cycles=1, min_support=1).fit(SplitMerge.prepare(TREEBANK))
    parser = Parser(grammar)
    for tree in TREEBANK[:10]:
        words = tree.words()
        chart = parser.chart(words)
        found = [sentence_forest(chart, words, min_posterior=least) for least in (0.0, 0.001, 0.99999)]
        sizes = [len(forest.edges) for forest in found if forest is not None]
        assert len(sizes) == 3
        assert sizes == sorted(sizes, reverse=True)


def test_trees_are_forests():
    corpus = Corpus.from_trees(TREEBANK[:8])
    forests = Forests.from_trees(corpus)
    assert forests.n_sentences == 8
    assert forests.n_words == corpus.n_words
    assert (forests.posterior == 1).all()
    assert (forests.edges[:, 1:] < forests.edges[:, :1]).all()
    for index in range(8):
        nodes = slice(forests.offsets[index], forests.offsets[index + 1])
        words = [forests.words[word] for word in forests.word[nodes] if word >= 0]
        assert words[::-1] == corpus.sentence(index)
        edges = forests.edges[forests.edge_offsets[index] : forests.edge_offsets[index + 1]]
        assert sorted(map(tuple, forests.symbol[edges].tolist())) == sorted(
            tuple(corpus.rules[rule])
            for rule in corpus.rule[corpus.offsets[index] : corpus.offsets[index + 1]]
            if rule >= 0
        )
    assert forests.digest() == Forests.from_trees(corpus).digest()
    assert forests.digest() != Forests.from_trees(corpus.between(0, 7)).digest()
    assert repr(forests).startswith("<Forests: 8 sentences")


def test_forests_of_no_sentences():
    forests = Forests.join([])
    assert (forests.n_sentences, forests.n_words) == (0, 0)


def test_reading_where_parsing_is():
    grammar = PCFG().fit(PCFG.prepare(TREEBANK))
    readings = [ParseRequest(tree.words()) for tree in TREEBANK[:70]]
    wanted = Forests.join(
        one for one in parse_forests(Parser(grammar), readings, min_posterior=0.01) if one is not None
    )
    trees = list(parse_best(Parser(grammar), readings))
    for workers in (Threads(3), Elsewhere(2)):
        parser = Parser(grammar, workers=workers)
        found = Forests.join(one for one in parse_forests(parser, readings, min_posterior=0.01) if one is not None)
        assert found.digest() == wanted.digest()
        assert list(parse_best(parser, readings)) == trees
    assert trees == [result.tree for result in Parser(grammar).parse(reading.sentence for reading in readings)]
