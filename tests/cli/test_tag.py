"""`sapwood train --sequences` and `sapwood tag`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Sapwood
from helpers.made_up import made_up_treebank
from sapwood.pipeline.train import train as train_in_python
from sapwood.trees.formats.registry import format_as, read_tagged

QUICK = ("--method", "split-merge", "--cycles", 1, "--iterations", 3, "--smoothing-iterations", 2, "--threads", 1)
SETTINGS = {"method": "split-merge", "cycles": 1, "iterations": 3, "smoothing_iterations": 2, "threads": 1}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with tagged sequences."""
    trees = made_up_treebank(90)
    for name, some in (("train", trees[:60]), ("test", trees[60:])):
        (tmp_path / f"{name}.txt").write_text("".join(format_as(tree, "tagged") + "\n" for tree in some))
    (tmp_path / "tokens.txt").write_text("the bailora killdild .\n\nthe bailora .\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(sapwood: Sapwood, *arguments: object) -> str:
    outcome = sapwood(["train", "--sequences", "train.txt", "-o", "m", *arguments])
    assert outcome.code == 0, outcome.err
    return outcome.out


def test_learning_tagging_and_scoring(sapwood: Sapwood, folder: Path) -> None:
    out = train(sapwood, *QUICK, "--dev", "test.txt", "-q")
    assert out.startswith("tag accuracy ")
    assert out.endswith(" on 30 sequences\n")
    train_in_python(
        read_tagged("train.txt"), sequences=True, dev=read_tagged("test.txt"), output="other", **SETTINGS  # type: ignore[arg-type]
    )  # fmt: skip
    assert Path("m").read_bytes() == Path("other").read_bytes()
    outcome = sapwood(["tag", "tokens.txt", "-m", "m", "-q"])
    assert outcome.out == "the/DT bailora/N killdild/V ./.\n\nthe/DT bailora/N ./.\n"
    assert sapwood(["parse", "tokens.txt", "-m", "m", "--to", "tagged", "-q"]).out == outcome.out
    assert sapwood(["tag", "-m", "m", "-q"], b"the bailora .\n").out == "the/DT bailora/N ./.\n"
    assert sapwood(["tag", "tokens.txt", "-m", "m", "-o", "out.txt", "-q"]).out == ""
    assert Path("out.txt").read_text() == outcome.out
    scores = json.loads(sapwood(["tag", "test.txt", "-m", "m", "--score", "--json", "-q"]).out)
    assert scores["sentences"] == 30
    assert f"tag accuracy {scores['all']['accuracy']:.2f} " in out
    assert scores["all"]["words"] == scores["known"]["words"] + scores["unknown"]["words"]
    table = sapwood(["tag", "test.txt", "-m", "m", "--score", "-q"]).out
    assert table.splitlines()[2].split()[0] == "all"
    assert folder.is_dir()


def test_words_as_they_are(sapwood: Sapwood, folder: Path) -> None:
    """What would be a trace or a function tag in a tree is none in a sequence."""
    (folder / "train.txt").write_text("*T*-1/-NONE- Ben-SBJ/NP-SBJ 0/CD\n" * 9)
    train(sapwood, "--method", "pcfg", "-q")
    tagged = sapwood(["tag", "-m", "m", "-q"], b"*T*-1 Ben-SBJ 0\n").out
    assert tagged == "*T*-1/-NONE- Ben-SBJ/NP-SBJ 0/CD\n"


def test_a_parser_tags_too(sapwood: Sapwood) -> None:
    assert sapwood(["tag", "--raw", "-q"], b"The dog sleeps.\n").out == "The/DT dog/NN sleeps/VBZ ./.\n"


def test_lines_that_are_none(sapwood: Sapwood, folder: Path) -> None:
    (folder / "bad.txt").write_text("the/DT dog\nthe/DT\n")
    outcome = sapwood(["train", "--sequences", "bad.txt", "-o", "m", *QUICK])
    assert outcome.code == 3
    assert "bad.txt:1: expected word/TAG, found 'dog'" in outcome.err
    outcome = sapwood(["train", "--sequences", "bad.txt", "train.txt", "-o", "m", *QUICK, "--skip-bad"])
    assert outcome.code == 0, outcome.err
    assert "skipped 1 line(s) that are not tagged sequences" in outcome.err
    assert "from 61 sequences" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["train", "--sequences", "train.txt", "-o", "x", "--vertical", "2"], "--vertical is for trees"),
        (["train", "--sequences", "train.txt", "-o", "x", "--partial", "p.mrg"], "--partial is for trees"),
        (["tag", "tokens.txt", "--json"], "--json requires --score"),
        (["tag", "test.txt", "--score", "-o", "x"], "--output cannot be used with --score"),
        (["tag", "none.txt"], "none.txt: no such file"),
        (["tag", "tokens.txt", "-o", "tokens.txt"], "is one of the input files"),
        (["tag", "tokens.txt", "--score"], "expected word/TAG"),
    ],
)
def test_what_does_not_go_together(sapwood: Sapwood, folder: Path, arguments: list[str], problem: str) -> None:
    outcome = sapwood(arguments)
    assert outcome.code in (2, 3)
    assert problem in outcome.err
    assert folder.is_dir()
