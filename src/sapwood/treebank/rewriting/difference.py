"""Differences between two trees, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest

from sapwood.trees.formats.brackets import format_pretty
from sapwood.trees.tree import Tree

# Trees with more lines than this are not aligned: the time would be quadratic.
_MOST_LINES = 400


def side_by_side(before: Tree, after: Tree, *, width: int = 100) -> Iterator[str]:
    """Yield lines that show two trees side by side; `|` is between lines that differ, `<` or `>` after a missing one.

    Examples
    --------
    >>> old = Tree.parse("(S (NP-SBJ (NN rain)) (VP (VBD fell)))")
    >>> new = Tree.parse("(S (SBJ (NN rain)) (VP (VBD fell)))")
    >>> print("\\n".join(side_by_side(old, new, width=50)))
    (S                        (S
      (NP-SBJ (NN rain))    |   (SBJ (NN rain))
      (VP (VBD fell)))          (VP (VBD fell)))
    """
    column = max((width - 3) // 2, 20)
    left, right = (format_pretty(tree, width=column).split("\n") for tree in (before, after))
    widest = max(min(max(map(len, left)), 2 * column), column)
    blocks: list[tuple[str, int, int, int, int]] = [("replace", 0, len(left), 0, len(right))]
    if max(len(left), len(right)) <= _MOST_LINES:
        blocks = [*SequenceMatcher(None, left, right, autojunk=False).get_opcodes()]
    for kind, first, last, start, end in blocks:
        for old, new in zip_longest(left[first:last], right[start:end]):
            sign = " " if kind == "equal" else "<" if new is None else ">" if old is None else "|"
            yield f"{old or '':<{widest}} {sign} {new or ''}".rstrip()
