from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.errors import InputError
from sapwood.trees.drawing.terminal import display_width, draw_indented, draw_tree
from sapwood.trees.tree import Tree

DEEP = "(S (A a) " * 3000 + "(A a)" + ")" * 3000
SMALL = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"
NESTED = "(S (NP (DT the) (JJ old) (NN dog)) (VP (VBD ran) (PP (IN up) (NP (PRP it)))) (. .))"


@pytest.mark.parametrize("draw", [draw_tree, draw_indented])
def test_what_is_too_large_to_draw(draw):
    with pytest.raises(InputError, match="a tree of 3001 words and 3001 levels is too large to draw; write brackets"):
        draw(Tree.parse(DEEP))


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").split("\n")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SMALL,
            """
      S
   ┌──┴───┐
   NP     VP
 ┌─┴─┐    │
 DT  NN  VBZ
 │   │    │
the dog barks
""",
        ),
        (
            NESTED,
            """
               S
     ┌─────────┼───────┐
     NP        VP      .
 ┌───┼───┐   ┌─┴──┐    │
 DT  JJ  NN VBD   PP   │
 │   │   │   │  ┌─┴─┐  │
 │   │   │   │  IN  NP │
 │   │   │   │  │   │  │
 │   │   │   │  │  PRP │
 │   │   │   │  │   │  │
the old dog ran up  it .
""",
        ),
        # A label wider than what is below it.
        (
            "(LONGLABEL (A a) (B b))",
            """
LONGLABEL
   ┌┴┐
   A B
   │ │
   a b
""",
        ),
        (
            "(A (BBBB (C c)) (D d) (EEEEEE (F f) (G g)))",
            """
     A
 ┌───┼───┐
BBBB D EEEEEE
 │   │  ┌┴┐
 C   │  F G
 │   │  │ │
 c   d  f g
""",
        ),
        # Wide characters take two columns.
        (
            "(句 (名词 我们) (动短语 (动 看) (名 电影)))",
            """
    句
 ┌──┴──┐
名词 动短语
 │   ┌─┴─┐
 │   动  名
 │   │   │
我们 看 电影
""",
        ),
        # Combining marks take none, so this is drawn as if the first word had two letters.
        (
            "(A (B e\u0301e\u0301) (C x) (D y))",
            """
   A
┌──┼─┐
B  C D
│  │ │
e\u0301e\u0301 x y
""",
        ),
        ("(A a)", "A\n│\na"),
        ("( (A a))", "()\n│\nA\n│\na"),
    ],
)
def test_drawings(text: str, expected: str):
    assert draw_tree(Tree.parse(text)).split("\n") == lines(expected)


def test_ascii():
    expected = """
      S
   +--+---+
   NP     VP
 +-+-+    |
 DT  NN  VBZ
 |   |    |
the dog barks
"""
    assert draw_tree(Tree.parse(SMALL), unicode=False).split("\n") == lines(expected)
    assert Tree.parse(SMALL).draw(unicode=False).isascii()


def test_indented():
    expected = """
S
├── NP
│   ├── DT the
│   ├── JJ old
│   └── NN dog
├── VP
│   ├── VBD ran
│   └── PP
│       ├── IN up
│       └── NP
│           └── PRP it
└── . .
"""
    assert draw_indented(Tree.parse(NESTED)).split("\n") == lines(expected)


def test_indented_ascii():
    expected = """
S
|-- NP
|   |-- DT the
|   `-- NN dog
`-- VP
    `-- VBZ barks
"""
    assert draw_indented(Tree.parse(SMALL), unicode=False).split("\n") == lines(expected)


@pytest.mark.parametrize("draw", [draw_tree, draw_indented])
def test_control_characters_do_not_break_lines(draw):  # type: ignore[no-untyped-def]
    plain = draw(Tree("S", [Tree("A", word="x?y"), Tree("B", word="z")]))
    odd = draw(Tree("S", [Tree("A", word="x\ny"), Tree("B", word="z")]))
    assert odd.replace("\ufffd", "?") == plain


def test_display_width():
    assert display_width("abc") == 3
    assert display_width("e\u0301") == 1
    assert display_width("日本") == 4
    assert display_width("a\u200db") == 2


@pytest.mark.parametrize("unicode", [True, False])
def test_deep_trees(unicode: bool):
    tree = Tree("A", word="a")
    for _ in range(3000):
        tree = Tree("X", [tree])
    assert draw_tree(tree, unicode=unicode).count("X") == 3000
    assert draw_indented(tree, unicode=unicode).count("X") == 3000


labels = st.text("ABCWX電é", min_size=1, max_size=9)
words = st.text("abc電e\u0301", min_size=1, max_size=9).filter(lambda word: word[0] != "\u0301")
trees = st.recursive(
    st.builds(lambda label, word: Tree(label, word=word), labels, words),
    lambda below: st.builds(Tree, labels, st.lists(below, min_size=1, max_size=4)),
    max_leaves=60,
)


@given(trees)
def test_every_line_joins_what_it_should(tree: Tree):
    drawn = draw_tree(tree).split("\n")
    assert drawn[-1].split() == tree.words()
    by_depth: dict[int, list[Tree]] = {}
    level = [tree]
    while level:
        by_depth[len(by_depth)] = level
        level = [child for node in level for child in node.children]
    # Each depth has its labels on its own line, in order and apart from each other, besides the bars of
    # words that hang from above.
    for depth, nodes in by_depth.items():
        assert drawn[2 * depth].replace("│", " ").split() == [node.label for node in nodes]
    # Every line that goes down from one row is met by something in the next row, at the same column.
    grids = [_cells(line) for line in drawn]
    for above, below in pairwise(grids):
        for column, char in above.items():
            if char in "│┌┐┬┼├┤":
                assert column in below
        for column, char in below.items():
            if char in "│┴┼├┤":
                assert column in above


def _cells(line: str) -> dict[int, str]:
    """Return what stands in each display column of a line."""
    cells = {}
    column = 0
    for char in line:
        width = display_width(char)
        if char != " ":
            cells.update(dict.fromkeys(range(column, column + width), char))
        column += width
    return cells
