"""Partial brackets: reading, writing, places, and what cleaning leaves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.strategies import any_trees, odd_labels, odd_words, trees
from sapwood.errors import InputError, TreeFormatError
from sapwood.trees.formats.registry import BadTrees
from sapwood.trees.normalise import Normaliser
from sapwood.trees.partial import UNKNOWN, PartialTree, format_partial, parse_partial, read_partial
from sapwood.trees.tree import Tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("(S (NP (DT the) (NN dog)) barked)", "(S (NP (DT the) (NN dog)) (_ barked))"),
        ("(_ the dog barked)", "(_ (_ the) (_ dog) (_ barked))"),
        ("(S (NP (_ it)) (VP barks loudly))", "(S (NP (_ it)) (VP (_ barks) (_ loudly)))"),
        ("(NN dog)", "(NN dog)"),
        ("(S it (VBZ barks) .)", "(S (_ it) (VBZ barks) (_ .))"),
        ("(_ -LRB- x)", "(_ (_ -LRB-) (_ x))"),
        ("( (S it barks))", "( (S (_ it) (_ barks)))"),
    ],
)
def test_reading(text, tree):
    found = PartialTree.parse(text)
    assert found.tree == Tree.parse(tree)
    assert str(found) == text
    # What is written in full means the same.
    assert PartialTree.parse(tree).tree == found.tree


def test_a_label_over_one_word_is_its_tag():
    assert PartialTree.parse("(S (NP it) barks)").tree.tags() == ["NP", UNKNOWN]
    assert PartialTree.parse("(S (NP (_ it)) barks)").tree.spans() == [(0, 2, "S"), (0, 1, "NP")]


@examples(200)
@given(any_trees)
def test_whole_trees_are_written_as_ever(tree):
    if not any(node.label == UNKNOWN for node in tree.nodes()):
        assert format_partial(tree) == str(tree)
        assert PartialTree.parse(str(tree)).is_whole
    assert PartialTree.parse(format_partial(tree)).tree == tree


@examples(300)
@given(trees(odd_labels | st.just(UNKNOWN), odd_words, tags=odd_labels | st.just(UNKNOWN)))
def test_round_trip(tree):
    text = format_partial(tree)
    assert "\n" not in text
    assert PartialTree.parse(text).tree == tree


def test_files(tmp_path):
    path = tmp_path / "some.mrg"
    path.write_text("# a remark\n(_ it\n   barks)\n\n/* another */ (S (NP (_ it)) barks) (_ no)\n", encoding="utf-8")
    found = list(read_partial(path))
    assert [str(one) for one in found] == ["(_ it barks)", "(S (NP (_ it)) barks)", "(_ no)"]
    assert [(one.source, one.line) for one in found] == [(str(path), 2), (str(path), 5), (str(path), 5)]


def test_places_of_brackets():
    (found,) = parse_partial("(S (NP the dog)\n   (VP (VBZ barks)) .)", source="f")
    assert [(one.start, one.end, one.label, one.line, one.column) for one in found.brackets] == [
        (0, 4, "S", 1, 1),
        (0, 2, "NP", 1, 4),
        (0, 1, "_", 1, 8),
        (1, 2, "_", 1, 12),
        (2, 3, "VP", 2, 4),
        (2, 3, "VBZ", 2, 8),
        (3, 4, "_", 2, 21),
    ]
    assert str(found.error("wrong", 0, 2, "NP")) == "f:1:4: wrong: 'the dog'"
    assert str(found.error("wrong", 2, 3, "VBZ")) == "f:2:8: wrong: 'barks'"
    assert str(found.error("wrong", 1, 3)) == "f:1: wrong: 'dog barks'"


def test_cleaning_keeps_places():
    text = "(S (NP-SBJ (-NONE- *T*-1)) (CODE <x>) (NP-OBJ (NP (DT the) dog) (SBAR (-NONE- 0) that barks)) .)"
    (found,) = parse_partial(text, source="f")
    clean = found.normalised(Normaliser())
    assert str(clean) == "(ROOT (S (NP (NP (DT the) dog) (SBAR that barks)) .))"
    for start, end, label, opening in [(0, 4, "NP", "(NP-OBJ"), (0, 2, "NP", "(NP ("), (2, 4, "SBAR", "(SBAR")]:
        assert clean.error("x", start, end, label).column == text.index(opening) + 1
    assert PartialTree.parse("(S (-NONE- *))").normalised(Normaliser()) is None


def test_plain_sentences():
    assert str(PartialTree.plain(["(", "a", ")"])) == "(_ -LRB- a -RRB-)"
    assert not PartialTree.plain(["a"]).is_whole


@pytest.mark.parametrize(
    ("text", "problem", "line", "column"),
    [
        ("(S (NP the dog", "2 bracket(s) not closed before the end of the file", 1, 1),
        ("(S it barks))", "a closing bracket without an opening one", 1, 13),
        ("(S it\n ())", "an empty tree ()", 2, 2),
        ("(S it (NP))", "the label 'NP' has no word or subtree below it", 1, 7),
        ("it barks", "text outside any bracket", 1, 1),
    ],
)
def test_what_is_malformed_is_named(text, problem, line, column):
    with pytest.raises(TreeFormatError) as caught:
        list(parse_partial(text, source="f"))
    assert problem in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_malformed_ones_can_be_skipped():
    bad = BadTrees()
    text = "(_ a b)\n(S it\n(_ c d)\n(S (NP))\n(_ e f)\n"
    assert [str(one) for one in parse_partial(text, source="f", on_bad=bad)] == ["(_ a b)", "(_ c d)", "(_ e f)"]
    assert bad.count == 2


def test_one_tree_is_expected():
    with pytest.raises(InputError, match="expected one partial tree, found 2"):
        PartialTree.parse("(_ a b) (_ c d)")
