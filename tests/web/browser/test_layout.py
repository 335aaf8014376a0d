"""Pictures and the explorer have one layout, written twice: here they are compared."""

from __future__ import annotations

import random

import pytest

from helpers.browser import WHY_NOT
from helpers.gap_trees import random_gap_tree
from sapwood.trees.drawing.layout import lay_out
from sapwood.trees.tree import Tree

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is a browser")

GAP = 1.5
SCRIPT = """
const [texts, gap, done] = arguments;
Promise.all([import("/static/js/layout.js"), import("/static/js/brackets.js")]).then(([{ layOut }, { readTree }]) => {
  const width = (text) => 0.5 + 0.6 * text.length;
  done(texts.map((text) => {
    const plan = layOut(readTree(text), {
      labelWidth: (node) => width(node.label), textWidth: width, textOf: (node) => node.word, gap });
    const places = plan.places.map((place) => [place.node.label, place.x, place.row]);
    return { width: plan.width, rows: plan.rows, places };
  }));
}).catch((error) => done(String(error)));
"""


def width(text: str) -> float:
    return 0.5 + 0.6 * len(text)


def random_tree(rng: random.Random, depth: int, words: list[str]) -> Tree:
    label = rng.choice(["S", "NP", "A-VERY-LONG-LABEL", "X"])
    if depth == 0 or rng.random() < 0.3:
        return Tree(label, word=rng.choice(words))
    return Tree(label, [random_tree(rng, depth - 1, words) for _ in range(rng.randint(1, 4))])


def test_they_agree(page):
    rng = random.Random(7)
    english, hebrew = ["a", "dog", "antidisestablishmentarianism"], ["שלום", "עולם", "a"]
    trees = [random_tree(rng, rng.randint(0, 5), hebrew if number % 4 == 0 else english) for number in range(120)]
    trees.append(Tree.parse("(A-VERY-LONG-LABEL (X a))"))
    gaps = [random_gap_tree(rng, rng.randint(3, 20), ("S", "NP", "A-VERY-LONG-LABEL")) for _ in range(60)]
    assert sum(tree.has_gaps for tree in gaps) > 20
    trees += gaps
    page.open("parse")
    found = page.driver.execute_async_script(SCRIPT, [str(tree) for tree in trees], GAP)
    assert isinstance(found, list), found
    mirrored = 0
    for tree, plan in zip(trees, found, strict=True):
        layout = lay_out(tree, measure=width, font_size=1.0, row_height=10.0, gap=GAP, margin=GAP / 2)
        assert plan["width"] == pytest.approx(layout.width)
        boxes = [box for box in layout.boxes if not box.is_word]
        top = boxes[0].y
        expected = [[box.text, box.x, round((box.y - top) / 10)] for box in boxes]
        for place, wanted in zip(plan["places"], expected, strict=True):
            assert place[0] == wanted[0]
            assert place[1] == pytest.approx(wanted[1])
            assert place[2] == wanted[2]
        words = [box for box in layout.boxes if box.is_word]
        assert {round((box.y - top) / 10) for box in words} == {plan["rows"] - 1}
        mirrored += [box.x for box in words] == sorted((box.x for box in words), reverse=True) and len(words) > 1
    assert mirrored > 5
