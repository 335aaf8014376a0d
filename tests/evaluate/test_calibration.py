"""How sure a parser is, and how often it is right."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood import PCFG, Parser, evaluate_parser
from sapwood.evaluate.calibration import Reliability
from sapwood.inference.result import Marginal
from sapwood.trees.tree import Tree

GOLD = Tree.parse("(ROOT (S (NP (N dogs)) (VP (V see) (NP (N cats)))))")


def test_the_error_is_the_weighted_distance_of_the_bins():
    found = Reliability(bins=2)
    found.add(GOLD, [Marginal(0, 3, "S", 0.9), Marginal(0, 1, "NP", 0.7), Marginal(0, 2, "NP", 0.1)])
    found.add(GOLD, [Marginal(1, 3, "PP", 0.8), Marginal(2, 3, "NP", 1.0)])
    low, high = found.bins
    assert (low.low, low.high, low.phrases, low.right) == (0.0, 0.5, 1, 0.0)
    assert (high.phrases, high.right) == (4, 0.75)
    assert high.probability == pytest.approx(0.85)
    assert found.error == pytest.approx((1 * 0.1 + 4 * 0.1) / 5)
    assert found.to_dict()["error"] == found.error
    assert "expected calibration error: 0.1000" in found.format()


def test_a_phrase_is_right_no_more_often_than_it_is_there():
    found = Reliability()
    found.add(GOLD, [Marginal(0, 1, "NP", 0.95), Marginal(0, 1, "NP", 0.95)])
    assert found.bins[0].right == 0.5


def test_nothing_is_no_error():
    assert Reliability().error == 0.0
    assert Reliability().bins == []


def test_an_evaluation_fills_it():
    trees = made_up_treebank(40)
    grammar = PCFG().fit(PCFG.prepare(trees))
    found = Reliability()
    result = evaluate_parser(Parser(grammar, marginals=True), trees, reliability=found)
    phrases = sum(len(Parser(grammar).parse_one(tree.words()).tree.spans()) - 1 for tree in trees)
    assert sum(one.phrases for one in found.bins) == phrases
    assert np.isclose(sum(one.phrases * one.right for one in found.bins) / phrases * 100, result.precision, atol=3)
