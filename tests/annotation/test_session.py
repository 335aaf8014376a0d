"""Sessions: the queue, learning along, and what a page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import sapwood
from helpers.made_treebank import made_treebank
from sapwood.annotation.editing import EditError
from sapwood.annotation.learning import LEAST_TREES, BackgroundLearning
from sapwood.annotation.project import Project, ProjectSettings
from sapwood.annotation.proposals import ParserProposer, RightBranching
from sapwood.annotation.sentence_queue import SentenceQueue
from sapwood.annotation.session import AnnotationSession
from sapwood.errors import InputError, UsageError
from sapwood.trees.tree import Tree

TREES = [tree for tree in made_treebank() if 4 <= len(tree) <= 12][:14]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    settings = ProjectSettings(retrain_after=8)
    Project.create(place, sentences=[tree.words() for tree in TREES], settings=settings)
    return place


@pytest.fixture(scope="module")
def english() -> sapwood.Parser:
    return sapwood.Parser()


def annotate(session: AnnotationSession, number: int) -> None:
    """Accept the tree that a person would."""
    view = session.open(number)
    tree = TREES[number - 1]
    rooted = str(tree if tree.label == "ROOT" else Tree("ROOT", [tree]))
    view = session.act(number, view.revision, "choose", {"tree": rooted})
    session.act(number, view.revision, "accept", {})


def test_learning_along_from_nothing(folder):
    session = AnnotationSession(Project(folder))
    assert isinstance(session.proposer, RightBranching)
    for number in range(1, 8):
        annotate(session, number)
    assert not session.learning.state.running
    half = session.open(9)
    session.act(9, half.revision, "make", {"start": 0, "end": 2, "label": "NP"})
    annotate(session, 8)
    session.learning.join(120)
    assert session.learning.state.problem == ""
    last = session.learning.last
    assert last is not None
    assert last.trees == tuple(range(1, 9))
    assert last.new == 8
    assert last.taken == (last.after >= last.before)
    assert last.taken
    [news] = session.news
    assert f"{last.after - last.before:.1f} F1 better on 8 trees that it had not seen" in news
    # It takes over with the next sentence, and what was opened before is parsed again.
    assert isinstance(session.proposer, RightBranching)
    view = session.open(10)
    assert isinstance(session.proposer, ParserProposer)
    assert view.annotation.tree == session.learning.parser.parse_one(TREES[9].words()).tree
    assert session.learning.waiting() == 0
    # Trees that branch to the right are not learned from.
    assert (folder / "models" / "round-1" / "silver.mrg").read_text() == ""
    session.close()
    check_gain(folder / "models" / "round-1", last.after)
    with Project(folder) as project:
        learning = BackgroundLearning(project)
        assert learning.last == last
        assert learning.parser.parse_one(TREES[9].words()).tree == view.annotation.tree


def check_gain(place: Path, after: float) -> None:
    """Score the models of a round on the trees that they did not learn from."""
    first, second, every = ((place / f"{step}.mrg").read_text() for step in ("first-half", "second-half", "all"))
    trees = every.splitlines()
    assert first.splitlines() == trees[1::2]
    assert second.splitlines() == trees[::2]
    plan = json.loads((place / "plan.json").read_text())
    assert plan["halves"] == [[1, 3, 5, 7], [2, 4, 6, 8]]
    scorer = sapwood.evaluate.Scorer()
    for half, numbers in zip(("first-half", "second-half"), plan["halves"], strict=True):
        parser = sapwood.Parser(place / f"{half}.sapwood")
        for number in numbers:
            gold = parser.grammar.normaliser(TREES[number - 1])
            scorer.add(gold, parser.parse_one(gold.words(), check_tokens=False).tree)
    assert after == pytest.approx(scorer.result().f1, abs=0.01)


@pytest.mark.slow
def test_an_interrupted_round_is_continued(folder):
    session = AnnotationSession(Project(folder))
    for number in range(1, 9):
        annotate(session, number)
    session.close()
    place = folder / "models" / "round-1"
    assert not (place / "result.json").exists()
    session = AnnotationSession(Project(folder))
    session.learning.join(120)
    assert (place / "result.json").exists()
    assert session.learning.last.new == 8
    session.close()


@pytest.mark.slow
def test_a_worse_model_is_not_used(folder, english):
    session = AnnotationSession(Project(folder), english)
    for number in range(1, 9):
        annotate(session, number)
    session.learning.join(120)
    last = session.learning.last
    assert last.taken == (last.after >= last.before)
    if not last.taken:
        assert session.learning.parser is english
        assert "is not used" in session.news[0]
    session.close()


@pytest.mark.slow
def test_a_round_that_fails(folder, monkeypatch):
    session = AnnotationSession(Project(folder))
    monkeypatch.setattr("sapwood.annotation.learning._write_trees", lambda path, trees: path.write_text("(S\n"))
    for number in range(1, 9):
        annotate(session, number)
    session.learning.join(120)
    assert "training failed" in session.learning.state.problem
    monkeypatch.undo()
    assert session.learning.start(asked=True)
    session.learning.join(120)
    assert session.learning.state.problem == ""
    session.close()


@pytest.mark.slow
def test_learning_on_request(folder):
    session = AnnotationSession(Project(folder))
    for number in range(1, LEAST_TREES):
        annotate(session, number)
    assert not session.learning.start(asked=True)
    annotate(session, LEAST_TREES)
    assert session.learning.start(asked=True)
    session.learning.join(120)
    assert len(session.learning.last.trees) == LEAST_TREES
    assert session.learning.last.taken
    # Now there is a parser for what is half-annotated.
    for number in (LEAST_TREES + 1, LEAST_TREES + 2):
        annotate(session, number)
    view = session.open(LEAST_TREES + 3)
    session.act(LEAST_TREES + 3, view.revision, "confirm", {"node": 2})
    assert session.learning.start(asked=True)
    session.learning.join(120)
    assert (folder / "models" / "round-2" / "silver.mrg").read_text().count("\n") == 1
    assert not (folder / "models" / "round-1").exists() or not session.learning.last.taken
    session.close()


def test_models_outside_the_project(folder):
    (folder / "models").mkdir()
    bad = {"model": "../../x.sapwood", "trees": [], "new": 1, "before": 0, "after": 0, "taken": True}
    for text in (json.dumps(bad), "{}", "["):
        (folder / "models" / "current.json").write_text(text)
        with Project(folder) as project, pytest.raises(InputError, match=r"current\.json"):
            BackgroundLearning(project)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("round-x/plan.json", "{}"),
        ("round-1/plan.json", "["),
        ("round-1/plan.json", "{}"),
        ("round-1/plan.json", "[" * 100_000),
        ("round-1/plan.json", '{"trees": [1], "halves": [[[]], []], "silver": 0}'),
        ("round-1/plan.json", '{"trees": [1], "halves": 3, "silver": 0}'),
        ("round-1/plan.json", '{"trees": ["a"], "halves": [[1], []], "silver": 0}'),
        ("round-x/result.json", "{}"),
        ("round-1/result.json", '{"model": 3, "trees": [], "new": 1, "before": 0, "after": 0, "taken": true}'),
        ("round-1/result.json", '{"model": "\\u0000", "trees": [], "new": 1, "before": 0, "after": 0, "taken": true}'),
        ("round-1/result.json",
         '{"model": "round-1/a.sapwood", "trees": [[]], "new": 1, "before": 0, "after": 0, "taken": true}'),
        ("round-1/result.json",
         '{"model": "round-1/a.sapwood", "trees": [], "new": 1, "before": NaN, "after": "x", "taken": true}'),
        ("current.json",
         '{"model": "round-1/a.sapwood", "trees": [], "new": 1, "before": "\\ud800", "after": 0, "taken": 1}'),
    ],
)  # fmt: skip
def test_forged_rounds_are_errors(folder, name, text, monkeypatch):
    """Whatever a folder of models has, a project opens without it, or the error names the file."""
    failed = []
    monkeypatch.setattr("threading.excepthook", failed.append)
    (folder / "models" / name).parent.mkdir(parents=True)
    (folder / "models" / name).write_text(text)
    with Project(folder) as project:
        if name.endswith("plan.json") or "round-x" in name:
            session = AnnotationSession(project)
            session.learning.join(60)
            assert "round-x" in name or name in session.learning.state.problem
            session.learning.close()
        else:
            with pytest.raises(InputError, match=re.escape(name)):
                AnnotationSession(project)
    assert failed == []


def test_the_order_of_sentences(folder, english):
    with Project(folder) as project:
        queue = SentenceQueue(project)
        assert queue.numbers("teaching") == list(range(1, 15))
        queue.renew(english)
        queue.join(60)
        order = queue.numbers("teaching")
        assert sorted(order) == list(range(1, 15))
        assert order != sorted(order) or all(len(tree) < 10 for tree in TREES)
        nobody = RightBranching()

        def act(number: int, edit: str, **arguments: object) -> None:
            project.act(number, project.revision(number, project.open(number, nobody)), edit, arguments, nobody)

        act(5, "make", start=0, end=2, label="NPX")
        act(6, "accept")
        act(7, "skip")
        act(8, "note", text="hm")
        assert queue.numbers("teaching")[0] == 5
        assert queue.numbers("teaching")[-2:] == [7, 6]
        assert queue.numbers("doubts") == [8]
        assert queue.numbers(pattern="NPX") == [5]
        with pytest.raises(UsageError):
            queue.numbers(pattern="(((")
        with pytest.raises(UsageError, match="no order"):
            queue.numbers("alphabet")


def test_a_window_that_is_gone_holds_nothing(folder, english, monkeypatch):
    now = 0.0
    monkeypatch.setattr("sapwood.annotation.session.time.monotonic", lambda: now)
    session = AnnotationSession(Project(folder), english)
    session.open(1, "a")
    session.open(2, "b")
    now = 30.0
    session.keep_open("a")
    now = 60.0
    assert "another window" in session.open(1, "c").remark
    assert session.open(2, "c").remark == ""
    session.close()


def test_views(folder, english):
    session = AnnotationSession(Project(folder, annotator="Anna"), english)
    view = session.open(1, "a")
    assert view.remark == ""
    assert not view.can_undo
    assert {one[:3] for one in view.phrases} >= set(view.annotation.tree.spans()[1:2])
    assert "another window" in session.open(1, "b").remark
    session.open(2, "b")
    assert session.open(1, "a").remark == ""
    done = session.act(1, view.revision, "accept", {}, "a")
    assert done.annotation.status == "done"
    assert done.phrases == ()
    assert done.by == "Anna"
    assert session.counts() == {"new": 13, "begun": 0, "done": 1, "skipped": 0}
    assert session.next(1, "file") == 2
    with pytest.raises(EditError):
        session.act(1, done.revision, "remove", {"node": 0}, "a")
    assert (folder / "trees.mrg").read_text().startswith("# 1\n(ROOT ")
    (folder / "trees.mrg").write_text("# 1\n(S")
    undone = session.act(1, done.revision, "undo", {}, "a")
    assert undone.can_redo
    assert "not written" in session.problem
    session.save()
    assert "not written" in session.problem
    assert (folder / "trees.mrg").read_text() == "# 1\n(S"
    assert {"NP", "VP"} <= set(session.labels()["labels"])
    assert "NN" in session.labels()["tags"]
    session.act(1, undone.revision, "redo", {}, "a")
    assert session.export("tokens").split() == TREES[0].words()
    (folder / "trees.mrg").unlink()
    session.close()


def test_accepted_trees_with_probable_errors_are_a_queue(tmp_path):
    lines = ["(S (NP (N rain)) (VP (V fell)))"] * 12
    lines += ["(S (NP (N rain)) (V fell))", "(S (NPP (N snow)) (VP (V fell)))", "(S (X (N hail)) (VP (V fell)))"]
    Project.create(tmp_path / "project", drafts=[Tree.parse(line) for line in lines])
    nobody = RightBranching()
    with Project(tmp_path / "project") as project:
        queue = SentenceQueue(project)
        assert queue.numbers("errors") == []
        for number in range(1, 15):  # all but the last
            project.act(number, project.revision(number, project.open(number, nobody)), "accept", {}, nobody)
        # A label that is seen once, a phrase that is missing, and the same words as there; the last is not accepted.
        found = queue.numbers("errors")
        assert found[:2] == [14, 13]
        assert set(found[2:]) <= set(range(1, 13))
        assert 15 not in found
