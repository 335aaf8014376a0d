"""Rare rules and labels, improbable trees, and the report of all checks."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from helpers.made_up import made_up_treebank
from sapwood.evaluate.consistency import (
    Source,
    check_consistency,
    doubtful_phrases,
    improbable_trees,
    rare_labels,
    rare_rules,
)
from sapwood.inference import Parser
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.trees.normalise import Normaliser
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree

COMMON = "(S (NP (D the) (N dog)) (VP (V barks)))"
LINES = [
    *[COMMON] * 12,
    "(S (NP (D the) (N cat)) (VP (V sleeps) (PP (P in) (NP (N town)))))",
    "(S (NP (D the) (J old) (J old) (N cat)) (VPP (V sleeps)))",
    "(S (NP (D the) (J old) (N cat)) (VP (V sleeps)))",
]


def located(lines):
    return [(Tree.parse(line), Source("x.mrg", number, number)) for number, line in enumerate(lines, 1)]


def slow_rules(trees):
    counts = Counter((node.label, *(child.label for child in node.children)) for tree in trees for node in tree.nodes())
    return {rule for rule, count in counts.items() if count == 1 and len(rule) > 1}


def test_rare_rules_are_those_used_once():
    trees = made_up_treebank(60)
    found = rare_rules(TreeTable.from_trees(trees))
    assert {(one.label, *one.children) for one in found} == slow_rules(trees)
    assert len(found) == len(slow_rules(trees))


def test_rules_without_relatives_come_first():
    table = TreeTable.from_trees([tree for tree, _ in located(LINES)])
    found = {(one.label, one.children): one for one in rare_rules(table)}
    assert found["NP", ("D", "J", "N")].relatives == found["NP", ("D", "J", "J", "N")].relatives == 1
    assert found["NP", ("N",)].relatives == 0
    assert found["NP", ("N",)].uses == 16
    order = list(found)
    assert order.index(("VP", ("V", "PP"))) < order.index(("NP", ("D", "J", "N")))
    (place,) = found["NP", ("N",)].places
    assert place == (12, 4, 5)
    assert ("S", ("NP", "VP"), 14) in [(one.label, one.children, len(one.places)) for one in rare_rules(table, 14)]


def test_rare_labels_and_what_may_be_meant():
    found = {one.label: one for one in rare_labels(TreeTable.from_trees([tree for tree, _ in located(LINES)]))}
    assert found.keys() == {"PP", "VPP", "P"}
    assert found["VPP"].similar == "VP"
    assert found["P"].similar is None
    assert (found["P"].kind, found["VPP"].kind) == ("tag", "phrase")
    assert found["VPP"].places == ((13, 4, 5),)


def test_labels_that_are_tags_and_phrases_are_two():
    found = rare_labels(TreeTable.from_trees([Tree.parse("(S (A (A a)) (A b) (B (S b)))")]))
    assert {(one.kind, one.label, one.count) for one in found} == {
        ("phrase", "A", 1), ("phrase", "S", 1), ("phrase", "B", 1), ("tag", "S", 1),
    }  # fmt: skip


@pytest.fixture(scope="module")
def parser():
    return Parser(PCFG().fit(PCFG.prepare(made_up_treebank(120))))


def test_expected_errors_are_the_sum_of_posteriors(parser):
    for tree in made_up_treebank(10):
        words, errors, phrases = doubtful_phrases(parser, tree)
        posterior = {one[:3]: one.probability for one in parser.posteriors(tree.words())}
        keys = [*tree.spans()[1:], *((place, place + 1, tag) for place, tag in enumerate(tree.tags()))]
        assert words == len(tree)
        assert errors == pytest.approx(sum(1 - posterior.get(key, 0.0) for key in keys))
        assert all(one.probability == pytest.approx(posterior.get(one[:3], 0.0)) for one in phrases)


def test_a_tree_with_wrong_labels_is_improbable(parser):
    trees = made_up_treebank(20)
    label = trees[7].spans()[1][2]
    wrong = str(trees[7]).replace(f"({label} ", "(XX ")
    table = TreeTable.from_trees([*trees[:7], Tree.parse(wrong), *trees[8:]])
    found = improbable_trees(table, parser)
    assert found[0].tree == 7
    assert found[0].phrases[0].label == "XX"
    assert found[0].phrases[0].probability == 0


def test_report_names_places_of_normalised_trees():
    lines = ["(S (NP-SBJ (N x)) (VP (V y)))", "( (S (NP (-NONE- *)) (-NONE- *)))", "(S (NP (N x)) (V y))"]
    report = check_consistency(located(lines), normaliser=Normaliser(), checks=["variations", "labels"])
    assert [source.number for source in report.sources] == [1, 3]
    assert report.checks == ("variations", "labels")
    text = report.format()
    assert "<s> x «y» </s>" in text
    assert "VP 1: x.mrg:1 (words 2-2)" in text
    assert "no phrase 1: x.mrg:3 (words 2-2)" in text
    value = json.loads(json.dumps(report.to_dict(1)))
    assert value["sentences"] == 2
    assert value["variations"]["number"] == 1
    assert value["variations"]["first"][0]["analyses"][0]["places"] == [
        {"file": "x.mrg", "number": 3, "line": 3, "start": 1, "end": 2}
    ]
    assert value["labels"]["number"] == 1


def test_without_normalisation_function_tags_count():
    lines = ["(S (NP-SBJ (N x)) (VP (V y)))", "(S (NP (N x)) (VP (V y)))"]
    assert not check_consistency(located(lines), normaliser=Normaliser()).variations
    assert check_consistency(located(lines)).variations


def test_long_lists_and_phrases_are_cut():
    words = " ".join(f"(N w{place})" for place in range(30))
    report = check_consistency(located([f"(S (NP {words}))", "(S (X (N a)))"]), checks=["labels", "rules"])
    text = report.format(1)
    assert "w0 w1 w2 w3 w4 w5 ... w24 w25 w26 w27 w28 w29" in report.format()
    assert "rare rules: 4, the first 1" in text
    assert report.words(report.labels[0].places[0])


def test_everything_of_nothing():
    report = check_consistency([])
    assert report.to_dict()["sentences"] == 0
    assert "rare rules: 0" in report.format()
