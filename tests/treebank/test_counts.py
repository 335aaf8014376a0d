"""Counts by keys, dispersion, comparisons and statistics: agreement with counting tree by tree."""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.strategies import deep, trees, wide
from oracles.slow_search import Spot, spots_of
from sapwood.errors import UsageError
from sapwood.treebank.counts import CountTable, count_matches, log_likelihood, log_ratio
from sapwood.treebank.keys import KEYS, NOTHING, KeyExpression, parse_keys
from sapwood.treebank.statistics import count_corpus, productivity, summarise, tree_depths
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.normalise import cut_function_tag
from sapwood.trees.search.searcher import Searcher
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree

HEADS = HeadRules.parse("A right B C\nB left A\n* right")
small_trees = trees(st.sampled_from(["A", "B-X", "C", "."]), st.sampled_from(["a", "b-c"]), max_leaves=8)


def below(spot: Spot) -> list[Spot]:
    return [spot] if spot.is_word else [word for child in spot.children for word in below(child)]


def head_word(spot: Spot) -> Spot:
    while not spot.is_word:
        spot = spot.children[HEADS.head_index(spot.label, [child.label for child in spot.children])]
    return spot


def slow_value(key: str, spot: Spot) -> str:
    words = below(spot)
    children = " ".join(child.label for child in spot.children)
    values = {
        "label": lambda: spot.label,
        "basic": lambda: spot.label if spot.is_word else cut_function_tag(spot.label),
        "word": lambda: words[0].label,
        "words": lambda: " ".join(word.label for word in words),
        "lemma": lambda: words[0].label.split("-")[-1],
        "tag": lambda: words[0].parent.label,
        "tags": lambda: " ".join(word.parent.label for word in words),
        "head": lambda: head_word(spot).label,
        "head-tag": lambda: head_word(spot).parent.label,
        "parent": lambda: NOTHING if spot.parent is None else spot.parent.label,
        "children": lambda: children,
        "rule": lambda: f"{spot.label} -> {children}".rstrip(),
        "sisters": lambda: " ".join(
            "_" if one is spot else one.label for one in spot.sisters() or [spot] if one is spot or one.label != "."
        ),
        "length": lambda: str(len(words)),
        "tree-length": lambda: str(len(below((spot.above() or [spot])[-1]))),
        "depth": lambda: str(len(spot.above())),
        "file": lambda: "f",
    }
    return values[key]()


@pytest.mark.parametrize("key", KEYS)
@examples(25)
@given(st.lists(small_trees, min_size=1, max_size=3))
def test_keys_mean_what_their_definitions_say(key, some):
    found = count_matches(Searcher("__", heads=HEADS), [("f", TreeTable.from_trees(some))], [KeyExpression.parse(key)])
    expected = Counter(slow_value(key, spot) for tree in some for spot in spots_of(tree))
    assert {values[0]: found.count(values) for values in found.counts} == expected


@examples(60)
@given(st.lists(small_trees, min_size=1, max_size=4))
def test_two_keys_of_named_nodes(some):
    keys = [KeyExpression.parse(text) for text in ("label:x/^(.)/", "length", "word:y")]
    table = TreeTable.from_trees(some)
    found = count_matches(Searcher("A < __=x ?> __=y"), [("f", table)], keys)
    expected = Counter()
    for tree in some:
        for spot in spots_of(tree):
            if spot.label == "A" and not spot.is_word:
                above = NOTHING if spot.parent is None else below(spot.parent)[0].label
                expected[spot.children[0].label[0], str(len(below(spot))), above] += 1
    assert {values: found.count(values) for values in found.counts} == expected


@pytest.mark.parametrize("text", ["", "colour", "label:", "label/(/", "label/a", "LABEL", "label:x:y"])
def test_malformed_keys(text):
    with pytest.raises(UsageError, match=r"key to count by|parenthesis"):
        KeyExpression.parse(text)


def test_names_of_keys_must_be_in_the_pattern():
    assert [key.name for key in parse_keys(["label:x", "word"], ["x"])] == ["x", ""]
    with pytest.raises(UsageError, match="no node of the pattern has the name 'y'"):
        parse_keys(["label:y"], ["x"])


def _table(*parts: tuple[str, int, dict[str, int]]) -> CountTable:
    counts = CountTable(["label"])
    for file, size, found in parts:
        counts.add(file, size, (((value,), count) for value, count in found.items()))
    return counts


def test_dispersion_and_frequencies():
    counts = _table(("a", 60, {"NP": 3}), ("a", 40, {"NP": 1, "VP": 1}), ("b", 300, {"VP": 3}))
    assert (counts.files, counts.sizes) == (["a", "b"], [100, 300])
    assert counts.dispersion(("VP",)) == 0
    assert counts.dispersion(("NP",)) == pytest.approx(0.75)
    assert counts.table().rows == [["NP", 4, 0.5, 10.0, 1, 0.75], ["VP", 4, 0.5, 10.0, 2, 0.0]]
    assert counts.table(1).rows == counts.table().rows[:1]
    assert _table(("a", 8, {"NP": 2})).table() == (["label", "count", "share", "per_thousand"], [["NP", 2, 1.0, 250.0]])


def test_cross_tables():
    counts = CountTable(["one", "two"])
    counts.add("f", 1, [(("a", "x"), 5), (("b", "x"), 2), (("b", "y"), 1)])
    assert counts.crossed() == (["one \\ two", "x", "y"], [["a", 5, 0], ["b", 2, 1]])
    assert counts.crossed(1) == (["one \\ two", "x"], [["a", 5]])


def test_comparisons():
    one, two = _table(("a", 1000, {"NP": 20, "VP": 10})), _table(("b", 2000, {"NP": 20, "PP": 5}))
    table = one.against(two)
    assert [row[0] for row in table.rows] == ["VP", "NP", "PP"]
    # Dunning's formula, by the table of four cells in the limit of rare events.
    expected = 2 * (20 * math.log(20 / (40 / 3)) + 20 * math.log(20 / (80 / 3)))
    assert table.rows[1][5] == round(expected, 3)
    ratio, low, high = table.rows[1][6:]
    assert ratio == round(math.log2(20.5 / 20.5 * 2), 3)
    assert high - ratio == pytest.approx(1.96 * math.sqrt(2 / 20.5) / math.log(2), abs=2e-3)
    assert low == pytest.approx(2 * ratio - high, abs=2e-3)
    assert one.against(two, confidence=0.5).rows[1][8] < high
    assert log_likelihood(3, 0, 1, 10) == 0.0
    assert log_ratio(1, 10, 1, 0) == (0.0, math.inf)


@examples(60)
@given(st.lists(small_trees, min_size=1, max_size=5))
def test_statistics_agree_with_the_trees(some):
    table = TreeTable.from_trees(some)
    tables = [("f", table)]
    nodes = [node for tree in some for node in tree.nodes()]
    phrases = [node for node in nodes if node.word is None]
    rules = Counter(f"{node.label} -> {' '.join(child.label for child in node.children)}" for node in phrases)
    expected = {
        "words": Counter(node.word for node in nodes if node.word is not None),
        "tags": Counter(node.label for node in nodes if node.word is not None),
        "labels": Counter(node.label for node in phrases),
        "rules": rules,
        "lengths": Counter(str(len(tree)) for tree in some),
        "depths": Counter(str(tree.depth()) for tree in some),
    }
    for kind, counts in expected.items():
        found = count_corpus(kind, tables)
        assert {values[0]: found.count(values) for values in found.counts} == counts, kind
        assert found.size == counts.total()
    assert tree_depths(table).tolist() == [tree.depth() for tree in some]
    for label, tokens, types, _, hapaxes, share, _ in productivity(count_corpus("rules", tables)).rows:
        of_label = [count for rule, count in rules.items() if label == "(all)" or rule.startswith(f"{label} ->")]
        assert (tokens, types, hapaxes) == (sum(of_label), len(of_label), of_label.count(1))
        assert share == round(hapaxes / max(tokens, 1), 6)
    measures = dict(summarise(tables).rows)
    assert measures["trees"] == len(some)
    assert measures["words"] == sum(map(len, some))
    assert measures["phrases"] == len(phrases)
    assert measures["greatest depth"] == max(tree.depth() for tree in some)


def test_frames_are_the_sisters_of_verbs():
    tree = Tree.parse("(S (NP (N she)) (VP (VBD gave) (NP (N him)) (NP (N it)) (, ,)) (MD would))")
    found = count_corpus("frames", [("f", TreeTable.from_trees([tree]))])
    assert dict.fromkeys(found.counts) == {("gave", "_ NP NP"): None, ("would", "NP VP _"): None}
    found = count_corpus("frames", [("f", TreeTable.from_trees([tree]))], verbs="N")
    assert found.count(("she", "_")) == 1


def test_lengths_are_sorted_by_number():
    table = TreeTable.from_trees([wide(12), wide(3), wide(3), wide(12), wide(12)])
    assert [row[:2] for row in count_corpus("lengths", [("f", table)]).table().rows] == [["3", 2], ["12", 3]]


def test_large_trees_take_linear_time():
    table = TreeTable.from_trees([deep(20_000, branching="right"), wide(20_000)])
    for key in KEYS:
        counts = count_matches(Searcher("__"), [("f", table)], [KeyExpression.parse(key)])
        assert counts.total == len(table.symbols)
    assert any(re.search(r"more than 200", text) for (text,) in count_matches(
        Searcher("N"), [("f", table)], [KeyExpression.parse("sisters")]).counts)  # fmt: skip


def test_nothing_to_count():
    empty = TreeTable.from_trees([])
    assert count_matches(Searcher("NP"), [("f", empty)], [KeyExpression.parse("head")]).table().rows == []
    assert count_matches(Searcher("NP=x"), [], [KeyExpression.parse("word:x")]).table().rows == []
    assert summarise([("f", empty)]).rows[0] == ["trees", 0]
    assert productivity(count_corpus("rules", [])).rows == [["(all)", 0, 0, 0.0, 0, 0.0, 0.0]]
