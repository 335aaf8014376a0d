"""Punctuation set aside, and put back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.trees.punctuation import is_punctuation, put_back, without_punctuation
from sapwood.trees.tree import Tree


@pytest.mark.parametrize(
    ("word", "tag", "wanted"),
    [
        (",", ",", True), ("-LRB-", "-LRB-", True), ("$", "$", True), ("%", "NN", False), ("-", "HYPH", False),
        ("!", "PUNCT", True), ("--", None, True), ("...", None, True), ("%", None, False), ("&", None, False),
        ("«", None, True), ("a.", None, False), ("", None, False), ("-RRB-", None, True), ("3", None, False),
        ("``", None, True),
    ],
)  # fmt: skip
def test_what_is_punctuation(word, tag, wanted):
    assert is_punctuation(word, tag) is wanted


def test_nothing_is_left_of_punctuation():
    assert without_punctuation(Tree.parse("(S (. .) (X (: --)))")) is None
    assert put_back(None, [(".", "."), ("!", None)], "ROOT") == Tree.parse("(ROOT (. .) (PUNCT !))")


def test_it_goes_as_high_as_it_can():
    tree = Tree.parse("(ROOT (X (X (A a) (B b)) (C c)))")
    tokens = [("``", None), ("a", None), ("b", None), (",", ","), ("c", None), (".", "."), ("''", "''")]
    wanted = "(ROOT (X (PUNCT ``) (X (A a) (B b)) (, ,) (C c) (. .) ('' '')))"
    assert str(put_back(tree, tokens, "ROOT")) == wanted
    assert str(put_back(Tree.parse("(ROOT (UH oh))"), [("oh", "UH"), ("!", ".")], "ROOT")) == "(ROOT (UH oh) (. !))"


@st.composite
def sentences(draw):
    """A binary tree over words, and the words with punctuation among them."""
    count = draw(st.integers(1, 8))
    parts = [Tree("N", word=f"w{number}") for number in range(count)]
    while len(parts) > 1:
        at = draw(st.integers(0, len(parts) - 2))
        parts[at : at + 2] = [Tree("X", parts[at : at + 2])]
    tokens = []
    for number in range(count):
        tokens += [(",", draw(st.sampled_from([None, ","])))] * draw(st.integers(0, 2))
        tokens.append((f"w{number}", None))
    tokens += [(".", ".")] * draw(st.integers(0, 2))
    return Tree("ROOT", parts), tokens


@given(sentences())
def test_what_is_put_back_can_be_taken_out_again(pair):
    tree, tokens = pair
    full = put_back(tree, tokens, "ROOT")
    assert full.words() == [word for word, _ in tokens]
    assert without_punctuation(full) == tree
