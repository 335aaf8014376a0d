"""Drawings fit the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.trees.drawing.terminal import display_width, draw_indented, draw_to_fit, draw_tree
from sapwood.trees.tree import Tree


def chain(depth: int, word: str = "word") -> Tree:
    tree = Tree("N", word=word)
    for _ in range(depth):
        tree = Tree("NP", [tree, Tree("X", word="x")])
    return tree


def widest(text: str) -> int:
    return max(map(display_width, text.splitlines()))


@given(st.integers(1, 120), st.integers(20, 120))
def test_no_line_is_wider_than_the_terminal(depth, width):
    drawing = draw_to_fit(chain(depth), width)
    assert widest(drawing) <= width
    # Every node is there: one label a level, and all words.
    assert drawing.count("NP") == depth
    assert drawing.count("x") == depth


def test_the_widest_form_that_fits_is_chosen():
    tree = chain(8)
    assert draw_to_fit(tree, widest(draw_tree(tree))) == draw_tree(tree)
    indented = draw_indented(tree)
    assert draw_indented(tree, width=widest(indented)) == indented
    narrow = draw_indented(tree, width=widest(indented) - 1)
    assert narrow.splitlines()[:3] == ["NP", "├ NP", "│ ├ NP"]
    narrower = draw_indented(tree, width=widest(narrow) - 1)
    assert narrower.splitlines()[:3] == ["NP", "├NP", "│├NP"]
    folded = draw_indented(tree, width=widest(narrower) - 1)
    assert folded.splitlines()[:2] == ["NP", " NP"]
    assert folded.splitlines()[-1] == " X x"


@pytest.mark.parametrize("unicode", [True, False])
def test_narrow_drawings_of_a_sentence(unicode):
    tree = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")
    expected = ["S", "├ NP", "│ ├ DT the", "│ └ NN dog", "└ VP", "  └ VBZ barks"]
    if not unicode:
        expected = [line.replace("├", "|").replace("│", "|").replace("└", "`") for line in expected]
    assert draw_indented(tree, unicode=unicode, width=13).splitlines() == expected
