"""Proposals: the tree of a sentence under what a person has confirmed.

With a parser, everything that is confirmed becomes a requirement (`sapwood.inference.constraints`): a confirmed phrase
is required, confirmed children forbid all phrases between them and their parent, and a whole subtree has no other
phrases. Labels that the parser does not know are required as phrases with any label, and put in place afterwards; so
are phrases that the grammar cannot build. If the grammar has no parse with everything that is confirmed, the proposal
is the tree of the phrases that are probable under less of it (`sapwood.annotation.expected_tree`). In any case, **what
is confirmed is in the proposal**; if there is no parse at all, the tree stays as it is.

Without a parser, proposals are right-branching, under the label `X`.

Annotations have no gaps. A parser of trees with gaps proposes their parts, `VP*` for each block of a phrase `VP`
(`sapwood.trees.formats.gaps`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol

from sapwood.annotation.expected_tree import expected_tree
from sapwood.annotation.state import Annotation, Mark, MarkedNode, cross, is_confirmed, nest
from sapwood.errors import NoParse, OutOfMemory, TimedOut
from sapwood.inference.chart.compiled_model import Sentence
from sapwood.inference.constraints import Phrase, Requirement, Subtree
from sapwood.inference.parser import Parser
from sapwood.inference.result import Marginal
from sapwood.trees.formats.gaps import split_gaps
from sapwood.trees.normalise import cut_function_tag
from sapwood.trees.tree import Tree

# Label of phrases and tags about which nothing is known.
ANY = "X"
# Probability below which a phrase that is not in the tree is not worth mentioning.
_LEAST = 0.02


class ProposedAnnotation(NamedTuple):
    """A proposed annotation.

    Attributes
    ----------
    annotation
        With all that was confirmed before.
    parsed
        False if no parse has what is confirmed, so that the tree is as it was.
    phrases
        Probable phrases and tags under what is confirmed, in the tree or not.
    """

    annotation: Annotation
    parsed: bool
    phrases: tuple[Marginal, ...] = ()


class Proposer(Protocol):
    """Source of proposals."""

    def start(self, words: Sequence[str]) -> Annotation:
        """Return the annotation of a sentence of which nothing is known."""
        ...

    def propose(self, annotation: Annotation) -> ProposedAnnotation:
        """Return an annotation with the same confirmed parts, and new proposals for the rest."""
        ...

    def phrases(self, annotation: Annotation) -> tuple[Marginal, ...]:
        """Return probable phrases and tags under what is confirmed, in the tree or not."""
        ...

    def alternatives(self, annotation: Annotation, count: int) -> list[Tree]:
        """Return the best trees under what is confirmed, the present one not included."""
        ...


@dataclass(frozen=True)
class ParserProposer:
    """Proposals of a parser."""

    parser: Parser
    _known: frozenset[str] = field(init=False, repr=False, compare=False)
    _tags: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parser", self.parser.with_options(marginals=False, alternatives=0, states=False))
        object.__setattr__(self, "_known", frozenset(self.parser.labels) | {self.parser.grammar.transform.root})
        object.__setattr__(self, "_tags", frozenset(self.parser.tags))

    def start(self, words: Sequence[str]) -> Annotation:
        """Return the best parse."""
        tree = parse_in_parts(self.parser, words)
        return Annotation.proposed(rooted(tree, self.parser.grammar.transform.root))

    def propose(self, annotation: Annotation) -> ProposedAnnotation:
        """Return the best parse with what is confirmed."""
        if all(is_confirmed(one) for one in annotation.nodes()):
            return ProposedAnnotation(annotation, True)
        for number, (tokens, required) in enumerate(self._requirements(annotation)):
            try:
                tree = None
                if number == 0:
                    tree = parse_in_parts(self.parser, tokens, required)
                phrases = self.parser.posteriors(tokens, phrases=required, least=_LEAST)
            except NoParse:
                continue
            except (OutOfMemory, TimedOut):
                break
            if tree is None:
                if not phrases:
                    continue
                tree = self._expected_tree(annotation, phrases)
            if (found := self._impose(annotation, tree)) is not None:
                return ProposedAnnotation(found, True, tuple(phrases))
        return ProposedAnnotation(annotation, False)

    def phrases(self, annotation: Annotation) -> tuple[Marginal, ...]:
        """Return the phrases and tags that are not improbable."""
        for tokens, required in self._requirements(annotation):
            try:
                if found := self.parser.posteriors(tokens, phrases=required, least=_LEAST):
                    return tuple(found)
            except (OutOfMemory, TimedOut):
                break
        return ()

    def alternatives(self, annotation: Annotation, count: int) -> list[Tree]:
        """Return the next best trees."""
        for tokens, required in self._requirements(annotation):
            try:
                best = self.parser.k_best(tokens, count + 1, phrases=required)
            except (OutOfMemory, TimedOut):
                break
            imposed = [self._impose(annotation, _in_parts(tree)) for tree, _ in best]
            trees = [one.tree for one in imposed if one is not None and one.tree != annotation.tree]
            if trees:
                return list(dict.fromkeys(trees))[:count]
        return []

    def _expected_tree(self, annotation: Annotation, phrases: Sequence[Marginal]) -> Tree:
        """Return the tree of the most probable phrases that has all that is confirmed."""
        required = {
            (one.start, one.end): one.node.label
            for one in annotation.nodes()
            if one.node.word is None and one.parent >= 0 and one.mark & Mark.LABEL
        }
        root = self.parser.grammar.transform.root
        absent = {(one.start, one.end, one.label) for one in annotation.absent}
        allowed = [one for one in phrases if not {(*one[:2], None), one[:3]} & absent]
        present = {(one.start, one.end, one.node.label) for one in annotation.nodes()}
        return expected_tree(
            annotation.words, allowed, required=required, present=present, tags=self._tags, root=root,
            above=self._above,
        )  # fmt: skip

    @cached_property
    def _above(self) -> frozenset[tuple[str, str]]:
        """Pairs of labels of which the first is over the second where they have the same words."""
        chains = self.parser.grammar.symbols.chain
        return frozenset(pair for chain in chains for pair in itertools.combinations(chain, 2))

    def _impose(self, annotation: Annotation, tree: Tree) -> Annotation | None:
        return impose(annotation, tree, self.parser.grammar.transform.root)

    def _requirements(self, annotation: Annotation) -> Iterator[tuple[list[tuple[str, str | None]], list[Requirement]]]:
        """Yield what a parse must have: all that is known, then spans without labels, tags or absent phrases."""
        nodes = list(annotation.nodes())
        tags = [
            (one.node.word or "", one.node.label if one.mark & Mark.LABEL and one.node.label in self._tags else None)
            for one in nodes
            if one.node.word is not None
        ]
        phrases = [one for one in nodes if one.node.word is None and one.parent >= 0]
        confirmed = {(one.start, one.end) for one in phrases if one.mark & Mark.LABEL}
        # Children of a confirmed list are phrases, whatever their labels.
        listed = {(one.start, one.end) for one in phrases if nodes[one.parent].mark & Mark.CHILDREN} - confirmed
        loose: list[Requirement] = [Phrase(start, end) for start, end in sorted(confirmed | listed)]
        absent: list[Requirement] = [Phrase(*one, True) for one in annotation.absent]
        absent += (
            Phrase(start, end, None, True) for start, end in sorted(_between_children(nodes, annotation.whole()))
        )
        yield tags, [*self._exact(nodes), *(Phrase(start, end) for start, end in sorted(listed)), *absent]
        labelled = [Phrase(one.start, one.end, self._label(one.node.label)) for one in phrases if one.mark & Mark.LABEL]
        yield tags, [*labelled, *loose, *absent]
        yield tags, [*loose, *absent]
        free: list[tuple[str, str | None]] = [(word, None) for word, _ in tags]
        if any(tag for _, tag in tags):
            yield free, [*loose, *absent]
        if absent:
            yield free, loose
        if loose:
            yield free, []

    def _exact(self, nodes: Sequence[MarkedNode]) -> Iterator[Requirement]:
        """Yield the confirmed phrases with their labels, and whole subtrees."""
        known = [
            is_confirmed(one)
            and (one.node.label in self._tags if one.node.word is not None else self._label(one.node.label) is not None)
            for one in nodes
        ]
        whole = _all_below(nodes, known)
        inside = 0
        for one in nodes:
            if one.parent < 0 or one.node.word is not None or one.start < inside:
                continue
            if whole[one.number]:
                inside = one.end
                yield Subtree(one.start, self._translated(one.node))
            elif one.mark & Mark.LABEL:
                yield Phrase(one.start, one.end, self._label(one.node.label))

    def _label(self, label: str) -> str | None:
        """Return a label as the parser knows it; None if it does not."""
        return next((one for one in (label, cut_function_tag(label)) if one in self._known), None)

    def _translated(self, tree: Tree) -> Tree:
        return tree.fold(
            lambda node, below: Tree(
                node.label if node.word is not None else self._label(node.label) or "", below, word=node.word
            )
        )


@dataclass(frozen=True)
class RightBranching:
    """Proposals without a parser: right-branching trees, with the most frequent tag of each known word."""

    root: str = "ROOT"
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, trees: Iterable[Tree], root: str = "ROOT") -> RightBranching:
        """Return proposals with the tags of some trees."""
        counts: dict[str, Counter[str]] = {}
        for tree in trees:
            for node in tree.preterminals():
                counts.setdefault(node.word or "", Counter())[node.label] += 1
        return cls(root, {word: max(sorted(found), key=found.__getitem__) for word, found in counts.items()})

    def start(self, words: Sequence[str]) -> Annotation:
        """Return a right-branching tree."""
        leaves = [Tree(self.tags.get(word, ANY), word=word) for word in words]
        return self.propose(Annotation.proposed(Tree(self.root, leaves))).annotation

    def propose(self, annotation: Annotation) -> ProposedAnnotation:
        """Return the confirmed phrases, with the rest branching to the right."""
        nodes = list(annotation.nodes())
        forbidden = {(one.start, one.end) for one in annotation.absent if one.label in (None, ANY)}
        kept = [
            one
            for one in nodes
            if one.node.word is not None
            or one.mark & Mark.LABEL
            or one.parent < 0
            or nodes[one.parent].mark & Mark.CHILDREN
        ]
        entries = [_SpannedNode.of(one, self.tags) for one in kept]
        for number, children in enumerate(_children([(one.start, one.end) for one in kept])):
            above = kept[number]
            if above.mark & Mark.CHILDREN or len(children) < 2:
                continue
            for place, child in enumerate(children[:-1]):
                span = (kept[child].start, above.end)
                # The root has one child.
                if (place > 0 or above.parent < 0) and span not in forbidden:
                    entries.append(_SpannedNode(*span, ANY, 0, None, len(nodes)))
        found = _assemble(annotation, entries)
        assert found is not None
        return ProposedAnnotation(found, True)

    def phrases(self, annotation: Annotation) -> tuple[Marginal, ...]:  # noqa: ARG002
        """Return nothing: there are no probabilities."""
        return ()

    def alternatives(self, annotation: Annotation, count: int) -> list[Tree]:  # noqa: ARG002
        """Return nothing: there is only one such tree."""
        return []


def parse_in_parts(parser: Parser, sentence: Sentence, phrases: Sequence[Requirement] = ()) -> Tree:
    """Return the best parse, with phrases with gaps split into parts."""
    tree = parser.parse_one(sentence, phrases=phrases, check_tokens=False).tree
    assert tree is not None
    return _in_parts(tree)


def _in_parts(tree: Tree) -> Tree:
    return split_gaps(tree) if tree.has_gaps else tree


def rooted(tree: Tree, *roots: str) -> Tree:
    """Return a tree with `ROOT` at the top, in place of the label of another root, or over it."""
    if tree.word is None and tree.label in ("", "ROOT", "TOP", "VROOT", *roots):
        return Tree("ROOT", tree.children)
    return Tree("ROOT", [tree])


class _SpannedNode(NamedTuple):
    """Node of a tree that is put together from spans; of nodes with the same span, the first in `order` is on top."""

    start: int
    end: int
    label: str
    mark: int
    word: str | None
    order: int

    @classmethod
    def of(cls, one: MarkedNode, tags: Mapping[str, str]) -> _SpannedNode:
        label = one.node.label
        if one.node.word is not None and not one.mark & Mark.LABEL:
            label = tags.get(one.node.word, label)
        return cls(one.start, one.end, label, one.mark, one.node.word, one.number)


def _assemble(annotation: Annotation, entries: Iterable[_SpannedNode]) -> Annotation | None:
    """Return the annotation with these nodes, None if they cross."""
    rows = sorted(entries, key=lambda one: (one.start, -one.end, one.word is not None, one.order))
    ends: list[int] = []
    for one in rows:
        while ends and ends[-1] <= one.start:
            ends.pop()
        if ends and ends[-1] < one.end:
            return None
        ends.append(one.end)
    tree = nest([(one.start, one.end) for one in rows], [one.label for one in rows], [one.word for one in rows])
    return replace(annotation, tree=tree, marks=tuple(one.mark for one in rows))


def _children(spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the numbers of the children of each node; nodes are in preorder."""
    found: list[list[int]] = [[] for _ in spans]
    opened: list[int] = []
    for number, (start, _) in enumerate(spans):
        while opened and spans[opened[-1]][1] <= start:
            opened.pop()
        if opened:
            found[opened[-1]].append(number)
        opened.append(number)
    return found


def _all_below(nodes: Sequence[MarkedNode], each: Iterable[bool]) -> list[bool]:
    """Return for each node whether something holds for it and for all nodes below it."""
    found = list(each)
    for one in reversed(nodes):
        if one.parent >= 0 and not found[one.number]:
            found[one.parent] = False
    return found


def _between_children(nodes: Sequence[MarkedNode], whole: Sequence[bool]) -> set[tuple[int, int]]:
    """Return the spans of phrases that would be between a node and its confirmed children."""
    bounds: dict[int, list[int]] = {}
    words: set[tuple[int, int]] = set()
    for one in nodes:
        if one.parent >= 0 and nodes[one.parent].mark & Mark.CHILDREN and not whole[one.parent]:
            bounds.setdefault(one.parent, [one.start]).append(one.end)
            if one.node.word is not None and nodes[one.parent].end - nodes[one.parent].start > 1:
                words.add((one.start, one.end))
    return words | {
        (start, end)
        for found in bounds.values()
        for place, start in enumerate(found)
        for end in found[place + 2 :]
        if (start, end) != (found[0], found[-1])
    }


def impose(annotation: Annotation, tree: Tree, root: str = "ROOT") -> Annotation | None:
    """Return a parse with everything that an annotation has confirmed, in place of what crosses it.

    `root` is the label at the top of the parse, if it is that of no phrase.
    """
    nodes, whole = list(annotation.nodes()), annotation.whole()
    forbidden: set[tuple[int, int, str | None]] = {(one.start, one.end, one.label) for one in annotation.absent}
    forbidden |= {(start, end, None) for start, end in _between_children(nodes, whole)}
    # The span of the largest whole subtree around each word.
    regions: list[tuple[int, int] | None] = [None] * nodes[0].end
    for one in nodes:
        if whole[one.number] and (one.parent < 0 or not whole[one.parent]):
            regions[one.start : one.end] = [(one.start, one.end)] * (one.end - one.start)
    unsure = {(one.start, one.end, one.node.label): Mark.UNSURE for one in nodes if one.mark & Mark.UNSURE}

    def is_inside(one: MarkedNode) -> bool:
        region = regions[one.start]
        if region is None or one.end > region[1]:
            return False
        return one.node.word is not None or (one.start, one.end) != region

    entries = [_SpannedNode(0, nodes[0].end, nodes[0].node.label, nodes[0].mark, None, -1)]
    entries += (_SpannedNode.of(one, {}) for one in nodes[1:] if is_inside(one))
    required: dict[tuple[int, int], list[MarkedNode]] = {}
    # Labels of children that are confirmed, whatever their labels.
    listed: dict[tuple[int, int], str] = {}
    tags: dict[int, MarkedNode] = {}
    for one in nodes[1:]:
        if one.node.word is not None:
            tags[one.start] = one
        elif not is_inside(one):
            above = nodes[one.parent]
            is_listed = bool(above.mark & Mark.CHILDREN)
            if one.mark & Mark.LABEL or (is_listed and (one.start, one.end) == (above.start, above.end)):
                required.setdefault((one.start, one.end), []).append(one)
            elif is_listed:
                listed[one.start, one.end] = one.node.label
    parsed: dict[tuple[int, int], list[str]] = {}
    for one in Annotation.proposed(tree).nodes():
        if is_inside(one) or (one.parent < 0 and one.node.label == root):
            continue
        if one.node.word is None:
            parsed.setdefault((one.start, one.end), []).append(one.node.label)
            continue
        tag = tags[one.start]
        label = tag.node.label if tag.mark & Mark.LABEL else one.node.label
        mark = tag.mark if label == tag.node.label else 0
        entries.append(_SpannedNode(one.start, one.end, label, mark, tag.node.word, 0))
    for span in listed.keys() - parsed.keys() - required.keys():
        parsed[span] = [listed[span]]
    top = (0, nodes[0].end)
    for span in parsed.keys() | required.keys():
        closed = span == top and bool(nodes[0].mark & Mark.CHILDREN)
        chain = _chain(parsed.get(span, []), required.get(span, []), whole, closed=closed)
        for order, (label, mark) in enumerate(chain):
            if mark or not {(*span, None), (*span, label)} & forbidden:
                entries.append(_SpannedNode(*span, label, mark or unsure.get((*span, label), 0), None, order))
    found = _assemble(annotation, entries)
    if found is None:
        sure = sorted({(one.start, one.end) for one in nodes if is_inside(one)} | required.keys() | listed.keys())
        entries = [one for one in entries if one.mark or not any(cross((one.start, one.end), other) for other in sure)]
        found = _assemble(annotation, entries)
    return found if found is not None and keeps(annotation, found) else None


def _chain(
    parsed: Sequence[str], required: Sequence[MarkedNode], whole: Sequence[bool], *, closed: bool
) -> list[tuple[str, int]]:
    """Return labels and marks of phrases with the same words, from the top: those of a parse, and the required ones.

    If the children of what is above them are confirmed, it is `closed`.
    """
    found: list[tuple[str, int]] = []
    rest = list(required)
    for label in parsed:
        if rest and label in (rest[0].node.label, cut_function_tag(rest[0].node.label)):
            one = rest.pop(0)
            found.append((one.node.label, one.mark))
            if whole[one.number]:  # with everything below it
                return found + [(other.node.label, other.mark) for other in rest]
            closed = bool(one.mark & Mark.CHILDREN)
        elif not closed:
            found.append((label, 0))
    return [(one.node.label, one.mark) for one in required] if rest else found


def keeps(before: Annotation, after: Annotation) -> bool:
    """Return whether everything that is confirmed before is so afterwards."""
    there = set(_confirmed(after))
    return before.words == after.words and all(one in there for one in _confirmed(before))


def _confirmed(annotation: Annotation) -> Iterator[tuple[int, int, str, bool, tuple[tuple[int, int], ...]]]:
    """Yield the spans and labels of confirmed nodes, and the spans of confirmed children."""
    nodes = list(annotation.nodes())
    children: list[list[tuple[int, int]]] = [[] for _ in nodes]
    for one in nodes:
        if one.parent >= 0:
            children[one.parent].append((one.start, one.end))
    for one in nodes:
        label = one.node.label if one.mark & Mark.LABEL else ""
        if one.mark & Mark.CHILDREN and one.node.word is None:
            yield one.start, one.end, label, False, tuple(children[one.number])
        if label:
            yield one.start, one.end, label, one.node.word is not None, ()
