"""The benchmark of k-best lists finds lists that are wrong, and its listing has all trees."""

from __future__ import annotations

import numpy as np
import pytest

import kbest
from _tree_list import count_trees, list_trees
from helpers.enumerate_trees import all_trees
from sapwood import Parser
from sapwood.inference.forest.kbest import KBestList
from sapwood.testing.grammars import random_grammar


@pytest.mark.parametrize("states", [(1, 1), (2, 3)])
def test_the_listing_has_all_trees(states):
    grammar = random_grammar(np.random.default_rng(5), interminals=2, preterminals=2, states=states)
    words = ["w0", "w2", "w1", "w0"]
    found = {tree.text(grammar, words): weight for tree, weight in list_trees(grammar, words).items()}
    expected = {str(one.tree): one.weight for one in all_trees(grammar, words) if one.weight > 0}
    assert len(expected) > 10
    assert found == pytest.approx(expected)
    assert count_trees(grammar, words) == len(expected)


def test_right_lists_are_not_called_wrong():
    figures = kbest.enumeration(2, [1, 3], 0)
    assert figures["lists"] == 8
    assert figures["wrong"] == figures["unproved"] == 0
    assert figures["fewest_trees"] >= kbest.FEWEST


@pytest.mark.parametrize(
    "change",
    [
        lambda best: [*best[1:], best[-1]._replace(tree=best[0].tree)],
        lambda best: best[:-1],
        lambda best: [best[0], *best[:-1]],
        lambda best: [one._replace(log_probability=one.log_probability + 0.01) for one in best],
    ],
    ids=["without the best", "too short", "twice", "probabilities"],
)
def test_wrong_lists_are_found(change, monkeypatch, capsys):
    right = Parser.k_best
    monkeypatch.setattr(Parser, "k_best", lambda *given: KBestList(change(right(*given))))
    assert kbest.enumeration(1, [3], 0)["wrong"] == 2
    assert "grammar 0, PCFG with CRF, 3 best: " in capsys.readouterr().err
