"""Committees of induced models, averaged trees, and the parser distilled from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sapwood import Tree, induce, load, read_trees
from sapwood.errors import InputError, UsageError
from sapwood.induction.run import InductionRun
from sapwood.pipeline import ensemble_induction
from sapwood.pipeline.ensemble_induction import RECOMMENDED, Member, induce_ensemble, make_members, report_ensemble

LINES = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .))",
    "(S (NP (DT the) (JJ old) (NN cat)) (, ,) (VP (VBZ sleeps)) (. .))",
    "(S (NP (PRP she)) (VP (VBZ sees) (NP (DT the) (JJ small) (NN bird))) (. .))",
    "(FRAG (. .))",
    "(NP (NN dinner))",
]
TREES = [Tree.parse(line) for line in LINES] * 4
QUICK: dict[str, Any] = {"iterations": 2, "classes": 4}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ensemble_induction, "STUDENT", {"method": "pcfg"})
    return tmp_path


def test_members_by_number_model_and_file(folder):
    assert len(make_members()) == len(RECOMMENDED)
    assert [one.name for one in make_members(3)] == ["simple-pcfg", "dmv:48", "dmv+ccm:48"]
    Path("trees.mrg").write_text("(S (A a) (B b))\n")
    members = make_members(["dmv", "trees.mrg", "dmv", "tensor-pcfg:8"], seed=7, states=3)
    assert [one.name for one in members] == ["dmv:48", "trees.mrg", "dmv:96", "tensor-pcfg:8"]
    assert [one.inducer.random_state for one in members if one.inducer] == [7, 8, 7]
    assert members[3].inducer.states == 3
    assert [one.classes for one in make_members(["dmv", "ccm"], tags=True)] == [None, None]
    for asked, message in (
        ({"ensemble": 99}, "ensemble must be 1 to"),
        ({"ensemble": []}, "at least one member"),
        ({"ensemble": ["hmm"]}, "neither a file nor a model"),
        ({"ensemble": ["dmv:many"]}, "write MODEL:CLASSES"),
        ({"ensemble": ["dmv:4"], "tags": True}, "no word classes"),
        ({"ensemble": ["dmv"], "states": 3}, "no member of the ensemble has a setting 'states'"),
    ):
        with pytest.raises(UsageError, match=message):
            make_members(**asked)


def test_a_committee_of_trees_gives_these_trees(folder):
    """Over all tokens, or without punctuation; sentences without words have no tree."""
    binary = [
        "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .))",
        "(S (X (DT the) (X (JJ old) (NN cat))) (, ,) (VBZ sleeps) (. .))",
        "(S (NP (PRP she)) (VP (VBZ sees) (NP (DT the) (X (JJ small) (NN bird)))) (. .))",
        "(FRAG (. .))",
        "(NP (NN dinner))",
    ]
    Path("all.mrg").write_text("\n".join(binary * 4) + "\n")
    found = induce_ensemble(TREES, ensemble=["all.mrg"], classes=3, trees="averaged.mrg")
    assert found.committee.averaged[:2] == [[(0, 5), (0, 2), (2, 5), (3, 5)], [(0, 4), (0, 3), (1, 3)]]
    assert found.committee.trees[3] is None
    written = list(read_trees("averaged.mrg"))
    assert [tree.words() for tree in written] == [tree.words() for tree in TREES]
    # What was written is a member like any other.
    again = induce_ensemble(TREES, ensemble=["averaged.mrg", "all.mrg"], classes=3, binary=True)
    assert [set(spans) for spans in again.committee.averaged] == [set(spans) for spans in found.committee.averaged]
    kept = induce_ensemble(TREES, ensemble=["all.mrg"], classes=3, punctuation="keep")
    assert [tree.words() for tree in kept.committee.trees] == [tree.words() for tree in TREES]
    assert "averaged" in report_ensemble(found, TREES)
    assert "averaged" not in report_ensemble(kept, TREES)
    assert "distilled" in report_ensemble(kept, TREES)


@pytest.mark.parametrize("tags", [True, False])
def test_models_and_parsers_in_files_are_members(folder, tags):
    asked: dict[str, Any] = {"tags": True} if tags else {"classes": 4}
    for model in ("dmv", "pcfg"):
        induce(TREES, model=model, output=f"{model}.sapwood", iterations=2, **asked)
    first = induce_ensemble(TREES, ensemble=["dmv.sapwood", "pcfg.sapwood"], output="parser.sapwood", **asked)
    assert load("parser.sapwood").preparation.induced.terminals == ("tags" if tags else "classes")
    # So is the parser that is distilled from them.
    both = induce_ensemble(TREES, ensemble=["dmv.sapwood", "parser.sapwood"], **asked)
    assert list(both.committee.members) == ["dmv.sapwood", "parser.sapwood"]
    learned = induce_ensemble(TREES, ensemble=["dmv" if tags else "dmv:4", "pcfg.sapwood"], iterations=2, **asked)
    assert learned.committee.averaged == first.committee.averaged
    assert learned.committee.trees == first.committee.trees


def test_a_run_goes_on_to_the_same_bytes_on_any_number_of_threads(folder, monkeypatch):
    monkeypatch.setattr(ensemble_induction, "STUDENT", {"method": "split-merge", "span_scorer": True, "cycles": 1})
    members = ["dmv:4", "dmv+ccm:3", "pcfg:4"]
    induce_ensemble(TREES, ensemble=members, output="whole", **QUICK)
    assert [path.name for path in folder.iterdir()] == ["whole"]
    honest, calls = InductionRun.__call__, []

    def stopping(self, *arguments):
        calls.append(self.inducer.model)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return honest(self, *arguments)

    monkeypatch.setattr(InductionRun, "__call__", stopping)
    with pytest.raises(KeyboardInterrupt):
        induce_ensemble(TREES, ensemble=members, output="part", **QUICK)
    assert Path("part.stage-member-2").exists()
    monkeypatch.setattr(InductionRun, "__call__", honest)
    with pytest.raises(UsageError, match="continue with --resume"):
        induce_ensemble(TREES, ensemble=members, output="part", **QUICK)
    with pytest.raises(UsageError, match="with other settings or trees"):
        induce_ensemble(TREES, ensemble=members[:2], output="part", resume=True, **QUICK)
    monkeypatch.setattr(InductionRun, "__call__", lambda self, *rest: calls.append("late") or honest(self, *rest))
    induce_ensemble(TREES, ensemble=members, output="part", resume=True, threads=2, **QUICK)
    assert calls[3:] == ["late"]
    assert Path("whole").read_bytes() == Path("part").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["part", "whole"]


def test_files_that_do_not_fit_are_refused_before_anything_is_learned(folder, monkeypatch):
    monkeypatch.setattr(InductionRun, "__call__", lambda *_: pytest.fail("learned"))
    Path("few.mrg").write_text(LINES[0] + "\n")
    Path("other.mrg").write_text("\n".join([LINES[1], *LINES[1:], *LINES * 3]) + "\n")
    for name, message in (
        ("few.mrg", "few.mrg: has 1 trees for the 20 sentences"),
        ("other.mrg", "other.mrg: tree 1: its words are not those of sentence 1 of the text: 'the dog sees a cat .'"),
    ):
        with pytest.raises(InputError, match=message):
            induce_ensemble(TREES, ensemble=["dmv:4", name], output="m", **QUICK)
    with pytest.raises(UsageError, match="resume: requires output"):
        induce_ensemble(TREES, resume=True)
    with pytest.raises(UsageError, match="classes: are found for words"):
        induce_ensemble(TREES, tags=True, classes=4)
    with pytest.raises(InputError, match="the text has no words"):
        induce_ensemble([["."]], ensemble=["dmv:4"])
    from sapwood import Corpus

    Corpus.from_trees(TREES).save("corpus.sapwood")
    with pytest.raises(UsageError, match="holds a corpus, neither a model nor trees"):
        induce_ensemble(TREES, ensemble=["corpus.sapwood"], output="m")
    assert not any(path.name.startswith("m") for path in folder.iterdir())


def test_members_that_are_given_as_objects(folder):
    Path("a.mrg").write_text("\n".join(LINES * 4) + "\n")
    found = induce_ensemble(TREES, ensemble=[Member("mine", path=Path("a.mrg"))], classes=3)
    assert list(found.committee.members) == ["mine"]
