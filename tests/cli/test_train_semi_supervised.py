"""`sapwood train` with partly bracketed sentences and plain text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Sapwood
from helpers.made_up import made_up_treebank
from sapwood.errors import InputError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.model.file import load_models
from sapwood.pipeline.train import train as train_in_python
from sapwood.runtime.log import read_log
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.partial import read_partial

QUICK = ("--cycles", 1, "--iterations", 3, "--smoothing-iterations", 2, "--threads", 1)
TEXT = ("--text", "text.txt", "--text-use", "em")
SETTINGS = {"cycles": 1, "iterations": 3, "smoothing_iterations": 2, "threads": 1}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with a treebank, plain text and some brackets."""
    trees = made_up_treebank(60)
    (tmp_path / "train.mrg").write_text("".join(f"{tree}\n" for tree in trees[:25]))
    (tmp_path / "dev.mrg").write_text("".join(f"{tree}\n" for tree in trees[50:]))
    (tmp_path / "text.txt").write_text("".join(" ".join(tree.words()) + "\n" for tree in trees[25:50]))
    (tmp_path / "some.mrg").write_text("# with brackets\n(S (NP the bailora) killdild .)\n(S (XX the bailora) .)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(sapwood: Sapwood, *arguments: object, code: int = 0) -> str:
    outcome = sapwood(["train", "train.mrg", "-o", "m", *arguments])
    assert outcome.code == code, outcome.err
    return outcome.out if code == 0 else outcome.err


def test_command_and_library_train_the_same_bytes(sapwood: Sapwood, folder: Path) -> None:
    arguments = (
        "--text",
        "text.txt",
        "--text-use",
        "em",
        "--partial",
        "some.mrg",
        "--text-weight",
        0.5,
        "--partial-weight",
        2,
    )
    train(
        sapwood,
        *QUICK,
        *arguments,
        "--teacher-rounds",
        1,
        "--teacher-weight",
        0,
        "--dev",
        "dev.mrg",
        "--log",
        "log",
        "-q",
    )
    train_in_python(
        read_trees("train.mrg"),
        text="text.txt",
        text_use="em",
        partial=read_partial("some.mrg"),
        semi_supervised={"text_weight": 0.5, "partial_weight": 2.0, "rounds": 1, "teacher_weight": 0.0},
        dev=read_trees("dev.mrg"),
        output="other",
        **SETTINGS,
    )
    assert Path("m").read_bytes() == Path("other").read_bytes()
    start = read_log("log")[0]
    assert start["settings"]["teaching"]["text_weight"] == 0.5
    assert sorted(path.name for path in folder.iterdir()) == [
        "dev.mrg", "log", "m", "other", "some.mrg", "text.txt", "train.mrg",
    ]  # fmt: skip


def test_what_it_says(sapwood: Sapwood, folder: Path) -> None:
    outcome = sapwood(
        ["train", "train.mrg", "-o", "m", *QUICK, "--partial", "some.mrg", "--teacher-rounds", 1, "--json"]
    )
    assert "some.mrg:3:4: the trees have no phrase 'XX': 'the bailora'" in outcome.err
    report = json.loads(outcome.out)
    assert (report["trees"], report["partial"], report["text"]) == (25, 2, 0)
    assert TensorGrammar.load("m").info["training"]["partial"] == 1
    assert folder.is_dir()


def test_malformed_brackets(sapwood: Sapwood, folder: Path) -> None:
    (folder / "bad.mrg").write_text("(_ the bailora\n(_ the killdild .)\n")
    error = train(sapwood, *QUICK, "--partial", "bad.mrg", code=3)
    assert "bad.mrg:1:1: 1 bracket(s) not closed" in error
    outcome = sapwood(
        ["train", "train.mrg", "-o", "m", *QUICK, "--partial", "bad.mrg", "--skip-bad", "--teacher-rounds", 1]
    )
    assert outcome.code == 0, outcome.err
    assert "skipped 1 malformed tree(s)" in outcome.err


def test_settings_files_remember_how_and_not_where(sapwood: Sapwood, folder: Path) -> None:
    train(sapwood, *QUICK, *TEXT, "--teacher-rounds", 1, "--text-weight", 0.5, "--save-config", "run.toml", "-q")
    saved = (folder / "run.toml").read_text()
    assert "text-weight = 0.5" in saved
    assert "text.txt" not in saved
    Path("m").rename("first")
    train(sapwood, "--text", "text.txt", "--config", "run.toml", "--threads", 1, "-q")
    assert Path("m").read_bytes() == Path("first").read_bytes()


def test_ensembles_and_best_trees(sapwood: Sapwood, folder: Path) -> None:
    train(sapwood, *QUICK, *TEXT, "--teacher-rounds", 1, "--ensemble", 2, "-q")
    assert len(load_models("m")) == 2
    train(sapwood, "--method", "pcfg", *TEXT, "-q")
    grammar = TensorGrammar.load("m")
    assert grammar.transform.vertical == 2
    assert grammar.info["settings"]["teaching"]["rounds"] == 2
    assert folder.is_dir()


def test_text_is_read_alike_by_command_and_library(sapwood: Sapwood, folder: Path) -> None:
    (folder / "long.txt").write_text("".join(" ".join(tree.words()) + "\n" for tree in made_up_treebank(200)))
    quick = {"method": "em", "states": 2, "iterations": 2, "threads": 1}
    options = [text for name, value in quick.items() for text in (f"--{name}", value)]
    train(sapwood, *options, "--text", "long.txt", "--text-use", "self-training", "--log", "log", "-q")
    train_in_python(
        read_trees("train.mrg"),
        text="long.txt",
        text_use="self-training",
        output="other",
        **quick,
    )
    assert Path("m").read_bytes() == Path("other").read_bytes()
    grammar = TensorGrammar.load("m")
    assert grammar.info["read"] > 100
    assert grammar.lexicon.classes is not None
    assert read_log("log")[0]["trees"] == 25 + grammar.info["read"]


@pytest.mark.parametrize(
    ("arguments", "reads"),
    [
        ((), True),
        (("--ensemble", 2), True),
        (("--text-use", "word-classes"), False),
        (("--method", "em"), False),
        (("--states", 2), False),
        (("--fast",), False),
        (("--fast", "--text-use", "self-training"), True),
    ],
)
def test_few_trees_and_text_mean_reading(
    sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], reads: bool
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise InputError("reads")

    def go_on(*_: object, **__: object) -> None:
        raise InputError("does not")

    (folder / "long.txt").write_text("".join(" ".join(tree.words()) + "\n" for tree in made_up_treebank(150)))
    monkeypatch.setattr("sapwood.pipeline.train.self_train", stop)
    monkeypatch.setattr("sapwood.pipeline.train.run_recipe", go_on)
    for tiny, few in ((25, 26), (26, 30), (10, 25)):
        monkeypatch.setattr("sapwood.pipeline.recipe.TINY", tiny)
        monkeypatch.setattr("sapwood.pipeline.recipe.FEW", few)
        if few == 25 and "--states" in arguments:  # which are no setting of what is learned from many trees
            continue
        error = train(sapwood, "--text", "long.txt", *arguments, "-q", code=3)
        there = reads and (tiny == 25 or "self-training" in arguments)
        assert ("reads" if there else "does not") in error


def test_text_without_sentences_is_not_read(sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of words can be learned from counts, too."""
    (folder / "long.txt").write_text("".join(" ".join(tree.words()) + "\n" for tree in made_up_treebank(150)))
    assert sapwood(["lm", "count", "long.txt", "-o", "counts", "-q"]).code == 0
    error = train(sapwood, "--text", "counts", "--text-use", "self-training", code=2)
    assert "counts: has no sentences; use --text-use word-classes" in error
    error = train(sapwood, "--text", "/dev/null", "--text-use", "self-training", code=2)
    assert "/dev/null: the text is read twice and must be a regular file; use --text-use word-classes" in error
    monkeypatch.setattr("sapwood.pipeline.recipe.TINY", 25)
    (folder / "short.txt").write_text("the bailora\n" * 600)
    for text in ("counts", "short.txt"):
        outcome = sapwood(["train", "train.mrg", "-o", "m", "--text", text, "--no-crf", "--no-span-scorer"])
        assert outcome.code == 0
        said = "the text has no sentence of 3 to 40 words for self-training, and is used for word classes only"
        assert (said in outcome.err) == (text == "short.txt")
        grammar = load_models("m")[0]
        assert grammar.lexicon.classes is not None
        assert "read" not in grammar.info


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--text-weight", 0.5), "--text-weight requires --text"),
        (("--partial-weight", 0.5, "--text", "text.txt"), "--partial-weight requires --partial"),
        (("--teacher-rounds", 3), "--teacher-rounds requires --partial or --text"),
        (
            ("--teacher-rounds", 3, "--text", "text.txt"),
            "--teacher-rounds requires --partial or --text and --text-use em",
        ),
        (("--text-use", "em-best"), "--text-use requires --text or --partial"),
        ((*TEXT, "--ensemble", "em,spectral"), "cannot share a teacher: name one method"),
        (("--text", "none.txt"), "none.txt: no such file"),
        (("--text", "text.txt", "--method", "spectral", "--text-use", "em-forests"), "spectral cannot take forests"),
        (("--text-use", "self-training"), "--text-use requires --text or --partial"),
        (
            ("--partial", "some.mrg", "--text-use", "self-training"),
            "--text-use self-training requires --text, and cannot be used with --partial",
        ),
        (("--sequences", "--text", "text.txt", "--text-use", "self-training"), "--text-use self-training is for trees"),
        (("--text", "m"), "-o m: is one of the input files"),
    ],
)
def test_what_does_not_go_together(sapwood: Sapwood, folder: Path, arguments: tuple[object, ...], problem: str) -> None:
    (folder / "m").write_text("here\n")
    outcome = sapwood(["train", "train.mrg", "-o", "m", *arguments])
    assert outcome.code in (2, 3)
    assert problem in outcome.err
