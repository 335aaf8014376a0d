"""Proposals: what is confirmed is in every one of them, with a parser or without."""

from __future__ import annotations

import random

import pytest

import sapwood
from sapwood.annotation.editing import EditError, apply
from sapwood.annotation.proposals import ParserProposer, RightBranching, impose, keeps
from sapwood.annotation.state import Annotation, Mark
from sapwood.trees.formats.gaps import join_gaps
from sapwood.trees.tree import Tree

WORDS = ["She", "saw", "the", "old", "man", "with", "the", "telescope", "in", "the", "garden", "."]


@pytest.fixture(scope="module")
def parsed() -> ParserProposer:
    return ParserProposer(sapwood.Parser())


def at(annotation: Annotation, start: int, end: int, label: str) -> int:
    return next(one.number for one in annotation.nodes() if (one.start, one.end, one.node.label) == (start, end, label))


def is_confirmed_in(one: Annotation, other: Annotation) -> bool:
    """Return whether confirmed phrases, tags and lists of children are in another tree; slow and obvious."""

    def spans(annotation: Annotation) -> list[tuple[int, int, Tree, int]]:
        return [(node.start, node.end, node.node, node.mark) for node in annotation.nodes()]

    def children(start: int, node: Tree) -> list[tuple[int, int]]:
        found = []
        for child in node.children:
            found.append((start, start + len(child)))
            start += len(child)
        return found

    for start, end, node, mark in spans(one):
        there = [found for s, e, found, _ in spans(other) if (s, e) == (start, end)]
        if mark & Mark.LABEL and not any(f.label == node.label and f.word == node.word for f in there):
            return False
        if mark & Mark.CHILDREN and not any(children(start, f) == children(start, node) for f in there):
            return False
    return True


def test_one_correction_repairs_the_rest(parsed):
    start = parsed.start(WORDS)
    found = parsed.propose(apply(start, "make", start=2, end=8, label="NP"))
    assert found.parsed
    assert (2, 8, "NP") in found.annotation.tree.spans()
    # The garden was inside that noun phrase before.
    assert (8, 11, "PP") in found.annotation.tree.spans()
    assert not any(s < 8 < e < 12 and s >= 2 for s, e, _ in found.annotation.tree.spans())
    assert any(one.probability < 0.9 for one in found.phrases)


def test_phrases_with_gaps_are_proposed_in_parts():
    lines = ["(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))", "(S (NP 0=John) (VP (VB 1=is) (JJ 2=rich)))"]
    trees = [Tree.parse(line, format="discbracket") for line in lines]
    proposer = ParserProposer(sapwood.Parser(sapwood.PCFG().fit(sapwood.PCFG.prepare(trees))))
    start = proposer.start(["is", "John", "rich"])
    parts = "(ROOT (S (VP* (VB is)) (NP John) (VP* (JJ rich))))"
    assert str(start.tree) == parts
    # What is confirmed stays in parts, too, and so do alternatives.
    part = apply(start, "confirm", node=at(start, 0, 1, "VP*"))
    assert str(proposer.propose(part).annotation.tree) == parts
    other = Annotation.proposed(Tree.parse("(ROOT (S (NP is) (VP (VB John) (JJ rich))))"))
    assert parts in map(str, proposer.alternatives(other, 3))
    assert join_gaps(start.accept().tree) == Tree("ROOT", [trees[0]])


def test_removed_phrases_stay_away(parsed):
    start = parsed.start(WORDS)
    node = at(start, 2, 11, "NP")
    found = parsed.propose(apply(start, "remove", node=node)).annotation
    assert not [span for span in found.tree.spans() if span[:2] == (2, 11)]


def test_labels_that_the_parser_does_not_know(parsed):
    start = parsed.start(WORDS)
    made = apply(apply(start, "make", start=5, end=8, label="NÝTT"), "relabel", node=2, label="NP-SBJ")
    made = apply(made, "relabel", node=3, label="PRON")
    found = parsed.propose(made)
    assert found.parsed
    assert (5, 8, "NÝTT") in found.annotation.tree.spans()
    assert "(NP-SBJ (PRON She))" in str(found.annotation.tree)


def test_without_a_parse_nothing_changes(parsed, monkeypatch):
    start = apply(parsed.start(WORDS), "make", start=2, end=8, label="NP")

    def fail(*_: object, **__: object) -> None:
        raise sapwood.errors.NoParse

    monkeypatch.setattr(parsed.parser, "parse_one", fail)
    monkeypatch.setattr(parsed.parser, "posteriors", lambda *_, **__: [])
    found = parsed.propose(start)
    assert not found.parsed
    assert found.annotation is start


def test_what_the_grammar_cannot_build_does_not_undo_the_rest():
    trees = [
        sapwood.Tree.parse(line)
        for line in (
            "(S (NP (D the) (N dog)) (VP (V saw) (NP (D the) (N cat))))",
            "(S (NP (D the) (N man)) (VP (V ran) (PP (P with) (NP (D the) (N dog)))))",
            "(S (NP (D a) (N cat)) (VP (V saw) (NP (D a) (N man)) (PP (P with) (NP (D a) (N dog)))))",
        )
    ]
    proposer = ParserProposer(sapwood.Parser(sapwood.train(trees, method="pcfg")))
    start = proposer.start(["the", "man", "saw", "a", "dog", "with", "the", "cat"])
    # No rule makes such a phrase, which crosses others.
    made = apply(start, "make", start=2, end=5, label="ADVP")
    found = proposer.propose(made)
    assert found.parsed
    spans = found.annotation.tree.spans()
    assert {(2, 5, "ADVP"), (0, 2, "NP"), (3, 5, "NP"), (5, 8, "PP"), (6, 8, "NP")} <= set(spans)


def test_children_that_were_moved_stay(parsed):
    start = parsed.start(WORDS)
    pp = max(one.number for one in start.nodes() if (one.start, one.node.label) == (8, "PP"))
    vp = at(start, 1, 11, "VP")
    moved = apply(start, "move", node=pp, parent=vp)
    found = parsed.propose(moved).annotation
    [above] = [
        one
        for one in found.nodes()
        if one.number == next(n.parent for n in found.nodes() if (n.start, n.node.label) == (8, "PP"))
    ]
    assert above.node.label == "VP"
    assert (2, 11) not in [span[:2] for span in found.tree.spans()]


def random_edit(draw: random.Random, annotation: Annotation) -> Annotation:
    nodes = list(annotation.nodes())
    size = nodes[0].end
    start = draw.randrange(size)
    end = draw.randrange(start + 1, min(size, start + 6) + 1)
    node = draw.randrange(len(nodes))
    edits = [
        ("make", {"start": start, "end": end, "label": draw.choice(["NP", "VP", "NEW"])}),
        ("relabel", {"node": node, "label": draw.choice(["NP", "VP", "S", "NEW", nodes[node].node.label])}),
        ("remove", {"node": node}),
        ("move", {"node": node, "parent": draw.randrange(len(nodes))}),
        ("raise", {"node": node}),
        ("lower", {"node": node, "right": draw.random() < 0.5, "adjoin": draw.random() < 0.5}),
        ("confirm", {"node": node, "below": draw.random() < 0.7}),
        ("unconfirm", {"node": node}),
        ("unsure", {"node": node}),
        ("split", {"position": start, "words": ["new", "words"]}),
        ("join", {"position": start}),
    ]
    edit, arguments = draw.choice(edits)
    return apply(annotation, edit, **arguments)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_confirmed_never_changes_by_itself(parsed, seed):
    draw = random.Random(seed)
    proposer = parsed if seed % 3 else RightBranching(tags={"the": "DT"})
    annotation = proposer.start(WORDS)
    for _ in range(30):
        try:
            edited = random_edit(draw, annotation)
        except EditError:
            continue
        found = proposer.propose(edited)
        assert found.annotation.words == edited.words
        assert is_confirmed_in(edited, found.annotation)
        assert keeps(edited, found.annotation)
        assert found.annotation.absent == edited.absent
        for start, end, label in edited.absent:
            there = [span for span in found.annotation.tree.spans() if span[:2] == (start, end)]
            assert not any(label in (None, span[2]) for span in there)
        assert found.parsed
        annotation = found.annotation


def test_a_lost_phrase_is_noticed(parsed):
    annotation = apply(parsed.start(WORDS), "confirm", node=2)
    assert not keeps(annotation, Annotation.proposed(annotation.tree))
    assert keeps(annotation, annotation)
    crossing = Tree.parse(
        "(ROOT (S (A She) (B saw) (NP (A the) (B old)) (A man) (A with) (A the) (A t) (A in) (A the) (A g) (A .)))"
    )
    sure = apply(annotation, "make", start=3, end=5, label="NP")
    found = impose(sure, crossing)
    assert found is not None
    assert (2, 4, "NP") not in found.tree.spans()
    assert keeps(sure, found)


def test_alternatives_keep_what_is_confirmed(parsed):
    annotation = apply(parsed.start(WORDS), "make", start=2, end=8, label="NP")
    annotation = parsed.propose(annotation).annotation
    found = parsed.alternatives(annotation, 4)
    assert 1 <= len(found) <= 4
    assert annotation.tree not in found
    assert all((2, 8, "NP") in tree.spans() for tree in found)


def test_right_branching():
    proposer = RightBranching.of(
        [Tree.parse("(ROOT (S (D the) (N dog) (N the) (N barked)))"), Tree.parse("(ROOT (D the))")]
    )
    start = proposer.start(["the", "dog", "barked"])
    assert str(start.tree) == "(ROOT (X (D the) (X (N dog) (N barked))))"
    made = apply(start, "make", start=0, end=2, label="NP")
    assert str(proposer.propose(made).annotation.tree) == "(ROOT (X (NP (D the) (N dog)) (N barked)))"
    removed = apply(start, "remove", node=3)
    assert str(proposer.propose(removed).annotation.tree) == "(ROOT (X (D the) (N dog) (N barked)))"
    assert str(proposer.start(["hm"]).tree) == "(ROOT (X hm))"
    assert proposer.alternatives(start, 3) == []
