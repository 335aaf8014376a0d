"""`sapwood select`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Sapwood
from helpers.made_up import made_up_treebank
from sapwood.inference import Parser
from sapwood.learn.active_learning import select
from sapwood.trees.formats.registry import read_tokens, read_trees
from sapwood.trees.partial import read_partial

BOUNDS = ("--shortest", 5, "--threads", 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with a treebank and plain text."""
    trees = made_up_treebank(90)
    (tmp_path / "train.mrg").write_text("".join(f"{tree}\n" for tree in trees[:40]))
    lines = ["", *(" ".join(tree.words()) for tree in trees[30:])]
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_trees_to_correct(sapwood: Sapwood, folder: Path) -> None:
    outcome = sapwood(["select", "train.mrg", "text.txt", "-n", 5, *BOUNDS, "-o", "next.mrg"])
    assert outcome.code == 0, outcome.err
    assert "chose 5 sentences" in outcome.err
    lines = Path("next.mrg").read_text().splitlines()
    text = Path("text.txt").read_text().splitlines()
    places = [int(line.split(":")[1].split(",")[0]) for line in lines if line.startswith("# text.txt:")]
    trees = list(read_trees("next.mrg"))
    assert [" ".join(tree.words()) for tree in trees] == [text[place - 1] for place in places]
    # Nothing that the treebank has.
    known = {" ".join(tree.words()) for tree in read_trees("train.mrg")}
    assert known.isdisjoint(text[place - 1] for place in places)
    assert any(line.startswith("# NP 0.") for line in lines)
    assert folder.is_dir()


def test_with_a_model_it_is_what_the_library_gives(sapwood: Sapwood, folder: Path) -> None:
    assert sapwood(["train", "train.mrg", "-o", "m", "--method", "pcfg", "-q"]).code == 0
    outcome = sapwood(["select", "train.mrg", "text.txt", "-n", 3, "-m", "m", *BOUNDS, "--json", "-q"])
    known = [tree.words() for tree in read_trees("train.mrg")]
    expected = select(Parser("m"), read_tokens("text.txt"), 3, known=known, shortest=5)
    assert [json.loads(line) for line in outcome.out.splitlines()] == [one.to_dict() for one in expected]
    assert folder.is_dir()


def test_partial_brackets_can_be_learned_from(sapwood: Sapwood, folder: Path) -> None:
    outcome = sapwood(["select", "train.mrg", "text.txt", "-n", 8, *BOUNDS, "--partial", "-o", "some.mrg", "-q"])
    assert (outcome.code, outcome.err) == (0, "")
    assert len(list(read_partial("some.mrg"))) == 8
    quick = ("--cycles", 1, "--iterations", 3, "--smoothing-iterations", 2, "--teacher-rounds", 1, "--threads", 1)
    outcome = sapwood(["train", "train.mrg", "--partial", "some.mrg", "-o", "m", *quick])
    assert outcome.code == 0, outcome.err
    assert "skipped" not in outcome.err
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["train.mrg", "none.txt"], "none.txt: no such file"),
        (["train.mrg", "text.txt", "--shortest", "70"], "--shortest 70 is more than --longest 60"),
        (["train.mrg", "text.txt", "--shortest", "59"], "text.txt: no sentence of 59 to 60 words to choose from"),
        (["empty.mrg", "text.txt"], "empty.mrg: no trees in it"),
        (["train.mrg", "text.txt", "-o", "text.txt"], "is one of the input files"),
        (["train.mrg", "text.txt", "--json", "--partial"], "--partial cannot be used with --json"),
    ],
)
def test_what_cannot_be(sapwood: Sapwood, folder: Path, arguments: list[str], problem: str) -> None:
    (folder / "empty.mrg").write_text("\n")
    outcome = sapwood(["select", *arguments])
    assert outcome.code in (2, 3)
    assert problem in outcome.err


def test_plain_text_is_recognised(sapwood: Sapwood, folder: Path) -> None:
    arguments = ["select", "train.mrg", "text.txt", "-n", 2, *BOUNDS]
    assert "attached to words" not in sapwood(arguments).err
    text = Path("text.txt").read_text()
    Path("text.txt").write_text(text.replace(" .\n", ".\n"))
    assert "punctuation is attached to words" in (told := sapwood(arguments).err)
    assert "sapwood tokenise" in told
