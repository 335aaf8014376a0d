"""Projects: nothing that was acknowledged is lost, and nothing that others wrote is overwritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sapwood.annotation import journal as journal_module
from sapwood.annotation.editing import EditError
from sapwood.annotation.project import Project, ProjectSettings, StaleRevision
from sapwood.annotation.proposals import RightBranching
from sapwood.errors import InputError, UsageError
from sapwood.trees.tree import Tree

SENTENCES = [["the", "dog", "barked"], ["(", "é", "x"], ["one"]]
NOBODY = RightBranching()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Project.create(tmp_path / "project", sentences=SENTENCES)
    return tmp_path / "project"


def act(project: Project, number: int, edit: str, **arguments: object) -> Tree:
    revision = project.revision(number, project.open(number, NOBODY))
    return project.act(number, revision, edit, arguments, NOBODY).annotation.tree


def test_a_project_is_plain_files(folder):
    with Project(folder, annotator="Anna") as project:
        assert project.sentences == SENTENCES
        act(project, 1, "make", start=0, end=2, label="NP")
        act(project, 1, "accept")
        act(project, 2, "make", start=0, end=2, label="NP")
    assert (folder / "trees.mrg").read_text() == "# 1\n(ROOT (X (NP (X the) (X dog)) (X barked)))\n"
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    assert [line["action"]["edit"] for line in lines] == ["open", "make", "accept", "open", "make", "write"]
    assert {line["by"] for line in lines} == {"Anna"}
    assert sorted(path.name for path in folder.iterdir()) == [
        ".gitattributes", ".gitignore", "journal.jsonl", "project.json", "sentences.txt", "trees.mrg",
    ]  # fmt: skip
    with Project(folder) as project:
        assert [number for number, _ in project.trees()] == [1]
        [(number, partial)] = project.half_annotated()
        assert (number, str(partial)) == (2, "(ROOT (NP -LRB- é) x)")
        assert project.words(2) == SENTENCES[1]
        assert [project.status(number) for number in (1, 2, 3)] == ["done", "begun", "new"]


def test_undo_to_the_start_and_redo_to_the_end(folder):
    with Project(folder) as project:
        states = [project.open(1, NOBODY)]
        for edit, arguments in (
            ("make", {"start": 0, "end": 2, "label": "NP"}), ("relabel", {"node": 2, "label": "XP"}),
            ("split", {"position": 0, "words": ["th", "e"]}), ("note", {"text": "hm"}), ("accept", {}),
        ):  # fmt: skip
            act(project, 1, edit, **arguments)
            states.append(project.open(1, NOBODY))
        for state in states[-2::-1]:
            act(project, 1, "undo")
            assert project.open(1, NOBODY) == state
        with pytest.raises(EditError, match="nothing to undo"):
            act(project, 1, "undo")
    with Project(folder) as project:
        for state in states[1:]:
            act(project, 1, "redo")
            assert project.open(1, NOBODY) == state
        assert not project.can_redo(1)
        act(project, 1, "undo")
        act(project, 1, "note", text="other")
        with pytest.raises(EditError, match="nothing to redo"):
            act(project, 1, "redo")


def test_a_state_that_is_not_the_present_one(folder):
    with Project(folder, annotator="Anna") as project:
        old = project.revision(1, project.open(1, NOBODY))
        act(project, 1, "make", start=0, end=2, label="NP")
        with pytest.raises(StaleRevision, match="changed elsewhere by Anna"):
            project.act(1, old, "accept", {}, NOBODY)
        # Another proposal for a sentence on which nothing was done.
        old = project.revision(3, project.open(3, NOBODY))
        project.forget_proposals()
        project.open(3, RightBranching(tags={"one": "CD"}))
        with pytest.raises(StaleRevision):
            project.act(3, old, "accept", {}, NOBODY)


def test_a_project_is_open_once(folder):
    with Project(folder) as project:
        with pytest.raises(InputError, match="another run"):
            Project(folder)
        act(project, 1, "accept")
        with Project(folder, read_only=True) as other:
            assert [number for number, _ in other.trees()] == [1]
            with pytest.raises(UsageError, match="reading only"):
                act(other, 2, "accept")


def test_an_incomplete_line_is_cut_off(folder):
    with Project(folder) as project:
        act(project, 1, "accept")
    path = folder / "journal.jsonl"
    whole = path.read_bytes()
    for torn in (b'{"sentence":2,"ver', b"{", b'{"sentence":2,"version":1,"action":{"edit":"make"},"state":{}}'):
        path.write_bytes(whole + torn)
        with Project(folder, read_only=True) as project:
            assert project.status(1) == "done"
        assert path.read_bytes() == whole + torn
        with Project(folder) as project:
            assert project.status(1) == "done"
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        "[1]",
        "nothing",
        '{"sentence":1,"version":1,"action":{"edit":5}}',
        '{"sentence":9,"version":1,"action":{"edit":"x"}}',
        '{"sentence":1,"version":2,"action":{"edit":"note"},"by":5,"state":{}}',
        '{"sentence":1,"version":2,"action":{"edit":"redo"},"by":"\\ud800"}',
        (
            '{"sentence":1,"version":2,"action":{"edit":"note"},'
            '"state":{"tree":"(S (X \\ud800))","marks":"00","status":"new"}}'
        ),
        '{"sentence":1,"version":2,"action":{"edit":"note","x":' + "[" * 99 + "]" * 99 + "}}",
        '{"sentence":1,"version":' + "9" * 5000 + ',"action":{"edit":"redo"}}',
    ],
)
def test_a_bad_line(folder, line):
    with Project(folder) as project:
        act(project, 1, "accept")
    with (folder / "journal.jsonl").open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(InputError, match=r"journal\.jsonl"):
        Project(folder)


def test_a_full_disk(folder, monkeypatch):
    with Project(folder) as project:
        act(project, 1, "make", start=0, end=2, label="NP")
        before = project.open(1, NOBODY), (folder / "journal.jsonl").read_bytes()
        write = os.write
        with monkeypatch.context() as patched:
            parts = iter([10])

            def full(file: int, data: bytes) -> int:
                for size in parts:
                    return write(file, data[:size])
                raise OSError(28, "No space left on device")

            patched.setattr(journal_module.os, "write", full)
            with pytest.raises(InputError, match="No space left"):
                act(project, 1, "accept")
        assert (project.open(1, NOBODY), (folder / "journal.jsonl").read_bytes()) == before
        act(project, 1, "accept")
    with Project(folder) as project:
        assert project.status(1) == "done"


def test_trees_that_others_changed_are_taken_over(folder):
    with Project(folder) as project:
        act(project, 1, "accept")
        project.save()
        act(project, 3, "accept")  # not written yet
        (folder / "trees.mrg").write_text(
            "# 1\n( (S (NP (D the)\n (N dog)) (V barked)))\n# 2\n(S (A -LRB-) (B é) (C x))\n"
        )
        project.save()
        trees = ["(S (NP (D the) (N dog)) (V barked))", "(S (A -LRB-) (B é) (C x))", "(X one)"]
        text = "".join(f"# {number}\n(ROOT {tree})\n" for number, tree in enumerate(trees, 1))
        assert (folder / "trees.mrg").read_text() == text
        act(project, 1, "undo")
        assert "(X dog)" in str(project.open(1, NOBODY).tree)
    # While it was closed: one tree was removed, and one changed on both sides.
    with Project(folder) as project:
        act(project, 3, "relabel", node=1, label="CD")
        act(project, 3, "accept")
        project.close = lambda: project._stack.close()  # type: ignore[method-assign]
    (folder / "trees.mrg").write_text("# 2\n(ROOT (S (A -LRB-) (B é) (C x)))\n# 3\n(ROOT (NUM one))\n")
    with Project(folder) as project:
        assert project.status(1) == "begun"
        assert str(project.open(3, NOBODY).tree) == "(ROOT (NUM one))"
        assert any("sentence 3 was changed here and in trees.mrg" in one for one in project.messages)
        act(project, 3, "undo")
        assert str(project.open(3, NOBODY).tree) == "(ROOT (CD one))"


@pytest.mark.parametrize(
    "text", ["# 1\n(S (A a)", "(S (A a))\n", "# 9\n(S (A a))\n", "# 1\n(S (A a))\n(S (B b))\n", "# 1\n# 2\n"]
)
def test_trees_that_cannot_be_read_are_left_alone(folder, text):
    with Project(folder) as project:
        act(project, 1, "accept")
        project.save()
        before = (folder / "trees.mrg").read_text()
        (folder / "trees.mrg").write_text(text)
        for number in (2, 3):  # at every attempt, not only at the first
            act(project, number, "accept")
            with pytest.raises(InputError, match=r"trees\.mrg:\d"):
                project.save()
            assert (folder / "trees.mrg").read_text() == text
        (folder / "trees.mrg").write_text(before)
        project.save()
        assert "# 2" in (folder / "trees.mrg").read_text()


def test_trees_without_permission_are_left_alone(folder, monkeypatch):
    with Project(folder) as project:
        act(project, 1, "accept")
        project.save()
        (folder / "trees.mrg").write_text("# 1\n(S (A the) (B dog) (C barked))\n")
        with monkeypatch.context() as patched:
            patched.setattr(Path, "read_bytes", _forbidden)
            for _ in range(2):
                with pytest.raises(InputError, match=r"trees\.mrg: no permission to read it"):
                    project.save()
        project.save()
        assert (folder / "trees.mrg").read_text() == "# 1\n(ROOT (S (A the) (B dog) (C barked)))\n"


def _forbidden(path: Path) -> bytes:
    raise PermissionError(13, "Permission denied", str(path))


def test_a_file_of_trees_that_was_removed_is_written_again(folder):
    with Project(folder) as project:
        act(project, 1, "accept")
        project.save()
        (folder / "trees.mrg").unlink()
        project.save()
        assert project.status(1) == "done"
        assert (folder / "trees.mrg").exists()


def test_saving_what_is_written_costs_nothing(folder, monkeypatch):
    with Project(folder) as project:
        act(project, 1, "accept")
        project.save()
        before = (folder / "journal.jsonl").read_bytes(), (folder / "trees.mrg").stat()
        act(project, 2, "make", start=0, end=2, label="NP")  # of no consequence for the accepted trees
        project.save()
        assert (folder / "trees.mrg").stat() == before[1]
        monkeypatch.setattr(Project, "trees", None)
        project.save()
        monkeypatch.undo()
        assert (folder / "journal.jsonl").read_bytes().startswith(before[0])


def test_a_journal_that_was_replaced(folder):
    with Project(folder) as project:
        act(project, 1, "accept")
        (folder / "journal.jsonl").unlink()
        (folder / "journal.jsonl").write_text("")
        with pytest.raises(InputError, match="changed by another program"):
            act(project, 2, "accept")


def test_two_annotators_on_the_same_sentence(folder):
    """Git keeps the lines of both."""
    with Project(folder, annotator="Anna") as project:
        act(project, 1, "make", start=0, end=2, label="NP")
    base = (folder / "journal.jsonl").read_text()
    journals = []
    for name, label in (("Anna", "AP"), ("Ben", "BP")):
        (folder / "journal.jsonl").write_text(base)
        with Project(folder, annotator=name) as project:
            act(project, 1, "relabel", node=2, label=label)
        journals.append((folder / "journal.jsonl").read_text().removeprefix(base))
    (folder / "journal.jsonl").write_text(base + "".join(journals))
    with Project(folder) as project:
        assert "BP" in str(project.open(1, NOBODY).tree)
        assert any("sentence 1 was changed by two annotators" in one for one in project.messages)
        act(project, 1, "undo")
        assert "AP" in str(project.open(1, NOBODY).tree)


def test_drafts_and_more_sentences(tmp_path):
    folder = tmp_path / "p"
    Project.create(folder, drafts=[Tree.parse("( (S (A a) (B b)))"), Tree.parse("(S (C c))")])
    Project.create(folder, sentences=[["d"]], settings=ProjectSettings(retrain_after=3))
    Project.create(folder, drafts=[Tree.parse("(TOP (S (E e)))")])
    with Project(folder) as project:
        assert project.sentences == [["a", "b"], ["c"], ["d"], ["e"]]
        assert project.settings.retrain_after == 3
        drafts = [str(project.open(number, NOBODY).tree) for number in range(1, 5)]
    assert drafts == ["(ROOT (S (A a) (B b)))", "(ROOT (S (C c)))", "(ROOT (X d))", "(ROOT (S (E e)))"]


def test_sentences_that_are_there_are_not_added_again(tmp_path):
    folder = tmp_path / "p"
    text, trees = [["a", "b"], ["(", "c"]], [Tree.parse("(S (A a) (B b))"), Tree.parse("(S (L -LRB-) (C c))")]

    def size() -> int:
        with Project(folder) as project:
            return len(project)

    assert Project.create(folder, sentences=text) == (2, 0)
    assert Project.create(folder, sentences=text) == (0, 0)
    assert size() == 2
    # The same words in another order, or with trees, are others.
    assert Project.create(folder, sentences=text[::-1], drafts=trees) == (2, 2)
    assert size() == 6
    assert Project.create(folder, sentences=text[1:], drafts=trees[1:]) == (0, 0)
    assert Project.create(folder, sentences=[*text, ["d"]], drafts=trees) == (3, 0)
    assert Project.create(folder, drafts=[Tree.parse("(S (A a) (C b))"), trees[1]]) == (0, 2)
    assert size() == 11
    # Not a part of a sentence.
    assert Project.create(folder, sentences=[["b"]]) == (1, 0)
    with Project(folder) as project:
        assert [number for number in range(1, 13) if project.draft(number)] == [5, 6, 10, 11]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"model": 5}',
        '{"colour": "red"}',
        '{"retrain_after": -1}',
        '{"layout": "wide"}',
        '{"model": "\\u0000"}',
        '{"model": "\\ud800"}',
        '{"keep_tags": "-SBJ"}',
        '{"keep_tags": ["\\u0000"]}',
        '{"retrain_after": ' + "9" * 5000 + "}",
    ],
)
def test_bad_settings(folder, text):
    (folder / "project.json").write_text(text)
    with pytest.raises(InputError, match=r"project\.json: not the settings"):
        Project(folder)


@pytest.mark.parametrize(
    "name", ["sentences.txt", "drafts.mrg", "trees.mrg", "journal.jsonl", "project.json", "models", "models/round-1",
             "models/round-1/all.err", ".gitignore"],
)  # fmt: skip
def test_links_out_of_a_project_are_refused(folder, name, tmp_path):
    """A folder from a stranger may have links: what is written through them would change another file."""
    outside = tmp_path / "outside"
    is_folder = name in ("models", "models/round-1")
    outside.mkdir() if is_folder else outside.write_text("precious\n")
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(outside)
    with pytest.raises(InputError, match="a link or no file"), Project(folder):
        pass
    with pytest.raises(InputError, match="a link or no file"):
        Project.create(folder, sentences=[["one"]])
    assert list(outside.iterdir()) == [] if is_folder else outside.read_text() == "precious\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", ["trees.mrg", "journal.jsonl"])
def test_pipes_in_a_project_are_refused(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match="a link or no file"), Project(folder):
        pass


def test_the_folder_of_a_project_may_be_a_link(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    with Project(tmp_path / "link") as project:
        assert len(project) == 3


def test_the_latest_of_many_messages_cost_nothing(folder):
    """A journal merged from those of many annotators says so, but not once for each sentence."""
    (folder / "sentences.txt").write_text("one\n" * 100)
    state = {"tree": "(ROOT (X one))", "marks": "00", "status": "begun"}
    lines = [
        {"sentence": number, "version": 1, "action": {"edit": "note"}, "state": state}
        for _ in range(2)
        for number in range(1, 101)
    ]
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Project(folder) as project:
        assert len(project.messages) == 20


def test_no_project(tmp_path):
    with pytest.raises(InputError, match="--text or --trees"):
        Project(tmp_path)


_ACTIONS = """
import sys
from sapwood.annotation.project import Project
from sapwood.annotation.proposals import RightBranching
nobody = RightBranching()
with Project(sys.argv[1]) as project:
    for step in range(10_000):
        number = 1 + step % len(project)
        revision = project.revision(number, project.open(number, nobody))
        project.act(number, revision, "note", {"text": str(step)}, nobody)
        print(step, flush=True)
        if step % 7 == 6:
            project.act(number, project.revision(number, project.open(number, nobody)), "accept", {}, nobody)
            project.save()
"""


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2])
def test_killed(folder, seconds):
    """What was acknowledged before the process was killed is there."""
    with subprocess.Popen([sys.executable, "-c", _ACTIONS, str(folder)], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "0\n"
        time.sleep(seconds)
        running.kill()
        last = int(["0", *running.stdout.read().split()][-1])
    with Project(folder) as project:
        notes = [int(state.note) for number in (1, 2, 3) if (state := project.state(number)) and state.note]
        assert max(notes) in (last, last + 1)
        assert project.messages == []
