"""Punctuation: removed for learning and parsing, and put back into trees.

Work on unsupervised parsing removes punctuation by its tags (Klein and Manning 2002): commas reveal much about where
phrases end, and would make it a different task. A word with a tag is punctuation if the tag has no letter (`,` `.` `:`
`$` `#` and quotation marks) or names a bracket. A word without a tag is punctuation if all its characters are by
Unicode, except `%` and `&`, which are pronounced.

In a tree, punctuation between two words is attached to the lowest node above both, and punctuation before the first
word or after the last one to the top. So the spans of words do not change.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from sapwood.trees.formats.gaps import arrange
from sapwood.trees.tree import Tree

Punctuation = Literal["drop", "keep"]
PUNCTUATION: tuple[Punctuation, ...] = ("drop", "keep")
# Tags of punctuation that have letters: brackets as the Penn Treebank writes them, Universal Dependencies.
_NAMED = frozenset({"-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-", "PUNCT", "NFP"})
_READ_OUT = frozenset("%&")
# Quotation marks of treebanks that Unicode does not class as punctuation.
_ALSO = frozenset("`´")
# The tag of punctuation without one.
TAG = "PUNCT"
Token = tuple[str, str | None]


@lru_cache(1 << 16)
def is_punctuation(word: str, tag: str | None = None) -> bool:
    """Return whether a word is punctuation, by its tag if it has one.

    >>> is_punctuation("%"), is_punctuation("--"), is_punctuation("--", ":"), is_punctuation("-", "HYPH")
    (False, True, True, False)
    """
    if tag is not None:
        return tag in _NAMED or not any(sign.isalnum() for sign in tag)
    return word in _NAMED or (bool(word) and all(map(_is_sign, word)))


def _is_sign(sign: str) -> bool:
    return sign in _ALSO or (sign not in _READ_OUT and unicodedata.category(sign).startswith("P"))


def without_punctuation(tree: Tree) -> Tree | None:
    """Return the tree without punctuation and the phrases that it leaves empty; None if nothing is left.

    >>> print(without_punctuation(Tree.parse("(S (PRN (-LRB- -LRB-) (-RRB- -RRB-)) (UH oh) (. .))")))
    (S (UH oh))
    """

    def visit(node: Tree, children: list[Tree | None]) -> Tree | None:
        if node.word is not None:
            return None if is_punctuation(node.word, node.label) else node
        kept = [child for child in children if child is not None]
        return Tree(node.label, kept) if kept else None

    clean = tree.fold(visit)
    return None if clean is None else arrange(clean)


def put_back(tree: Tree | None, tokens: Sequence[Token], root: str) -> Tree:
    """Return a tree over all tokens, given the tree over those that are not punctuation (None if all are).

    >>> tree = Tree.parse("(ROOT (X (UH oh) (X (PRP it) (VBZ is))))")
    >>> print(put_back(tree, [("oh", None), (",", None), ("it", None), ("is", None), (".", ".")], "ROOT"))
    (ROOT (X (UH oh) (PUNCT ,) (X (PRP it) (VBZ is)) (. .)))
    """
    # Punctuation before each word, and after the last.
    groups: list[list[Tree]] = [[]]
    for word, tag in tokens:
        if is_punctuation(word, tag):
            groups[-1].append(Tree(tag or TAG, word=word))
        else:
            groups.append([])
    if tree is None:
        return Tree(root, groups[0])
    first, *between, last = groups
    position = 0

    def visit(node: Tree, parts: list[tuple[int, Tree]]) -> tuple[int, Tree]:
        """Return the node and its first word."""
        nonlocal position
        if node.word is not None:
            position += 1
            return position - 1, node
        children = [parts[0][1]]
        for start, child in parts[1:]:
            children += [*between[start - 1], child]
        return parts[0][0], Tree(node.label, children)

    return _at_the_ends(tree.fold(visit)[1], first, last)


def _at_the_ends(tree: Tree, first: list[Tree], last: list[Tree]) -> Tree:
    """Return the tree with children added at both ends of the phrase below its root."""
    if not first and not last:
        return tree
    if len(tree.children) == 1 and tree.children[0].word is None:
        inner = tree.children[0]
        return Tree(tree.label, [Tree(inner.label, [*first, *inner.children, *last])])
    return Tree(tree.label, [*first, *tree.children, *last])
