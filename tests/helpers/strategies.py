"""Hypothesis strategies for trees with labels and words as odd as treebanks have them, and odder."""

from __future__ import annotations

from hypothesis import strategies as st

from sapwood.trees.tree import Tree

PLAIN_LABELS = ["S", "NP", "VP", "PP", "ADJP", "X", "N", "V", "DT"]
ODD_LABELS = [
    "@", "|", "^", "~", "\\", "@VP", "NP|N", "NP^S", "@S~NP~VP", "\\@", "a\\", "\\\\|", "S|", "|S", "~~", "^^NP",
    "NP-SBJ", "NP-SBJ=2", "N-A", "-", "--", "-X", "=", "-NONE-", "-LRB-", "-RRB-", "$(", "$,", "``", "''", ".", "#",
    "ROOT", "TOP", "S1", "VROOT", "ID", "CODE", "CODE-1", "ø", "名詞", "\u00a0", "e\u0301", "/*", "*x*",
]  # fmt: skip
ODD_WORDS = [
    "0", "*", "*T*-1", "*pro*", "(", ")", "(a)", "f(x", ":-)", "/*", "*/", "#", "*x*", "@", "\\", "\\/", "'s", "``",
    "10\u00a0000", "\u2028", "\x85", "\ufeff", "日本", "Ísland", "é", "-", "--", "-LCB-",
]  # fmt: skip

_any_text = st.text(
    st.characters(exclude_categories=["Cs"]).filter(lambda char: char not in " \t\n\r\f\v()"), min_size=1, max_size=6
)
odd_labels = (
    st.sampled_from(PLAIN_LABELS)
    | st.sampled_from(ODD_LABELS)
    | st.text("@|^~\\-=$A(", min_size=1, max_size=6)
    | _any_text
)
odd_words = st.sampled_from(["a", "dog", "runs"]) | st.sampled_from(ODD_WORDS) | _any_text


# Any text at all, and pieces that formats read as marks and codes.
_PIECES = [
    "-",
    "-LRB-",
    "RRB",
    "U+",
    "-U+0020-",
    "002D",
    " ",
    "\n",
    "\f",
    "(",
    ")",
    "/",
    "#500",
    "#BOS",
    "%%",
    "\0",
    "a",
]
any_text = st.text(st.characters(), max_size=6) | st.lists(st.sampled_from(_PIECES), max_size=5).map("".join)


def trees(
    labels: st.SearchStrategy[str] = odd_labels,
    words: st.SearchStrategy[str] = odd_words,
    *,
    tags: st.SearchStrategy[str] | None = None,
    max_leaves: int = 12,
    max_children: int = 6,
) -> st.SearchStrategy[Tree]:
    """Return a strategy for trees; `labels` are for phrases and, unless `tags` says otherwise, for tags."""
    leaves = st.builds(lambda tag, word: Tree(tag, word=word), labels if tags is None else tags, words)
    return st.recursive(
        leaves,
        lambda below: st.builds(Tree, labels, st.lists(below, min_size=1, max_size=max_children)),
        max_leaves=max_leaves,
    )


any_trees = trees(odd_labels | any_text, odd_words | any_text)


def wide(count: int) -> Tree:
    """Return a flat tree of `count` words."""
    return Tree("S", [Tree("N", word="x")] * count)


def deep(levels: int, *, branching: str) -> Tree:
    """Return a tree of `levels` phrases one below the other, `branching` right, left or unary."""
    tree = leaf = Tree("N", word="x")
    for _ in range(levels):
        tree = Tree("S", {"right": (leaf, tree), "left": (tree, leaf), "unary": (tree,)}[branching])
    return tree
