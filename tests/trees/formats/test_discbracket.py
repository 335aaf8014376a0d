"""Discbracket: words with numbers, and crossing branches."""

from __future__ import annotations

import pytest

from sapwood.errors import TreeFormatError
from sapwood.trees.formats.discbracket import format_discbracket, parse_discbracket
from sapwood.trees.formats.registry import BadTrees
from sapwood.trees.tree import Tree


def parse(text: str, **options) -> list[Tree]:
    return list(parse_discbracket(text, source="x.dbr", **options))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John) (? 3=?))", "(S (VP (VB is)) (NP John) (JJ rich) (? ?))"),
        # Punctuation on a root of its own goes into the phrase around it.
        ("(ROOT (S (NP (N 0=a) (N 2=b)) (V 3=c)) ($, 1=,))", "(ROOT (S (NP (N a) ($, ,) (N b)) (V c)))"),
        ("(TOP (S (N 0=a)) (. 1=.))", "(TOP (S (N a)) (. .))"),
        ("(N 0=a)", "(N a)"),
        ("  (S\t(N 0=a=b)  (-LRB- 1=#LRB#))  ", "(S (N a=b) (-LRB- -LRB-))"),
    ],
)
def test_trees_are_read(text, tree):
    assert parse(text, gaps="close") == [Tree.parse(tree)]


def test_gaps_can_be_refused():
    assert parse("(S (A 0=a) (B 1=b))", gaps="error") == [Tree.parse("(S (A a) (B b))")]
    with pytest.raises(TreeFormatError, match=r"x.dbr:1: tree: the words below node VP \(VP\) are not adjacent"):
        parse("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))", gaps="error")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("(S (N 0=a)", "the tree is not closed"),
        ("(S (N 0=a)))", "more behind the tree"),
        ("(S (N 0=a)) (S (N 0=a))", "more behind the tree"),
        ("x", "text outside brackets"),
        ("()", "a bracket without a label, or with nothing in it"),
        ("(S)", "a bracket without a label, or with nothing in it"),
        ("((S 0=a))", "a bracket where a label belongs"),
        ("(S 0=a (N 1=b))", "a bracket where a label belongs, or behind a word"),
        ("(S (N 1=b) 0=a)", "a word that is not alone"),
        ("(S 0=a 1=b)", "a word that is not alone"),
        ("(S (N a))", "a word is its place in the sentence"),
        ("(S (N 0=))", "a word is its place in the sentence"),
        ("(S (N -1=a))", "a word is its place in the sentence"),
        ("(S (N 0=a) (N 0=b))", "two words at the place 0"),
        ("(S (N 0=a) (N 2=b))", "no word at the place 1"),
        ("(S (N 999999999=a))", "no word at the place 0"),
    ],
)
def test_malformed_lines_are_refused_with_their_place_or_skipped(line, problem):
    text = f"\n(S (A 0=a))\n{line}\n(S (B 0=b))\n"
    with pytest.raises(TreeFormatError, match=rf"x.dbr:3(:\d+)?: .*{problem}"):
        parse(text)
    bad = BadTrees()
    assert parse(text, on_bad=bad) == [Tree.parse("(S (A a))"), Tree.parse("(S (B b))")]
    assert bad.count == 1


@pytest.mark.parametrize(
    ("word", "written"),
    [("(", "#LRB#"), ("f(x)", "f#LRB#x#RRB#"), ("#LRB#", "-U+0023-LRB#"), ("a b", "a-U+0020-b"), ("", "-U+-"),
     ("-LRB-", "-LRB-"), ("1=2", "1=2"), ("#", "#")],
)  # fmt: skip
def test_words_are_written_so_that_they_come_back(word, written):
    tree = Tree("S", [Tree("A", word="a"), Tree("B", word=word)])
    assert format_discbracket(tree) == f"(S (A 0=a) (B 1={written}))"
    assert parse(format_discbracket(tree)) == [tree]


def test_deep_trees():
    tree = Tree("A", word="a")
    for _ in range(3000):
        tree = Tree("X", [tree])
    assert parse(format_discbracket(tree)) == [tree]
