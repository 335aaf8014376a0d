"""The tree itself: its parts never change, and depth is no obstacle."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import any_trees, deep, trees
from sapwood.errors import InputError, TreeFormatError
from sapwood.trees.tree import Tree

BARK = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))"
LEVELS = 5000
assert sys.getrecursionlimit() < LEVELS


@pytest.fixture(params=["right", "left", "unary"])
def deep_tree(request) -> Tree:
    return deep(LEVELS, branching=request.param)


@pytest.mark.parametrize(("children", "word"), [((), None), ([Tree("N", word="x")], "y"), ([Tree("N", word="x")], "")])
def test_either_children_or_a_word(children, word):
    with pytest.raises(ValueError, match="either children or a word: 'NP'"):
        Tree("NP", children, word=word)


def test_parts_never_change():
    below = [Tree("N", word="x")]
    tree = Tree("NP", below)
    below.append(Tree("N", word="y"))
    assert tree.children == (Tree("N", word="x"),)
    for name in ("label", "children", "word", "colour"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(tree, name, "VP")
    for name in ("label", "children", "word"):
        with pytest.raises(AttributeError, match="immutable"):
            delattr(tree, name)
    assert (tree.label, len(tree.children), tree.word) == ("NP", 1, None)
    assert not hasattr(tree, "__dict__")


def test_preterminals():
    tree = Tree.parse(BARK)
    assert not tree.is_preterminal
    assert [node.is_preterminal for node in tree.nodes()] == [False, False, True, True, False, True, True]
    assert [(node.label, node.word) for node in tree.preterminals()] == [
        ("DT", "the"), ("NN", "dog"), ("VBZ", "barks"), (".", "."),
    ]  # fmt: skip
    assert tree.words() == ["the", "dog", "barks", "."]
    assert tree.tags() == ["DT", "NN", "VBZ", "."]
    assert len(tree) == 4
    assert tree.depth() == 3
    assert Tree("N", word="x").depth() == 1


def test_order_of_nodes_and_of_folding():
    tree = Tree.parse(BARK)
    assert [node.label for node in tree.nodes()] == ["S", "NP", "DT", "NN", "VP", "VBZ", "."]
    visited: list[str] = []

    def visit(node: Tree, below: list[str]) -> str:
        visited.append(node.label)
        assert len(below) == len(node.children)
        return f"{node.label}[{' '.join(below)}]"

    assert tree.fold(visit) == "S[NP[DT[] NN[]] VP[VBZ[]] .[]]"
    assert visited == ["DT", "NN", "NP", "VBZ", "VP", ".", "S"]
    assert Tree("N", word="x").fold(lambda node, below: (node.word, below)) == ("x", [])


def test_fold_keeps_results_that_are_none_or_empty():
    assert Tree.parse(BARK).fold(lambda _, below: below or None) == [[None, None], [None], None]


def test_spans():
    tree = Tree.parse("(S (NP (NP (N a) (N b)) (PP (P c) (NP (N d)))) (V e))")
    assert tree.spans() == [
        (0, 5, "S"), (0, 4, "NP"), (0, 2, "NP"), (2, 4, "PP"), (3, 4, "NP"),
    ]  # fmt: skip
    assert Tree("N", word="x").spans() == []
    assert Tree("X", [Tree("Y", [Tree("N", word="x")])]).spans() == [(0, 1, "X"), (0, 1, "Y")]


@given(trees())
def test_spans_by_recursion(tree):
    def slow(node: Tree, start: int) -> list[tuple[int, int, str]]:
        if node.word is not None:
            return []
        found = [(start, start + len(node.words()), node.label)]
        for child in node.children:
            found += slow(child, start)
            start += len(child.words())
        return found

    assert tree.spans() == slow(tree, 0)


def structure(tree: Tree) -> tuple:
    """Return the tree as nested tuples, which Python compares by itself."""
    return (tree.label, tree.word, tuple(map(structure, tree.children)))


@given(trees(st.sampled_from("AB"), st.sampled_from("ab"), max_leaves=4), st.data())
def test_equality_is_that_of_structure(tree, data):
    other = data.draw(trees(st.sampled_from("AB"), st.sampled_from("ab"), max_leaves=4))
    assert (tree == other) == (structure(tree) == structure(other))
    assert (tree != other) == (structure(tree) != structure(other))
    if tree == other:
        assert hash(tree) == hash(other)


@pytest.mark.parametrize(
    "other",
    [
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. !))",
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (, .))",
        "(S (NP (DT the)) (NN dog) (VP (VBZ barks)) (. .))",
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks) (. .)))",
        "(X (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))",
    ],
)
def test_trees_that_differ(other):
    assert Tree.parse(other) != Tree.parse(BARK)
    assert len({Tree.parse(other), Tree.parse(BARK), Tree.parse(BARK)}) == 2


def test_a_tree_is_no_string():
    assert Tree.parse(BARK) != BARK
    assert Tree("N", word="x") != ("N", (), "x")


@given(trees())
def test_copies(tree):
    assert copy.copy(tree) is tree
    assert copy.deepcopy(tree) is tree
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(tree, protocol))
        assert again == tree
        assert structure(again) == structure(tree)


@given(any_trees)
def test_repr_says_how_to_make_it(tree):
    assert eval(repr(tree), {"Tree": Tree}) == tree


def test_parse_takes_one_tree():
    assert str(Tree.parse(BARK)) == BARK
    with pytest.raises(InputError, match=r"expected one tree, found 2: '\(A a\) \(B b\)'"):
        Tree.parse("(A a) (B b)")
    with pytest.raises(InputError, match="expected one tree, found 0"):
        Tree.parse(" ")
    with pytest.raises(TreeFormatError, match=r"<string>:1:1"):
        Tree.parse("(A (B b)")


def test_pretty():
    tree = Tree.parse("(S (NP (DT the) (JJ small) (NN dog)) (VP (VBZ barks) (ADVP (RB loudly))) (. .))")
    assert tree.pretty() == str(tree)
    assert tree.pretty(width=40).split("\n") == [
        "(S",
        "  (NP (DT the) (JJ small) (NN dog))",
        "  (VP (VBZ barks) (ADVP (RB loudly)))",
        "  (. .))",
    ]
    assert tree.pretty(width=20).split("\n") == [
        "(S",
        "  (NP",
        "    (DT the)",
        "    (JJ small)",
        "    (NN dog))",
        "  (VP",
        "    (VBZ barks)",
        "    (ADVP",
        "      (RB loudly)))",
        "  (. .))",
    ]


@given(any_trees, st.integers(0, 60))
def test_pretty_stays_within_the_width_and_reads_back(tree, width):
    pretty = tree.pretty(width=width)
    assert Tree.parse(pretty) == tree
    for line in pretty.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        # Too long a line is a word or a label that cannot be broken: it opens one bracket, or one phrase.
        assert len(line) <= width or line[indent:].count("(") == 1
    assert (pretty == str(tree)) == (len(str(tree)) <= width or tree.word is not None)


def test_deep_trees(deep_tree):
    """Every method on a tree far deeper than Python can recurse."""
    words = len(deep_tree)
    assert words in (1, LEVELS + 1)
    assert deep_tree.depth() == LEVELS + 1
    assert deep_tree.words() == ["x"] * words
    assert deep_tree.tags() == ["N"] * words
    assert len(deep_tree.preterminals()) == words
    assert sum(1 for _ in deep_tree.nodes()) == LEVELS + words
    spans = deep_tree.spans()
    assert len(spans) == LEVELS
    assert spans[0] == (0, words, "S")
    again = pickle.loads(pickle.dumps(deep_tree))
    assert again is not deep_tree
    assert again == deep_tree
    assert hash(again) == hash(deep_tree)
    assert copy.deepcopy(deep_tree) is deep_tree
    assert Tree("S", (deep_tree, Tree("N", word="x"))) != Tree("S", (deep_tree, Tree("N", word="y")))
    assert Tree.parse(str(deep_tree)) == deep_tree
    assert repr(deep_tree).startswith("Tree.parse('(S (")
    assert deep_tree.fold(lambda node, below: 1 + sum(below)) == LEVELS + words


@pytest.mark.slow
def test_deep_pretty():
    """Levels beyond the width are not indented further, so that the text is not quadratic in the depth."""
    tree = deep(LEVELS, branching="unary")
    pretty = tree.pretty(width=60)
    lines = pretty.split("\n")
    assert lines[30] == " " * 60 + "(S"
    assert lines[29] == " " * 58 + "(S"
    assert lines[-1] == " " * 60 + "(N x)" + ")" * LEVELS
    assert len(pretty) <= 64 * (LEVELS + 2) + LEVELS
    assert Tree.parse(pretty) == tree


def test_deep_drawing():
    assert deep(LEVELS, branching="unary").draw().count("S") == LEVELS


def test_deep_nltk(deep_tree):
    pytest.importorskip("nltk")
    assert Tree.from_nltk(deep_tree.to_nltk()) == deep_tree


@given(trees())
def test_nltk_both_ways(tree):
    nltk = pytest.importorskip("nltk")
    theirs = tree.to_nltk()
    assert isinstance(theirs, nltk.Tree)
    assert theirs.leaves() == tree.words()
    assert [tag for _, tag in theirs.pos()] == tree.tags()
    assert Tree.from_nltk(theirs) == tree


def test_nltk_reads_what_we_write():
    nltk = pytest.importorskip("nltk")
    theirs = nltk.Tree.fromstring(BARK)
    assert Tree.parse(BARK).to_nltk() == theirs
    assert Tree.from_nltk(theirs) == Tree.parse(BARK)


def test_nltk_trees_of_other_shapes():
    nltk = pytest.importorskip("nltk")
    for children in (["a", "b"], [nltk.Tree("N", ["a"]), "b"], ["a", nltk.Tree("N", ["b"])]):
        with pytest.raises(InputError, match="not alone below its tag 'NP'"):
            Tree.from_nltk(nltk.Tree("S", [nltk.Tree("NP", children)]))
    with pytest.raises(InputError, match="the node 'NP' has no children"):
        Tree.from_nltk(nltk.Tree("S", [nltk.Tree("NP", [])]))
