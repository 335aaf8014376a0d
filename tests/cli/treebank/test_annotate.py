"""`sapwood annotate`: making projects, and mistakes; the page and killed servers have tests of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

import sapwood
from cli.conftest import Sapwood
from sapwood.annotation.project import Project, ProjectSettings
from sapwood.cli.treebank.annotate import _prepare
from sapwood.errors import InputError

NOTHING: dict[str, object] = dict.fromkeys(("model", "retrain_after", "keep_tags", "layout"))


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Sapwood:
    """Run a command."""
    return request.getfixturevalue("sapwood")


def prepare(
    project: Path, text: str | None = None, trees: str | None = None, *more: str, **settings: object
) -> list[str]:
    """Prepare a project, and return what is noted."""
    tokeniser, lines = [*more, None, None][:2]
    notes: list[str] = []
    given = {**NOTHING, **settings}
    _prepare(str(project), text, trees, given, tokeniser, lines, "auto", notes.append)  # type: ignore[arg-type]
    return notes


def test_a_project_of_text_and_trees(tmp_path: Path) -> None:
    text, trees, folder = tmp_path / "a.txt", tmp_path / "b.mrg", tmp_path / "project"
    text.write_text("She slept. Didn't you?\n")
    trees.write_text("( (S (NP (NNS Birds)) (VP (VBP sing))))\n")
    prepare(folder, str(text), None, retrain_after=7, keep_tags=("-SBJ",))
    prepare(folder, None, str(trees))
    prepare(folder, str(text), None, "blanks", "sentences", layout="indented")
    with Project(folder) as project:
        assert project.sentences == [
            ["She", "slept", "."], ["Did", "n't", "you", "?"], ["Birds", "sing"], ["She", "slept.", "Didn't", "you?"],
        ]  # fmt: skip
        assert project.settings == ProjectSettings(None, 7, ("-SBJ",), "indented")
        assert str(project.draft(3)) == "(ROOT (S (NP (NNS Birds)) (VP (VBP sing))))"


def test_what_was_added_is_not_added_again(tmp_path: Path) -> None:
    text, trees, folder = tmp_path / "a.txt", tmp_path / "b.mrg", tmp_path / "project"
    text.write_text("She slept. Didn't you?\n")
    trees.write_text("( (S (NP (NNS Birds)) (VP (VBP sing))))\n")
    assert prepare(folder, str(text), str(trees)) == []
    notes = [f"{text}: its 2 sentences are already in the project", f"{trees}: its sentence is already in the project"]
    assert prepare(folder, str(text), str(trees), retrain_after=3) == notes
    with Project(folder) as project:
        assert len(project) == 3
        assert project.settings.retrain_after == 3
    text.write_text("She slept. Didn't you?\nNo.\n")
    assert prepare(folder, str(text)) == []
    with Project(folder) as project:
        assert len(project) == 6


def test_the_tokeniser_is_that_of_the_model(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text('"Yes," she said.')
    prepare(tmp_path / "project", str(text), None, model="en")
    with Project(tmp_path / "project") as project:
        [tokens] = sapwood.Parser().tokenise('"Yes," she said.')
        assert project.sentences == [[token.word for token in tokens]]
        assert project.settings.model == "en"


def test_there_is_no_project(run: Sapwood, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--text or --trees"):
        prepare(tmp_path / "nothing")
    result = run(["annotate", tmp_path / "nothing", "--port", "0"])
    assert result.code == 3
    assert "not an annotation project" in result.err


def test_wrong_usage(run: Sapwood, tmp_path: Path) -> None:
    trees = tmp_path / "b.mrg"
    trees.write_text("(S (A a)\n")
    for arguments, code in (
        (["--trees", str(trees)], 3), (["--text", str(tmp_path / "none.txt")], 3), (["--retrain-after", "-1"], 2),
        (["--trees", str(trees), "--tokeniser", "penn"], 2), (["-m", "-"], 2),
    ):  # fmt: skip
        assert run(["annotate", tmp_path / "p", "--port", "0", *arguments]).code == code, arguments
    assert not (tmp_path / "p" / "project.json").exists()
