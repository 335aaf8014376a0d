"""`--to` of all commands that write trees: pictures, LaTeX, drawings that fit."""

from __future__ import annotations

import builtins
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sapwood.trees.drawing.svg import format_svg
from sapwood.trees.formats.registry import read_trees


def test_svg(folder: Path, sapwood: Any) -> None:
    trees = list(read_trees("trees.mrg"))
    assert sapwood(["convert", "trees.mrg", "--to", "svg"]).out == format_svg(trees)
    assert sapwood(["search", "NP < PP", "trees.mrg", "--to", "svg"]).out == format_svg([trees[3]])
    parsed = sapwood(["parse", "sentences.txt", "-m", "m", "-o", "trees.svg", "--to", "svg"])
    assert parsed.code == 0
    assert (folder / "trees.svg").read_text().count("<title>") == 3  # not for the blank line


def test_latex(folder: Path, sapwood: Any) -> None:
    for format, each in (("latex", "\\begin{forest}"), ("qtree", "\\Tree ")):
        text = sapwood(["convert", "trees.mrg", "--to", format]).out
        assert text.count(each) == 6
        assert text.rstrip().endswith("\\end{document}")
        assert text.count("\\begin{document}") == 1


def test_png(folder: Path, sapwood: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("matplotlib.image")
    assert sapwood(["convert", "trees.mrg", "--to", "png", "-o", "trees.png"]).code == 0
    height, width, _ = image.imread("trees.png").shape
    assert height > width > 300
    first = (folder / "trees.png").read_bytes()
    assert sapwood(["convert", "trees.mrg", "--to", "png", "-o", "trees.png"]).code == 0
    assert (folder / "trees.png").read_bytes() == first
    for output in ([], ["-o", "-"], ["-o", "trees.jpg"]):
        outcome = sapwood(["convert", "trees.mrg", "--to", "png", *output])
        assert outcome.code == 2
        assert "--to png requires -o and a name that ends in .png" in outcome.err
    (folder / "none.mrg").write_text("")
    assert "no tree to draw" in sapwood(["convert", "none.mrg", "--to", "png", "-o", "x.png"]).err
    original = builtins.__import__

    def without(name: str, *arguments: Any, **others: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *arguments, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    outcome = sapwood(["convert", "trees.mrg", "--to", "png", "-o", "trees.png"])
    assert outcome.code == 2
    assert "pip install matplotlib" in outcome.err


def test_too_many_trees_for_a_picture(folder: Path, sapwood: Any) -> None:
    (folder / "many.mrg").write_text("(A b)\n" * 1001)
    outcome = sapwood(["convert", "many.mrg", "--to", "svg"])
    assert outcome.code == 2
    assert "at most 1,000 trees" in outcome.err


def test_drawings_fit_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from sapwood.cli.options.output import tree_output
    from sapwood.trees.tree import Tree

    tree = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for columns, expected in ((80, tree.draw()), (12, tree.draw(width=12))):
        monkeypatch.setattr(sys, "stdout", Terminal())
        monkeypatch.setitem(os.environ, "COLUMNS", str(columns))
        with tree_output(None, "draw") as writer:
            writer.tree(tree)
        assert sys.stdout.getvalue() == expected + "\n\n"  # type: ignore[attr-defined]


def test_folders_of_files(folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["parse", "sentences.txt", "-m", "m", "-o", "out/", "--to", "svg"])
    assert outcome.code == 2
    assert "--to svg is for one file" in outcome.err
    assert sapwood(["parse", "sentences.txt", "-m", "m", "-o", "out/", "--to", "latex", "-q"]).code == 0
    text = (folder / "out" / "sentences.tex").read_text()
    assert text.startswith("% Compile")
    assert text.endswith("\\end{document}\n")


def test_dependencies_by_other_heads(sapwood, folder):
    first = "(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"

    def heads(*arguments: str) -> list[str]:
        out = sapwood(["convert", "--to", "conllu", *arguments], first.encode()).out
        return [line.split("\t")[6] for line in out.splitlines() if "\t" in line]

    assert heads() == heads("--heads", "english") == ["2", "3", "0", "3"]
    (folder / "last.txt").write_text("* right\n")
    assert heads("--heads", "last.txt") == ["2", "4", "4", "0"]
    assert heads("--heads", "icelandic") != heads()
    parsed = sapwood(["parse", "-m", "m", "--to", "conllu", "--heads", "last.txt"], b"the dog barks .\n").out
    assert [line.split("\t")[6] for line in parsed.splitlines() if "\t" in line] == ["2", "4", "4", "0"]
    (folder / "one.txt").write_text("the dog barks .\n")
    assert (
        sapwood(["parse", "one.txt", "-m", "m", "--to", "conllu", "--heads", "last.txt", "-o", "out/", "-q"]).code == 0
    )
    assert (folder / "out" / "one.conllu").read_text() == parsed
    binary = sapwood(["convert", "--binarise", "head", "--heads", "icelandic"], first.encode())
    assert binary.code == 0
    for arguments, code, message in (
        (["convert", "--heads", "english"], 2, "--heads requires --binarise, or --to conllu"),
        (["convert", "--to", "conllu", "--heads", "klingon"], 3, "klingon: no such file"),
        (["parse", "-m", "m", "--heads", "english"], 2, "--heads requires --to conllu"),
    ):
        outcome = sapwood(arguments, first.encode())
        assert outcome.code == code, outcome
        assert message in outcome.err


ICELANDIC = "(IP-MAT (NP-SBJ (PRO-N hann)) (VBDI sá) (NP-OB1 (N-A stein)) (. .))\n"
SPANISH = [
    "(S (sn (np Juan)) (gv (vm ve)) (sn (da la) (nc casa)) (f .))\n",
    "(S (gv (vm llueve)) (f .))\n",
    "(S (sn (da la) (nc casa)) (gv (vm cae)) (f .))\n",
    "(S (sn (nc casas)) (gv (vm caen)) (f .))\n",
]


def test_head_rules_fit_the_treebank_or_are_learned_from_it(sapwood, folder):
    for texts, fits in (([ICELANDIC], "icelandic"), (SPANISH, "")):
        (folder / "trees.txt").write_text("".join(texts) * 9)
        outcome = sapwood(["convert", "trees.txt", "--to", "conllu"])
        assert outcome.code == 0
        named = sapwood(["convert", "trees.txt", "--to", "conllu", "--heads", fits or "english"])
        assert (outcome.out == named.out, outcome.err == "", named.err) == (bool(fits), bool(fits), "")
        first = [row.split("\t")[6] for row in outcome.out.split("\n\n")[0].splitlines() if row[0] != "#"]
        assert first == (["2", "0", "2", "2"] if fits else ["2", "0", "4", "2", "2"])
        assert sapwood(["train", "trees.txt", "--method", "pcfg", "-o", "other", "-q"]).code == 0
        words = texts[0].replace(")", " ").split()
        sentence = " ".join(word for word in words if "(" not in word).encode() + b"\n"
        parsed = sapwood(["parse", "-m", "other", "--to", "conllu"], sentence)
        assert [row.split("\t")[6] for row in parsed.out.splitlines() if row and row[0] != "#"] == first
        assert bool(fits) == (parsed.err == "")
        phrases = sapwood(["parse", "-m", "other", "--phrases", "IP" if fits else "S", "--json"], sentence)
        assert json.loads(phrases.out)["head"] == ("sá" if fits else "ve")
        if not fits:
            for found in (outcome, parsed, phrases):
                assert "no built-in head rules fit its labels" in found.err
                assert "learned from its" in found.err
                assert "--heads FILE" in found.err
        (folder / "one.txt").write_bytes(sentence)
        into = sapwood(["parse", "one.txt", "-m", "other", "--to", "conllu", "-o", f"out{fits}/"])
        assert ("no built-in head rules" in into.err) == (not fits)
        assert (folder / f"out{fits}" / "one.conllu").read_text() == parsed.out
