"""Decoding for F1, against the expected number of right phrases over lists of all trees."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.enumerate_trees import Enumerated, all_trees
from inference.test_forest_crf import random_layer
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.chart.compiled import find_labels
from sapwood.inference.decode import find_decoder
from sapwood.model import ParserModel
from sapwood.model.forest_crf import ForestCRF
from sapwood.testing.grammars import random_grammar, random_states
from sapwood.trees.symbols import SymbolTable
from sapwood.trees.tree import Tree

# Phrases, chains of them, the same label twice in one, an intermediate symbol; a tag that is also a phrase's label.
NAMES = ["S", "VP", "S|VP", "@S", "N", "VP|N", "VP|S|VP|VP"]
INTERMINALS = 4
WORTH = 0.45


def make(seed: int, *, states: int = 2, real: bool = False) -> tuple[TensorGrammar, list[str]]:
    rng = np.random.default_rng(seed)
    preterminals = len(NAMES) - INTERMINALS
    grammar = random_grammar(
        rng, interminals=INTERMINALS, preterminals=preterminals, states=(1, states), density=0.15, real=real
    )
    words = [str(word) for word in rng.choice(grammar.lexicon.words, size=rng.integers(1, 5))]
    return replace(grammar, symbols=SymbolTable.from_names(NAMES)), words


def phrases(grammar: TensorGrammar, item: Enumerated) -> tuple[Counter, Counter]:
    """Return the phrases and the tags of a tree."""
    found, tags = Counter(), Counter()
    for symbol, start, end, split in item.nodes:
        labels = grammar.symbols.chain[symbol]
        if split < 0:
            tags[start, labels[-1]] += 1
            labels = labels[:-1]
        found.update((start, end, label) for label in labels)
    return found, tags


def expectations(grammar: TensorGrammar, trees: list[Enumerated], weights: np.ndarray) -> np.ndarray:
    """Return the right phrases and tags that are expected of each tree, less what each phrase must be worth."""
    counted = [phrases(grammar, item) for item in trees]
    shares = weights / weights.sum()
    right = [
        sum(share * ((found & gold).total() + (tags & right_tags).total())
            for share, (gold, right_tags) in zip(shares, counted, strict=True))
        for found, tags in counted
    ]  # fmt: skip
    return np.array(right) - WORTH * np.array([found.total() for found, _ in counted])


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_the_chosen_tree_has_the_largest_expectation(seed):
    grammar, words = make(seed)
    trees = all_trees(grammar, words)
    if not trees:
        return
    weights = np.array([item.weight for item in trees])
    check(grammar, trees, weights, find_decoder("f1")(Parser(grammar, threshold=0).chart(words), words))


@examples(30)
@given(st.integers(0, 2**32 - 1))
def test_of_several_grammars_expectations_are_means(seed):
    grammar, words = make(seed, states=1)
    rng = np.random.default_rng(seed)
    members = [random_states(grammar, int(rng.integers(1, 3)), rng, noise=1.8) for _ in range(2)]
    trees = [all_trees(member, words) for member in members]
    if not trees[0]:
        return
    assert [item.tree for item in trees[0]] == [item.tree for item in trees[1]]
    weights = np.array([[item.weight for item in found] for found in trees])
    weights /= weights.sum(axis=1, keepdims=True)
    chosen = find_decoder("f1")(Parser(members, threshold=0).chart(words), words)
    check(grammar, trees[0], weights.mean(axis=0), chosen)


def check(grammar: TensorGrammar, trees: list[Enumerated], weights: np.ndarray, chosen: Tree) -> None:
    """Assert that no tree has a larger expectation than the chosen one."""
    scores = expectations(grammar, trees, weights)
    of_chosen = [score for score, item in zip(scores, trees, strict=True) if item.tree == chosen]
    assert max(of_chosen) == pytest.approx(scores.max(), abs=1e-9)


@examples(40)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_one_call_gives_what_the_chart_and_the_decoder_give(seed, layered):
    grammar, words = make(seed)
    if layered:
        grammar = ParserModel.from_grammars(grammar).replace(crf=random_layer(np.random.default_rng(seed), words))
    direct = Parser(grammar, threshold=1e-9, decoder="f1").parse_one(words)
    by_chart = Parser(grammar, threshold=1e-9, decoder="f1", marginals=True).parse_one(words)
    assert (direct.status, direct.tree) == (by_chart.status, by_chart.tree)


@examples(20)
@given(st.integers(0, 2**32 - 1))
def test_negative_posteriors_do_no_harm(seed):
    grammar, words = make(seed, real=True)
    assert Parser(grammar, threshold=0, decoder="f1").parse_one(words).tree.words() == words


def test_what_symbols_stand_for():
    grammar, _ = make(0)
    offsets, labels, n_phrases, total = find_labels(grammar)
    rows = [labels[first:last].tolist() for first, last in pairwise(offsets.tolist())]
    # S, VP and the second VP of a chain are phrases; N and VP are tags.
    assert rows == [[0], [1], [0, 1], [], [3], [1, 3], [1, 0, 2, 4]]
    assert (n_phrases, total) == (3, 5)


def test_it_is_the_default_where_there_is_a_layer():
    grammar, words = make(0)
    assert Parser(grammar).decoder == "max-rule"
    for layer in (ForestCRF.identity(), random_layer(np.random.default_rng(0), words)):
        layered = ParserModel.from_grammars(grammar).replace(crf=layer)
        assert Parser(layered).decoder == Parser([layered, grammar]).decoder == "f1"
        assert Parser([grammar, layered]).decoder == "max-rule"  # only the first model's CRF is used
        assert Parser(layered, crf=False).decoder == "max-rule"
        assert Parser(layered, decoder="max-rule").decoder == "max-rule"
