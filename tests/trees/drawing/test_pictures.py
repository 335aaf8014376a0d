"""Pictures of trees: where things stand, SVG, LaTeX."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.strategies import any_trees, deep, wide
from sapwood.errors import InputError
from sapwood.inference.result import Marginal, ParseResult
from sapwood.trees.drawing.latex import format_latex
from sapwood.trees.drawing.layout import _RIGHT_TO_LEFT, lay_out, text_width
from sapwood.trees.drawing.svg import format_svg
from sapwood.trees.drawing.terminal import draw_indented, draw_to_fit, draw_tree
from sapwood.trees.tree import Tree

TREE = Tree.parse("(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)))")


@examples(400)
@given(any_trees, st.sampled_from([8.0, 16.0]))
def test_nothing_meets(tree, size):
    layout = lay_out(tree, font_size=size)
    # Where most words are written from right to left, so is the tree.
    mirrored = 2 * sum(bool(_RIGHT_TO_LEFT.search(word)) for word in tree.words()) > len(tree)
    rows: dict[float, list] = {}
    for number, box in enumerate(layout.boxes):
        rows.setdefault(box.y, []).append(box)
        assert box.width / 2 <= box.x <= layout.width - box.width / 2
        assert 0 < box.y < layout.height
        assert box.width == text_width(box.text) * size
        if box.parent >= 0:
            above = layout.boxes[box.parent]
            assert box.parent < number
            assert above.y < box.joint < box.y
            assert above.start <= box.start < box.end <= above.end
    for row in rows.values():
        row.sort(key=lambda box: box.x)
        for left, right in pairwise(row):
            assert left.x + left.width / 2 < right.x - right.width / 2
            first, second = (right, left) if mirrored else (left, right)
            assert first.end <= second.start
    # A line down to a node passes no label on its way.
    for box in layout.boxes:
        for other in layout.boxes:
            if box.parent >= 0 and box.joint < other.y < box.y:
                assert abs(box.x - other.x) > other.width / 2


@examples(100)
@given(any_trees)
def test_boxes_are_the_nodes_and_words(tree):
    nodes = list(tree.nodes())
    boxes = lay_out(tree).boxes
    assert [box.node for box in boxes if not box.is_word] == list(range(len(nodes)))
    assert [(box.start, box.end) for box in boxes if box.is_word] == [(at, at + 1) for at in range(len(tree))]
    phrases = [(box.start, box.end) for box in boxes if not box.is_word and nodes[box.node].word is None]
    assert phrases == [(start, end) for start, end, _ in tree.spans()]
    assert max(box.y for box in boxes if not box.is_word) < min(box.y for box in boxes if box.is_word)


def test_a_node_is_in_the_middle_of_its_children():
    boxes = {box.text: box for box in lay_out(TREE).boxes}
    assert boxes["NP-SBJ"].x == pytest.approx((boxes["DT"].x + boxes["NN"].x) / 2)
    assert boxes["S"].x == pytest.approx((boxes["NP-SBJ"].x + boxes["VP"].x) / 2)
    assert boxes["VP"].x == pytest.approx(boxes["VBZ"].x)
    assert boxes["VBZ"].x == boxes["barks"].x
    assert boxes["VP"].y == boxes["NP-SBJ"].y < boxes["VBZ"].y


def test_as_json():
    value = lay_out(TREE).to_dict()
    assert value["boxes"][0]["text"] == "S"
    assert set(value) == {"boxes", "width", "height", "font_size", "row_height", "crosses"}


@examples(300)
@given(any_trees)
def test_svg_is_xml_with_all_texts(tree):
    svg = format_svg(tree)
    root = ElementTree.fromstring(svg)
    texts = [found.text or "" for found in root.iter("{http://www.w3.org/2000/svg}text")]
    assert len(texts) == sum(1 for _ in tree.nodes()) + len(tree)
    plain = [node.label for node in tree.nodes() if node.label.isalnum()]
    assert set(plain) <= set(texts)


def test_several_trees_stand_below_each_other():
    one, two = (ElementTree.fromstring(format_svg(trees)) for trees in (TREE, [TREE, TREE.children[0]]))
    assert float(two.attrib["height"]) > float(one.attrib["height"])
    assert len(list(two)) == len(list(one)) + 1
    assert ElementTree.fromstring(format_svg([])).attrib["width"] == "0"


def test_what_is_unsure_is_shaded():
    sure = [Marginal(0, 2, "NP-SBJ", 0.4), Marginal(2, 3, "VP", 1.0), Marginal(0, 1, "DT", 0.9)]
    svg = format_svg(TREE, confidences=sure)
    assert re.findall('fill-opacity="([^"]*)"', svg) == ["0.45", "0.07"]
    assert "<title>VP: 1.000</title>" in svg
    result = ParseResult(TREE.words(), TREE, -1.0, "parsed", marginals=sure)
    assert result._repr_svg_() == svg
    assert ParseResult([], None, None, "empty")._repr_svg_() is None
    assert TREE._repr_svg_() == format_svg(TREE)


def test_what_is_too_large_is_refused():
    tree = deep(20_000, branching="left")
    with pytest.raises(InputError, match="20001 words and 20001 levels is too large for a picture"):
        format_svg(tree)
    assert tree._repr_svg_() is None
    assert ParseResult(tree.words(), tree, None, "parsed")._repr_svg_() is None
    assert format_latex(tree).count("[") == 60_002


def test_latex():
    tree = Tree("NP_1", [Tree("PRP$", word="50%"), Tree("", word="{\\"), Tree("X", word="a--b^~")])
    odd = r"[{} [{\{\textbackslash{}}]] [{X} [{a{-}{-}b\textasciicircum{}\textasciitilde{}}]]]"
    body = r"[{NP\_1} [{PRP\$} [{50\%}]] " + odd
    assert format_latex(tree) == "\\begin{forest}\n" + body + "\n\\end{forest}"


def test_qtree_has_the_shape_that_nltk_writes():
    nltk = pytest.importorskip("nltk")
    theirs = nltk.Tree.fromstring(str(TREE)).pformat_latex_qtree().split()
    assert format_latex(TREE, "qtree").replace("{", "").replace("}", "").split() == theirs


@examples(200)
@given(any_trees)
def test_braces_are_balanced(tree):
    for package in ("forest", "qtree"):
        text = re.sub(r"\\[{}]", "", format_latex(tree, package))
        depth = 0
        for sign in text:
            depth += (sign == "{") - (sign == "}")
            assert depth >= 0
        assert depth == 0


def test_drawings_fit():
    assert draw_to_fit(TREE) == draw_to_fit(TREE, 13) == draw_tree(TREE) == TREE.draw()
    assert max(map(len, draw_tree(TREE).split("\n"))) == 13
    assert draw_to_fit(TREE, 12) == draw_indented(TREE, width=12) == TREE.draw(width=12)
    assert draw_to_fit(wide(300), 80).count("\n") == 300
