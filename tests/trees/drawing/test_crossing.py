"""Pictures of trees with gaps: labels keep apart, and lines meet only where they belong together."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given

from helpers.gap_trees import gap_trees
from sapwood.errors import InputError
from sapwood.trees.drawing.crossing import place_nodes
from sapwood.trees.drawing.latex import format_latex
from sapwood.trees.drawing.layout import lay_out
from sapwood.trees.drawing.svg import format_svg
from sapwood.trees.drawing.terminal import draw_indented, draw_to_fit, draw_tree
from sapwood.trees.tree import Tree

TREE = Tree.parse("(S (A 0=a) (X (B 1=b) (D 3=d)) (Y (C 2=c) (E 4=e)))", format="discbracket")


def test_a_drawing_with_crossing_lines() -> None:
    assert draw_tree(TREE).splitlines() == [
        "  S",
        "┌─┼─┐",
        "│ X │",
        "│ ├─│─┐",
        "│ │ Y │",
        "│ │ ├─│─┐",
        "A B C D E",
        "│ │ │ │ │",
        "a b c d e",
    ]
    assert draw_tree(TREE, unicode=False).splitlines()[3:6] == ["| +-|-+", "| | Y |", "| | +-|-+"]
    assert draw_to_fit(TREE, 8) == draw_indented(TREE, width=8)
    assert draw_indented(TREE).splitlines()[2:5] == ["├── X", "│   ├── B 1=b", "│   └── D 3=d"]


@given(gap_trees())
def test_labels_and_lines_keep_apart(tree: Tree) -> None:
    places, width = place_nodes(tree, len, 1)
    spans = []
    for place in places:
        half = (len(place.node.label) + 1) / 2
        assert place.x - half >= 0
        assert place.x + half <= width + 1e-9
        spans.append((place.row, place.x - half, place.x + half))
        if place.parent >= 0:
            assert places[place.parent].row > place.row
    for (row, first, last), (other, begin, end) in combinations(spans, 2):
        assert row != other or last <= begin + 1e-9 or end <= first + 1e-9
    # The line from a node up to its parent passes no label.
    for number, place in enumerate(places):
        for other, (row, first, last) in enumerate(spans):
            if place.parent >= 0 and other not in (number, place.parent) and place.row < row < places[place.parent].row:
                assert not first + 0.5 <= place.x <= last - 0.5


@given(gap_trees())
def test_drawings_have_all_words_in_their_order(tree: Tree) -> None:
    lines = draw_tree(tree).splitlines()
    assert lines[-1].split() == tree.words()
    texts = [box.text for box in sorted(lay_out(tree).boxes, key=lambda box: box.x) if box.is_word]
    assert texts == tree.words()


def test_svg_and_latex() -> None:
    svg = format_svg(TREE)
    # Lines that cross others interrupt them.
    assert svg.count('stroke="#ffffff"') == 8
    assert "<title>(S (A 0=a) (X (B 1=b) (D 3=d)) (Y (C 2=c) (E 4=e)))</title>" in svg
    assert lay_out(TREE).crosses
    assert not lay_out(Tree.parse("(S (A a))")).crosses
    latex = format_latex(TREE)
    assert latex.startswith("\\begin{tikzpicture}")
    assert latex.count("\\node at") == 13
    assert latex.count("\\draw") == 12
    with pytest.raises(InputError, match="qtree cannot draw the gaps"):
        format_latex(TREE, "qtree")
