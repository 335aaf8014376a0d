"""Lossless transformation of normalised trees to the binary skeletal trees of an L-PCFG, and back.

It has four exactly invertible steps:

0. phrases with gaps, if the treebank has any, are split into parts (`sapwood.trees.formats.gaps.split_gaps`);
1. unary chains become one composite symbol, `S|VP` (the papers' grammars have no unary rules); the
   root label over a single child is taken off and put back;
2. vertical markovisation adds their ancestors to symbols, `NP^VP^S`;
3. binarisation introduces intermediate symbols `@VP` that remember the last `h` siblings, `@VP~NP~PP`.

The labels of a skeletal tree are symbols (`sapwood.trees.symbols`) that carry their parts: the inverse needs
nothing else. In a skeletal tree that was written to a file and read again, the names of symbols are parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from sapwood.errors import InputError, UsageError
from sapwood.trees.formats.gaps import join_gaps, split_gaps
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.symbols import as_symbol, make_symbol
from sapwood.trees.tree import Tree, from_preorder, plain_tree

_Chain: TypeAlias = tuple[list[str], list[Tree], str | None]
Direction = Literal["right", "left", "head"]


def base_tree(tree: Tree) -> Tree:
    """Return a skeletal tree with every symbol replaced by its base symbol."""
    return tree.fold(lambda node, below: Tree(as_symbol(node.label).base, below, word=node.word))


def collapse_unaries(tree: Tree) -> Tree:
    """Join each chain of single children into one node: the labels of a tree become symbols."""

    # A chain is its labels from the bottom up and the nodes below; it becomes a node when it is complete.
    def visit(node: Tree, below: list[_Chain]) -> _Chain:
        if len(below) == 1:
            below[0][0].append(node.label)
            return below[0]
        return [node.label], [joined(chain) for chain in below], node.word

    def joined(chain: _Chain) -> Tree:
        labels, children, word = chain
        return Tree(make_symbol(tuple(labels[::-1])), children, word=word)

    return joined(tree.fold(visit))


def expand_symbols(tree: Tree) -> Tree:
    """Undo `collapse_unaries` and drop ancestors: each symbol becomes its chain of original labels."""

    def visit(node: Tree, children: list[Tree]) -> Tree:
        labels = as_symbol(node.label).chain
        if not labels:
            raise InputError(f"not a skeletal tree: the intermediate symbol {node.label!r} stands over a word")
        result = Tree(labels[-1], children, word=node.word)
        for label in reversed(labels[:-1]):
            result = Tree(label, (result,))
        return result

    return tree.fold(visit)


def annotate_ancestors(tree: Tree, order: int, *, tags: bool = False) -> Tree:
    """Give each symbol its `order - 1` nearest ancestors (the root label counts as one).

    Plain tags (without a collapsed phrase) are annotated only with `tags`.
    """
    if order <= 1:
        return tree
    # Compute new symbols in preorder, then assemble the tree from the end.
    order_seen: list[tuple[str, str | None, int]] = []
    stack: list[tuple[Tree, tuple[str, ...]]] = [(tree, ("ROOT",))]
    while stack:
        node, ancestors = stack.pop()
        symbol = as_symbol(node.label)
        labels = symbol.parts.labels
        if node.word is None or tags or len(labels) > 1:
            symbol = make_symbol(labels, ancestors)
        order_seen.append((symbol, node.word, len(node.children)))
        if node.children:
            below = (labels[-1], *ancestors)[: order - 1]
            stack.extend((child, below) for child in reversed(node.children))
    return from_preorder(order_seen)


def binarise(tree: Tree, direction: Direction, order: int | None, heads: HeadRules | None = None) -> Tree:
    """Binarise every node with more than two children, with intermediate symbols.

    `right` peels children off from the left (the intermediate symbol covers the rest to the right),
    `left` from the right, and `head` grows outward from the head child, from the bottom up first over
    its right siblings. The symbol keeps the last `order` siblings that were peeled off (None keeps all).
    """

    def visit(node: Tree, children: list[Tree]) -> Tree:
        if len(children) <= 2:
            return node if not children else Tree(node.label, children)
        parts = as_symbol(node.label).parts
        stem = parts.labels[-1:]
        # Without siblings and heads, there is one intermediate symbol whatever the children are.
        plain = order == 0 and direction != "head"
        below = [] if plain else [as_symbol(child.label).parts.labels for child in children]
        if direction == "right":
            sides = "l" * (len(children) - 2)
        elif direction == "left":
            sides = "r" * (len(children) - 2)
        else:
            assert heads is not None
            head = heads.head_index(stem[0], [labels[0] for labels in below])
            sides = ("l" * head + "r" * (len(children) - 1 - head))[: len(children) - 2]
        # Walk down: the current symbol covers `first..last`.
        first, last = 0, len(children) - 1
        seen: tuple[tuple[str, ...], ...] = ()
        peeled: list[tuple[str, Tree, str]] = []
        symbol, inner = node.label, make_symbol(stem, parts.ancestors, (), True)
        for side in sides:
            at = first if side == "l" else last
            peeled.append((side, children[at], symbol))
            first, last = (first + 1, last) if side == "l" else (first, last - 1)
            seen = () if plain else (below[at], *seen)[:order]
            symbol = make_symbol(stem, parts.ancestors, seen, True) if seen else inner
        result = Tree(symbol, (children[first], children[last]))
        for side, child, above in reversed(peeled):
            result = Tree(above, (child, result) if side == "l" else (result, child))
        return result

    return tree.fold(visit)


def unbinarise(tree: Tree) -> Tree:
    """Undo `binarise`: splice the children of intermediate symbols into their parents."""
    spliced = _splice(tree)
    return spliced[0] if len(spliced) == 1 else Tree(make_symbol(("",)), spliced)


def _splice(tree: Tree) -> list[Tree]:
    """Return the trees without intermediate symbols: several if the root is one, which a parser may return."""

    # The children of an intermediate symbol stay in a list within lists until there is a node for them.
    def visit(node: Tree, below: list[Any]) -> Any:
        if node.word is not None:
            return node
        return below if as_symbol(node.label).parts.intermediate else Tree(node.label, _flattened(below))

    return _flattened([tree.fold(visit)])


def _flattened(parts: list[Any]) -> list[Tree]:
    """Return the trees of lists within lists."""
    found, stack = [], parts[::-1]
    while stack:
        part = stack.pop()
        if isinstance(part, Tree):
            found.append(part)
        else:
            stack += part[::-1]
    return found


@dataclass(frozen=True)
class TreeTransform:
    """Invertible transformation of normalised trees to skeletal trees.

    Parameters
    ----------
    vertical
        Order of vertical markovisation: 1 = label, 2 = label and parent, and so on.
    horizontal
        Order of horizontal markovisation: number of siblings that intermediate symbols remember.
    direction
        Binarisation: `right`, `left` or `head` (outward from the head child).
    annotate_tags
        Also annotate part-of-speech tags with ancestors.
    heads
        Text of the head table, for `direction="head"`.
    root
        The root label, taken off and put back.
    gaps
        Split phrases with gaps, and join the parts again. `Corpus.from_trees` sets it if any tree has gaps.

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
    gaps: bool = False

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
        settings = asdict(self)
        # Missing in files of grammars without gaps, and from before there were any.
        if not self.gaps:
            del settings["gaps"]
        return settings

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> TreeTransform:
        """Build from `to_dict`'s result."""
        return cls(**settings)

    def __call__(self, tree: Tree) -> Tree:
        """Return the skeletal tree: binary nodes over tags over words."""
        if self.gaps:
            tree = split_gaps(tree)
        elif tree.is_placed:
            raise InputError(
                f"the tree of {' '.join(tree.words()[:6])!r} ... has gaps, and the grammar has none: close them first"
            )
        if tree.label == self.root and len(tree.children) == 1 and tree.children[0].label != self.root:
            tree = tree.children[0]
        tree = annotate_ancestors(collapse_unaries(tree), self.vertical, tags=self.annotate_tags)
        return binarise(tree, self.direction, self.horizontal, self._head_rules)

    def invert(self, tree: Tree) -> Tree:
        """Return the normalised tree of a skeletal tree."""
        return self.joined(self.invert_parts(tree))

    def invert_parts(self, tree: Tree) -> Tree:
        """Return the normalised tree of a skeletal tree, with phrases with gaps still in parts."""
        return self._top([expand_symbols(part) for part in _splice(tree)])

    def joined(self, tree: Tree) -> Tree:
        """Return the tree with parts of phrases joined, if the treebank has phrases with gaps."""
        return join_gaps(tree) if self.gaps else tree

    def _top(self, parts: list[Tree]) -> Tree:
        """Return the tree with these phrases below its root."""
        return parts[0] if len(parts) == 1 and parts[0].label == self.root else Tree(self.root, parts)

    def invert_symbols(
        self, symbols: Sequence[int], chains: Sequence[tuple[str, ...]], first_leaf: int, words: Sequence[str]
    ) -> Tree:
        """Return the normalised tree of a skeletal tree given by its nodes' symbols in preorder.

        `chains` has the labels that each symbol represents (`SymbolTable.chain`); those from `first_leaf` on are tags.
        This is `invert` without building the skeletal tree.
        """
        waiting: list[list[Tree]] = []
        remaining = reversed(words)
        for symbol in reversed(symbols):
            chain = chains[symbol]
            if symbol >= first_leaf:
                if not chain:
                    raise InputError("not a skeletal tree: an intermediate symbol stands over a word")
                part = plain_tree(chain[-1], (), next(remaining))
            else:
                parts = waiting.pop()
                parts += waiting.pop()
                if not chain:
                    waiting.append(parts)
                    continue
                part = plain_tree(chain[-1], tuple(parts), None)
            if len(chain) > 1:
                for label in chain[-2::-1]:
                    part = plain_tree(label, (part,), None)
            waiting.append([part])
        (parts,) = waiting
        return self.joined(self._top(parts))
