"""`sapwood agree`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Sapwood
from sapwood.evaluate.agreement import compare_annotators
from sapwood.trees.normalise import Normaliser
from sapwood.trees.partial import read_partial

A = ["(S (NP-SBJ (N x)) (VP (V y)))", "(S (N x) (V y))"]
B = ["(S (NP (N x)) (VP (V y)))", "(S (N x) (VP (V y)))"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with the trees of two annotators."""
    for name, lines in (("a.mrg", A), ("b.mrg", B)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_figures_are_those_of_the_library(sapwood: Sapwood, folder: Path) -> None:
    result = compare_annotators("a.mrg", "b.mrg", normaliser=Normaliser())
    outcome = sapwood(["agree", "a.mrg", "b.mrg", "-q"])
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == result.format(5) + "\n"
    assert "a.mrg:2, b.mrg:2" in outcome.out
    assert json.loads(sapwood(["agree", "a.mrg", "b.mrg", "--json"]).out) == result.to_dict(5)
    assert "a.mrg:2, b.mrg:2" not in sapwood(["agree", "a.mrg", "b.mrg", "--sentences", 0]).out
    assert json.loads(sapwood(["agree", "a.mrg", "b.mrg", "--no-normalise", "--json"]).out)["equal"] == 0
    assert folder.is_dir()


def test_what_both_have_is_partial_brackets(sapwood: Sapwood, folder: Path) -> None:
    outcome = sapwood(["agree", "a.mrg", "b.mrg", "--agreed", "both.mrg"])
    assert outcome.code == 0, outcome.err
    assert Path("both.mrg").read_text().splitlines() == ["(ROOT (S (NP (N x)) (VP (V y))))", "(ROOT (S (N x) y))"]
    assert [one.is_whole for one in read_partial("both.mrg")] == [True, False]
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.mrg", "--agreed", "a.mrg"], "would be overwritten"),
        (["b.mrg", "--no-normalise", "--keep-empties"], "--keep-empties cannot be used with --no-normalise"),
    ],
)
def test_options_that_do_not_fit(sapwood: Sapwood, folder: Path, arguments: list[str], message: str) -> None:
    outcome = sapwood(["agree", "a.mrg", *arguments])
    assert outcome.code == 2
    assert message in outcome.err
    assert folder.is_dir()
