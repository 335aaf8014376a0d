"""Edits of annotations: each does what it says, and refuses what it cannot do."""

from __future__ import annotations

import pytest

from sapwood.annotation.editing import EDITS, EditError, apply
from sapwood.annotation.state import CONFIRMED, AbsentPhrase, Annotation, Mark
from sapwood.trees.tree import Tree

TEXT = (
    "(ROOT (S (NP (PRP She)) (VP (VBD saw) (NP (NP (DT the) (NN man)) (PP (IN with) (NP (DT the) (NN hat))))) (. .)))"
)


@pytest.fixture
def sentence() -> Annotation:
    return Annotation.proposed(Tree.parse(TEXT))


def at(annotation: Annotation, start: int, end: int, label: str) -> int:
    return next(one.number for one in annotation.nodes() if (one.start, one.end, one.node.label) == (start, end, label))


def mark_of(annotation: Annotation, start: int, end: int, label: str) -> int:
    return annotation.marks[at(annotation, start, end, label)]


def test_relabel_a_phrase_and_a_tag(sentence):
    found = apply(sentence, "relabel", node=at(sentence, 4, 7, "PP"), label="XP")
    assert "(XP (IN with)" in str(found.tree)
    assert mark_of(found, 4, 7, "XP") == Mark.LABEL
    found = apply(found, "relabel", node=at(found, 1, 2, "VBD"), label="VBP")
    assert "(VBP saw)" in str(found.tree)
    assert found.status == "begun"


@pytest.mark.parametrize("label", ["", " ", "N P", "N\nP", "_", "N" * 101, "\ud800", "A\x01"])
def test_no_label(sentence, label):
    with pytest.raises(EditError, match="cannot be a label"):
        apply(sentence, "relabel", node=3, label=label)


def test_the_same_phrase_twice(sentence):
    with pytest.raises(EditError, match="already"):
        apply(sentence, "make", start=4, end=7, label="PP")


def test_make_dissolves_what_it_crosses(sentence):
    found = apply(sentence, "make", start=1, end=4, label="V1")
    assert str(found.tree) == (
        "(ROOT (S (NP (PRP She)) "
        "(VP (V1 (VBD saw) (NP (DT the) (NN man))) (PP (IN with) (NP (DT the) (NN hat)))) (. .)))"
    )
    sure = apply(sentence, "confirm", node=at(sentence, 2, 7, "NP"), below=False)
    with pytest.raises(EditError, match=r"cross NP \(the man with the hat\)"):
        apply(sure, "make", start=1, end=4, label="V1")


def test_make_over_a_node_and_a_word(sentence):
    found = apply(sentence, "make", start=0, end=0, label="CL", over=at(sentence, 1, 7, "VP"))
    assert "(CL (VP (VBD saw)" in str(found.tree)
    found = apply(sentence, "make", start=1, end=2, label="V")
    assert "(V (VBD saw))" in str(found.tree)
    found = apply(sentence, "make", start=4, end=7, label="AP")
    assert "(AP (PP (IN with)" in str(found.tree)
    with pytest.raises(EditError, match="root"):
        apply(sentence, "make", start=0, end=0, label="CL", over=0)
    for start, end in ((3, 3), (-1, 2), (2, 9)):
        with pytest.raises(EditError, match="not in the sentence"):
            apply(sentence, "make", start=start, end=end, label="CL")


def test_remove_makes_a_phrase_absent(sentence):
    found = apply(sentence, "remove", node=at(sentence, 2, 7, "NP"))
    assert found.absent == (AbsentPhrase(2, 7),)
    assert "(VP (VBD saw) (NP (DT the) (NN man)) (PP" in str(found.tree)
    again = apply(found, "make", start=2, end=7, label="NP")
    assert again.absent == ()
    assert again.tree == sentence.tree
    chain = Annotation.proposed(Tree.parse("(ROOT (S (VP (V go) (N home))))"))
    assert apply(chain, "remove", node=1).absent == (AbsentPhrase(0, 2, "S"),)
    for number in (0, at(sentence, 1, 2, "VBD")):
        with pytest.raises(EditError):
            apply(sentence, "remove", node=number)


def test_move_up_and_down(sentence):
    up = apply(sentence, "move", node=at(sentence, 4, 7, "PP"), parent=at(sentence, 1, 7, "VP"))
    assert str(up.tree) == (
        "(ROOT (S (NP (PRP She)) (VP (VBD saw) (NP (DT the) (NN man)) (PP (IN with) (NP (DT the) (NN hat)))) (. .)))"
    )
    assert up.absent == (AbsentPhrase(2, 7),)
    assert mark_of(up, 1, 7, "VP") == CONFIRMED
    assert mark_of(up, 4, 7, "PP") == Mark.LABEL
    assert apply(sentence, "raise", node=at(sentence, 4, 7, "PP")).tree == up.tree
    down = apply(up, "lower", node=at(up, 4, 7, "PP"))
    assert "(NP (DT the) (NN man) (PP" in str(down.tree)
    assert apply(up, "lower", node=at(up, 4, 7, "PP"), adjoin=True).tree == sentence.tree
    right = Annotation.proposed(Tree.parse("(ROOT (S (A a) (VP (B b) (C c))))"))
    assert str(apply(right, "lower", node=2, right=True).tree) == "(ROOT (S (VP (A a) (B b) (C c))))"


def test_moves_that_cannot_be(sentence):
    pp, np, vp = at(sentence, 4, 7, "PP"), at(sentence, 2, 7, "NP"), at(sentence, 1, 7, "VP")
    for node, parent, reason in (
        (0, vp, "root"), (np, pp, "into itself"), (pp, np, "already"), (at(sentence, 4, 5, "IN"), vp, "between"),
        (pp, at(sentence, 0, 1, "NP"), "between"), (pp, at(sentence, 1, 2, "VBD"), "not a phrase"), (99, vp, "no node"),
    ):  # fmt: skip
        with pytest.raises(EditError, match=reason):
            apply(sentence, "move", node=node, parent=parent)
    for edit, node, reason in (
        ("raise", 1, "as high"), ("raise", 0, "as high"), ("raise", vp, "middle"), ("lower", 1, "no phrase"),
        ("lower", 0, "no phrase"),
    ):  # fmt: skip
        with pytest.raises(EditError, match=reason):
            apply(sentence, edit, node=node)


def test_moving_the_only_child_removes_its_parent():
    one = Annotation.proposed(Tree.parse("(ROOT (S (A a) (XP (YP (B b)))))"))
    found = apply(one, "move", node=at(one, 1, 2, "YP"), parent=1)
    assert str(found.tree) == "(ROOT (S (A a) (YP (B b))))"


def test_confirm_and_take_back(sentence):
    np = at(sentence, 2, 7, "NP")
    found = apply(sentence, "confirm", node=np)
    assert found.whole()[np]
    assert str(found.partial()) == (
        "(ROOT She saw (NP (NP (DT the) (NN man)) (PP (IN with) (NP (DT the) (NN hat)))) .)"
    )
    found = apply(found, "unconfirm", node=at(found, 4, 7, "PP"))
    assert not found.whole()[np]
    # Nothing says that there is no other phrase in it.
    assert str(found.partial()) == "(ROOT She saw (NP (NP (DT the) (NN man)) with the hat) .)"
    assert apply(found, "unconfirm", node=0).marks == sentence.marks


def test_unsure_and_notes(sentence):
    found = apply(sentence, "unsure", node=4)
    assert found.marks[4] == Mark.UNSURE
    assert apply(found, "unsure", node=4, unsure=False) == sentence
    assert apply(sentence, "note", text="  hm \n").note == "hm"
    with pytest.raises(EditError, match="no node"):
        apply(sentence, "unsure", node=100)


def test_tokens(sentence):
    found = apply(sentence, "remove", node=at(sentence, 4, 7, "PP"))
    split = apply(found, "split", position=1, words=["sa", "w"])
    assert split.words == ["She", "sa", "w", "the", "man", "with", "the", "hat", "."]
    assert split.absent == (AbsentPhrase(5, 8),)
    joined = apply(split, "join", position=1)
    assert joined.tree == found.tree
    assert joined.absent == found.absent
    assert apply(sentence, "respell", position=3, word="woman").words[3] == "woman"
    # What has no word left goes, here none.
    assert str(apply(sentence, "join", position=0).tree).startswith("(ROOT (S (NP (PRP Shesaw)) (VP (NP (NP")
    assert str(apply(sentence, "join", position=6).tree).endswith("(NP (DT the) (NN hat.)))))))")
    for edit, arguments in (
        ("split", {"position": 1, "words": ["saw"]}), ("split", {"position": 1, "words": ["s", ""]}),
        ("join", {"position": 7}), ("respell", {"position": 8, "word": "x"}),
        ("respell", {"position": 1, "word": "a b"}),
    ):  # fmt: skip
        with pytest.raises(EditError):
            apply(sentence, edit, **arguments)


def test_choosing_another_tree_confirms_the_difference(sentence):
    other = apply(sentence, "raise", node=at(sentence, 4, 7, "PP")).tree
    found = apply(sentence, "choose", tree=str(other))
    assert found.tree == other
    assert found.absent == (AbsentPhrase(2, 7),)
    back = apply(found, "choose", tree=TEXT)
    assert mark_of(back, 2, 7, "NP") == Mark.LABEL
    with pytest.raises(EditError, match="confirmed"):
        apply(back, "choose", tree=str(other))
    with pytest.raises(EditError, match="another sentence"):
        apply(sentence, "choose", tree="(ROOT (S (A a)))")


def test_accepting(sentence):
    found = apply(sentence, "accept")
    assert found.status == "done"
    assert all(found.whole())
    assert apply(found, "reopen").status == "begun"
    assert apply(sentence, "skip").status == "skipped"
    assert apply(found, "relabel", node=1, label="SQ").status == "begun"


def test_annotations_as_json(sentence):
    found = apply(apply(sentence, "remove", node=6), "note", text="«é»")
    assert Annotation.from_json(found.to_json()) == found


def test_unknown_edits(sentence):
    with pytest.raises(EditError, match="no edit 'delete'"):
        apply(sentence, "delete")
    for edit in EDITS:
        with pytest.raises(EditError, match=r"unexpected keyword|missing"):
            apply(sentence, edit, colour="red")
