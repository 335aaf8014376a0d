"""From clean trees to skeletal ones and back: every step, and the whole way."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import ODD_LABELS, deep, odd_labels, trees, wide
from sapwood.errors import InputError, UsageError
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.normalise import Normaliser
from sapwood.trees.symbols import as_symbol
from sapwood.trees.transform import (
    TreeTransform,
    annotate_ancestors,
    binarise,
    collapse_unaries,
    expand_symbols,
    unbinarise,
)
from sapwood.trees.tree import Tree

DIRECTIONS = ["right", "left", "head"]
ENGLISH = HeadRules.english()
directions = st.sampled_from(DIRECTIONS)
any_labels = odd_labels | st.just("")
transforms = st.builds(
    TreeTransform,
    vertical=st.integers(1, 3),
    horizontal=st.integers(0, 3),
    direction=directions,
    annotate_tags=st.booleans(),
    heads=st.sampled_from(["", "* right\n", "S left VP\n@ right\n* leftdis NP N\n"]),
    root=st.sampled_from(["ROOT", "TOP", "@|^~\\"]),
)


def skeleton(text: str, **options: object) -> str:
    return str(TreeTransform(**options)(Tree.parse(text)))  # type: ignore[arg-type]


# Each step by example.


def test_collapsing_by_example():
    tree = Tree.parse("(S (NP (PRP I)) (VP (VBP go) (S (VP (TO to) (VB see)))) (X (Y (Z z))))")
    assert str(collapse_unaries(tree)) == "(S (NP|PRP I) (VP (VBP go) (S|VP (TO to) (VB see))) (X|Y|Z z))"
    assert str(collapse_unaries(Tree.parse("(A|B (@C c))"))) == r"(A\|B|\@C c)"


def test_ancestors_by_example():
    tree = collapse_unaries(Tree.parse("(S (NP (PRP I)) (VP (VBP go) (S (VP (TO to) (VB see)))))"))
    assert annotate_ancestors(tree, 1) == tree
    assert str(annotate_ancestors(tree, 2)) == ("(S^ROOT (NP|PRP^S I) (VP^S (VBP go) (S|VP^VP (TO to) (VB see))))")
    assert str(annotate_ancestors(tree, 3, tags=True)) == (
        "(S^ROOT (NP|PRP^S^ROOT I) (VP^S^ROOT (VBP^VP^S go) (S|VP^VP^S (TO^VP^VP to) (VB^VP^VP see))))"
    )


def test_plain_tags_with_odd_names_are_plain_tags():
    tree = collapse_unaries(Tree.parse("(S (a|b x) (c y))"))
    assert str(annotate_ancestors(tree, 2)) == r"(S^ROOT (a\|b x) (c y))"


FLAT = "(VP (ADVP a) (MD b) (VP c) (NP d) (PP e))"


@pytest.mark.parametrize(
    ("direction", "order", "expected"),
    [
        ("right", 0, "(VP (ADVP a) (@VP (MD b) (@VP (VP c) (@VP (NP d) (PP e)))))"),
        ("right", 1, "(VP (ADVP a) (@VP~ADVP (MD b) (@VP~MD (VP c) (@VP~VP (NP d) (PP e)))))"),
        ("right", 2, "(VP (ADVP a) (@VP~ADVP (MD b) (@VP~MD~ADVP (VP c) (@VP~VP~MD (NP d) (PP e)))))"),
        ("right", None, "(VP (ADVP a) (@VP~ADVP (MD b) (@VP~MD~ADVP (VP c) (@VP~VP~MD~ADVP (NP d) (PP e)))))"),
        ("left", 0, "(VP (@VP (@VP (@VP (ADVP a) (MD b)) (VP c)) (NP d)) (PP e))"),
        ("left", 2, "(VP (@VP~PP (@VP~NP~PP (@VP~VP~NP (ADVP a) (MD b)) (VP c)) (NP d)) (PP e))"),
        # The head is MD: what is left of it is peeled off first, then what is right of it, the farthest first.
        ("head", 0, "(VP (ADVP a) (@VP (@VP (@VP (MD b) (VP c)) (NP d)) (PP e)))"),
        ("head", 1, "(VP (ADVP a) (@VP~ADVP (@VP~PP (@VP~NP (MD b) (VP c)) (NP d)) (PP e)))"),
        ("head", 3, "(VP (ADVP a) (@VP~ADVP (@VP~PP~ADVP (@VP~NP~PP~ADVP (MD b) (VP c)) (NP d)) (PP e)))"),
    ],
)
def test_binarising_by_example(direction, order, expected):
    assert str(binarise(Tree.parse(FLAT), direction, order, ENGLISH)) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("A", "(X (@X (@X (A a) (B b)) (C c)) (D d))"),
        ("B", "(X (A a) (@X (@X (B b) (C c)) (D d)))"),
        ("C", "(X (A a) (@X (B b) (@X (C c) (D d))))"),
        ("D", "(X (A a) (@X (B b) (@X (C c) (D d))))"),
    ],
)
def test_outward_from_the_head(head, expected):
    rules = HeadRules.parse(f"X left {head}\n")
    assert str(binarise(Tree.parse("(X (A a) (B b) (C c) (D d))"), "head", 0, rules)) == expected
    assert skeleton("(X (A a) (B b) (C c) (D d))", direction="head", horizontal=0, heads=f"X left {head}\n") == expected


def test_heads_go_by_original_labels():
    """Composite labels, ancestors and escapes do not hide a label from the head table."""
    heads = "a|b left @c\n* right\n"
    text = "(ROOT (S (a|b (D d) (@c (E e)) (F f) (G g)) (H h)))"
    found = skeleton(text, direction="head", heads=heads, vertical=2, horizontal=0)
    assert found == r"(S^ROOT (a\|b^S (D d) (@a\|b^S (@a\|b^S (\@c|E^a\|b e) (F f)) (G g))) (H h))"


def test_intermediate_symbols_of_composite_labels():
    text = "(ROOT (S (VP (V a) (NP (N b)) (PP c) (PP d)) (. e)))"
    assert skeleton(text, vertical=2, horizontal=2) == (
        "(S^ROOT (VP^S (V a) (@VP^S~V (NP|N^VP b) (@VP^S~NP|N~V (PP c) (PP d)))) (. e))"
    )
    text = "(ROOT (SBAR (S (A a) (B b) (C c))))"
    assert skeleton(text, vertical=2, horizontal=0) == "(SBAR|S^ROOT (A a) (@S^ROOT (B b) (C c)))"


def test_roots():
    assert skeleton("(ROOT (S (A a) (B b)))") == "(S (A a) (B b))"
    assert skeleton("(ROOT (A a) (B b))") == "(ROOT (A a) (B b))"
    assert skeleton("(ROOT (A a))") == "(A a)"
    assert skeleton("(TOP (S (A a) (B b)))") == "(TOP|S (A a) (B b))"
    assert skeleton("(TOP (S (A a) (B b)))", root="TOP") == "(S (A a) (B b))"
    assert skeleton("(ROOT (ROOT a))") == "(ROOT|ROOT a)"


# The inverses.


@given(trees(any_labels, tags=odd_labels))
def test_collapsing_is_undone(tree):
    collapsed = collapse_unaries(tree)
    assert all(len(node.children) != 1 for node in collapsed.nodes())
    assert expand_symbols(collapsed) == tree


@given(trees(any_labels, tags=odd_labels), st.integers(1, 4), st.booleans())
def test_ancestors_are_undone(tree, order, tags):
    collapsed = collapse_unaries(tree)
    annotated = annotate_ancestors(collapsed, order, tags=tags)
    assert expand_symbols(annotated) == tree
    for plain, node in zip(collapsed.nodes(), annotated.nodes(), strict=True):
        assert as_symbol(node.label).base == plain.label
        ancestors = as_symbol(node.label).parts.ancestors
        bare = order == 1 or (plain.word is not None and not tags and len(as_symbol(plain.label).chain) == 1)
        assert (len(ancestors) == 0) == bare
        assert len(ancestors) <= order - 1


@given(trees(any_labels, tags=odd_labels, max_leaves=20, max_children=9), directions, st.none() | st.integers(0, 3))
def test_binarising_is_undone(tree, direction, order):
    collapsed = collapse_unaries(tree)
    binary = binarise(collapsed, direction, order, ENGLISH)
    assert all(len(node.children) in (0, 2) for node in binary.nodes())
    assert unbinarise(binary) == collapsed
    for node in binary.nodes():
        _, _, siblings, intermediate = as_symbol(node.label).parts
        if not intermediate:
            assert siblings == ()
        elif order is not None:
            assert len(siblings) <= order


@given(trees(any_labels, tags=odd_labels, max_leaves=20, max_children=9), directions, st.integers(0, 3))
def test_fewer_siblings_are_a_prefix_of_more(tree, direction, order):
    collapsed = collapse_unaries(tree)
    some, everything = (binarise(collapsed, direction, n, ENGLISH) for n in (order, None))
    for short, long in zip(some.nodes(), everything.nodes(), strict=True):
        assert as_symbol(short.label).parts.siblings == as_symbol(long.label).parts.siblings[:order]
        assert as_symbol(short.label).base == as_symbol(long.label).base


clean_trees = trees(any_labels, tags=odd_labels, max_leaves=20, max_children=8)


@given(clean_trees, transforms, st.booleans())
def test_the_whole_way_and_back(tree, transform, repeated):
    clean = Normaliser("none", empties=False, repeated_unaries=repeated, drop=(), root=transform.root)(tree)
    found = transform(clean)
    assert all(len(node.children) in (0, 2) for node in found.nodes())
    assert found.words() == clean.words()
    assert transform.invert(found) == clean


@given(trees(st.sampled_from(ODD_LABELS), max_leaves=20, max_children=8), transforms)
def test_the_whole_way_from_the_treebank(tree, transform):
    clean = Normaliser(root=transform.root)(tree)
    if clean is not None:
        assert transform.invert(transform(clean)) == clean


@given(clean_trees, transforms)
def test_base_symbols_are_those_of_the_plainest_transform(tree, transform):
    clean = Normaliser(root=transform.root)(tree)
    if clean is not None:
        plain = TreeTransform(horizontal=0, direction=transform.direction, heads=transform.heads, root=transform.root)(
            clean
        )
        for fine, base in zip(transform(clean).nodes(), plain.nodes(), strict=True):
            assert as_symbol(fine.label).base == base.label


def test_parses_that_no_tree_has():
    """A parser may put an intermediate symbol at the top or under another phrase: the words keep their tags."""
    transform = TreeTransform()
    top = Tree.parse("(@S~X (NP|N a) (@S~NP (V b) (. c)))")
    assert str(transform.invert(top)) == "(ROOT (NP (N a)) (V b) (. c))"
    below = Tree.parse("(NP^S (@VP (V b) (N c)) (. d))")
    assert str(transform.invert(below)) == "(ROOT (NP (V b) (N c) (. d)))"
    assert str(TreeTransform(root="TOP").invert(Tree.parse("(N a)"))) == "(TOP (N a))"


# The rest.


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("tree", [deep(5000, branching="right"), deep(5000, branching="left"), wide(5000)])
def test_deep_and_wide_trees(direction, tree):
    transform = TreeTransform(vertical=3, horizontal=2, direction=direction, annotate_tags=True)
    tree = Tree("ROOT", [tree])
    found = transform(tree)
    assert len(found) == len(tree)
    assert transform.invert(found) == tree


def test_a_long_unary_chain():
    chain = Tree("ROOT", [deep(2000, branching="unary")])
    found = TreeTransform()(chain)
    assert found.label == "S|" * 2000 + "N"
    assert TreeTransform().invert(found) == chain


def test_settings_as_json():
    transform = TreeTransform(3, 2, "head", True, "S left VP\n", "TOP")
    again = TreeTransform.from_dict(json.loads(json.dumps(transform.to_dict())))
    assert again == transform
    tree = Tree.parse("(TOP (S (A a) (VP b) (C c) (D d)))")
    assert again(tree) == transform(tree)
    assert "_head_rules" not in transform.to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vertical": 0}, "vertical order must be at least 1, not 0"),
        ({"horizontal": -1}, "horizontal order must be at least 0, not -1"),
        ({"direction": "up"}, "right, left or head, not 'up'"),
    ],
)
def test_wrong_settings(options, message):
    with pytest.raises(UsageError, match=message):
        TreeTransform(**options)


def test_a_malformed_head_table():
    with pytest.raises(InputError, match="<head table>:1: unknown direction 'up'"):
        TreeTransform(direction="head", heads="S up VP\n")(Tree.parse("(S (A a) (B b) (C c))"))
