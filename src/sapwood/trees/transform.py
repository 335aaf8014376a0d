r"""From clean trees to the binary skeletal trees of an L-PCFG, and back without loss.

Three steps, each undone exactly:

1. unary chains become one composite label, `S|VP` (the papers' grammars have no unary rules); the
   root label over a single child is taken off and put back;
2. vertical markovisation writes ancestors behind a label, `NP^VP^S`;
3. binarisation introduces intermediate symbols `@VP` that remember the last `h` siblings, `@VP~NP~PP`.

So a symbol reads `[@]label(|label)*(^ancestor)*(~sibling)*`. The signs `@ | ^ ~ \` are escaped with a
backslash inside original labels. Undoing needs nothing but the symbols themselves.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from sapwood.errors import InputError, UsageError
from sapwood.trees.heads import HeadRules
from sapwood.trees.tree import Tree, from_preorder

_SPECIAL = re.compile(r"([@|^~\\])")
_PIECE = re.compile(r"((?:[^@|^~\\]|\\.)*)([|^~]?)", re.DOTALL)
_CACHE = 1 << 16

Direction = Literal["right", "left", "head"]


@lru_cache(_CACHE)
def quote_label(label: str) -> str:
    """Escape the signs that have a meaning in symbols."""
    return _SPECIAL.sub(r"\\\1", label)


@lru_cache(_CACHE)
def parse_symbol(symbol: str) -> tuple[bool, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    r"""Take a symbol apart: whether intermediate, its labels from top to bottom, ancestors, siblings.

    >>> parse_symbol("S|VP^ROOT")
    (False, ('S', 'VP'), ('ROOT',), ())
    >>> parse_symbol("@VP~NP")
    (True, ('VP',), (), ('NP',))
    """
    intermediate = symbol.startswith("@")
    parts: dict[str, list[str]] = {"|": [], "^": [], "~": []}
    position, kind = int(intermediate), "|"
    while True:
        match = _PIECE.match(symbol, position)
        assert match is not None
        parts[kind].append(re.sub(r"\\(.)", r"\1", match.group(1), flags=re.DOTALL))
        if not match.group(2):
            break
        # Siblings may be composite themselves: below a "~" a "|" does not start a new label.
        kind, position = match.group(2) if kind != "~" else "~", match.end()
    return intermediate, tuple(parts["|"]), tuple(parts["^"]), tuple(parts["~"])


def symbol_labels(symbol: str) -> tuple[str, ...]:
    """Return the original labels that a symbol stands for, top first; none for an intermediate one."""
    intermediate, labels, _, _ = parse_symbol(symbol)
    return () if intermediate else labels


@lru_cache(_CACHE)
def base_symbol(symbol: str) -> str:
    """Return the symbol without ancestors and siblings: what it is at v = 1, h = 0."""
    intermediate, labels, _, _ = parse_symbol(symbol)
    return "@" * intermediate + "|".join(quote_label(label) for label in labels)


def base_tree(tree: Tree) -> Tree:
    """Return a skeletal tree with every symbol replaced by its base symbol."""
    return tree.fold(lambda node, below: Tree(base_symbol(node.label), below, word=node.word))


def collapse_unaries(tree: Tree) -> Tree:
    """Join each chain of single children into one node with a composite label (labels get escaped)."""

    def visit(node: Tree, children: list[Tree]) -> Tree:
        label = quote_label(node.label)
        if len(children) != 1:
            return Tree(label, children, word=node.word)
        below = children[0]
        return Tree(f"{label}|{below.label}", below.children, word=below.word)

    return tree.fold(visit)


def expand_symbols(tree: Tree) -> Tree:
    """Undo `collapse_unaries` and drop ancestors: each symbol becomes its chain of original labels."""

    def visit(node: Tree, children: list[Tree]) -> Tree:
        labels = symbol_labels(node.label)
        if not labels:
            raise InputError(f"not a skeletal tree: the intermediate symbol {node.label!r} stands over a word")
        result = Tree(labels[-1], children, word=node.word)
        for label in reversed(labels[:-1]):
            result = Tree(label, (result,))
        return result

    return tree.fold(visit)


@lru_cache(_CACHE)
def _bottom(symbol: str) -> str:
    return quote_label(parse_symbol(symbol)[1][-1])


def annotate_ancestors(tree: Tree, order: int, *, tags: bool = False) -> Tree:
    """Write the `order - 1` nearest ancestors behind each label (the root label counts as one).

    Plain tags (those that no phrase was collapsed onto) are annotated only if `tags`.
    """
    if order <= 1:
        return tree
    # New labels in preorder, then assembled from the back.
    order_seen: list[tuple[str, str | None, int]] = []
    stack: list[tuple[Tree, tuple[str, ...]]] = [(tree, ("ROOT",))]
    while stack:
        node, ancestors = stack.pop()
        label = node.label
        if node.word is None or tags or len(symbol_labels(label)) > 1:
            label = "^".join((label, *ancestors))
        order_seen.append((label, node.word, len(node.children)))
        below = (_bottom(node.label), *ancestors)[: order - 1]
        stack.extend((child, below) for child in reversed(node.children))
    return from_preorder(order_seen)


def binarise(tree: Tree, direction: Direction, order: int | None, heads: HeadRules | None = None) -> Tree:
    """Make every node with more than two children binary, with intermediate `@` symbols.

    `right` peels children off from the left (the intermediate symbol covers the rest to the right),
    `left` from the right, and `head` grows outward from the head child, right siblings first in the
    tree's order of generation from the bottom. `order` siblings that were peeled off last are kept on
    the symbol (None keeps all).
    """

    def visit(node: Tree, children: list[Tree]) -> Tree:
        if len(children) <= 2:
            return node if not children else Tree(node.label, children)
        label = node.label
        stem = "@" + _stem(label)
        if direction == "right":
            sides = "l" * (len(children) - 2)
        elif direction == "left":
            sides = "r" * (len(children) - 2)
        else:
            assert heads is not None
            names = [parse_symbol(child.label)[1][0] for child in children]
            head = heads.head_index(parse_symbol(label)[1][-1], names)
            sides = ("l" * head + "r" * (len(children) - 1 - head))[: len(children) - 2]
        # Walk down: `first..last` is what the current symbol still covers.
        first, last = 0, len(children) - 1
        seen: list[str] = []
        peeled: list[tuple[str, Tree, str]] = []
        symbol = label
        for side in sides:
            child = children[first if side == "l" else last]
            peeled.append((side, child, symbol))
            first, last = (first + 1, last) if side == "l" else (first, last - 1)
            seen.insert(0, base_symbol(child.label))
            symbol = "~".join((stem, *(seen if order is None else seen[:order])))
        result = Tree(symbol, (children[first], children[last]))
        for side, child, above in reversed(peeled):
            result = Tree(above, (child, result) if side == "l" else (result, child))
        return result

    return tree.fold(visit)


@lru_cache(_CACHE)
def _stem(symbol: str) -> str:
    """Return the lowest label of the chain with its ancestors: `S|VP^X` gives `VP^X`."""
    _, labels, ancestors, _ = parse_symbol(symbol)
    return "^".join(quote_label(label) for label in (labels[-1], *ancestors))


def unbinarise(tree: Tree) -> Tree:
    """Undo `binarise`: splice the children of intermediate symbols into their parents."""

    def visit(node: Tree, below: list[list[Tree]]) -> list[Tree]:
        if node.word is not None:
            return [node]
        children = [tree for part in below for tree in part]
        return children if node.label.startswith("@") else [Tree(node.label, children)]

    spliced = tree.fold(visit)
    # A parser may return an intermediate symbol at the top; its parts then share the root.
    return spliced[0] if len(spliced) == 1 else Tree("", spliced)


@dataclass(frozen=True)
class TreeTransform:
    """The way from clean trees to skeletal trees, as one invertible object.

    Parameters
    ----------
    vertical
        Order of vertical markovisation: 1 is the label alone, 2 adds its parent, and so on.
    horizontal
        Order of horizontal markovisation: how many siblings intermediate symbols remember.
    direction
        Binarisation: `right`, `left` or `head` (outward from the head child).
    annotate_tags
        Whether vertical annotation also goes on part-of-speech tags.
    heads
        Text of the head table, for `direction="head"`.
    root
        The root label, taken off and put back.

    Examples
    --------
    >>> transform = TreeTransform(horizontal=1)
    >>> tree = Tree.parse("(ROOT (S (NP (N dogs)) (ADV never) (VP (V sleep)) (. .)))")
    >>> skeleton = transform(tree)
    >>> print(skeleton)
    (S (NP|N dogs) (@S~NP|N (ADV never) (@S~ADV (VP|V sleep) (. .))))
    >>> transform.invert(skeleton) == tree
    True
    """

    vertical: int = 1
    horizontal: int = 0
    direction: Direction = "right"
    annotate_tags: bool = False
    heads: str = ""
    root: str = "ROOT"

    def __post_init__(self) -> None:
        if self.vertical < 1:
            raise UsageError(f"the vertical order must be at least 1, not {self.vertical}")
        if self.horizontal < 0:
            raise UsageError(f"the horizontal order must be at least 0, not {self.horizontal}")
        if self.direction not in ("right", "left", "head"):
            raise UsageError(f"the direction must be right, left or head, not {self.direction!r}")

    @cached_property
    def _head_rules(self) -> HeadRules:
        return HeadRules.parse(self.heads, source="<head table>") if self.heads else HeadRules.english()

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> TreeTransform:
        """Build from `to_dict`'s result."""
        return cls(**settings)

    def __call__(self, tree: Tree) -> Tree:
        """Return the skeletal tree: binary nodes over tags over words."""
        if tree.label == self.root and len(tree.children) == 1 and tree.children[0].label != self.root:
            tree = tree.children[0]
        tree = annotate_ancestors(collapse_unaries(tree), self.vertical, tags=self.annotate_tags)
        return binarise(tree, self.direction, self.horizontal, self._head_rules)

    def invert(self, tree: Tree) -> Tree:
        """Return the clean tree that a skeletal tree stands for."""
        spliced = unbinarise(tree)
        if spliced.label == "":
            return Tree(self.root, [expand_symbols(child) for child in spliced.children])
        expanded = expand_symbols(spliced)
        return expanded if expanded.label == self.root else Tree(self.root, (expanded,))
