"""`sapwood check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Sapwood
from sapwood.evaluate.consistency import Source, check_consistency
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.normalise import Normaliser

LINES = ["(S (NP-SBJ (N x)) (VP (V y)))"] * 12 + ["(S (NP (N x)) (V y))", "(S (NPP (N z)) (VP (V y)))"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with a treebank."""
    (tmp_path / "a.mrg").write_text("".join(f"{line}\n" for line in LINES))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_findings_are_those_of_the_library(sapwood: Sapwood, folder: Path) -> None:
    trees = [(tree, Source("a.mrg", number, number)) for number, tree in enumerate(read_trees("a.mrg"), 1)]
    report = check_consistency(trees, normaliser=Normaliser())
    outcome = sapwood(["check", "a.mrg", "-q"])
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == report.format(20) + "\n"
    assert "a.mrg:14: phrase NPP, perhaps NP: z" in outcome.out
    assert "no phrase 1: a.mrg:13 (words 2-2)" in outcome.out
    assert json.loads(sapwood(["check", "a.mrg", "--json", "--limit", 0]).out) == report.to_dict()
    assert folder.is_dir()


def test_options(sapwood: Sapwood, folder: Path) -> None:
    only = json.loads(sapwood(["check", "a.mrg", "--only", "labels", "--rare", 2, "--json"]).out)
    assert only.keys() == {"sentences", "labels"}
    several = json.loads(sapwood(["check", "a.mrg", "a.mrg", "--only", "labels", "--json"]).out)
    assert (several["sentences"], several["labels"]["number"]) == (28, 0)
    as_they_are = sapwood(["check", "a.mrg", "--no-normalise", "--only", "variations"])
    assert "NP-SBJ 12" in as_they_are.out
    assert "different analyses: 0" in sapwood(["check", "a.mrg", "--only", "variations", "--context", 2]).out.replace(
        "1", "0"
    )
    assert folder.is_dir()


def test_a_model_judges_trees(sapwood: Sapwood, folder: Path) -> None:
    assert sapwood(["train", "a.mrg", "-o", "m", "--method", "pcfg", "-q"]).code == 0
    outcome = sapwood(["check", "a.mrg", "-m", "m", "--only", "trees", "--threads", 1, "-q"])
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[1].startswith("  a.mrg:14: ")
    assert any(line.startswith("    NPP 0.") for line in outcome.out.splitlines())
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "trees"], "--only trees requires a model"),
        (["--threads", 2], "--threads requires -m"),
        (["-m", "en", "--no-normalise"], "--no-normalise cannot be used with -m"),
        (["--no-normalise", "--keep-empties"], "--keep-empties cannot be used with --no-normalise"),
    ],
)
def test_options_that_do_not_fit(sapwood: Sapwood, folder: Path, arguments: list[object], message: str) -> None:
    outcome = sapwood(["check", "a.mrg", *arguments])
    assert outcome.code == 2
    assert message in outcome.err
    assert folder.is_dir()


def test_bad_trees_are_skipped_and_reported(sapwood: Sapwood, folder: Path) -> None:
    Path("bad.mrg").write_text("(S (N x))\n(S )\n")
    assert sapwood(["check", "bad.mrg"]).code == 3
    outcome = sapwood(["check", "bad.mrg", "--skip-bad"])
    assert outcome.code == 0
    assert "skipped 1 malformed tree(s)" in outcome.err
    Path("none.mrg").write_text("(S (-NONE- *))\n")
    outcome = sapwood(["check", "none.mrg"])
    assert outcome.code == 3
    assert "none.mrg: no trees to check" in outcome.err
    assert folder.is_dir()
