"""What is fuzzed: annotation projects, whose files follow each other behind lines that name them."""

from __future__ import annotations

import json
import re
import tempfile
import threading
import unittest.mock
from contextlib import closing
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from fuzz.grammar_targets import MARK
from fuzz.tree_targets import TREES, Target, written
from sapwood.annotation.learning import BackgroundLearning
from sapwood.annotation.progress import read_progress
from sapwood.annotation.project import Project, ProjectSettings
from sapwood.annotation.session import AnnotationSession
from sapwood.errors import SapwoodError
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree
from sapwood.web.api.annotation import ENDPOINTS
from sapwood.web.messages import decode

# Names of files that a stranger's project may have: none of them leads out of it.
_NAME = re.compile(r"(?:models/(?:round-[\w-]{1,12}/)?)?[\w-]{1,20}\.(?:jsonl?|mrg|txt|sapwood)", re.ASCII)
_TOKENS = (
    '{ } [ ] : , "" null true -1 0 1 2 9 1e999 NaN \\ud800 \\u0000 "sentence" "version" "action" "edit" "state" "undo" '
    '"redo" "accept" "tree" "marks" "absent" "note" "status" "done" "by" "time" "model" "retrain_after" "keep_tags" '
    '"trees" "halves" "silver" "taken" "../x" "/etc/passwd" round-x round-2 models/ (S (NP # 2'
)


@cache
def _model() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        PCFG().fit(Corpus.from_trees(map(Tree.parse, TREES))).save(path)
        return path.read_bytes()


def _train_one(learning: BackgroundLearning, place: Path, step: str, *, silver: bool) -> None:
    (place / f"{step}.sapwood").write_bytes(_model())


def _projects() -> list[bytes]:
    """Return projects: one with accepted trees, drafts and a journal, and one with models and a round that goes on."""
    trees = [Tree.parse(tree) for tree in TREES]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        Project.create(place, drafts=trees[:3], settings=ProjectSettings(retrain_after=0, keep_tags=("-SBJ",)))
        with closing(AnnotationSession(Project(place, annotator="Anna"))) as session:
            for edit, arguments in (("relabel", {"node": 1, "label": "X"}), ("undo", {}), ("accept", {})):
                view = session.open(1)
                session.act(1, view.revision, edit, arguments)
            view = session.open(2)
            session.act(2, view.revision, "note", {"text": "odd"})
        first = {name: (place / name).read_text() for name in ("project.json", "sentences.txt", "drafts.mrg",
                                                               "journal.jsonl", "trees.mrg")}  # fmt: skip
    done = {"model": "round-1/all.sapwood", "trees": [1], "new": 1, "before": 50.0, "after": 60.0, "taken": True}
    plan = {"trees": [1], "halves": [[1], []], "silver": 0}
    more = {
        "models/current.json": json.dumps(done),
        "models/round-1/plan.json": json.dumps(plan),
        "models/round-1/result.json": json.dumps(done),
        "models/round-2/plan.json": json.dumps(plan),
    }
    return [_joined(first), _joined({**more, **first})]


def _joined(files: dict[str, str]) -> bytes:
    return b"".join(MARK + f"{name}\n{content}".encode() for name, content in files.items())


def _use(path: Path) -> None:
    """Open a project as `sapwood annotate` does, look at everything, change something, and open it again."""
    failed: list[Any] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        unittest.mock.patch.object(BackgroundLearning, "_train_one", _train_one),
        unittest.mock.patch.object(threading, "excepthook", failed.append),
    ):
        place = Path(folder) / "project"
        (place / "models" / "round-1").mkdir(parents=True)
        (place / "models" / "round-1" / "all.sapwood").write_bytes(_model())
        for part in path.read_bytes().split(MARK)[1:]:
            name, _, content = part.partition(b"\n")
            if _NAME.fullmatch(name.decode("ascii", "replace")):
                file = place / name.decode()
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(content)
        if (place / "journal.jsonl").exists():
            read_progress(place / "journal.jsonl").to_dict()
        for _ in range(2):
            with closing(AnnotationSession(Project(place))) as session:
                _look(session)
        for one in failed:
            raise one.exc_value
        assert {path.name for path in Path(folder).iterdir()} == {"project"}


def _look(session: AnnotationSession) -> None:
    """Make the requests of the page; answers fit their description."""
    service: Any = SimpleNamespace(session=session)
    for endpoint in ENDPOINTS:
        for sent in _REQUESTS[endpoint.path]:
            try:
                plan = endpoint.prepare(service, sent, None)  # type: ignore[arg-type]
                answer = plan.finish([step() for step in plan.steps])
            except SapwoodError:
                continue
            decode(answer, endpoint.answer)
    session.learning.join(60)
    session.queue.join(60)
    for number in range(1, min(4, len(session.project) + 1)):
        view = session.open(number)
        for edit, given in (("relabel", {"node": 0, "label": "Y"}), ("undo", {}), ("accept", {})):
            try:
                view = session.act(number, view.revision, edit, given)
            except SapwoodError:
                continue
    msgspec.json.encode([session.news, session.project.messages, session.problem])


_REQUESTS = {
    "/api/annotate/project": [b""],
    "/api/annotate/queue": [b"", b"order=errors", b"order=doubts", b"pattern=NP"],
    "/api/annotate/open": [b'{"number": 1}', b'{"number": 2, "window": "a"}', b'{"number": 3}'],
    "/api/annotate/act": [b'{"number": 2, "revision": "0", "edit": "accept"}'],
    "/api/annotate/alternatives": [b'{"number": 1}', b'{"number": 2}'],
    "/api/annotate/next": [b'{"after": 1}'],
    "/api/annotate/learn": [b""],
    "/api/annotate/export": [b"", b"to=conllu", b"to=tiger"],
}


def projects() -> dict[str, Target]:
    """Return the targets."""
    made = written(_TOKENS, *_projects(), use=_use)
    return {"project": Target(made.originals, made.change, made.use, share=0.1)}
