"""Text drawings of trees, for the terminal.

`draw_tree` draws top-down, the root above and the words on the last line; `draw_indented` draws one
node per line, for terminals narrower than the sentence. In a tree with gaps, lines cross, or words have their positions
(`0=the`). Columns are counted in display width: East
Asian wide characters take two, combining marks none.
"""

from __future__ import annotations

import unicodedata

from sapwood.errors import InputError
from sapwood.trees.drawing.crossing import place_nodes
from sapwood.trees.tree import PlacedWord, Tree

_NO_LABEL = "()"
# Signs of lines that go left, right, up and down.
_SIGNS = {
    (True, True, False, False): "─", (True, True, False, True): "┬", (True, True, True, False): "┴",
    (True, True, True, True): "┼", (False, True, False, True): "┌", (True, False, False, True): "┐",
    (False, True, True, True): "├", (True, False, True, True): "┤", (False, True, True, False): "└",
    (True, False, True, False): "┘",
}  # fmt: skip
# Maximum number of characters in a drawing.
_LARGEST = 20_000_000


def display_width(text: str) -> int:
    """Return the number of terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def printable(text: str) -> str:
    """Return the text with visible replacements for characters that would break the line."""
    if text.isprintable():
        return text
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)


class _Block:
    """The rectangle of a subtree: its width, and the column where the line from its parent ends."""

    __slots__ = ("blocks", "centre", "inset", "label", "width", "word")

    def __init__(self, node: Tree, blocks: list[_Block]) -> None:
        self.label = printable(node.label) or _NO_LABEL
        self.word = None if node.word is None else printable(node.word)
        self.blocks = blocks
        label_width = display_width(self.label)
        if self.word is not None:
            self.width = max(label_width, display_width(self.word), 1)
            self.centre = (self.width - 1) // 2
            self.inset = 0
            return
        below = -1
        centres: list[int] = []
        for block in blocks:
            centres.append(below + 1 + block.centre)
            below += 1 + block.width
        self.centre = (centres[0] + centres[-1]) // 2
        # The parent stands right above a child that is only a column away.
        self.centre = next((column for column in centres[1:-1] if abs(column - self.centre) == 1), self.centre)
        # A label wider than its children indents them.
        start = self.centre - (label_width - 1) // 2
        self.inset = max(0, -start)
        self.width = max(below, start + label_width) + self.inset
        self.centre += self.inset


def draw_tree(tree: Tree, *, unicode: bool = True) -> str:
    """Return a drawing of the tree, the root on top, the words on the last line.

    With `unicode=False` the lines are drawn with `|`, `-` and `+` instead of box-drawing characters.

    Examples
    --------
    >>> print(draw_tree(Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")))
          S
       ┌──┴───┐
       NP     VP
     ┌─┴─┐    │
     DT  NN  VBZ
     │   │    │
    the dog barks
    """
    if tree.has_gaps:
        return _draw_crossing(tree, unicode)
    block = tree.fold(_Block)
    # Labels are on even lines, the connecting lines on odd ones, words on the last.
    last = 2 * tree.depth()
    _check_size(tree, block.width * (last + 1))
    rows: list[list[tuple[int, str]]] = [[] for _ in range(last + 1)]
    bar = "│" if unicode else "|"
    stack = [(block, 0, 0)]
    while stack:
        block, left, row = stack.pop()
        centre = left + block.centre
        rows[row].append((centre - (display_width(block.label) - 1) // 2, block.label))
        if block.word is not None:
            for below in range(row + 1, last):
                rows[below].append((centre, bar))
            rows[last].append((centre - (display_width(block.word) - 1) // 2, block.word))
            continue
        left += block.inset
        centres: list[int] = []
        children: list[tuple[_Block, int, int]] = []
        for child in block.blocks:
            centres.append(left + child.centre)
            children.append((child, left, row + 2))
            left += child.width + 1
        rows[row + 1].append((centres[0], _joint(centres, centre, unicode)))
        stack.extend(reversed(children))
    return "\n".join(map(_line, rows))


def draw_to_fit(tree: Tree, width: int | None = None, *, unicode: bool = True) -> str:
    """Return the drawing with the root on top or, if that is wider than `width` columns, one node per line.

    If that is too wide as well, levels are indented less.
    """
    if width is not None and _width(tree) > width:
        return draw_indented(tree, unicode=unicode, width=width)
    return draw_tree(tree, unicode=unicode)


def _width(tree: Tree) -> int:
    """Return the number of columns of a drawing."""
    return round(place_nodes(tree, _label_width, 1)[1]) - 1 if tree.has_gaps else tree.fold(_Block).width


def _label_width(text: str) -> int:
    return display_width(printable(text) or _NO_LABEL)


def _draw_crossing(tree: Tree, unicode: bool) -> str:
    """Return a drawing of a tree with gaps: a line that goes up through that of another phrase interrupts it."""
    places, columns = place_nodes(tree, _label_width, 1)
    highest = max(place.row for place in places)
    _check_size(tree, round(columns) * (2 * highest + 1))
    # Labels are on even lines, the connecting lines on odd ones, words on the last.
    rows: list[dict[int, str]] = [{} for _ in range(2 * highest + 1)]
    lines = [2 * (highest - place.row) for place in places]
    # The gap of one column is on the right of a text.
    centres = [int(place.x - 1) for place in places]
    below: dict[int, list[int]] = {}
    for place, centre in zip(places, centres, strict=True):
        below.setdefault(place.parent, []).append(centre)
    for number, children in below.items():
        if number >= 0:
            joint = _joint(children, centres[number], unicode)
            rows[lines[number] + 1] |= dict(enumerate(joint, min(*children, centres[number])))
    bar = "│" if unicode else "|"
    for place, centre, line in zip(places, centres, lines, strict=True):
        for row in range(line if place.parent < 0 else lines[place.parent] + 2, line):
            rows[row][centre] = bar
        texts = [(line, place.node.label)]
        if place.node.word is not None:
            rows[-2][centre] = bar
            texts.append((2 * highest, place.node.word))
        for row, text in texts:
            shown = printable(text) or _NO_LABEL
            rows[row][centre - (display_width(shown) - 1) // 2] = shown
    return "\n".join(_line(sorted(row.items())) for row in rows)


def _check_size(tree: Tree, characters: int) -> None:
    if characters > _LARGEST:
        raise InputError(
            f"a tree of {len(tree)} words and {tree.depth()} levels is too large to draw; write brackets instead"
        )


def _joint(centres: list[int], centre: int, unicode: bool) -> str:
    """Return the horizontal line that joins the children at `centres` to the parent at `centre`."""
    first, last = min(*centres, centre), max(*centres, centre)
    if first == last:
        return "│" if unicode else "|"
    line = ["─" if unicode else "-"] * (last - first + 1)
    children = set(centres)
    for column in {*children, centre}:
        sides = (column > first, column < last, column == centre, column in children)
        line[column - first] = _SIGNS[sides] if unicode else "+"
    return "".join(line)


def _line(pieces: list[tuple[int, str]]) -> str:
    # Pieces come left to right because children are visited in order.
    parts: list[str] = []
    at = 0
    for column, text in pieces:
        parts.append(" " * (column - at) + text)
        at = max(at, column) + display_width(text)
    return "".join(parts).rstrip(" ")


def draw_indented(tree: Tree, *, unicode: bool = True, width: int | None = None) -> str:
    """Return a drawing of the tree with one node per line, each word next to its tag.

    A level is indented by four columns, or by two or one if lines would be longer than `width`. Beyond that, deep
    levels are drawn at the same column, behind the number of their depth.

    Examples
    --------
    >>> print(draw_indented(Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")))
    S
    ├── NP
    │   ├── DT the
    │   └── NN dog
    └── VP
        └── VBZ barks
    """
    _check_size(tree, 2 * tree.depth() * sum(1 for _ in tree.nodes()))
    if width is not None:
        # Depth and length of the text of each node.
        sizes = [(depth, display_width(text)) for depth, text in _texts(tree)]
        fitting = [step for step in (4, 2, 1) if all(step * depth + size <= width for depth, size in sizes)]
        if not fitting:
            deepest, longest = (max(column) for column in zip(*sizes, strict=True))
            return _draw_folded(tree, max(1, width - longest - len(f"{deepest}: ")))
        step = fitting[0]
    else:
        step = 4
    inner, outer, through = ("├──", "└──", "│  ") if unicode else ("|--", "`--", "|  ")
    inner, outer, through = ((mark[: max(step - 1, 1)] + " " * (step > 1)) for mark in (inner, outer, through))
    lines: list[str] = []
    # A frame: the node, the prefix of its line, the prefix of its children's lines.
    stack: list[tuple[Tree, str, str]] = [(tree, "", "")]
    while stack:
        node, begin, indent = stack.pop()
        lines.append(begin + _text(node))
        last = len(node.children) - 1
        for index in range(last, -1, -1):
            if index == last:
                stack.append((node.children[index], indent + outer, indent + " " * step))
            else:
                stack.append((node.children[index], indent + inner, indent + through))
    return "\n".join(lines)


def _text(node: Tree) -> str:
    label = printable(node.label) or _NO_LABEL
    if node.word is None:
        return label
    # In a tree with gaps, words are not in their order.
    number = f"{node.word.position}=" if isinstance(node.word, PlacedWord) else ""
    return f"{label} {number}{printable(node.word)}"


def _texts(tree: Tree) -> list[tuple[int, str]]:
    """Return depth and text of each node, parents before children."""
    found: list[tuple[int, str]] = []
    stack = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        found.append((depth, _text(node)))
        stack.extend((child, depth + 1) for child in reversed(node.children))
    return found


def _draw_folded(tree: Tree, most: int) -> str:
    """Return one node per line, indented by at most `most` columns; deeper nodes have their depth in front."""
    lines = []
    for depth, text in _texts(tree):
        lines.append(" " * depth + text if depth <= most else " " * most + f"{depth}: {text}")
    return "\n".join(lines)
