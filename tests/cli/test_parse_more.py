"""`sapwood parse`: tables, hidden states, tokenisers."""

from __future__ import annotations

import json

import pytest


def test_tables(sapwood, folder):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"id": [2, 1], "text": ["the dog barks .", "cats sleep"]})
    pq.write_table(table, "in.parquet")
    outcome = sapwood(["parse", "in.parquet", "--column", "text", "-m", "m", "-o", "out.parquet"])
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "out.parquet: 2 parsed\n")
    rows = pq.read_table("out.parquet").to_pylist()
    lines = sapwood(["parse", "-m", "m"], b"the dog barks .\ncats sleep\n").out.splitlines()
    assert [(row["id"], row["tree"]) for row in rows] == [(2, lines[0]), (1, lines[1])]
    raw = sapwood(
        ["parse", "in.parquet", "--column", "text", "--raw", "--marginals", "-m", "m", "-o", "out.arrow", "-q"]
    )
    assert (raw.code, raw.err) == (0, "")
    (parse,) = pa.ipc.open_stream("out.arrow").read_all().to_pylist()[1]["parses"]
    assert parse["offsets"] == [[0, 4], [5, 10]]
    assert {row["label"] for row in parse["marginals"]} >= {"NP"}
    for arguments, message in (
        (["in.parquet", "-o", "out.parquet"], "name the column"),
        (["in.parquet", "--column", "text"], "a table is parsed into another one: -o OUT.parquet"),
        (["in.parquet", "--column", "text", "-o", "out.mrg"], "a table is parsed into another one"),
        (["in.parquet", "in.parquet", "--column", "text", "-o", "out/"], "one table at a time"),
        (["in.parquet", "--column", "text", "-o", "in.parquet"], "is one of the input files"),
        (["in.parquet", "--column", "text", "-o", "o.parquet", "--json"], "--json cannot be used with a table"),
        (["in.parquet", "--column", "text", "-o", "o.parquet", "--to", "draw"], "--to cannot be used with a table"),
        (["sentences.txt", "--column", "text"], "--column is for tables"),
    ):
        outcome = sapwood(["parse", *arguments, "-m", "m"])
        assert outcome.code == 2, (arguments, outcome)
        assert message in outcome.err


def test_states(sapwood, folder):
    sapwood(["train", "trees.mrg", "--method", "em", "--states", "2", "--iterations", "3", "-o", "latent", "-q"])
    plain = sapwood(["parse", "-m", "latent"], b"the dog barks .\n\n").out
    shown = sapwood(["parse", "-m", "latent", "--show-states"], b"the dog barks .\n\n").out
    assert shown != plain
    assert shown.endswith("\n\n")
    import re

    assert re.sub(r"-[0-9]+(?= )", "", shown) == plain
    value = json.loads(
        sapwood(["parse", "-m", "latent", "--show-states", "--json", "--alternatives", "2", "-s", "The dog barks."]).out
    )
    assert value["states"][0][:2] == [0, 4]
    assert all(len(row) == 5 for alternative in value["alternatives"] for row in alternative["states"])
    (folder / "two.txt").write_text("the dog barks .\ncats sleep\n")
    sapwood(["parse", "two.txt", "-m", "latent", "--show-states", "-o", "out/", "-q"])
    assert (folder / "out" / "two.mrg").read_text().splitlines()[0] == shown.splitlines()[0]


def test_tokenisers(sapwood, folder):
    text = "the dog barks. The cat sees ."
    assert len(sapwood(["parse", "-m", "m", "-s", text]).out.splitlines()) == 2
    assert len(sapwood(["parse", "-m", "m", "-s", text, "--tokeniser", "blanks"]).out.splitlines()) == 1
    assert sapwood(["train", "trees.mrg", "--method", "pcfg", "--tokeniser", "blanks", "-o", "b", "-q"]).code == 0
    assert len(sapwood(["parse", "-m", "b", "--raw"], text.encode()).out.splitlines()) == 1
    for arguments, code, message in (
        (["parse", "-m", "m", "--tokeniser", "mine", "-s", text], 2, "no tokeniser 'mine'"),
        (["parse", "-m", "m", "--tokeniser", "blanks"], 2, "--tokeniser is for raw text"),
        (["train", "trees.mrg", "--tokeniser", "mine", "-o", "x"], 2, "no tokeniser 'mine'"),
    ):
        outcome = sapwood(arguments, b"")
        assert outcome.code == code
        assert message in outcome.err


def test_lines_of_raw_text(sapwood, folder):
    text = b"Dogs sleep\nThe dog barks. Cats\n\nCats sleep\n"

    def sentences(*options):
        outcome = sapwood(["parse", "-m", "m", "--raw", "--to", "tokens", "-q", *options], text)
        assert outcome.code == 0
        return outcome.out.splitlines()

    assert sentences() == ["Dogs sleep", "The dog barks .", "Cats", "Cats sleep"]
    assert sentences("--lines", "sentences") == ["Dogs sleep", "The dog barks . Cats", "", "Cats sleep"]
    assert sentences("--lines", "free") == ["Dogs sleep The dog barks .", "Cats", "Cats sleep"]
    tagged = sapwood(["tag", "-m", "m", "--raw", "--lines", "sentences", "-q"], text)
    assert (tagged.code, len(tagged.out.splitlines())) == (0, 4)
    for options in ([], ["--lines", "sentences"], ["--lines", "free"], ["--tokeniser", "blanks"]):
        tokens = sapwood(["tokenise", "-m", "m", "-q", *options], text)
        assert (tokens.code, tokens.out.splitlines()) == (0, sentences(*options))
    for command in (["parse", "-m", "m"], ["tag", "-m", "m"]):
        refused = sapwood([*command, "--lines", "free"], text)
        assert refused.code == 2
        assert "--lines" in refused.err
        assert "raw" in refused.err


def test_plain_text_without_raw_is_noted_in_folders_tables_and_tags(sapwood, folder):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    (folder / "plain.txt").write_text("The dog barks .\nCats sleep.\nThe dog barks.\nCats sleep.\n")
    parquet.write_table(arrow.table({"text": ["Cats sleep.", None]}), "plain.parquet")
    for arguments in (
        ["parse", "plain.txt", "-o", "out/"],
        ["parse", "plain.parquet", "--column", "text", "-o", "out.parquet"],
        ["tag", "plain.txt"],
    ):
        outcome = sapwood([*arguments, "-m", "m"])
        assert outcome.code == 0
        assert outcome.err.count("punctuation is attached to words") == 1
        assert "use --raw" in outcome.err


def test_plain_text_is_noted_wherever_it_begins(sapwood, folder):
    tokens, plain = b"The dog sleeps .\n", b"The dog sleeps, and she sleeps.\n"
    for text, noted in ((2 * tokens + 9 * plain, 1), (9 * tokens + plain, 0), (plain, 1)):
        outcome = sapwood(["parse"], text)
        assert outcome.code == 0
        assert outcome.err.count("standard input: punctuation is attached to words ('sleeps,', 'sleeps.'") == noted
