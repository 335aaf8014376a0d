"""`sapwood import`, and `sapwood inspect --export`."""

from __future__ import annotations

import json

from oracles.unary_dump import write_dump
from sapwood import Parser, TensorGrammar


def test_a_grammar_of_berkeleyparser_becomes_a_model_that_commands_understand(sapwood, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_dump(tmp_path)
    outcome = sapwood(["import", "tiny", "-o", "m.sapwood"])
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith("m.sapwood: ")
    assert (
        sapwood(["parse", "-m", "m.sapwood"], stdin=b"dog saw cat\n").out
        == "(ROOT (S (NP (N dog)) (VP (V saw) (NP (N cat)))))\n"
    )
    assert "imported from BerkeleyParser" in sapwood(["inspect", "m.sapwood"]).out
    assert "state 1" in sapwood(["inspect", "m.sapwood", "--symbol", "VP"]).out
    (tmp_path / "gold.mrg").write_text("(ROOT (S (NP (N dog)) (VP (V saw) (NP (N cat)))))\n")
    assert sapwood(["eval", "gold.mrg", "-m", "m.sapwood"]).code == 0
    assert sapwood(["minimise", "m.sapwood", "--trees", "gold.mrg", "-o", "small.sapwood", "-q"]).code == 0
    assert sapwood(["parse", "-m", "small.sapwood"], stdin=b"dog saw cat\n").code == 0


def test_a_model_goes_out_as_text_and_comes_back(sapwood, folder):
    outcome = sapwood(["inspect", "m", "--export", "text"])
    assert outcome.code == 0
    assert [line.split()[-1] for line in outcome.out.splitlines()] == [
        f"text/model.{ending}" for ending in ("grammar", "lexicon", "words", "counts", "json")
    ]
    assert sapwood(["import", "text/model", "-o", "again", "-q"]).code == 0
    sentence = ["the", "cat", "sees", "spots", "."]
    one, other = (Parser(str(folder / name)).parse_one(sentence) for name in ("m", "again"))
    assert one.tree == other.tree
    assert sapwood(["import", "text/model", "--min-expected-count", "0.1"]).code == 2


def test_several_grammars_go_out_one_by_one(sapwood, folder):
    from sapwood.model.file import save_models

    grammar = TensorGrammar.load("m")
    save_models([grammar, grammar], "both")
    report = json.loads(sapwood(["inspect", "both", "--export", "out", "--json"]).out)
    assert set(report["files"]) >= {"out/model-1.grammar", "out/model-2.json"}
    assert all(size > 0 for size in report["files"].values())


def test_what_cannot_be_done_is_said(sapwood, folder):
    for arguments, code, message in (
        (["import", "nothing"], 3, "nothing.grammar: no such file"),
        (["import", "."], 3, "is a folder"),
        (["import", "x", "--min-expected-count", "0"], 2, "min-expected-count"),
        (["inspect", "trees.mrg", "--export", "x"], 2, "--export is for models"),
        (["inspect", "m", "--export", "x", "--symbol", "NP"], 2, "--symbol cannot be used with --export"),
        (["inspect", "m", "--export", "m"], 3, "m"),
    ):
        outcome = sapwood(arguments)
        assert outcome.code == code, (arguments, outcome)
        assert message in outcome.err
