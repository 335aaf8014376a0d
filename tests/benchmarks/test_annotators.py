"""Simulated annotators: every one of them ends at the gold tree, and no count is below the fewest actions."""

from __future__ import annotations

import itertools
import random

import pytest

import _annotators
from _annotators import Outline, chain_actions, correct, editing, editing_with_moves, step, wrong_tags
from helpers.made_up import made_up_treebank
from sapwood.annotation.proposals import ParserProposer, RightBranching
from sapwood.inference import Parser
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.trees.tree import Tree


def slow_distance(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Return the edit distance of two sequences, by its definition."""
    if not a or not b:
        return len(a) + len(b)
    return min(slow_distance(a[1:], b[1:]) + (a[0] != b[0]), slow_distance(a[1:], b) + 1, slow_distance(a, b[1:]) + 1)


def test_chains_are_compared_by_their_edit_distance():
    chains = [chain for size in range(4) for chain in itertools.product("AB", repeat=size)]
    for a, b in itertools.product(chains, repeat=2):
        assert chain_actions(a, b) == slow_distance(a, b)
        if a != b:
            assert chain_actions(step(a, b), b) == chain_actions(a, b) - 1
            assert chain_actions(a, step(a, b)) == 1


def test_outlines_have_everything_but_the_root():
    tree = Tree.parse("(ROOT (S (NP (NN x)) (VP (VB y) (S (VP (VB z))))))")
    assert Outline.of(tree) == (
        ("NN", "VB", "VB"),
        {(0, 3): ("S",), (0, 1): ("NP",), (1, 3): ("VP",), (2, 3): ("S", "VP")},
    )


def test_editing_counts_labels_that_differ():
    gold = Outline.of(Tree.parse("(ROOT (S (NP (N a)) (VP (V b) (NP (NP (N c)) (PP (P d) (NP (N e)))))))"))
    low = Outline.of(Tree.parse("(ROOT (S (NP (N a)) (VP (V b) (NP (N c)) (PP (P d) (NP (V e))))))"))
    assert editing(low.chains, gold.chains) == 1
    assert wrong_tags(low, gold) == 1
    other = Outline.of(Tree.parse("(ROOT (X (NP (N a)) (VP (V b) (NP (N c))) (PP (P d) (NP (N e)))))"))
    # X, the verb phrase removed and made, the noun phrase made.
    assert editing(other.chains, gold.chains) == 4
    # X, the prepositional phrase moved into the verb phrase, the noun phrase made.
    assert editing_with_moves(other.chains, gold.chains, 5) == 3


def test_moves_take_no_more_than_editing():
    trees = made_up_treebank(30)
    parser = Parser(PCFG().fit(PCFG.prepare(trees[:6])))
    fewer = 0
    for tree in trees[6:]:
        found, gold = Outline.of(parser.parse_one(tree.words()).tree), Outline.of(tree)
        plain, moved = editing(found.chains, gold.chains), editing_with_moves(found.chains, gold.chains, len(tree))
        assert (moved == 0) == (plain == 0)
        assert moved <= plain
        fewer += moved < plain
    assert fewer


@pytest.mark.parametrize("confirm", [True, False])
@pytest.mark.parametrize("order", list(_annotators.ORDERS))
def test_corrections_end_at_the_gold_tree(order, confirm, monkeypatch):
    trees = made_up_treebank(24)
    last = []
    real = _annotators.apply

    def watched(annotation, edit, **arguments):
        last.append(real(annotation, edit, **arguments))
        return last[-1]

    monkeypatch.setattr(_annotators, "apply", watched)
    parser = ParserProposer(Parser(PCFG().fit(PCFG.prepare(trees[:8]))))
    for proposer in (parser, RightBranching()):
        for gold in trees[8:14]:
            last.clear()
            effort = correct(proposer, gold, order=order, confirm=confirm)
            start = Outline.of(proposer.start(gold.words()).tree)
            is_right = start == Outline.of(gold)
            assert (effort.actions == 0) == is_right
            if not is_right:
                assert Outline.of(proposer.propose(last[-1]).annotation.tree) == Outline.of(gold)


def test_a_chain_is_corrected_label_by_label():
    gold = Tree.parse("(ROOT (A (B (C (N x) (N y))) (N z)))")
    rng = random.Random(1)
    for _ in range(5):
        order = rng.choice(list(_annotators.ORDERS))
        effort = correct(RightBranching(tags={"x": "N", "y": "N", "z": "N"}), gold, order=order, confirm=True)
        assert effort.tags == 0
        # The phrase over y and z goes when that over x and y is made.
        assert effort.phrases == 3
