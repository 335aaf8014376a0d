"""Editing: what a person can do to an annotation, as pure functions.

Each function takes an annotation and returns another one, or raises `EditError` with a reason for the person. Nodes are
given by their numbers in preorder. What was edited is confirmed: the node that was made or relabelled, or the list of
children to which a subtree was moved. What a person has not confirmed gives way: a new phrase dissolves proposed
phrases that it crosses, but never confirmed ones.

`apply` looks an edit up by its name, as the journal and the page give it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sapwood.annotation.state import CONFIRMED, AbsentPhrase, Annotation, Mark, cross
from sapwood.errors import UsageError, shortened
from sapwood.storage.json_values import is_unicode
from sapwood.trees.partial import UNKNOWN
from sapwood.trees.tree import Tree, from_preorder

# Characters of a label, of a word and of a note.
_LONGEST_LABEL, _LONGEST_WORD, _LONGEST_NOTE = 100, 1000, 10_000


class EditError(UsageError):
    """An edit that is not possible, with the reason."""


class _EditedNode:
    """Node of a tree that is being edited."""

    __slots__ = ("children", "end", "label", "mark", "parent", "start", "word")

    def __init__(self, label: str, word: str | None, mark: int) -> None:
        self.label, self.word, self.mark = label, word, mark
        self.children: list[_EditedNode] = []
        self.parent: _EditedNode | None = None
        self.start = self.end = 0

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end

    def adopt(self, children: Iterable[_EditedNode]) -> None:
        """Take these children, in place of those that there are."""
        self.children = list(children)
        for child in self.children:
            child.parent = self

    def replace_by(self, others: Sequence[_EditedNode]) -> None:
        """Put others in the place of this node."""
        assert self.parent is not None
        siblings = self.parent.children
        at = siblings.index(self)
        self.parent.adopt([*siblings[:at], *others, *siblings[at + 1 :]])

    def above(self) -> list[_EditedNode]:
        """Return the nodes above this one, from its parent up."""
        found, at = [], self.parent
        while at is not None:
            found.append(at)
            at = at.parent
        return found

    def below(self) -> list[_EditedNode]:
        """Return this node and all below it, in preorder."""
        found, stack = [], [self]
        while stack:
            node = stack.pop()
            found.append(node)
            stack.extend(reversed(node.children))
        return found


class _Draft:
    """Mutable copy of an annotation."""

    def __init__(self, annotation: Annotation) -> None:
        self.given = annotation
        self.absent = set(annotation.absent)
        self.nodes: list[_EditedNode] = []
        for one in annotation.nodes():
            node = _EditedNode(one.node.label, one.node.word, one.mark)
            node.start, node.end = one.start, one.end
            if one.parent >= 0:
                node.parent = self.nodes[one.parent]
                node.parent.children.append(node)
            self.nodes.append(node)
        self.root = self.nodes[0]

    def node(self, number: int) -> _EditedNode:
        if not 0 <= number < len(self.nodes):
            raise EditError(f"the tree has no node {number}")
        return self.nodes[number]

    def phrase(self, number: int) -> _EditedNode:
        node = self.node(number)
        if node.word is not None:
            raise EditError(f"{node.label} is a tag, not a phrase")
        return node

    def words(self) -> list[_EditedNode]:
        return [node for node in self.nodes if node.word is not None]

    def word(self, position: int) -> _EditedNode:
        words = self.words()
        if not 0 <= position < len(words):
            raise EditError(f"the sentence has no word {position + 1}")
        return words[position]

    def text(self, node: _EditedNode) -> str:
        return shortened(" ".join(one.word for one in node.below() if one.word is not None))

    def permit(self, start: int, end: int, label: str) -> None:
        """Forget that such a phrase is absent."""
        self.absent = {
            one for one in self.absent if (one.start, one.end) != (start, end) or one.label not in (None, label)
        }

    def finish(self) -> Annotation:
        """Return the annotation; spans of phrases that exist are not absent."""
        nodes = self.root.below()
        tree = from_preorder([(node.label, node.word, len(node.children)) for node in nodes])
        made = replace(self.given, tree=tree, marks=tuple(node.mark for node in nodes))
        phrases = {(one.start, one.end, one.node.label) for one in made.nodes() if one.node.word is None}
        spans = {(start, end) for start, end, _ in phrases}
        absent = sorted(
            (
                one
                for one in self.absent
                if (tuple(one) not in phrases if one.label is not None else (one.start, one.end) not in spans)
            ),
            key=lambda one: (one.start, one.end, one.label or ""),
        )
        status = "begun" if self.given.status in ("new", "done") else self.given.status
        return replace(made, absent=tuple(absent), status=status)


def _checked_label(label: str) -> str:
    if (
        not label
        or label == UNKNOWN
        or len(label) > _LONGEST_LABEL
        or label.split() != [label]
        or not _printable(label)
    ):
        raise EditError(f"{shortened(label)!r} cannot be a label: it is empty, too long, or has spaces")
    return label


def _checked_word(word: str) -> str:
    if not word or len(word) > _LONGEST_WORD or word.split() != [word] or not _printable(word):
        raise EditError(f"{shortened(word)!r} cannot be a word: it is empty, too long, or has spaces")
    return word


def _printable(text: str) -> bool:
    return is_unicode(text) and not any(ord(letter) < 32 or ord(letter) == 127 for letter in text)


def relabel(annotation: Annotation, *, node: int, label: str) -> Annotation:
    """Give a phrase another label, or a word another tag; the same label confirms the node."""
    draft = _Draft(annotation)
    at = draft.node(node)
    at.label = _checked_label(label)
    at.mark |= Mark.LABEL
    _refuse_repeated(at)
    draft.permit(at.start, at.end, label)
    return draft.finish()


def _refuse_repeated(node: _EditedNode) -> None:
    """Raise `EditError` if a phrase has the label of its only child or of its parent with no other child."""
    if node.word is not None:
        return
    pairs = [(node, node.children[0])] if len(node.children) == 1 else []
    if node.parent is not None and len(node.parent.children) == 1:
        pairs.append((node.parent, node))
    if any(one.label == other.label and other.word is None for one, other in pairs):
        raise EditError(f"there is a phrase {node.label} with the same words already")


def make(annotation: Annotation, *, start: int, end: int, label: str, over: int | None = None) -> Annotation:
    """Make a phrase of words `start .. end - 1`, directly over the node `over` if it is given.

    Proposed phrases that it crosses are dissolved. Over a phrase of the same words it is made on top.
    """
    draft = _Draft(annotation)
    _checked_label(label)
    if over is not None:
        below = draft.node(over)
        if below is draft.root:
            raise EditError("the root is the topmost node")
        start, end = below.span
    if not 0 <= start < end <= draft.root.end:
        raise EditError(f"words {start + 1} to {end} are not in the sentence")
    crossing = [node for node in draft.nodes if node.word is None and cross(node.span, (start, end))]
    for node in crossing:
        if node.mark & Mark.LABEL:
            raise EditError(f"it would cross {node.label} ({draft.text(node)}), which is confirmed; remove that first")
    for node in crossing:
        node.replace_by(node.children)
    if over is not None:
        parent = below.parent
        assert parent is not None
        inside = [below]
    else:
        parent = draft.root
        # Down to the lowest phrase with more words, or the root.
        while (
            (lower := _child_with(parent, start, end)) is not None and lower.word is None and lower.span != (start, end)
        ):
            parent = lower
        inside = [child for child in parent.children if start <= child.start and child.end <= end]
    made = _EditedNode(label, None, Mark.LABEL)
    made.start, made.end, made.parent = start, end, parent
    at = parent.children.index(inside[0])
    others = parent.children[:at], parent.children[at + len(inside) :]
    made.adopt(inside)
    parent.adopt([*others[0], made, *others[1]])
    _refuse_repeated(made)
    draft.permit(start, end, label)
    return draft.finish()


def _child_with(node: _EditedNode, start: int, end: int) -> _EditedNode | None:
    return next((child for child in node.children if child.start <= start and end <= child.end), None)


def remove(annotation: Annotation, *, node: int) -> Annotation:
    """Remove a phrase: its children move up, and no parse proposes it again."""
    draft = _Draft(annotation)
    at = draft.phrase(node)
    if at is draft.root:
        raise EditError("the root cannot be removed")
    at.replace_by(at.children)
    same = [one for one in draft.root.below() if one.word is None and one.span == at.span]
    draft.absent.add(AbsentPhrase(at.start, at.end, at.label if same else None))
    return draft.finish()


def move(annotation: Annotation, *, node: int, parent: int) -> Annotation:
    """Move a subtree to another parent, as a child of which it is confirmed; words keep their order."""
    draft = _Draft(annotation)
    _move(draft, draft.node(node), draft.phrase(parent))
    return draft.finish()


def _move(draft: _Draft, node: _EditedNode, parent: _EditedNode) -> None:
    if node is draft.root:
        raise EditError("the root cannot be moved")
    if parent in node.below():
        raise EditError(f"{node.label} cannot be moved into itself")
    if parent is node.parent:
        raise EditError(f"{node.label} is a child of this {parent.label} already")
    former = node.above()
    _detach(node)
    at = sum(child.start < node.start for child in parent.children)
    parent.adopt([*parent.children[:at], node, *parent.children[at:]])
    starts = [one.start for one in draft.root.below() if one.word is not None]
    if starts != sorted(starts):
        raise EditError(
            f"{node.label} ({draft.text(node)}) cannot be a child of {parent.label}: words would be between them"
        )
    kept = set(node.above())
    for one in former:
        # A phrase that lost the subtree: with its former words it is no phrase. One with itself below is one phrase.
        if one in kept:
            continue
        draft.absent.add(AbsentPhrase(*one.span))
        _merge_repeated(one)
    _merge_repeated(parent)
    parent.mark |= CONFIRMED
    if node.word is None:
        node.mark |= Mark.LABEL


def _detach(node: _EditedNode) -> None:
    """Take a subtree out of its tree, with phrases that have nothing else."""
    at = node
    while at.parent is not None:
        above = at.parent
        above.children.remove(at)
        if above.children:
            return
        at = above


def _merge_repeated(node: _EditedNode) -> None:
    """Merge a phrase with its only child, if that has its label."""
    if len(node.children) == 1 and node.children[0].word is None and node.children[0].label == node.label:
        [child] = node.children
        node.mark |= child.mark
        node.adopt(child.children)


def raise_(annotation: Annotation, *, node: int) -> Annotation:
    """Attach a subtree one level higher."""
    draft = _Draft(annotation)
    at = draft.node(node)
    if at.parent is None or at.parent.parent is None:
        raise EditError(f"{at.label} is attached as high as possible")
    if at not in (at.parent.children[0], at.parent.children[-1]):
        raise EditError(f"{at.label} is in the middle of {at.parent.label}, from which it cannot be raised")
    _move(draft, at, at.parent.parent)
    return draft.finish()


def lower(annotation: Annotation, *, node: int, right: bool = False, adjoin: bool = False) -> Annotation:
    """Attach a subtree one level lower, to the phrase on its left or right.

    With `adjoin`, a new phrase with the label of that one gets both as its children.
    """
    draft = _Draft(annotation)
    at = draft.node(node)
    siblings = at.parent.children if at.parent is not None else [at]
    place = siblings.index(at) + (1 if right else -1)
    side = "right" if right else "left"
    if not 0 <= place < len(siblings) or siblings[place].word is not None:
        raise EditError(f"{at.label} has no phrase on its {side} to be attached to")
    target = siblings[place]
    if adjoin:
        over = _EditedNode(target.label, None, CONFIRMED)
        over.start, over.end = min(at.start, target.start), max(at.end, target.end)
        target.replace_by([over])
        over.adopt([target])
        target.mark |= Mark.LABEL
        draft.permit(over.start, over.end, over.label)
        target = over
    _move(draft, at, target)
    return draft.finish()


def confirm(annotation: Annotation, *, node: int, below: bool = True) -> Annotation:
    """Confirm a node; with `below`, everything in it."""
    draft = _Draft(annotation)
    at = draft.node(node)
    for one in at.below() if below else [at]:
        one.mark |= CONFIRMED if below and one.word is None else Mark.LABEL
    return draft.finish()


def unconfirm(annotation: Annotation, *, node: int, below: bool = True) -> Annotation:
    """Take back that a node is confirmed; with `below`, everything in it."""
    draft = _Draft(annotation)
    at = draft.node(node)
    for one in at.below() if below else [at]:
        one.mark &= ~CONFIRMED
    # What is above is no longer whole, but its own label and children stay confirmed.
    return draft.finish()


def mark_unsure(annotation: Annotation, *, node: int, unsure: bool = True) -> Annotation:
    """Mark a node as unsure, or take the mark back."""
    marks = list(annotation.marks)
    if not 0 <= node < len(marks):
        raise EditError(f"the tree has no node {node}")
    marks[node] = marks[node] | Mark.UNSURE if unsure else marks[node] & ~Mark.UNSURE
    return replace(annotation, marks=tuple(marks))


def write_note(annotation: Annotation, *, text: str) -> Annotation:
    """Write a note on the sentence, in place of the one there is."""
    if len(text) > _LONGEST_NOTE or not is_unicode(text):
        raise EditError(f"a note may have up to {_LONGEST_NOTE:,} characters")
    return replace(annotation, note=text.strip())


def respell(annotation: Annotation, *, position: int, word: str) -> Annotation:
    """Change the spelling of a word."""
    draft = _Draft(annotation)
    draft.word(position).word = _checked_word(word)
    return draft.finish()


def split_token(annotation: Annotation, *, position: int, words: Sequence[str]) -> Annotation:
    """Split a word into several, each with its tag."""
    if len(words) < 2:
        raise EditError("a word is split into at least two; separate them by spaces")
    draft = _Draft(annotation)
    at = draft.word(position)
    at.replace_by([_EditedNode(at.label, _checked_word(word), 0) for word in words])
    more = len(words) - 1
    draft.absent = {
        AbsentPhrase(one.start + more * (one.start > position), one.end + more * (one.end > position), one.label)
        for one in draft.absent
    }
    return draft.finish()


def join_tokens(annotation: Annotation, *, position: int) -> Annotation:
    """Join a word with the next one, under its tag."""
    draft = _Draft(annotation)
    one, other = draft.word(position), draft.word(position + 1)
    assert one.word is not None
    assert other.word is not None
    one.word = _checked_word(one.word + other.word)
    one.mark &= ~CONFIRMED
    _detach(other)
    for node in one.above():
        _merge_repeated(node)
    draft.absent = {
        AbsentPhrase(item.start - (item.start > position), item.end - (item.end > position), item.label)
        for item in draft.absent
        if position + 1 not in (item.start, item.end)
    }
    return draft.finish()


def choose(annotation: Annotation, *, tree: str) -> Annotation:
    """Take another tree of the sentence; where it differs from the present one, it is confirmed."""
    other = Annotation.proposed(Tree.parse(tree))
    if other.words != annotation.words:
        raise EditError("this is a tree of another sentence")
    present = {(one.start, one.end, one.node.label, one.node.word) for one in annotation.nodes()}
    marks = {(one.start, one.end, one.node.label, one.node.word): one.mark for one in annotation.nodes()}
    keys = [(one.start, one.end, one.node.label, one.node.word) for one in other.nodes()]
    found = set(keys)
    if any(mark & Mark.LABEL and key not in found for key, mark in marks.items()):
        raise EditError("this tree lacks phrases that are confirmed")
    draft = _Draft(replace(other, absent=annotation.absent, note=annotation.note, status=annotation.status))
    for node, key in zip(draft.nodes, keys, strict=True):
        node.mark = marks.get(key, 0) & ~Mark.CHILDREN if key in present else Mark.LABEL
    spans = {(start, end) for start, end, _, word in found if word is None}
    for start, end, label, word in present - found:
        if word is None:
            draft.absent.add(AbsentPhrase(start, end, label if (start, end) in spans else None))
    return draft.finish()


def accept(annotation: Annotation) -> Annotation:
    """Accept the tree: everything is confirmed."""
    return annotation.accept()


def reopen(annotation: Annotation) -> Annotation:
    """Take back that the tree is accepted, or that the sentence is skipped."""
    return replace(annotation, status="begun")


def skip(annotation: Annotation) -> Annotation:
    """Skip the sentence."""
    return replace(annotation, status="skipped")


EDITS: dict[str, Callable[..., Annotation]] = {
    "relabel": relabel,
    "make": make,
    "remove": remove,
    "move": move,
    "raise": raise_,
    "lower": lower,
    "confirm": confirm,
    "unconfirm": unconfirm,
    "unsure": mark_unsure,
    "note": write_note,
    "respell": respell,
    "split": split_token,
    "join": join_tokens,
    "choose": choose,
    "accept": accept,
    "reopen": reopen,
    "skip": skip,
}
# Edits after which there is nothing to parse again.
FINAL = frozenset({"choose", "unsure", "note", "accept", "reopen", "skip"})


def apply(annotation: Annotation, edit: str, **arguments: Any) -> Annotation:
    """Apply an edit by its name.

    Examples
    --------
    >>> annotation = Annotation.proposed(Tree.parse("(S (D the) (N dog) (V barked))"))
    >>> print(apply(annotation, "make", start=0, end=2, label="NP").tree)
    (S (NP (D the) (N dog)) (V barked))
    """
    if edit not in EDITS:
        raise EditError(f"there is no edit {edit!r}; known are {', '.join(EDITS)}")
    function = EDITS[edit]
    try:
        inspect.signature(function).bind(annotation, **arguments)
    except TypeError as error:
        raise EditError(f"{edit}: {error}") from None
    return function(annotation, **arguments)
