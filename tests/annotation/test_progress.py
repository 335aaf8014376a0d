"""Progress of a project, from its journal."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from helpers.made_up import made_up_treebank
from sapwood.annotation.editing import EDITS
from sapwood.annotation.progress import (
    CORRECTIONS,
    AcceptedTree,
    AnnotationProgress,
    draw_progress,
    expected_f1,
    read_progress,
)
from sapwood.annotation.project import Project
from sapwood.annotation.proposals import RightBranching
from sapwood.inference import Parser
from sapwood.learn.lpcfg.pcfg import PCFG

START = datetime(2026, 11, 19, 12, 0, 0, tzinfo=UTC)
STATE = {"tree": "(S (N a) (VP (V b) (N c)))", "marks": "000000", "status": "new"}


def journal(folder: Path, *actions: tuple[int, str, int, str]) -> Path:
    """Write actions: sentence, edit, seconds since the start, and who did it."""
    path = folder / "journal.jsonl"
    lines = [
        {
            "sentence": sentence,
            "version": number,
            "action": {"edit": edit},
            **({} if edit in ("undo", "redo") else {"state": STATE}),
            "by": by,
            "time": (START + timedelta(seconds=seconds)).isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
        for number, (sentence, edit, seconds, by) in enumerate(actions)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_time_without_breaks_and_corrections(tmp_path):
    found = read_progress(
        journal(
            tmp_path,
            (1, "open", 0, "anna"),
            (1, "make", 30, "anna"),
            (2, "open", 40, "ben"),
            (1, "relabel", 60, "anna"),
            (1, "note", 70, "anna"),
            (2, "accept", 100, "ben"),
            (1, "accept", 120, "anna"),
            (3, "remove", 1000, "anna"),  # after a break
            (3, "accept", 1060, "anna"),
        )
    )
    assert found.hours == {"anna": pytest.approx(180 / 3600), "ben": pytest.approx(60 / 3600)}
    assert [one[:2] + one[3:] for one in found.accepted] == [(2, "ben", 0, 3), (1, "anna", 2, 3), (3, "anna", 1, 3)]
    assert [one.hours * 3600 for one in found.accepted] == [pytest.approx(130), pytest.approx(180), pytest.approx(240)]
    assert found.trees_per_hour == pytest.approx(3 / (240 / 3600))


def test_what_is_undone_is_no_correction(tmp_path):
    edits = ["open", "make", "relabel", "undo", "undo", "redo", "move", "accept"]
    found = read_progress(journal(tmp_path, *((1, edit, 10 * at, "") for at, edit in enumerate(edits))))
    assert [one.corrections for one in found.accepted] == [2]  # make and move


def test_trees_that_are_reopened_are_not_done(tmp_path):
    edits = ["open", "make", "accept", "reopen"]
    assert not read_progress(journal(tmp_path, *((1, edit, at, "") for at, edit in enumerate(edits)))).accepted
    again = read_progress(journal(tmp_path, *((1, edit, at, "") for at, edit in enumerate([*edits, "make", "accept"]))))
    assert [one.corrections for one in again.accepted] == [2]


def test_a_project_is_read(tmp_path):
    folder = tmp_path / "project"
    Project.create(folder, sentences=[["a", "b", "c"], ["d"]])
    with Project(folder, annotator="anna") as project:
        proposer = RightBranching()
        state = project.open(1, proposer)
        made = project.act(1, project.revision(1, state), "make", {"start": 0, "end": 2, "label": "NP"}, proposer)
        project.act(1, project.revision(1, made.annotation), "accept", {}, proposer)
    found = read_progress(folder / "journal.jsonl")
    assert [(one.sentence, one.by, one.corrections, one.words) for one in found.accepted] == [(1, "anna", 1, 3)]
    assert json.loads(json.dumps(found.to_dict()))["words"] == 3


def test_moving_means():
    accepted = [AcceptedTree(number, "", 0.1 * number, number, 5) for number in range(6)]
    found = AnnotationProgress(accepted, {"": 1.0})
    assert found.mean_corrections(3) == [0, 0.5, 1, 2, 3, 4]
    assert found.mean_corrections(100) == [0, 0.5, 1, 1.5, 2, 2.5]
    assert found.to_dict()["corrections_per_tree"] == {"first": 2.5, "last": 2.5}


def test_pictures_are_the_same_each_time(tmp_path):
    pytest.importorskip("matplotlib")
    found = AnnotationProgress([AcceptedTree(1, "", 0.5, 3, 5), AcceptedTree(2, "", 1.0, 1, 5)], {"": 1.0})
    for name in ("a.svg", "b.svg"):
        draw_progress(found, tmp_path / name, title="Sagas")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "accepted trees" in (tmp_path / "a.svg").read_text()
    draw_progress(AnnotationProgress([], {}), tmp_path / "empty.svg")


def test_expected_f1_is_that_of_samples():
    trees = made_up_treebank(60)
    parser = Parser(PCFG().fit(PCFG.prepare(trees)), threshold=0)
    sentences = [tree.words() for tree in trees[:8]]
    right = predicted = gold = 0.0
    for words in sentences:
        best = set(parser.parse_one(words).tree.spans()[1:])
        for sample in parser.sample(words, 300, random_state=1):
            spans = set(sample.spans()[1:])
            right, predicted, gold = right + len(best & spans), predicted + len(best), gold + len(spans)
    assert expected_f1(parser, sentences) == pytest.approx(200 * right / (predicted + gold), abs=1.0)
    assert expected_f1(parser, []) is None


def test_corrections_are_edits():
    assert set(EDITS) >= CORRECTIONS
