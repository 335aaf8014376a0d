"""Simulated annotators, who correct trees until they are gold: with re-parsing, by editing, and from nothing.

A tree is compared and edited as an *outline*: the tag of each word, and the chain of labels of each span, from the top
down (`("S", "VP")` is an S over a VP with the same words). The root label, which all trees have, is not part of it.

An action makes a phrase, removes one, relabels one, or retags a word. The annotators:

- **From nothing**: each tag and each phrase is an action.
- **Editing**: the least number of actions that turns the parser's tree into the gold tree, where a phrase with the
  wrong words is removed and made again: insertions, deletions and substitutions of labels and of tags.
- **Editing with moves**, as a good tree editor has it: making a phrase removes the phrases that it crosses, and a drag
  moves a node to another parent, which may correct several phrases. The annotator takes the action that leaves the
  least editing, again and again, so this is what a clever annotator does, not a proven minimum.
- **Re-parsing**: the annotator corrects the first difference, in the order of `ORDERS`, with the edits of
  `sapwood.annotation`, which proposes a tree under what is confirmed. Only corrections are confirmed, or, as in
  Sánchez-Sáez, Sánchez and Benedí (2009), what comes before them as well, since the annotator has read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sapwood.annotation.editing import EditError, apply
from sapwood.annotation.proposals import Proposer
from sapwood.annotation.state import Annotation, MarkedNode
from sapwood.trees import Tree

Span: TypeAlias = tuple[int, int]
Chain: TypeAlias = tuple[str, ...]
ROOTS = ("", "ROOT", "TOP", "VROOT")
# Actions on a sentence after which something is wrong with the simulation.
MOST_ACTIONS = 1000


class Outline(NamedTuple):
    """Tags of words, and chains of labels of spans."""

    tags: tuple[str, ...]
    chains: dict[Span, Chain]

    @classmethod
    def of(cls, tree: Tree) -> Outline:
        """Return the outline of a tree."""
        chains: dict[Span, Chain] = {}
        for number, (start, end, label) in enumerate(tree.spans()):
            if number or label not in ROOTS:
                chains[start, end] = (*chains.get((start, end), ()), label)
        return cls(tuple(tree.tags()), chains)


def chain_actions(a: Chain, b: Chain) -> int:
    """Return the edit distance of two chains: labels added, removed and replaced."""
    if len(a) > len(b):
        a, b = b, a
    if not a:
        return len(b)
    row = list(range(len(b) + 1))
    for i, label in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (label != other))
    return row[-1]


def editing(a: Mapping[Span, Chain], b: Mapping[Span, Chain]) -> int:
    """Return the number of phrases that have to be made, removed and relabelled."""
    return sum(chain_actions(a.get(span, ()), b.get(span, ())) for span in a.keys() | b.keys())


def wrong_tags(a: Outline, b: Outline) -> int:
    """Return the number of words with different tags."""
    return sum(x != y for x, y in zip(a.tags, b.tags, strict=True))


def crosses(a: Span, b: Span) -> bool:
    """Return whether two spans overlap and neither contains the other."""
    return a[0] < b[0] < a[1] < b[1] or b[0] < a[0] < b[1] < a[1]


def editing_with_moves(a: Mapping[Span, Chain], gold: Mapping[Span, Chain], n: int) -> int:
    """Return the number of actions of a greedy annotator whose editor moves nodes and removes what a phrase crosses."""
    tree, actions = dict(a), 0
    while editing(tree, gold):
        best: dict[Span, Chain] = {}
        most = 0
        for changes in _edits(tree, gold, n):
            gain = sum(
                chain_actions(tree.get(span, ()), gold.get(span, ())) - chain_actions(chain, gold.get(span, ()))
                for span, chain in changes.items()
            )
            if gain > most:
                best, most = changes, gain
        assert most
        tree = {span: chain for span, chain in {**tree, **best}.items() if chain}
        actions += 1
    return actions


def _edits(tree: dict[Span, Chain], gold: Mapping[Span, Chain], n: int) -> Iterator[dict[Span, Chain]]:
    """Yield what sensible actions change: labels set as in the gold tree, and all moves of nodes.

    A change is the new chain of each span that is affected, empty if the phrase goes.
    """
    for span in tree.keys() | gold.keys():
        before, wanted = tree.get(span, ()), gold.get(span, ())
        if before != wanted:
            changes = {} if before else {other: () for other in tree if crosses(other, span)}
            yield {**changes, span: step(before, wanted)}
    yield from _moves(tree, n)


def step(chain: Chain, wanted: Chain) -> Chain:
    """Return a chain that is one action nearer to another."""
    left = chain_actions(chain, wanted)
    return next(one for one in _steps(chain, wanted) if chain_actions(one, wanted) < left)


def _steps(chain: Chain, wanted: Chain) -> Iterator[Chain]:
    """Yield chains with a label replaced, removed or added."""
    for place in range(len(chain)):
        for label in wanted:
            yield (*chain[:place], label, *chain[place + 1 :])
    for place in range(len(chain)):
        yield (*chain[:place], *chain[place + 1 :])
    for place in range(len(chain) + 1):
        for label in wanted:
            yield (*chain[:place], label, *chain[place:])


def _moves(tree: dict[Span, Chain], n: int) -> Iterator[dict[Span, Chain]]:
    """Yield the changes when a node that is first or last below its parent moves to another parent next to it."""
    nodes = [*tree, *((place, place + 1) for place in range(n) if (place, place + 1) not in tree)]
    ends: tuple[dict[int, list[Span]], dict[int, list[Span]]] = ({}, {})
    for span in sorted(tree, key=_size):
        for side in (0, 1):
            ends[side].setdefault(span[side], []).append(span)
    for node in nodes:
        for side in (0, 1):
            # Raised: out of phrases that begin (end) with it, and are more than it.
            raised: list[Span] = []
            for span in ends[side].get(node[side], ()):
                if _size(span) > _size(node):
                    raised.append(span)
                    yield _resized(tree, raised, side, node)
            # Lowered: into phrases next to it, within the phrase that both are in.
            around = [span for span in tree if span[0] <= node[0] and node[1] <= span[1] and span != node]
            reach = min(around, key=_size, default=(0, n))
            lowered: list[Span] = []
            for span in reversed(ends[1 - side].get(node[side], ())):
                if reach[0] <= span[0] and span[1] <= reach[1]:
                    lowered.append(span)
                    yield _stretched(tree, lowered, 1 - side, node[1 - side])


def _size(span: Span) -> int:
    return span[1] - span[0]


def _resized(tree: dict[Span, Chain], raised: list[Span], side: int, node: Span) -> dict[Span, Chain]:
    """Return the changes when phrases lose the words of a node at their left (0) or right (1) edge."""
    changes: dict[Span, Chain] = dict.fromkeys(raised, ())
    for span in raised:
        new = (node[1], span[1]) if side == 0 else (span[0], node[0])
        changes[new] = (*tree[span], *changes.get(new, tree.get(new, ())))
    return changes


def _stretched(tree: dict[Span, Chain], lowered: list[Span], side: int, edge: int) -> dict[Span, Chain]:
    """Return the changes when phrases get the words up to an edge."""
    changes: dict[Span, Chain] = dict.fromkeys(lowered, ())
    for span in lowered:
        new = (span[0], edge) if side == 1 else (edge, span[1])
        changes[new] = (*changes.get(new, tree.get(new, ())), *tree[span])
    return changes


# Orders in which the annotator looks for differences.
ORDERS: dict[str, Callable[[Span], tuple[int, int]]] = {
    "top-down": lambda span: (span[0], -span[1]),
    "bottom-up": lambda span: (span[1], -span[0]),
}


@dataclass
class Effort:
    """Actions on a sentence: of phrases, and of tags."""

    phrases: int = 0
    tags: int = 0

    @property
    def actions(self) -> int:
        """All actions."""
        return self.phrases + self.tags


def correct(proposer: Proposer, gold: Tree, *, order: str, confirm: bool) -> Effort:
    """Correct the proposals for a sentence until they are gold.

    With `confirm`, what comes before a correction is confirmed.
    """
    wanted, key, effort = Outline.of(gold), ORDERS[order], Effort()
    annotation = proposer.start(gold.words())
    while (found := first_difference(Outline.of(annotation.tree), wanted, key)) is not None:
        if effort.actions >= MOST_ACTIONS:
            raise RuntimeError(f"no end of corrections: {gold}")
        span, is_tag = found
        if confirm:
            annotation = confirm_before(annotation, wanted, order, span, is_tag)
        try:
            annotation = correct_one(annotation, wanted, span, is_tag=is_tag)
        except EditError:  # two phrases with the same label over the same words
            present = Outline.of(annotation.tree)
            effort.phrases += editing(present.chains, wanted.chains)
            effort.tags += wrong_tags(present, wanted)
            break
        effort.tags += is_tag
        effort.phrases += not is_tag
        annotation = proposer.propose(annotation).annotation
    return effort


def correct_one(annotation: Annotation, gold: Outline, span: Span, *, is_tag: bool) -> Annotation:
    """Correct the tag of a word, or one label over a span."""
    if not is_tag:
        return correct_phrase(annotation, span, gold.chains.get(span, ()))
    node = next(one for one in annotation.nodes() if one.node.word is not None and one.start == span[0])
    return apply(annotation, "relabel", node=node.number, label=gold.tags[span[0]])


def first_difference(tree: Outline, gold: Outline, key: Callable[[Span], tuple[int, int]]) -> tuple[Span, bool] | None:
    """Return the first span whose labels differ, or the first word whose tag does; None if nothing differs.

    A phrase that crosses a missing one does not count, as it goes when that is made.
    """
    missing = [span for span in gold.chains if span not in tree.chains]
    different = [
        (key(span), False, span)
        for span in tree.chains.keys() | gold.chains.keys()
        if tree.chains.get(span) != gold.chains.get(span)
        and (span in gold.chains or not any(crosses(span, other) for other in missing))
    ]
    for place, (tag, other) in enumerate(zip(tree.tags, gold.tags, strict=True)):
        if tag != other:
            different.append((key((place, place + 1)), True, (place, place + 1)))
    if not different:
        return None
    _, is_tag, span = min(different)
    return span, is_tag


def phrases_of(annotation: Annotation) -> Iterator[MarkedNode]:
    """Yield the phrases of an annotation, without its root."""
    for one in annotation.nodes():
        if one.node.word is None and one.parent >= 0:
            yield one


def correct_phrase(annotation: Annotation, span: Span, wanted: Chain) -> Annotation:
    """Do one action on the labels of a span."""
    nodes = [one for one in phrases_of(annotation) if (one.start, one.end) == span]
    chain = tuple(one.node.label for one in nodes)
    after = step(chain, wanted)
    if len(after) < len(chain):
        place = next(at for at in range(len(chain)) if (*chain[:at], *chain[at + 1 :]) == after)
        return apply(annotation, "remove", node=nodes[place].number)
    if len(after) == len(chain):
        place = next(at for at in range(len(chain)) if chain[at] != after[at])
        return apply(annotation, "relabel", node=nodes[place].number, label=after[place])
    place = next(at for at in range(len(after)) if (*after[:at], *after[at + 1 :]) == chain)
    if place < len(chain):
        return apply(annotation, "make", start=span[0], end=span[1], label=after[place], over=nodes[place].number)
    if span[1] - span[0] == 1:  # below all phrases: over the tag
        tag = next(one for one in annotation.nodes() if one.node.word is not None and one.start == span[0])
        return apply(annotation, "make", start=span[0], end=span[1], label=after[place], over=tag.number)
    if not chain:
        return apply(annotation, "make", start=span[0], end=span[1], label=after[place])
    # Below the others: the lowest of them gets the label, and its own is made on top.
    annotation = apply(annotation, "make", start=span[0], end=span[1], label=chain[-1], over=nodes[-1].number)
    return apply(annotation, "relabel", node=nodes[-1].number + 1, label=after[place])


def confirm_before(annotation: Annotation, gold: Outline, order: str, span: Span, is_tag: bool) -> Annotation:
    """Confirm what is right and comes before a place: nodes with all that is in them, or without what comes later."""
    key = ORDERS[order]
    end = 0
    for one in list(annotation.nodes())[1:]:
        is_word = one.node.word is not None
        is_before = (key((one.start, one.end)), is_word) < (key(span), is_tag)
        # Phrases that cross missing ones are wrong, and not the first difference.
        if is_before and one.end > end and (is_word or gold.chains.get((one.start, one.end))):
            is_complete = order == "bottom-up" or one.end <= span[0]
            annotation = apply(annotation, "confirm", node=one.number, below=is_complete)
            end = one.end if is_complete else end
    return annotation
