"""`sapwood rewrite`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sapwood.treebank.rewriting.rewriter import rewrite
from sapwood.trees.formats.registry import read_trees

RULES = "% names\nNP=x < (NP=y !$ __)\nexcise y\n\nNP=x\nrelabel x N-BAR\n"


@pytest.fixture
def rules(folder: Path) -> Path:
    path = folder / "rules.txt"
    path.write_text(RULES, encoding="utf-8")
    return path


@pytest.mark.usefixtures("rules")
def test_the_command_does_what_the_library_does(folder: Path, sapwood: Any) -> None:
    expected = "".join(f"{tree}\n" for tree in rewrite(read_trees(folder / "trees.mrg"), RULES))
    outcome = sapwood(["rewrite", "rules.txt", "trees.mrg"])
    assert (outcome.code, outcome.out) == (0, expected)
    notes = "rewrote 6 of 6 trees\nrules.txt:2: the pattern matches no tree\nrules.txt:5: 13 rewrites\n"
    assert outcome.err == notes
    for threads in ("1", "2"):
        done = sapwood(
            ["rewrite", "rules.txt", "-o", "new.mrg", "-q", "--threads", threads], (folder / "trees.mrg").read_bytes()
        )
        assert (done.code, done.out, done.err) == (0, "", "")
        assert (folder / "new.mrg").read_text(encoding="utf-8") == expected
    done = sapwood(["rewrite", "rules.txt", "trees.mrg", "--to", "export", "-o", "new.export"])
    assert (done.code, done.err) == (0, notes)
    assert [str(tree) for tree in read_trees(folder / "new.export")] == expected.splitlines()


@pytest.mark.usefixtures("rules")
def test_a_check_shows_trees_and_writes_nothing(folder: Path, sapwood: Any) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    outcome = sapwood(["rewrite", "rules.txt", "trees.mrg", "--check", "--limit", "1", "-q"])
    assert outcome.code == 0
    first, *lines, empty, last = outcome.out.splitlines()
    assert (first, empty, last) == ("trees.mrg:1: tree 1", "", "6 of 6 trees would change")
    assert any("(NP" in line.split(" | ")[0] and "(N-BAR" in line.split(" | ")[1] for line in lines if " | " in line)
    found = [
        json.loads(line)
        for line in sapwood(["rewrite", "rules.txt", "trees.mrg", "--check", "--json"]).out.splitlines()
    ]
    old = [str(tree) for tree in read_trees("trees.mrg")]
    new = [str(tree) for tree in rewrite(read_trees("trees.mrg"), RULES)]
    assert [(one["tree"], one["before"], one["after"]) for one in found] == list(
        zip(range(1, 7), old, new, strict=True)
    )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["missing.txt", "trees.mrg"], 3, "missing.txt: no such file"),
        (["rules.txt", "trees.mrg", "--limit", "3"], 2, "requires --check"),
        (["rules.txt", "trees.mrg", "--check", "-o", "x"], 2, "writes nothing"),
        (["rules.txt", "trees.mrg", "-o", "rules.txt"], 2, "would be overwritten"),
        (["bad.txt", "trees.mrg"], 3, "bad.txt:2: no node of the pattern has the name 'y'"),
        (
            ["words.txt", "trees.mrg", "-o", "new.mrg"],
            3,
            "words.txt:1: the rule changes the words of tree 1 (trees.mrg:1)",
        ),
    ],
)
def test_errors(folder: Path, sapwood: Any, arguments: list[str], code: int, problem: str) -> None:
    (folder / "bad.txt").write_text("NP=x\nrelabel y A\n", encoding="utf-8")
    (folder / "words.txt").write_text("NP=x\nprune x\n", encoding="utf-8")
    outcome = sapwood(["rewrite", *arguments])
    assert outcome.code == code
    assert problem in outcome.err
    assert outcome.out == ""
    assert not (folder / "new.mrg").exists()


def test_head_rules_fit_the_labels(folder: Path, sapwood: Any) -> None:
    (folder / "rules.txt").write_text("NP <# (NN=x !== /-HD/)\nrelabel x NN-HD\n", encoding="utf-8")
    outcome = sapwood(["rewrite", "rules.txt", "trees.mrg", "-q"])
    assert "(NN-HD dog)" in outcome.out
