"""`Annotation`: the tree of a sentence, with marks that tell what a person has confirmed from what a parser proposes.

A mark belongs to a node; marks are in preorder, as `Tree.nodes` yields nodes:

- `LABEL`: the node is confirmed, with its label and its words. A tag is confirmed by it, too.
- `CHILDREN`: the list of its children is confirmed: no phrase is missing between the node and its children.
- `UNSURE`: the person has doubts.

A node with both of the first marks, whose descendants have them as well, is *whole*: nothing in it is open. Phrases
that a person has removed are `absent`: no parse may propose them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from sapwood.errors import InputError, shortened
from sapwood.storage.json_values import is_unicode
from sapwood.trees.partial import UNKNOWN, PartialTree
from sapwood.trees.tree import Tree, from_preorder

AnnotationStatus: TypeAlias = Literal["new", "begun", "done", "skipped"]


class Mark(IntFlag):
    """Mark of a node."""

    LABEL = 1
    CHILDREN = 2
    UNSURE = 4


CONFIRMED = Mark.LABEL | Mark.CHILDREN


class AbsentPhrase(NamedTuple):
    """Words `start .. end - 1` that are no phrase with that label, or, without a label, no phrase at all."""

    start: int
    end: int
    label: str | None = None


class MarkedNode(NamedTuple):
    """Node of an annotation: its number in preorder, its words `start .. end - 1`, its mark, its parent's number."""

    number: int
    node: Tree
    start: int
    end: int
    mark: int
    parent: int


@dataclass(frozen=True)
class Annotation:
    """Tree of a sentence, with marks.

    Attributes
    ----------
    tree
        All of the tree, confirmed or proposed.
    marks
        Mark of each node, in preorder.
    absent
        Phrases that were removed.
    note
        Note on the sentence.
    status
        `new`; `begun`; `done`: the tree is accepted; `skipped`.
    """

    tree: Tree
    marks: tuple[int, ...]
    absent: tuple[AbsentPhrase, ...] = ()
    note: str = ""
    status: AnnotationStatus = "new"

    @classmethod
    def proposed(cls, tree: Tree) -> Annotation:
        """Return the annotation of a sentence in which nothing is confirmed."""
        return cls(tree, (0,) * sum(1 for _ in tree.nodes()))

    @classmethod
    def accepted(cls, tree: Tree) -> Annotation:
        """Return the annotation of a sentence whose tree is gold."""
        return cls.proposed(tree).accept()

    def accept(self) -> Annotation:
        """Return this annotation with everything confirmed."""
        marks = tuple(
            mark | (CONFIRMED if node.word is None else Mark.LABEL)
            for mark, node in zip(self.marks, self.tree.nodes(), strict=True)
        )
        return replace(self, marks=marks, status="done")

    @property
    def words(self) -> list[str]:
        """The words of the sentence."""
        return self.tree.words()

    @property
    def doubtful(self) -> bool:
        """Whether there is a note, or a node marked as unsure."""
        return bool(self.note) or any(mark & Mark.UNSURE for mark in self.marks)

    def nodes(self) -> Iterator[MarkedNode]:
        """Yield the nodes in preorder, with their words and marks."""
        every = list(self.tree.nodes())
        position = 0
        # The number, the end and the remaining children of each open node.
        opened: list[tuple[int, int]] = []
        for number, (node, mark, size) in enumerate(zip(every, self.marks, _sizes(every), strict=True)):
            while opened and opened[-1][1] <= position:
                opened.pop()
            parent = opened[-1][0] if opened else -1
            end = position + size
            yield MarkedNode(number, node, position, end, mark, parent)
            if node.word is not None:
                position += 1
            else:
                opened.append((number, end))

    def whole(self) -> list[bool]:
        """Return for each node whether nothing in it is open."""
        nodes = list(self.nodes())
        found = [is_confirmed(one) for one in nodes]
        for one in reversed(nodes):
            if one.parent >= 0 and not found[one.number]:
                found[one.parent] = False
        return found

    def partial(self) -> PartialTree:
        """Return what is confirmed, as a partial tree."""
        nodes = list(self.nodes())
        whole = self.whole()
        kept = [one for one in nodes if one.node.word is not None or one.mark & Mark.LABEL or one.parent < 0]
        # A phrase with nothing unknown below it would count as whole, so one of its words must lack its tag.
        unknown = {one.start for one in nodes if one.node.word is not None and not one.mark & Mark.LABEL}
        for one in sorted(kept, key=lambda one: (one.end - one.start, one.start)):
            if not whole[one.number] and unknown.isdisjoint(range(one.start, one.end)):
                unknown.add(one.start)
        labels = []
        for one in kept:
            is_known = bool(one.mark & Mark.LABEL) or (one.parent < 0 and one.node.word is None)
            if one.node.word is not None:
                is_known = is_known and one.start not in unknown
            labels.append(one.node.label if is_known else UNKNOWN)
        return PartialTree(nest([(one.start, one.end) for one in kept], labels, [one.node.word for one in kept]))

    def to_json(self) -> dict[str, Any]:
        """Return the annotation as JSON values."""
        found: dict[str, Any] = {"tree": str(self.tree), "marks": "".join(map(str, self.marks))}
        if self.absent:
            found["absent"] = [list(one) for one in self.absent]
        if self.note:
            found["note"] = self.note
        return {**found, "status": self.status}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Annotation:
        """Return an annotation from JSON values; raises `InputError` if they are not one."""
        try:
            tree = Tree.parse(_typed(value["tree"], str))
            marks = tuple(int(mark, 8) for mark in _typed(value["marks"], str))
            absent = tuple(
                AbsentPhrase(_typed(start, int), _typed(end, int), label if label is None else _typed(label, str))
                for start, end, label in _typed(value.get("absent", []), list)
            )
            note = _typed(value.get("note", ""), str)
            status = value["status"]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not the annotation of a sentence: {error}") from None
        if status not in get_args(AnnotationStatus) or len(marks) != sum(1 for _ in tree.nodes()):
            raise InputError(
                "not the annotation of a sentence: the marks do not fit the tree, or its status is unknown"
            )
        return cls(tree, marks, absent, note, status)


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{shortened(repr(value))} is not of type {kind.__name__}")
    if isinstance(value, str) and not is_unicode(value):
        raise ValueError("a text has half a character (a lone surrogate)")
    return value


def _sizes(nodes: Sequence[Tree]) -> list[int]:
    """Return the number of words below each node; nodes are in preorder."""
    sizes = [0] * len(nodes)
    waiting: list[int] = []
    for number in range(len(nodes) - 1, -1, -1):
        node = nodes[number]
        sizes[number] = 1 if node.word is not None else sum(waiting.pop() for _ in node.children)
        waiting.append(sizes[number])
    return sizes


def is_confirmed(one: MarkedNode) -> bool:
    """Return whether a node is confirmed, with its children if it has any."""
    wanted = Mark.LABEL if one.node.word is not None else CONFIRMED
    return one.mark & wanted == wanted


def cross(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two spans overlap, and neither is in the other."""
    return one[0] < other[0] < one[1] < other[1] or other[0] < one[0] < other[1] < one[1]


def nest(spans: list[tuple[int, int]], labels: list[str], words: list[str | None]) -> Tree:
    """Return the tree of nodes in preorder, which their spans nest."""
    arity = [0] * len(spans)
    opened: list[int] = []
    for number, (start, _) in enumerate(spans):
        while opened and spans[opened[-1]][1] <= start:
            opened.pop()
        if opened:
            arity[opened[-1]] += 1
        if words[number] is None:
            opened.append(number)
    return from_preorder(list(zip(labels, words, arity, strict=True)))
