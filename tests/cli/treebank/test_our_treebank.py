"""From a treebank to scores on the command line, by every method, on trees that are always there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli.conftest import Sapwood
from helpers.treebank_files import OURS
from sapwood.learn.registry import LEARNERS
from sapwood.trees import Tree
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.normalise import Normaliser

# Settings that keep training short, and F1 on dev.mrg that the method must come to.
SETTINGS = {
    "pcfg": ("", 85),
    "em": ("--states 2 --iterations 5", 90),
    "split-merge": ("--cycles 1", 96),
    "spectral": ("--states 3", 93),
    "cluster": ("--states 3 --iterations 3", 95),
    "pivot": ("--states 3", 93),
    "pivot+em": ("--states 3 --iterations 3", 94),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with our treebank in it."""
    for path in (*OURS.glob("*.mrg"), *OURS.glob("*.export")):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def succeed(sapwood: Sapwood, command: str) -> str:
    outcome = sapwood(command.split())
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


def test_all_methods_are_here() -> None:
    assert set(SETTINGS) == set(LEARNERS)


@pytest.mark.parametrize("method", SETTINGS)
def test_train_parse_and_evaluate(sapwood: Sapwood, folder: Path, method: str) -> None:
    settings, wanted = SETTINGS[method]
    succeed(sapwood, f"train train.mrg -o m --method {method} {settings} -q")
    scores = json.loads(succeed(sapwood, "eval dev.mrg -m m --json -q"))
    assert scores["failed"] == 0
    assert scores["f1"] > wanted
    # The scores are those of the trees that it writes; what is in export is the same treebank.
    succeed(sapwood, "convert dev.export --normalise --to tokens -o tokens.txt")
    succeed(sapwood, "parse tokens.txt -m m -q -o parsed.mrg")
    again = json.loads(succeed(sapwood, "eval dev.mrg parsed.mrg --json"))
    assert again["f1"] == scores["f1"]
    succeed(sapwood, f"train train.export -o n --method {method} {settings} -q")
    assert (folder / "n").read_bytes() == (folder / "m").read_bytes()


def test_odd_trees_train_a_model_and_are_parsed(sapwood: Sapwood, folder: Path) -> None:
    clean = [tree for tree in map(Normaliser(), read_trees("odd.mrg")) if tree is not None]
    assert len(clean) == 11
    succeed(sapwood, "train odd.mrg -o m -q")
    outcome = sapwood(["convert", "odd.mrg", "--normalise", "--to", "tokens", "-o", "tokens.txt"])
    assert (outcome.code, outcome.err) == (0, "skipped 1 tree(s) that are empty after normalisation\n")
    lines = succeed(sapwood, "parse tokens.txt -m m -q").splitlines()
    parsed = [Tree.parse(line) for line in lines]
    assert [tree.words() for tree in parsed] == [tree.words() for tree in clean]
    # Labels with signs that transforms use themselves come back.
    assert {node.label for tree in parsed for node in tree.nodes()} >= {"@VP", "NP^S", "X\\", "名詞"}
