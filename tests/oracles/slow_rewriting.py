"""Rewriting by its definition: nested lists of nodes, and a search from the beginning after each change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from oracles.slow_search import SlowMatcher, Spot, spots_of
from sapwood.treebank.rewriting.rules import Operation, RewriteRules, Template, TreeNode, expand
from sapwood.trees.formats.gaps import arrange, positions
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.search.regex import texts_of
from sapwood.trees.tree import PlacedWord, Tree

MOST_REWRITES = 10


class Refused(Exception):
    """An operation that cannot be applied, or an endless rule."""


@dataclass(eq=False)
class Node:
    label: str
    is_word: bool = False
    children: list[Node] = field(default_factory=list)
    parent: Node | None = None
    # The position of a word in the sentence.
    place: int = 0

    def put(self, index: int, child: Node) -> None:
        child.parent = self
        self.children.insert(index, child)

    def index(self) -> int:
        return next(index for index, child in enumerate(self.parent.children) if child is self)

    def take(self) -> None:
        self.parent.children.pop(self.index())
        self.parent = None

    def all(self) -> list[Node]:
        return [self, *(node for child in self.children for node in child.all())]

    def root(self) -> Node:
        return self if self.parent is None else self.parent.root()

    def is_tag(self) -> bool:
        return self.children[0].is_word if self.children else False

    def tree(self) -> Tree:
        return arrange(self._placed())

    def _placed(self) -> Tree:
        if self.is_tag():
            return Tree(self.label, word=PlacedWord(self.children[0].label, self.children[0].place))
        return Tree(self.label, [child._placed() for child in self.children])

    def number_words(self) -> None:
        """Give each word the place that it has without gaps."""
        for place, word in enumerate(node for node in self.all() if node.is_word):
            word.place = place

    def sort(self) -> int:
        """Sort children by the places of their first words; return that of the first of all."""
        if self.is_word:
            return self.place
        found = sorted(((child.sort(), child) for child in self.children), key=lambda pair: pair[0])
        self.children = [child for _, child in found]
        return found[0][0]

    def copy(self) -> Node:
        made = Node(self.label, self.is_word)
        for child in self.children:
            made.put(len(made.children), child.copy())
        return made


def placed_nodes(tree: Tree) -> Node:
    made = nodes_of(tree)
    for place, word in zip(positions(tree), (node for node in made.all() if node.is_word), strict=True):
        word.place = place
    return made


def nodes_of(tree: Tree) -> Node:
    made = Node(tree.label)
    for child in [Node(str(tree.word), True)] if tree.word is not None else map(nodes_of, tree.children):
        made.put(len(made.children), child)
    return made


def slow_rewrite(tree: Tree, rules: RewriteRules, heads: HeadRules, *, allow_word_changes: bool = True) -> Tree:
    """Return the tree after rewriting."""
    top = Node("")  # above the root
    top.put(0, placed_nodes(tree))
    for rule in rules.rules:
        before = top.children[0].tree().words()
        count, again = 0, True
        while again:
            again = False
            for node in top.children[0].all():
                while node.root() is top:
                    everything = top.children[0].all()
                    spots = spots_of(top.children[0].tree())
                    at = next(number for number, one in enumerate(everything) if one is node)
                    chosen = next(SlowMatcher(spots, heads).assignments(rule.pattern, spots[at]), None)
                    if chosen is None:
                        break
                    again, count = True, count + 1
                    if count > MOST_REWRITES:
                        raise Refused("endless")
                    bound = {
                        name: everything[value.number] if isinstance(value, Spot) else value
                        for name, value in chosen.items()
                    }
                    for operation in rule.operations:
                        _Applied(top, bound).apply(operation)
                    if tree.has_gaps:
                        top.children[0].sort()
                    else:
                        top.children[0].number_words()
        if not allow_word_changes and top.children[0].tree().words() != before:
            raise Refused("words")
    return top.children[0].tree()


class _Applied:
    def __init__(self, top: Node, bound: dict[str, Node | str]) -> None:
        self.top = top
        self.bound = bound

    def apply(self, operation: Operation) -> None:
        getattr(self, operation.kind)(operation)

    def nodes(self, names: Sequence[str], words: bool = False) -> list[Node]:
        found = [self.bound[name] for name in names if name in self.bound]
        for node in found:
            if node.root() is not self.top:
                raise Refused("deleted")
            if node.is_word and not words:
                raise Refused("word")
        return found if len(found) == len(names) else []

    def text(self, template: Template) -> str:
        pieces = {
            "text": lambda text: text,
            "name": lambda name: self.bound[name].label if name in self.bound else "",
            "variable": lambda name: self.bound.get("%" + name, ""),
        }
        made = "".join(pieces[kind](text) for kind, text in template.pieces)
        if not made:
            raise Refused("empty label")
        return made

    def build(self, nodes: Sequence[TreeNode]) -> tuple[Node, Node | None]:
        rest = list(nodes)
        feet = []

        def one() -> Node:
            first = rest.pop(0)
            made = Node(self.text(first.text), first.is_word)
            if first.name is not None:
                self.bound[first.name] = made
            if first.is_foot:
                feet.append(made)
            for _ in range(first.children):
                made.put(len(made.children), one())
            return made

        return one(), feet[0] if feet else None

    def relabel(self, operation: Operation) -> None:
        for node in self.nodes(operation.names, words=True):
            if operation.regex is None:
                node.label = self.text(operation.labels[0])
                continue
            node.label = operation.regex.replace(node.label, lambda groups: expand(operation.replacement, groups))
            if not node.label:
                raise Refused("empty label")

    def delete(self, operation: Operation) -> None:
        for name in operation.names:
            for node in self.nodes([name]):
                if node.parent is self.top or len(node.parent.children) == 1:
                    raise Refused("empty")
                node.take()

    def prune(self, operation: Operation) -> None:
        for name in operation.names:
            for node in self.nodes([name]):
                while node.parent is not self.top and len(node.parent.children) == 1:
                    node = node.parent
                if node.parent is self.top:
                    raise Refused("root")
                node.take()

    def excise(self, operation: Operation) -> None:
        if found := self.nodes(operation.names):
            high, low = found
            if not any(low is node for node in high.all()) or low.is_tag():
                raise Refused("excise")
            if high.parent is self.top and len(low.children) > 1:
                raise Refused("root")
            for child in list(low.children):
                child.take()
                high.parent.put(high.index(), child)
            high.take()

    def _place(self, operation: Operation, moved: Node | None = None) -> tuple[Node, int] | None:
        where, name = operation.place
        found = self.nodes([name])
        if not found:
            return None
        (node,) = found
        if isinstance(where, int):
            if node.is_tag():
                raise Refused("tag")
            size = len([child for child in node.children if child is not moved])
            index = where - 1 if where > 0 else size + 1 + where
            if not 0 <= index <= size or (where < -1 and index < 0):
                raise Refused("no such child")
            return node, index
        if node.parent is self.top:
            raise Refused("root")
        siblings = [child for child in node.parent.children if child is node or child is not moved]
        index = next(number for number, child in enumerate(siblings) if child is node)
        return node.parent, index + (where == "$-" and node is not moved)

    def insert(self, operation: Operation) -> None:
        (item,) = operation.items
        source = self.nodes([item]) if isinstance(item, str) else [None]
        if source and (place := self._place(operation)):
            place[0].put(place[1], self.build(item)[0] if source[0] is None else source[0].copy())

    def move(self, operation: Operation) -> None:
        found = self.nodes(operation.names)
        if not found or not (place := self._place(operation, found[0])):
            return
        (node,), (parent, index) = found, place
        if any(parent is below for below in node.all()):
            raise Refused("into itself")
        empty = node.parent
        node.take()
        parent.put(index, node)
        while not empty.children:
            above = empty.parent
            empty.take()
            empty = above

    def replace(self, operation: Operation) -> None:
        found = self.nodes(operation.names)
        if not found:
            return
        made = []
        for item in operation.items:
            if isinstance(item, str):
                made += [node.copy() for node in self.nodes([item])]
            else:
                made.append(self.build(item)[0])
        if made:
            self._instead(found[0], made)

    def _instead(self, node: Node, made: Sequence[Node]) -> None:
        parent, index = node.parent, node.index()
        if parent is self.top and len(made) != 1:
            raise Refused("root")
        node.take()
        for number, one in enumerate(made):
            parent.put(index + number, one)

    def createSubtree(self, operation: Operation) -> None:
        if found := self.nodes(operation.names):
            first, last = found
            label = self.text(operation.labels[0])
            parent, begin = first.parent, first.index()
            if last.parent is not parent or last.index() < begin:
                raise Refused("sisters")
            inside = parent.children[begin : last.index() + 1]
            made = Node(label)
            for child in list(inside):
                child.take()
                made.put(len(made.children), child)
            parent.put(begin, made)

    def adjoin(self, operation: Operation) -> None:
        found = self.nodes(operation.names)
        if not found:
            return
        (node,) = found
        if operation.kind != "adjoinF" and node.is_tag():
            raise Refused("tag")
        top, foot = self.build(operation.items[0])
        parent, index = node.parent, node.index()
        if operation.kind == "adjoinF":
            node.take()
            parent.put(index, top)
            above, place = foot.parent, foot.index()
            foot.take()
            above.put(place, node)
            return
        for child in list(node.children):
            child.take()
            foot.put(len(foot.children), child)
        if operation.kind == "adjoinH":
            for child in list(top.children):
                child.take()
                node.put(len(node.children), child)
            return
        node.take()
        parent.put(index, top)

    adjoinH = adjoinF = adjoin

    def coindex(self, operation: Operation) -> None:
        everything = self.top.children[0].all()
        labels = [node.label for node in everything if not node.is_word or node.label.startswith("*")]
        known = [int(found[1]) for label in labels if (found := re.search(r"[-=]([0-9]{1,8})\Z", label))]
        number = max(known, default=0) + 1
        for name in operation.names:
            for node in self.nodes([name], words=True):
                node.label += f"-{number}"

    def split(self, operation: Operation) -> None:
        for node in self.nodes(operation.names, words=True):
            tag = node.parent if node.is_word else node
            if not tag.is_tag():
                raise Refused("tag")
            word = tag.children[0].label
            pieces = texts_of(word, operation.regex.find(word) or [])[1:]
            if not pieces or not all(pieces) or "".join(pieces) != word:
                raise Refused("split")
            made = [Node(self.text(label)) for label in operation.labels]
            for one, piece in zip(made, pieces, strict=True):
                one.put(0, Node(piece, True))
            self._instead(tag, made)

    def join(self, operation: Operation) -> None:
        if found := self.nodes(operation.names):
            left, right = found
            tags = [node for node in self.top.children[0].all() if node.is_tag()]
            if not left.is_tag() or not right.is_tag():
                raise Refused("tag")
            places = [next(n for n, tag in enumerate(tags) if tag is node) for node in found]
            if places[1] != places[0] + 1:
                raise Refused("adjacent")
            if operation.labels:
                left.label = self.text(operation.labels[0])
            left.children[0].label += right.children[0].label
            while len(right.parent.children) == 1:
                right = right.parent
            right.take()
